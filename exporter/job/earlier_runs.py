"""Earlier runs of a tree are repeated from their evidence, and the history's rows of them compared."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.config import Settings
from exporter.errors import ExporterError, RefutedError, SourceError
from exporter.history.export import rows_of
from exporter.history.parquet import render_history
from exporter.job.evidence import Evidence
from exporter.job.fetched_tree import EarlierRun, FetchedTree, ledger_of
from exporter.job.prove import claims_of
from exporter.job.reading import MarketsRead, read_markets
from exporter.job.sources import open_evidence
from exporter.job.unproven import Reason, Unproven
from exporter.protocols.compute import Tables
from exporter.render.changes import change_list
from exporter.tree.documents import EXPORTER_VERSION, ChangeList
from exporter.tree.families import CHANGES

_PLACE = ("market", "pool")


def repeat_earlier(
    tree: FetchedTree, settings: Settings, unproven: Unproven
) -> tuple[dict[int, str], ChangeList | None]:
    """Repeat runs; gives those in the history, by ledger, and the changes to go on with. Raises `RefutedError`."""
    covered, seed = dict[int, str](), None
    against = compared_with(tree)
    for run in tree.earlier:
        try:
            claims_of(run.evidence)  # it is within bounds
            tables, rows = _repeat_rows(run, settings)
        except ExporterError as error:
            tree.left_out[run.run_id] = str(error)
            continue
        why = _compare_rows(tree, run, rows)
        if why is not None:
            tree.left_out[run.run_id] = why
            continue
        covered[run.ledger] = run.run_id
        if run.ledger == against:  # the list that this run left, as far as the published one still has its items
            older = [item for item in tree.changes.data if item.observed_ledger <= run.ledger]
            seed = msgspec.structs.replace(change_list(tables, None, settings.passphrase), data=older)
    if seed is None and (tree.status.previous_run_id is not None or tree.changes.data or tree.before):
        unproven.add(Reason.CHANGES, [f"{CHANGES.template}: those since the run before"])
        seed = tree.changes  # a run takes over what it finds of its own ledger
    found = [] if seed is None else seed.data
    unproven.add(Reason.CHANGES, (f"{item.title} (ledger {item.observed_ledger})" for item in found))
    return covered, seed


def compared_with(tree: FetchedTree) -> int | None:
    """The ledger that the published changes were found against: of the run before, or of a later one that died."""
    ledger, changes = tree.status.observed_ledger, tree.changes.data
    before = ledger if tree.status.previous_run_id is None else ledger_of(tree.status.previous_run_id)
    if before >= ledger:
        return None
    own = {item.previous_ledger for item in changes if item.observed_ledger == ledger}
    older = {item.observed_ledger for item in changes if before < item.observed_ledger < ledger}
    return min(own) if own else max((before, *older))


def repeat(evidence: Evidence, settings: Settings) -> MarketsRead:
    """Read the markets of a run from its evidence again. Raises `ExporterError` where that is not possible."""
    return asyncio.run(read_markets(settings, open_evidence(settings, evidence), None))[0]


def _repeat_rows(run: EarlierRun, settings: Settings) -> tuple[Tables, pl.DataFrame]:
    """The tables of an earlier run, and its rows as the history has them. Raises `ExporterError`."""
    evidence = Evidence.decode(run.evidence, run.evidence_key)
    if evidence.ledger != run.ledger:
        raise SourceError(f"its evidence is of ledger {evidence.ledger}")
    tables = repeat(evidence, settings).tables()
    part = render_history(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=settings.passphrase,
    )
    return tables, rows_of(part.file.data, part.entry).sort(_PLACE)


def _compare_rows(tree: FetchedTree, run: EarlierRun, made: pl.DataFrame) -> str | None:
    """Compare rows with the history's; gives why they cover nothing, None if equal. Raises `RefutedError`."""
    missing = "the history has no rows of its ledger"
    file = next((file for file in tree.before if file.first_ledger <= run.ledger <= file.last_ledger), None)
    if file is None:
        return missing
    data = (tree.folder / file.key).read_bytes()
    version = (pq.ParquetFile(pa.BufferReader(data)).metadata.metadata or {}).get(b"exporter_version", b"").decode()
    if version != EXPORTER_VERSION:
        return f"its rows were written by version {version[:20]!r} of the exporter, and this is {EXPORTER_VERSION}"
    rows = rows_of(data, file).filter(pl.col("observed_ledger") == run.ledger).sort(_PLACE)
    if rows.is_empty() and not made.is_empty():
        return missing
    if not rows.equals(made):
        raise RefutedError(
            f"{file.key}: the rows of ledger {run.ledger} do not follow from the evidence of {run.run_id}"
        )
    return None


def uncovered(tree: FetchedTree, covered: Collection[int]) -> Iterator[tuple[str, int]]:
    """The files of the history with rows that are not covered, and how many."""
    for file in tree.before:
        ledgers = pl.scan_parquet(tree.folder / file.key).select("observed_ledger")
        left = ledgers.filter(~pl.col("observed_ledger").is_in(sorted(covered)))
        rows: int = left.select(pl.len()).collect().item()
        if rows:
            yield file.key, rows
