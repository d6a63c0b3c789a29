"""The history that a store publishes: read as a whole, continued by a run, and replaced together with its rollups.

A history whose manifest is older than the published run is not continued, because the rows of later runs would be lost.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from exporter.errors import StoreError
from exporter.history.manifest import (
    HistoryPart,
    extend_history,
    file_ledgers,
    history_below,
    read_history_manifest,
    refuse_lost_manifest,
)
from exporter.history.rollups import MAX_READS, UnreadableHistoryError, updated_rollups
from exporter.publishing.published_state import Published, inputs_in, read_intent, read_published, unfinished_run
from exporter.publishing.sweep_state import record_replaced
from exporter.stores.store import Store, etag_of
from exporter.tree.documents import HistoryManifest, RunInput
from exporter.tree.families import ALL_HISTORY_PREFIX, HISTORY_MANIFEST_KEY, MONTH_ROLLUP
from exporter.tree.read_back import render_document


def read_checked_history_manifest(
    store: Store, *, older: bool = False, replaced_ledger: int | None = None
) -> HistoryManifest | None:
    """The history's manifest; None if there is none.

    Raises `StoreError` also if the manifest is older than the published run: if it ends before that run's ledger, or
    lacks the ledger of that run or of a file that the run went on from and that is still there. To continue an old copy
    would lose the rows of these runs. With ``replaced_ledger``, ledgers from that one on may be missing.
    """
    manifest = read_history_manifest(store, older=older)
    if manifest is None:
        return None
    published, intent = read_published(store, older=True), read_intent(store)
    unfinished = unfinished_run(None if published is None else published.status, intent)
    replaced_ledgers = replaced_ledger, None if unfinished is None else unfinished.replaced_ledger
    undone_from = min((each for each in replaced_ledgers if each is not None), default=None)
    required_ledger = 0 if unfinished is None else unfinished.history_ledger
    if published is not None and (unfinished is None or unfinished.replaced_ledger is None):
        required_ledger = max(required_ledger, published.status.observed_ledger)
    newest = max((file.last_ledger for file in manifest.files), default=0)
    fault = None
    if newest < required_ledger and replaced_ledger is None:
        fault = f"ends at ledger {newest}, but ledger {required_ledger} was published"
    elif published is not None:
        lacking = _lacking(store, published, manifest, undone_from)
        if lacking is not None:
            fault = f"lacks {lacking}, which run {published.status.run_id} went on from or wrote"
    if fault is not None:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} {fault}: it is older than the tree, as after a copy was put back in part. Nothing "
            "was published or removed. Restore the newest copy, or make it of the files that are there: exporter "
            f"history rebuild {store.uri}"
        )
    return manifest


def lost_inputs(store: Store, published: Published, manifest: HistoryManifest) -> list[RunInput]:
    """The history files that the published run went on from and whose ledgers the history's manifest lacks.

    A file that was joined with others, or replaced by one of a backfill, is not among them. There are none if the run's
    manifest is missing or damaged, or has an earlier format.
    """
    stored = None if published.has_earlier_format else store.get(published.status.manifest_key)
    if stored is None or etag_of(stored.data) != published.status.manifest_sha256:
        return []
    inputs = inputs_in(published.status.manifest_key, stored)
    ledgers = {item.key: file_ledgers(item.key) or () for item in inputs if item.name == "history"}
    lost = _not_in(manifest, [ledger for both in ledgers.values() for ledger in both])
    return [item for item in inputs if not lost.isdisjoint(ledgers.get(item.key, ()))]


def _not_in(manifest: HistoryManifest, ledgers: Iterable[int]) -> set[int]:
    """Those of the ledgers that no file of the history spans."""
    spans = sorted((file.first_ledger, file.last_ledger) for file in manifest.files)
    starts = [first for first, _ in spans]
    places = {ledger: bisect_right(starts, ledger) for ledger in ledgers}
    return {ledger for ledger, at in places.items() if not at or spans[at - 1][1] < ledger}


def _lacking(store: Store, published: Published, manifest: HistoryManifest, undone_from: int | None) -> str | None:
    """What of the published run's history the manifest lacks although it is there; None if it lacks nothing.

    Ledgers from ``undone_from`` on may be missing, because their runs are undone. A file that is gone or damaged cannot
    be named again.
    """
    ledger = published.status.observed_ledger
    if undone_from is None and _not_in(manifest, [ledger]):
        return f"ledger {ledger}"
    for item in lost_inputs(store, published, manifest):
        _, last = file_ledgers(item.key) or (0, 0)
        if undone_from is None or last < undone_from:
            stored = store.get(item.key)
            if stored is not None and etag_of(stored.data) == item.sha256:
                return item.key
    return None


def extended_manifest(
    store: Store, published: Published | None, history: HistoryPart, replaced_ledger: int | None
) -> tuple[HistoryManifest, list[str]]:
    """The history's manifest with the run's file, and the keys of the files that it names no more."""
    previous = read_checked_history_manifest(store, older=True, replaced_ledger=replaced_ledger)
    if previous is None and published is not None:
        refuse_lost_manifest(store, history.entry.key)
    continued = previous
    if replaced_ledger is not None:
        continued = history_below(previous, min(replaced_ledger, history.entry.first_ledger), history.entry)
    continued_keys = set[str]() if continued is None else {file.key for file in continued.files}
    previous_keys = [] if previous is None else [file.key for file in previous.files]
    replaced = [key for key in previous_keys if key not in continued_keys]
    return extend_history(continued, history.entry), replaced


def replace_history(
    store: Store,
    manifest: HistoryManifest,
    replaced: Mapping[str, str | None],
    moment: datetime,
    *,
    rollups: bool = True,
    most_reads: int | None = MAX_READS,
    in_memory: Mapping[str, bytes] | None = None,
) -> None:
    """Replace the history's manifest in the held store, after writing the rollups that follow from its new files.

    Every file that the manifest names must be in the store already. A rollup is written if one of its buckets closed,
    or if it is missing or has another size than the manifest says. Rollups of months that the history lost are deleted.

    Args:
        store: the store, which is held.
        manifest: the new manifest, with the rollups of the one that it replaces.
        moment: the time to record for the replaced files.
        replaced: the files that the manifest names no more, each with the file that replaces it
            (`record_replaced`).
        rollups: whether rollups are brought up to date; False leaves them as they are.
        most_reads: how many files of the history may be read for rollups; None for as many as are needed.
        in_memory: files of the history that need not be read, keyed by their keys.
    """
    record_replaced(store, replaced, moment)
    sizes = {info.key: info.size for info in store.list(ALL_HISTORY_PREFIX)} if rollups else {}
    if rollups:
        manifest = _with_rollups(store, manifest, sizes, most_reads, in_memory or {})
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    months = {key for key in sizes if key.startswith(MONTH_ROLLUP.prefix)}
    store.delete(sorted(months - {entry.key for entry in manifest.rollups}))


def _with_rollups(
    store: Store,
    manifest: HistoryManifest,
    sizes: Mapping[str, int],
    most_reads: int | None,
    in_memory: Mapping[str, bytes],
) -> HistoryManifest:
    """Write the rollups that are due, and return the manifest with their entries.

    ``sizes`` has the size of each rollup that is in the store. A rollup whose history files cannot be read stays as it
    is.
    """
    before = {entry.key: entry for entry in manifest.rollups}
    lost = {entry.bucket for key, entry in before.items() if sizes.get(key) != entry.bytes}
    if lost:  # without its entries, all rollups of a bucket length are made again
        others = [entry for entry in manifest.rollups if entry.bucket not in lost]
        manifest = msgspec.structs.replace(manifest, rollups=others)

    def read(key: str) -> bytes | None:
        if key in in_memory:
            return in_memory[key]
        stored = store.get(key)
        return None if stored is None else stored.data

    unchanged, files = updated_rollups(manifest, read, most_reads=most_reads)
    entries = {entry.key: entry for entry in unchanged}
    try:
        for file in files:
            store.put(file.entry.key, file.data)
            entries[file.entry.key] = file.entry
    except UnreadableHistoryError:
        entries = before | entries
    return msgspec.structs.replace(manifest, rollups=[entries[key] for key in sorted(entries)])
