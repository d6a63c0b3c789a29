"""Repeats earlier runs of a published tree from their evidence, and compares the history's rows with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Struct, field

from exporter.audit.evidence_proof import claims_of
from exporter.audit.fetched_tree import EarlierRun, FetchedTree
from exporter.audit.history_files import check_as_written, refuse_other_version, rows_by_ledger
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.errors import ExporterError, RefutedError, SourceError, pluralize
from exporter.history.empty_runs import empty_runs
from exporter.history.export import rows_of
from exporter.history.parquet import render_history
from exporter.job.evidence import Evidence
from exporter.job.inputs import inputs_named
from exporter.job.reading import read_again
from exporter.parquet_bounds import open_parquet
from exporter.protocols.compute import Tables
from exporter.render.lists import render_assets
from exporter.render.watched_values import WatchedFile, leaves_gaps, watched_values
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, WatchedValues
from exporter.tree.families import CHANGES, CHANGES_TABLE


class RepeatedValues(NamedTuple):
    """The watched values of a run that was repeated.

    Attributes:
        file: the values, as they follow from the run's evidence, and from those that it was compared with.
        run: the run.
        leaves_gaps: whether the run did not read everything. If so, the values depend on those that it was compared
            with.
    """

    file: WatchedFile
    run: EarlierRun
    leaves_gaps: bool

    @property
    def is_whole(self) -> bool:
        """Whether no value is missing because those that the run was compared with are gone."""
        return not self.leaves_gaps or self.run.watched_key is None or self.run.watched is not None

    def refutes(self, watched: WatchedValues) -> bool:
        """Whether the run cannot have watched these values."""
        own = self.file.values
        return watched != own if self.is_whole else msgspec.structs.replace(watched, carried=[]) != own


class RepeatedRuns(Struct):
    """Earlier runs that were repeated from their evidence.

    Attributes:
        covered: the ids of runs whose rows the history has, by ledger.
        pages: the keys of the pages that a run gives, by run id.
        watched: the values with which the run after each run is compared, by run id.
        alike: whether a history file has the very bytes that this machine's libraries give, by key.
    """

    covered: dict[int, str] = field(default_factory=dict)
    pages: dict[str, Collection[str]] = field(default_factory=dict)
    watched: dict[str, RepeatedValues] = field(default_factory=dict)
    alike: dict[str, bool] = field(default_factory=dict)

    @property
    def recoded(self) -> list[str]:
        """The keys of history files with the same rows in other bytes, because other libraries wrote them."""
        return [key for key, alike in self.alike.items() if not alike]


def repeat_earlier(tree: FetchedTree) -> RepeatedRuns:
    """Repeat the earlier runs of a tree. Runs that cannot be repeated are added to its ``left_out``.

    Raises `RefutedError` if the history has other rows than a run gives, and `CheckError` if a history file is not what
    writing its rows gives.
    """
    repeated = RepeatedRuns()
    for run in tree.earlier:
        try:
            tables, made = _repeat_rows(run)
            file, data = _file_of(tree, run.ledger)
            refuse_other_version(data)
        except ExporterError as error:
            tree.left_out[run.run_id] = str(error)
            continue
        if file.key not in repeated.alike:
            repeated.alike[file.key] = check_as_written(data, file, tree.status.network)
        published = rows_of(data, file).filter(pl.col("observed_ledger") == run.ledger).sort("market", "pool")
        close_time = None if made.height else tables.close_time
        if not published.equals(made) or empty_runs(open_parquet(data)).get(run.ledger) != close_time:
            raise RefutedError(
                f"{file.key}: the rows of ledger {run.ledger} do not follow from the evidence of {run.run_id}"
            )
        repeated.covered[run.ledger] = run.run_id
        before = None if run.watched is None else run.watched.values
        watched = WatchedFile.of(watched_values(tables, run.settings.network, before))
        repeated.watched[run.run_id] = RepeatedValues(watched, run, leaves_gaps(tables))
        sizes, default = run.settings.page_sizes, run.settings.default_page_size
        pages = render_assets(tables.pools, tables.markets, sizes, default, tables.ledger)
        repeated.pages[run.run_id] = frozenset((watched.file.key, *(page.key for page in pages)))
    return repeated


def judge_inputs(tree: FetchedTree, repeated: RepeatedRuns) -> Unproven:
    """What is not proven of the watched values and of the history that the run continued.

    Raises `RefutedError` if the run was compared with other values than the previous run watched.
    """
    unproven, status = Unproven(), tree.status
    previous = None if status.previous_run_id is None else repeated.watched.get(status.previous_run_id)
    named = inputs_named(tree.manifest.inputs, "watched")
    since = f"{CHANGES.only_key}: those since the run before"
    if not named:
        if status.previous_run_id is not None or tree.changes.data or tree.history.now:
            unproven.add(UnprovenReason.CHANGES, [f"{since}, with which the run was not compared"])
    elif previous is None:
        unproven.add(UnprovenReason.CHANGES, [f"{since}, which was not repeated"])
    elif previous.file.file.key != named[0].key:
        if tree.watched is None or tree.watched.values.exporter_version != EXPORTER_VERSION:
            unproven.add(UnprovenReason.CHANGES, [f"{since}, of which another version made the values"])
        elif previous.refutes(tree.watched.values):
            raise RefutedError(
                f"{named[0].key}: the run was compared with these values, and the evidence of the run before, "
                f"{status.previous_run_id}, gives others"
            )
    if previous is not None:
        unproven.add(UnprovenReason.CHANGES, _unproven_gap(tree, repeated, previous))
    earlier = (item for item in tree.changes.data if item.observed_ledger < status.observed_ledger)
    unproven.add(UnprovenReason.CHANGES, (f"{item.title} (ledger {item.observed_ledger})" for item in earlier))
    if tree.earlier_rows.num_rows:
        rows = pluralize(tree.earlier_rows.num_rows, "change")
        unproven.add(UnprovenReason.CHANGES, [f"{CHANGES_TABLE.only_key}: {rows} that earlier runs found"])
    unproven.add(UnprovenReason.HISTORY, (f"{key} ({why})" for key, why in tree.history.gone.items()))
    unproven.add(
        UnprovenReason.HISTORY, (f"{key} ({rows} rows that the run lacks)" for key, rows in tree.history.later.items())
    )
    spans = [(file.first_ledger, file.last_ledger) for file in tree.history.now]
    lost = (
        file.key
        for file in tree.history.files
        if not any(first <= file.first_ledger and file.last_ledger <= last for first, last in spans)
    )
    unproven.add(UnprovenReason.HISTORY, (f"{key} (the run went on from it, and the history lacks it)" for key in lost))
    return unproven


def _unproven_gap(tree: FetchedTree, repeated: RepeatedRuns, previous: RepeatedValues) -> Iterator[str]:
    """Name the run that did not read everything, if the runs that read the rest were not repeated.

    What a run hands on is proven if each run is repeated, from the previous one back to one that read everything.
    """
    by_key = {item.file.file.key: item for item in repeated.watched.values()}
    while previous.leaves_gaps:
        run = previous.run
        before = None if run.watched_key is None else by_key.get(run.watched_key)
        if before is None or before.run.ledger >= run.ledger or not previous.is_whole:
            if run.watched_key is not None or any(file.first_ledger < run.ledger for file in tree.history.files):
                yield f"{CHANGES.only_key}: those of what run {run.run_id} did not read, since it was read last"
            return
        previous = before


def _repeat_rows(run: EarlierRun) -> tuple[Tables, pl.DataFrame]:
    """The tables of an earlier run, and its rows as a history file has them.

    Raises `ExporterError` if the run cannot be repeated.
    """
    claims_of(run.evidence)  # raises an error for evidence beyond the bounds
    evidence = Evidence.decode(run.evidence, run.evidence_key)
    if evidence.ledger != run.ledger:
        raise SourceError(f"its evidence is of ledger {evidence.ledger}")
    tables = read_again(evidence)[0].tables()
    part = render_history(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=evidence.passphrase,
    )
    return tables, rows_of(part.file.data, part.entry).sort("market", "pool")


def _file_of(tree: FetchedTree, ledger: int) -> tuple[HistoryFile, bytes]:
    """The history file that now has a ledger, and its content. Raises `SourceError` if there is none."""
    file = next((file for file in tree.history.now if file.first_ledger <= ledger <= file.last_ledger), None)
    if file is None:
        raise SourceError("the history has no rows of its ledger")
    return file, (tree.folder / file.key).read_bytes()


class EarlierRows(NamedTuple):
    """The rows of a history file that are of ledgers before the run.

    Attributes:
        key: the file's key.
        rows: the number of rows, by ledger.
    """

    key: str
    rows: dict[int, int]

    def not_of(self, ledgers: Collection[int]) -> int:
        """The number of rows that are of other ledgers than these."""
        return sum(count for ledger, count in self.rows.items() if ledger not in ledgers)


def earlier_rows(tree: FetchedTree) -> Iterator[EarlierRows]:
    """The rows of earlier ledgers in each file of the history."""
    for file in tree.history.now:
        counts = rows_by_ledger((tree.folder / file.key).read_bytes())
        earlier = {ledger: count for ledger, count in counts.items() if ledger < tree.status.observed_ledger}
        yield EarlierRows(file.key, earlier)
