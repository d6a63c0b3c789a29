"""The sweep's state: since when each run is superseded, and which file replaced which in the history.

It belongs to the publisher and is no part of the API. If it is lost, nothing that it spoke of is removed.
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

SWEEP_STATE_KEY = "v1/system/superseded.json"

_RUN_ID = re.compile(RUN_ID)


class Replaced(msgspec.Struct, frozen=True):
    """Why a Parquet file may be removed that the history's manifest does not name.

    Attributes:
        since: when this was recorded, in unix seconds.
        by: the key of the file that replaced it, or the id of the run that left it when it died. None for a file
            that compaction or a backfill is about to write: if that dies, nobody needs the file.
    """

    since: int
    by: str | None


class SweepState(msgspec.Struct, frozen=True):
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


def decode_sweep_state(data: bytes | None) -> SweepState:
    """Decode the state. If it is missing or cannot be understood, it is empty."""
    if data is None:
        return SweepState({})
    try:
        return decode_json(data, SweepState)
    except msgspec.DecodeError:
        return SweepState({})


def read_sweep_state(store: Store) -> SweepState:
    """Read the state in the store."""
    stored = store.get(SWEEP_STATE_KEY)
    return decode_sweep_state(None if stored is None else stored.data)


def write_sweep_state(store: Store, state: SweepState) -> None:
    """Replace the state in the store."""
    store.put(SWEEP_STATE_KEY, _encoded(state))


def _encoded(state: SweepState) -> bytes:
    """The bytes of a state. Keys ascend, so that they do not depend on the order in which files were replaced."""
    return msgspec.json.encode(state, order="deterministic")


def record_run_start(
    store: Store, key: str, began: datetime | None, *, moment: datetime, left_files: Mapping[str, str]
) -> None:
    """Record that a run is about to replace its first document, and so is not superseded.

    Args:
        store: the store, which is held.
        key: the key of the run's manifest.
        began: when publishing began. None if a page of the run existed already, and so may be older, or if the clock
            cannot be trusted.
        moment: the time to record for the ``left_files``.
        left_files: Parquet files that no manifest names, each with the id of the run that left it when it died.
    """
    state = read_sweep_state(store)
    others = {name: since for name, since in state.began.items() if name != key}
    updated = structs.replace(
        state,
        superseded={name: since for name, since in state.superseded.items() if name != key},
        began=others if began is None else others | {key: int(began.timestamp())},
        settled=[name for name in state.settled if name != key],
        history=_with_replaced(state, left_files, moment),
    )
    if updated != state:
        write_sweep_state(store, updated)


def record_replaced(store: Store, replaced: Mapping[str, str | None], moment: datetime) -> None:
    """Record what replaces history files from ``moment`` on. This is done before the manifest ceases to name them.

    ``replaced`` has what replaces a file, keyed by the file, as in `Replaced`: None says that the file is about
    to be written.
    """
    if replaced:
        state = read_sweep_state(store)
        write_sweep_state(store, structs.replace(state, history=_with_replaced(state, replaced, moment)))


def forget_named(store: Store, named: Iterable[str]) -> None:
    """Remove files from the state that the manifest names now."""
    state, named_keys = read_sweep_state(store), set(named)
    history = {key: replaced for key, replaced in state.history.items() if key not in named_keys}
    if history != state.history:
        write_sweep_state(store, structs.replace(state, history=history))


def _with_replaced(state: SweepState, replaced: Mapping[str, str | None], moment: datetime) -> dict[str, Replaced]:
    since = int(moment.timestamp())
    return state.history | {key: Replaced(since, by) for key, by in replaced.items()}


def is_sweep_state(data: bytes) -> bool:
    """Whether these bytes are exactly what a sweep writes, and name nothing but runs and files of the history."""
    try:
        state = decode_json(data, SweepState)
    except msgspec.DecodeError:
        return False
    runs = {*state.superseded, *state.began, *state.settled, *state.expired}
    names = {replaced.by for replaced in state.history.values()} - {None}
    return (
        data == _encoded(state)
        and all(map(RUN.pattern.fullmatch, runs))
        and all(file_ledgers(key) is not None for key in state.history)
        and all(file_ledgers(name or "") is not None or _RUN_ID.fullmatch(name or "") for name in names)
    )


def has_successor(key: str, state: SweepState, named: Iterable[str]) -> bool:
    """Whether readers do not need a recorded file, because the manifest names what replaced it, or nothing had to.

    A file may have been replaced more than once: by the file of its day, which the file of its month replaced.
    """
    names = set(named)
    return any(by is None or not by.startswith("history/") or by in names for by in _successors(key, state))


def is_undone_run(run: RunListing, state: SweepState) -> bool:
    """Whether a run is undone: a later run with ``--replace-ledger`` removed its rows from the history."""
    return any(is_undone_file(file.key, state) for file in run.under(HISTORY_FILES_PREFIX))


def is_undone_file(key: str, state: SweepState) -> bool:
    """Whether a Parquet file has rows of an undone run.

    Then the file of the run with ``--replace-ledger`` replaced it, or replaced the file which it had been joined to. A
    file that was only joined with others was replaced by joined files alone.
    """
    return any(by is not None and RUN_PARQUET.pattern.fullmatch(by) for by in _successors(key, state))


def _successors(key: str, state: SweepState) -> Iterator[str | None]:
    """What replaced a file, as `Replaced.by` says it, then what replaced that, and so on."""
    seen = set[str]()
    while key not in seen and (replaced := state.history.get(key)) is not None:
        seen.add(key)
        yield replaced.by
        if replaced.by is None:
            return
        key = replaced.by
