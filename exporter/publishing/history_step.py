"""The step in which the history changes: first its manifest, which is the contract, then the table that follows it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from exporter.publishing.delta_table import follow, newest_version
from exporter.publishing.retention import record_superseded_history
from exporter.stores.store import Store
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.read_back import render_document


def replace_history(store: Store, manifest: HistoryManifest, superseded: Iterable[str], moment: datetime) -> None:
    """Put a manifest in the place of the one that stands, and bring the Delta table to it.

    All files that it names are there already.

    Args:
        store: the store, held as by a publisher.
        manifest: the history from now on.
        superseded: files that nobody names any more; they stay for the retention time, as do those that only the table
            still names.
        moment: the wall clock.

    Raises:
        LostRaceError: another publisher has taken such a step meanwhile.
        StoreError: the store refused an operation. The next step completes this one.
    """
    table = newest_version(store)
    gone = {*superseded, *(table.sizes().keys() - {file.key for file in manifest.files})}
    if gone:
        record_superseded_history(store, sorted(gone), moment)
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    follow(store, table, manifest, moment)
