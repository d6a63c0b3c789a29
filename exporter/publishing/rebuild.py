"""Makes the history's manifest again from the Parquet files, if it was lost or somebody put an old copy back.

If files have ledgers in common, the one with the most rows is taken. It replaces another file if it has all rows of
that file, and lists its runs without rows. If not, that file is left out of the manifest, and stays in the store.
Nothing is removed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from enum import StrEnum

import msgspec
import polars as pl
import pyarrow as pa
from msgspec import Struct

from exporter import FORMAT
from exporter.errors import DecodeError, StoreError
from exporter.history.empty_runs import EmptyRuns, empty_runs
from exporter.history.liquidations_table import read_table
from exporter.history.manifest import data_of, decode_history_manifest, file_ledgers, folder_of, history_entry, span_of
from exporter.history.parquet import ORDER, run_file_of_latest, stated_network
from exporter.parquet_bounds import POLARS_ERRORS, frame_of, open_parquet
from exporter.publishing.published_history import replace_history
from exporter.publishing.published_state import Published, read_current_listing, read_published
from exporter.publishing.sweep_state import SweepState, forget_named, is_undone_file, read_sweep_state
from exporter.stores.held_store import hold
from exporter.stores.store import Clock, Store, etag_of, utc_now
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_FILES_PREFIX, HISTORY_MANIFEST_KEY, LATEST_PARQUET

_REQUIRED_COLUMNS = (*ORDER, "ledger_close_time")


class Fate(StrEnum):
    """What happened to a file when the manifest was made again."""

    TAKEN = "taken"
    REPLACED = "replaced"
    LEFT_OUT = "left out"
    RESTORED = "restored"


class Finding(Struct, frozen=True):
    """What became of one file.

    Attributes:
        because: the key of the file that replaces it, or why it was left out or restored; empty for a file taken.
    """

    key: str
    fate: Fate
    because: str = ""


class Rebuilt(Struct, frozen=True):
    """The manifest that was made, and what became of each file, ascending by key."""

    manifest: HistoryManifest
    findings: tuple[Finding, ...]


class _Candidate(Struct, frozen=True):
    """A Parquet file that can be part of the history, the network that it states, and its runs without rows."""

    entry: HistoryFile
    network: str
    without_rows: EmptyRuns

    @property
    def span(self) -> int:
        return self.entry.last_ledger - self.entry.first_ledger


class _UnfitError(Exception):
    """A file cannot be part of the history, for the reason in the message."""


def rebuild_history(store: Store, *, dry_run: bool = False, now: Clock = utc_now) -> Rebuilt:
    """Make the manifest from the files in the store, and publish it unless this is a ``dry_run``.

    Raises `StoreError` if no file can be taken, or if the files end before the published ledger. Raises `LostRaceError`
    if somebody else holds the store.
    """
    with nullcontext(store) if dry_run else hold(store) as held:
        published, sweep_state, previous = read_published(held, older=True), read_sweep_state(held), _previous(held)
        findings = dict[str, Finding]()
        candidates = list(_candidates(held, sweep_state, findings))
        candidates += _from_latest(held, published, candidates, findings, dry_run=dry_run)
        network = None if published is None else published.status.network
        candidates = _of_one_network(candidates, network, findings)
        taken = _without_overlaps(held, candidates, findings)
        if not taken:
            reasons = [f"; {each.key}: {each.because}" for each in findings.values() if each.because][:1]
            raise StoreError(
                f"{held.uri} has no Parquet file of this history{''.join(reasons)}. Restore {HISTORY_FILES_PREFIX} "
                "from a copy"
            )
        newest = taken[-1].last_ledger
        ledger = 0 if published is None else published.status.observed_ledger
        if newest < ledger:
            raise StoreError(
                f"the Parquet files of {held.uri} end at ledger {newest}, but ledger {ledger} is published: restore "
                f"what is missing of {HISTORY_FILES_PREFIX} from a copy, or publish without it: exporter run "
                f"--replace-ledger {ledger}"
            )
        # Rollups are made again from the files. What a backfill wrote besides stays as the previous manifest says.
        manifest = msgspec.structs.replace(previous, observed_ledger=newest, files=taken, rollups=[])
        liquidations = manifest.liquidations
        if liquidations is not None:
            try:
                table = read_table(held, liquidations)
                if not dry_run:
                    held.put(liquidations.key, table)
            except StoreError:
                manifest = msgspec.structs.replace(manifest, liquidations=None)
                findings[liquidations.key] = Finding(
                    liquidations.key, Fate.LEFT_OUT, "not the file that the manifest named; backfill again"
                )
        if not dry_run:
            recorded = {key: replaced.by for key, replaced in sweep_state.history.items()}
            replaced = {each.key: each.because for each in findings.values() if each.fate is Fate.REPLACED}
            newly_replaced = {key: by for key, by in replaced.items() if recorded.get(key) != by}
            replace_history(held, manifest, newly_replaced, now(), most_reads=None)
            forget_named(held, [file.key for file in taken])
        return Rebuilt(manifest, tuple(findings[key] for key in sorted(findings)))


def _previous(store: Store) -> HistoryManifest:
    """The manifest in the store, for what it says besides its files; an empty one if it is missing or damaged."""
    stored = store.get(HISTORY_MANIFEST_KEY)
    if stored is not None:
        try:
            return decode_history_manifest(stored.data, older=True)
        except msgspec.DecodeError:
            pass
    return HistoryManifest(format=FORMAT, observed_ledger=0, files=[])


def _candidates(store: Store, sweep_state: SweepState, findings: dict[str, Finding]) -> Iterator[_Candidate]:
    """The files below ``history/`` that can be part of the history. ``findings`` gets those that cannot."""
    for key in sorted(info.key for info in store.list(HISTORY_FILES_PREFIX)):
        if file_ledgers(key) is None:
            findings[key] = Finding(key, Fate.LEFT_OUT, "its name is not that of a file of the history")
            continue
        if is_undone_file(key, sweep_state):
            findings[key] = Finding(key, Fate.LEFT_OUT, "a run with --replace-ledger undid its run")
            continue
        stored = store.get(key)
        try:
            candidate = _candidate(key, None if stored is None else stored.data)
        except _UnfitError as error:
            findings[key] = Finding(key, Fate.LEFT_OUT, str(error))
            continue
        yield candidate


def _candidate(key: str, data: bytes | None) -> _Candidate:
    """Read a Parquet file. Raises `_UnfitError` if it cannot be part of the history."""
    if data is None:
        raise _UnfitError("it vanished")
    try:
        parquet = open_parquet(data)
        missing = set(_REQUIRED_COLUMNS) - set(parquet.schema_arrow.names)
        if missing:
            raise _UnfitError(f"it lacks the column {min(missing)}")
        rows = parquet.metadata.num_rows
        columns = frame_of(parquet.read(["observed_ledger", "ledger_close_time"]))
        without_rows = empty_runs(parquet)
    except DecodeError as error:
        raise _UnfitError(str(error)) from error
    except (pa.ArrowException, OSError, *POLARS_ERRORS) as error:
        raise _UnfitError(f"it is not a Parquet file: {error}") from error
    entry = history_entry(key, data, rows)
    start, end = span_of(folder_of(key))
    ledgers = columns["observed_ledger"].is_between(entry.first_ledger, entry.last_ledger)
    times = columns["ledger_close_time"].is_between(start, end, closed="left")
    first, last = int(start.timestamp()), int(end.timestamp())
    fit = (
        entry.first_ledger <= ledger <= entry.last_ledger and first <= time < last
        for ledger, time in without_rows.items()
    )
    if not (ledgers.all() and times.all() and all(fit)):
        raise _UnfitError("it has runs of other ledgers, or of another day or month, than its name says")
    if not rows and not without_rows:
        raise _UnfitError("it has no rows, and does not say of which run it is")
    return _Candidate(entry, stated_network(parquet), without_rows)


def _from_latest(
    store: Store,
    published: Published | None,
    candidates: Sequence[_Candidate],
    findings: dict[str, Finding],
    *,
    dry_run: bool,
) -> Iterator[_Candidate]:
    """The published run's own file, restored from ``v1/latest.parquet`` if no candidate has its ledger.

    That file has the same rows. With ``dry_run`` nothing is written.
    """
    if published is None:
        return
    newest = published.status.observed_ledger
    if any(each.entry.first_ledger <= newest <= each.entry.last_ledger for each in candidates):
        return
    listed = list(read_current_listing(store, published.status).under(HISTORY_FILES_PREFIX))
    latest = store.get(LATEST_PARQUET.only_key)
    try:
        data = None if latest is None else run_file_of_latest(latest.data)
    except DecodeError:
        return  # the file is damaged, or somebody else's
    for file in listed:
        if data is not None and etag_of(data) == file.sha256:
            if not dry_run:
                store.put(file.key, data)  # over a damaged file, too: these bytes have the published digest
            findings[file.key] = Finding(file.key, Fate.RESTORED, f"{LATEST_PARQUET.only_key} has its rows")
            yield _candidate(file.key, data)


def _of_one_network(
    candidates: Sequence[_Candidate], network: str | None, findings: dict[str, Finding]
) -> list[_Candidate]:
    """The candidates of ``network``, which is the published one; if nothing is published, of the newest file's."""
    if network is None and candidates:
        network = max(candidates, key=lambda each: each.entry.last_ledger).network
    for each in candidates:
        if each.network != network:
            key = each.entry.key
            findings[key] = Finding(key, Fate.LEFT_OUT, f"it is of another network ({each.network[:80]!r})")
    return [each for each in candidates if each.network == network]


def _without_overlaps(
    store: Store, candidates: Sequence[_Candidate], findings: dict[str, Finding]
) -> list[HistoryFile]:
    """The files to take, ascending; no two of them have a ledger in common. Files with more rows are taken first."""
    taken = list[_Candidate]()
    for candidate in sorted(candidates, key=_most_rows_first):
        file = candidate.entry
        overlapping = [
            each
            for each in taken
            if each.entry.first_ledger <= file.last_ledger and file.first_ledger <= each.entry.last_ledger
        ]
        if not overlapping:
            taken.append(candidate)
            findings.setdefault(file.key, Finding(file.key, Fate.TAKEN))
            continue
        holder = overlapping[0].entry
        reason = f"it has ledgers in common with {holder.key}, which lacks some of its rows or runs"
        try:
            if len(overlapping) == 1 and _has_runs_of(store, overlapping[0], candidate):
                findings[file.key] = Finding(file.key, Fate.REPLACED, holder.key)
                continue
        except POLARS_ERRORS as error:
            reason = f"it has ledgers in common with {holder.key}, and the rows of one of them cannot be read: {error}"
        findings[file.key] = Finding(file.key, Fate.LEFT_OUT, reason)
    return sorted((each.entry for each in taken), key=lambda file: file.first_ledger)


def _most_rows_first(candidate: _Candidate) -> tuple[int, int, int, str]:
    return -candidate.entry.rows, -len(candidate.without_rows), -candidate.span, candidate.entry.key


def _has_runs_of(store: Store, larger: _Candidate, smaller: _Candidate) -> bool:
    """Whether the larger file has every row of the smaller one, and its runs without rows.

    Rows are compared one market at a time.
    """
    if not smaller.without_rows.items() <= larger.without_rows.items():
        return False
    files = larger.entry, smaller.entry
    larger_rows, smaller_rows = (pl.scan_parquet(data_of(store.get(file.key), file)) for file in files)
    columns = smaller_rows.collect_schema().names()
    if not set(columns) <= set(larger_rows.collect_schema().names()):
        return False
    for market in smaller_rows.select("market").unique().collect()["market"]:
        expected = smaller_rows.filter(pl.col("market") == market).sort(ORDER).collect()
        ledgers = expected["observed_ledger"].unique().implode()
        rows = larger_rows.filter(pl.col("market") == market, pl.col("observed_ledger").is_in(ledgers))
        if not rows.select(columns).sort(ORDER).collect().equals(expected):
            return False
    return True
