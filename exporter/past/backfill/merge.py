"""Adds past ledgers to a published history: as files of their own, or inside compacted files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, field

from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.empty_runs import empty_runs
from exporter.history.manifest import HistoryPart, data_of, extend_history, read_history_manifest
from exporter.history.parquet import scan_rows, stated_network
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.past.backfill.liquidations import Row, with_liquidations
from exporter.publishing.acceptance import refuse_files_of_others
from exporter.publishing.compaction import compact_files
from exporter.publishing.published_history import read_checked_history_manifest, replace_history
from exporter.publishing.published_state import read_intent, read_published, unfinished_run
from exporter.publishing.sweep_state import forget_named, record_replaced
from exporter.stores.held_store import hold_when_free
from exporter.stores.store import Store, utc_now
from exporter.tree.documents import HistoryManifest, LedgerSpan, Transitions

WAIT_SECONDS = 600.0
"""Longest time that a backfill waits while somebody publishes."""


class MergeResult(Struct):
    """The ledgers that were added, the number of their rows, and why other ledgers were refused, by ledger."""

    added: set[int] = field(default_factory=set)
    rows: int = 0
    refused: dict[int, str] = field(default_factory=dict)


def merge_into_history(store: Store, parts: Sequence[HistoryPart], network: str) -> MergeResult:
    """Add files of single ledgers, ascending, to a history. Ledgers that it has already stay as they are.

    Raises `CheckError` if the history is of another network, `StoreError` if the store fails or a run is unfinished,
    and `LostRaceError` if somebody publishes for too long. The manifest is unchanged then.
    """
    result = MergeResult()
    if not parts:
        return result
    with hold_when_free(store, WAIT_SECONDS) as held:
        manifest = read_checked_history_manifest(held)
        _refuse_other_network(held, manifest, network)
        published = read_published(held)
        intent = unfinished_run(None if published is None else published.status, read_intent(held))
        if intent is not None:
            raise StoreError(
                f"run {intent.run_id} began to replace documents and did not finish; backfill after the next run"
            )
        limit = None if published is None else published.status.observed_ledger
        files = [] if manifest is None else manifest.files
        inside: dict[str, list[HistoryPart]] = {}
        new: list[HistoryPart] = []
        for part in parts:
            ledger = part.entry.first_ledger
            holder = next((file for file in files if file.first_ledger <= ledger <= file.last_ledger), None)
            if limit is not None and ledger > limit:
                result.refused[ledger] = (
                    f"ledger {ledger} is above the published ledger {limit}; a run publishes such a ledger, a backfill "
                    "only adds what lies before"
                )
            elif holder is None:
                new.append(part)
            elif holder.first_ledger != holder.last_ledger:
                inside.setdefault(holder.key, []).append(part)
        _write_parts(held, new)
        for part in new:
            manifest = extend_history(manifest, part.entry)
        added, replaced = list(new), dict[str, str | None]()
        for key, parts_of_file in inside.items():
            assert manifest is not None  # it names the file
            manifest, fresh, replaced_files = _with_rebuilt(held, manifest, key, parts_of_file)
            added += fresh
            replaced |= replaced_files
        if added and manifest is not None:
            replace_history(held, manifest, replaced, utc_now(), rollups=False)
            forget_named(held, [file.key for file in manifest.files])
        result.added = {part.entry.first_ledger for part in added}
        result.rows = sum(part.entry.rows for part in added)
    return result


def try_output(store: Store) -> None:
    """Find out, before the work begins, whether the output accepts its result.

    Raises `FormatError` if the tree there has another format, and `StoreError` if nothing can be written.
    """
    published, manifest = read_published(store), read_checked_history_manifest(store)
    if published is None and manifest is None:
        refuse_files_of_others(store)
    store.try_writing()


def _refuse_other_network(store: Store, manifest: HistoryManifest | None, network: str) -> None:
    """Raise `CheckError` if the newest file of the history is of another network."""
    for file in [] if manifest is None else manifest.files[-1:]:
        stored = store.get(file.key)
        its_network = None if stored is None else _network_of(file.key, stored.data)
        if its_network != network:
            raise CheckError(
                f"the history of {store.uri} is of the network {its_network!r}, and the files are of {network!r}; "
                "use an output for each network"
            )


def _network_of(key: str, data: bytes) -> str:
    """The network that a file of the history states. Raises `StoreError` if the file is damaged."""
    try:
        return stated_network(open_parquet(data))
    except DecodeError as error:
        raise StoreError(f"{key} cannot be read: {error}") from error


def _with_rebuilt(
    store: Store, manifest: HistoryManifest, key: str, parts: Sequence[HistoryPart]
) -> tuple[HistoryManifest, list[HistoryPart], dict[str, str | None]]:
    """Add parts to the compacted file of a key, if it lacks their ledgers, and write the file under a new key.

    Returns the manifest with the new file, the parts that were added, and the key of the new file by the keys of the
    files that it replaces.
    """
    holder, column = next(file for file in manifest.files if file.key == key), "observed_ledger"
    data = data_of(store.get(key), holder)
    try:
        ledgers = {*scan_rows(data).select(column).collect()[column].unique(), *empty_runs(open_parquet(data))}
    except (DecodeError, *POLARS_ERRORS) as error:
        raise StoreError(f"{key} cannot be read: {error}") from error
    fresh = [part for part in parts if part.entry.first_ledger not in ledgers]
    if not fresh:
        return manifest, fresh, {}
    _write_parts(store, fresh)
    rebuilt = compact_files(store, f"{key.rpartition('/')[0]}/", [holder, *(part.entry for part in fresh)])
    _write_parts(store, [rebuilt])
    files = [rebuilt.entry if file.key == key else file for file in manifest.files]
    replaced = dict.fromkeys([key, *(part.file.key for part in fresh)], rebuilt.entry.key)
    return msgspec.structs.replace(manifest, files=files), fresh, {**replaced}


def _write_parts(store: Store, parts: Sequence[HistoryPart]) -> None:
    """Write files that the manifest does not name yet.

    They are recorded first, so that a sweep knows them after a crash.
    """
    record_replaced(store, {part.file.key: None for part in parts}, utc_now())
    store.put_many(((part.file.key, part.file.data) for part in parts), immutable=True)


def finish_history(
    store: Store, transitions: list[Transitions], rows: Sequence[Row], spans: Sequence[LedgerSpan]
) -> None:
    """Finish a history after the last merge.

    The rollups that are due are made, ``rows`` are put into the table of liquidations, and the manifest gets the counts
    of transitions that the replay compared.
    """
    with hold_when_free(store, WAIT_SECONDS) as held:
        manifest = read_checked_history_manifest(held)
        if manifest is not None:
            changed = msgspec.structs.replace(manifest, transitions=transitions)
            changed = with_liquidations(held, changed, rows, spans)
            replace_history(held, changed, {}, utc_now(), most_reads=None)


def ledgers_of(store: Store) -> Callable[[int], bool]:
    """A function that tells whether a file of the history covers a ledger. Raises `StoreError` for a bad manifest."""
    manifest = read_history_manifest(store)
    spans = [] if manifest is None else [(file.first_ledger, file.last_ledger) for file in manifest.files]
    return lambda ledger: any(first <= ledger <= last for first, last in spans)
