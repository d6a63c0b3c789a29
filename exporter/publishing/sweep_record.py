"""The sweep's record: since when runs are superseded, and by what files of the history were replaced.

It is the publisher's own, no part of the API. Where it is lost, what it would remove is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
from msgspec import structs

from exporter.history.manifest import file_ledgers
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.families import RUN
from exporter.tree.values import RUN_ID

SUPERSEDED_KEY = "v1/system/superseded.json"

_RUN_ID = re.compile(RUN_ID)


class Replaced(msgspec.Struct, frozen=True):
    """Why a Parquet file of the history may go, if the manifest does not name it; ``since`` in unix seconds.

    ``by`` is the key of the file that took its place, or the id of the run that died and left it. It is None for a file
    that a compaction or a backfill is about to write: if that dies, nothing needs the file.
    """

    since: int
    by: str | None


class SweepRecord(msgspec.Struct, frozen=True):
    """Facts about runs, by the keys of their manifests, and of files of the history; times in unix seconds.

    ``began`` says when publishing began, by a clock near the ledger, of runs that found none of their pages there.
    ``settled`` are runs of which no document is left that a later run did not have, ``expired`` those whose pages the
    last sweep began to remove. ``whole`` is when a sweep last began to look at every page.
    """

    superseded: dict[str, int]
    history: dict[str, Replaced] = {}
    began: dict[str, int] = {}
    settled: list[str] = []
    expired: list[str] = []
    whole: int = 0


def decode_record(data: bytes | None) -> SweepRecord:
    """A record that is missing or not understood is empty."""
    if data is None:
        return SweepRecord({})
    try:
        return decode_json(data, SweepRecord)
    except msgspec.DecodeError:
        return SweepRecord({})


def read_record(store: Store) -> SweepRecord:
    """The record in the store."""
    stored = store.get(SUPERSEDED_KEY)
    return decode_record(None if stored is None else stored.data)


def write_record(store: Store, record: SweepRecord) -> None:
    """Replace the record in the store."""
    store.put(SUPERSEDED_KEY, msgspec.json.encode(record))


def record_run_start(
    store: Store, key: str, began: datetime | None, *, moment: datetime, died: Mapping[str, str] | None = None
) -> None:
    """Take a run, by its manifest's key, into the record before its first document is replaced; it is not superseded.

    ``began`` is None where a page of it existed already, and may be older, or the clock cannot be trusted. ``died`` are
    Parquet files of runs that died, with the run of each: nobody names them any more.
    """
    record = read_record(store)
    others = {name: since for name, since in record.began.items() if name != key}
    noted = structs.replace(
        record,
        superseded={name: since for name, since in record.superseded.items() if name != key},
        began=others if began is None else others | {key: int(began.timestamp())},
        settled=[name for name in record.settled if name != key],
        history=_with_replaced(record, died or {}, moment),
    )
    if noted != record:
        write_record(store, noted)


def record_replaced(store: Store, replaced: Mapping[str, str | None], moment: datetime) -> None:
    """Note by what files of the history are replaced from now on, before the manifest ceases to name them.

    None in place of what replaces a file says that it is about to be written (`Replaced`).
    """
    if replaced:
        record = read_record(store)
        write_record(store, structs.replace(record, history=_with_replaced(record, replaced, moment)))


def forget_named(store: Store, named: Iterable[str]) -> None:
    """Take files off the record that the manifest names now."""
    record, named_keys = read_record(store), set(named)
    history = {key: replaced for key, replaced in record.history.items() if key not in named_keys}
    if history != record.history:
        write_record(store, structs.replace(record, history=history))


def _with_replaced(record: SweepRecord, replaced: Mapping[str, str | None], moment: datetime) -> dict[str, Replaced]:
    since = int(moment.timestamp())
    return record.history | {key: Replaced(since, by) for key, by in replaced.items()}


def is_record(data: bytes) -> bool:
    """Whether these bytes are a record as a sweep writes it, of keys that runs and the history have."""
    try:
        record = decode_json(data, SweepRecord)
    except msgspec.DecodeError:
        return False
    runs = {*record.superseded, *record.began, *record.settled, *record.expired}
    names = {replaced.by for replaced in record.history.values()} - {None}
    return (
        data == msgspec.json.encode(record)
        and all(map(RUN.pattern.fullmatch, runs))
        and all(file_ledgers(key) is not None for key in record.history)
        and all(file_ledgers(name or "") is not None or _RUN_ID.fullmatch(name or "") for name in names)
    )


def has_successor(key: str, record: SweepRecord, named: Iterable[str]) -> bool:
    """Whether what took the place of a recorded file is still there for readers, or nothing had to.

    A file may have been replaced more than once: by a day's, and that by a month's.
    """
    names, seen = set(named), set[str]()
    while key not in seen:
        seen.add(key)
        replaced = record.history.get(key)
        if replaced is None:
            return False
        if replaced.by is None or not replaced.by.startswith("history/") or replaced.by in names:
            return True
        key = replaced.by
    return False
