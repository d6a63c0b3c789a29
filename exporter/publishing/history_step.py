"""The step in which the history changes: first the rollups, then the manifest, which is the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from exporter.history.rollups import HOURLY, MAX_READS, UnreadableHistoryError, updated_rollups
from exporter.publishing.retention import record_superseded_history
from exporter.stores.store import Store
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY, MONTH_ROLLUP
from exporter.tree.read_back import render_document


def replace_history(
    store: Store,
    manifest: HistoryManifest,
    superseded: Iterable[str],
    moment: datetime,
    *,
    rollups: bool = True,
    most_reads: int | None = MAX_READS,
    at_hand: Mapping[str, bytes] | None = None,
) -> None:
    """Put a manifest, of files that are there, into the held store, and before it the rollups of which a bucket closed.

    Nobody names ``superseded`` files any more. ``rollups`` False leaves these as they are. At most ``most_reads`` files
    of the history are read for them, none of those ``at_hand``, by key.
    """
    gone = set(superseded)
    if gone:
        record_superseded_history(store, sorted(gone), moment)
    sizes = {info.key: info.size for info in store.list(MONTH_ROLLUP.prefix)} if rollups else {}
    if rollups:
        manifest = _with_rollups(store, manifest, sizes, most_reads, at_hand or {})
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    store.delete(sorted(sizes.keys() - {entry.key for entry in manifest.rollups}))


def _with_rollups(
    store: Store,
    manifest: HistoryManifest,
    sizes: Mapping[str, int],
    most_reads: int | None,
    at_hand: Mapping[str, bytes],
) -> HistoryManifest:
    """Write the rollups that are due; where files cannot be read they stay. ``sizes`` are of the months' files."""
    before = {entry.key: entry for entry in manifest.rollups}
    if any(sizes.get(key) != entry.bytes for key, entry in before.items() if MONTH_ROLLUP.pattern.fullmatch(key)):
        others = [entry for entry in manifest.rollups if entry.bucket != HOURLY.bucket]
        manifest = msgspec.structs.replace(manifest, rollups=others)  # all hours are recomputed

    def read(key: str) -> bytes | None:
        stored = None if key in at_hand else store.get(key)
        return at_hand.get(key) if stored is None else stored.data

    kept, files = updated_rollups(manifest, read, most_reads=most_reads)
    entries = {entry.key: entry for entry in kept}
    try:
        for file in files:
            store.put(file.entry.key, file.data)
            entries[file.entry.key] = file.entry
    except UnreadableHistoryError:
        entries = {entry.key: entry for entry in manifest.rollups} | entries
    return msgspec.structs.replace(manifest, rollups=[entries[key] for key in sorted(entries)])
