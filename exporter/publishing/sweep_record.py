"""The sweep's record: since when each run is superseded, and which file replaced which in the history.

The record belongs to the publisher and is no part of the API. If it is lost, nothing that it spoke of is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec import structs

from exporter.history.manifest import file_ledgers
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.families import HISTORY_FILES_PREFIX, RUN, RUN_PARQUET
from exporter.tree.run_listing import RunListing
from exporter.tree.values import RUN_ID

SUPERSEDED_KEY = "v1/system/superseded.json"

_RUN_ID = re.compile(RUN_ID)


class Replaced(msgspec.Struct, frozen=True):
    """Why a Parquet file may be removed that the history's manifest does not name.

    Attributes:
        since: when this was recorded, in unix seconds.
        by: the key of the file that took its place, or the id of the run that left it when it died. None for a file
            that compaction or a backfill is about to write: if that dies, nobody needs the file.
    """

    since: int
    by: str | None


class SweepRecord(msgspec.Struct, frozen=True):
    """What the sweep knows of runs, which are named by the keys of their manifests, and of history files.

    Attributes:
        superseded: since when each run is superseded, in unix seconds.
        history: why each of these history files may be removed, keyed by the file.
        began: when publishing began, in unix seconds, for runs that wrote all their pages themselves while the clock
            agreed with the ledger's close time. No page of such a run is older.
        settled: runs without any document left that a later run lacks, so that their listings need not be read.
        expired: runs whose pages the last sweep began to remove.
        whole: when a sweep last began to look at every page, in unix seconds.
    """

    superseded: dict[str, int]
    history: dict[str, Replaced] = {}
    began: dict[str, int] = {}
    settled: list[str] = []
    expired: list[str] = []
    whole: int = 0


def decode_record(data: bytes | None) -> SweepRecord:
    """Decode a record. If it is missing or cannot be understood, it is empty."""
    if data is None:
        return SweepRecord({})
    try:
        return decode_json(data, SweepRecord)
    except msgspec.DecodeError:
        return SweepRecord({})


def read_record(store: Store) -> SweepRecord:
    """Read the record in the store."""
    stored = store.get(SUPERSEDED_KEY)
    return decode_record(None if stored is None else stored.data)


def write_record(store: Store, record: SweepRecord) -> None:
    """Replace the record in the store."""
    store.put(SUPERSEDED_KEY, _encoded(record))


def _encoded(record: SweepRecord) -> bytes:
    """The bytes of a record. Keys ascend, so that they do not depend on the order in which files were replaced."""
    return msgspec.json.encode(record, order="deterministic")


def record_run_start(
    store: Store, key: str, began: datetime | None, *, moment: datetime, died: Mapping[str, str] | None = None
) -> None:
    """Record that a run is about to replace its first document, and so is not superseded.

    Args:
        store: the store, which is held.
        key: the key of the run's manifest.
        began: when publishing began. None if a page of the run existed already, and so may be older, or if the clock
            cannot be trusted.
        moment: the time to record for the files in ``died``.
        died: the run that died and left a Parquet file that no manifest names, keyed by the file.
    """
    record = read_record(store)
    others = {name: since for name, since in record.began.items() if name != key}
    updated = structs.replace(
        record,
        superseded={name: since for name, since in record.superseded.items() if name != key},
        began=others if began is None else others | {key: int(began.timestamp())},
        settled=[name for name in record.settled if name != key],
        history=_with_replaced(record, died or {}, moment),
    )
    if updated != record:
        write_record(store, updated)


def record_superseded(store: Store, superseded: Mapping[str, str | None], moment: datetime) -> None:
    """Record what replaces history files from ``moment`` on. This is done before the manifest ceases to name them.

    ``superseded`` has what takes a file's place, keyed by the file, as in `Replaced`: None says that the file is about
    to be written.
    """
    if superseded:
        record = read_record(store)
        write_record(store, structs.replace(record, history=_with_replaced(record, superseded, moment)))


def forget_named(store: Store, named: Iterable[str]) -> None:
    """Remove files from the record that the manifest names now."""
    record, named_keys = read_record(store), set(named)
    history = {key: replaced for key, replaced in record.history.items() if key not in named_keys}
    if history != record.history:
        write_record(store, structs.replace(record, history=history))


def _with_replaced(record: SweepRecord, replaced: Mapping[str, str | None], moment: datetime) -> dict[str, Replaced]:
    since = int(moment.timestamp())
    return record.history | {key: Replaced(since, by) for key, by in replaced.items()}


def is_record(data: bytes) -> bool:
    """Whether these bytes are exactly what a sweep writes, and name nothing but runs and files of the history."""
    try:
        record = decode_json(data, SweepRecord)
    except msgspec.DecodeError:
        return False
    runs = {*record.superseded, *record.began, *record.settled, *record.expired}
    names = {replaced.by for replaced in record.history.values()} - {None}
    return (
        data == _encoded(record)
        and all(map(RUN.pattern.fullmatch, runs))
        and all(file_ledgers(key) is not None for key in record.history)
        and all(file_ledgers(name or "") is not None or _RUN_ID.fullmatch(name or "") for name in names)
    )


def has_successor(key: str, record: SweepRecord, named: Iterable[str]) -> bool:
    """Whether readers do not need a recorded file, because the manifest names what took its place, or nothing had to.

    A file may have been replaced more than once: by the file of its day, which the file of its month replaced.
    """
    names = set(named)
    return any(by is None or not by.startswith("history/") or by in names for by in _successors(key, record))


def is_undone(run: RunListing, record: SweepRecord) -> bool:
    """Whether a later run with ``--replace-ledger`` undid a run, so that the history has none of its rows."""
    return any(is_withdrawn(file.key, record) for file in run.under(HISTORY_FILES_PREFIX))


def is_withdrawn(key: str, record: SweepRecord) -> bool:
    """Whether a run with ``--replace-ledger`` took this Parquet file out of the history, because its rows are wrong.

    Then the file of that run took its place, or that of the file which it had been joined to. A file that was only
    joined with others is followed by joined files alone.
    """
    return any(by is not None and RUN_PARQUET.pattern.fullmatch(by) for by in _successors(key, record))


def _successors(key: str, record: SweepRecord) -> Iterator[str | None]:
    """What took a file's place, as `Replaced.by` says it, then what took the place of that, and so on."""
    seen = set[str]()
    while key not in seen and (replaced := record.history.get(key)) is not None:
        seen.add(key)
        yield replaced.by
        if replaced.by is None:
            return
        key = replaced.by
