"""Gathers the inputs of a run: its numbers, and what the output has of earlier runs.

That is the history, the values that the previous run watched, the changes that were found until then, and the prices
that were missing. What is damaged or lost in the output is reported here.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from exporter.history.liquidations_table import restore_table
from exporter.history.manifest import find_damage, find_lost_rollups, read_history_manifest
from exporter.history.series import Series, catch_up, files_before, load_series
from exporter.job.earlier_changes import read_earlier_changes, rows_of_copy
from exporter.job.inputs import RunInputs, run_settings
from exporter.job.lost_prices import LostPrices, find_lost_prices, load_missed
from exporter.job.reading import MarketsReading
from exporter.job.step_reports import report_missing, report_unpriced
from exporter.job.steps.job import Job
from exporter.job.watched import is_as_watched, run_before, watched_by
from exporter.protocols.compute import Tables
from exporter.publishing.acceptance import closed_earlier
from exporter.publishing.published_history import lost_inputs
from exporter.publishing.published_state import read_published
from exporter.render.watched_values import WatchedFile
from exporter.stores.held_store import HeldStore
from exporter.tables import PoolKey
from exporter.tree import families
from exporter.tree.documents import HistoryManifest, RunChange
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import read_back
from exporter.tree.run_listing import ledger_of

MAX_NAMED_DAMAGE = 20
"""The console names at most this many damaged files; the report names all."""


class Gathered(NamedTuple):
    """The inputs of a run, the damage in the history's files, and the prices that the run lost."""

    inputs: RunInputs
    damage: list[str]
    lost: LostPrices


class PreviousRun(NamedTuple):
    """What the published run has for the next one.

    Attributes:
        watched: the values that it watched; None if they are not known.
        changes: the changes that it and earlier runs found, as the list of changes has them.
        changes_table: the same changes as rows, and all earlier ones.
    """

    watched: WatchedFile | None
    changes: list[RunChange]
    changes_table: pa.Table


def compute_tables(job: Job, reading: MarketsReading, evidence: RenderedFile) -> tuple[Tables, list[str]]:
    """Compute the numbers. Returns them, and what should have been read and was not (`report_missing`)."""
    with job.log.step("compute", "computing") as facts:
        tables = reading.tables()
        facts.update(evidence=len(evidence.data), markets=tables.markets.height, pools=tables.pools.height)
        facts.update(unpriced=len(tables.unpriced), unread=len(tables.unread))
        return tables, report_missing(job.settings, tables, reading, job.log)


def gather_inputs(job: Job, held: HeldStore, tables: Tables, evidence: RenderedFile) -> Gathered:
    """Read what the output has of earlier runs: the history, and what the previous run watched and changed.

    Pages of the history that the previous run did not save are published again here.
    """
    ledger = tables.ledger
    with job.log.step("inputs", "reading the history and the previous run") as facts:
        manifest = read_history_manifest(held, older=True)
        damage = report_damage(job, held, manifest)
        before = ledger if job.replaced_ledger is None else min(ledger, job.replaced_ledger)
        series = load_series(held, manifest, before)
        facts.update(_catch_up(held, manifest, before, series))
        if tables.close_time < series.through_time:
            raise closed_earlier(ledger, tables.close_time, series.through_ledger, series.through_time)
        lost = find_lost_prices(job.settings, tables, series, read_missed_prices(job, held))
        report_unpriced(tables, job.log)
        job.log.add(lost_prices=lost.as_dict())
        if lost.too_many:
            job.log.warning(str(lost))
        previous = _previous_run(job, held, before)
        inputs = RunInputs(
            settings=run_settings(job.settings),
            evidence=evidence,
            tables=tables,
            history=files_before(manifest, before),
            series=series,
            watched=previous.watched,
            earlier_changes=previous.changes,
            earlier_rows=previous.changes_table,
        )
    return Gathered(inputs, damage, lost)


def report_damage(job: Job, held: HeldStore, manifest: HistoryManifest | None) -> list[str]:
    """Name what is damaged in the history's files, and rollups that are lost. Returns the damage."""
    damage = find_damage(held, manifest)
    if any(text.startswith(families.LIQUIDATIONS.only_key) for text in damage) and restore_table(held, manifest):
        text = "had rows of a backfill that did not end; the earlier table was put back: backfill again"
        job.log.warning(f"{families.LIQUIDATIONS.only_key} {text}")
        damage = find_damage(held, manifest)
    job.log.add(damaged_history=damage)
    for text in damage[:MAX_NAMED_DAMAGE]:
        job.log.warning(f"damage in the history: {text}")
    for text in find_lost_rollups(held, manifest):
        job.log.warning(f"{text}; it is made again from the history's files")
    published = read_published(held, older=True)
    if published is not None and manifest is not None and job.replaced_ledger is None:
        for item in lost_inputs(held, published, manifest)[:MAX_NAMED_DAMAGE]:
            job.log.warning(f"the history lacks {item.key}, which the previous run went on from, and it is gone")
    return damage


def _catch_up(held: HeldStore, manifest: HistoryManifest | None, before: int, series: Series) -> dict[str, int]:
    """Add the rows to the series that its saved state lacks, and publish their pages again.

    There are none unless the previous run saved no state. Returns the number of rows that were read again, and the
    number of pages that were restored, by their names in the run report.
    """
    rows_loaded = series.row_count
    pages = map(read_back, catch_up(held, manifest, before, series))
    restored = held.put_many(((page.key, page.data) for page in pages), immutable=True)
    return {"read_again": series.row_count - rows_loaded, "restored": restored.written}


def _previous_run(job: Job, held: HeldStore, before: int) -> PreviousRun:
    """Read what the published run has for this one.

    Documents of a run that died before it was published do not count. A run that undoes others is compared with
    none. Raises `StoreError` if the table of changes cannot be continued, because its rows are in no other file.
    """
    run_id = run_before(held, before)
    if run_id is None:
        return PreviousRun(None, [], rows_of_copy(held, before))
    watched = None
    if job.replaced_ledger is None:
        before = ledger_of(run_id) + 1
        with job.log.optional("what changed since the previous run is not known, so no change is reported"):
            watched = watched_by(held, run_id)
            if not is_as_watched(held, run_id, watched):
                job.log.warning(
                    f"the watched values of run {run_id} are lost, and its evidence gives others; what changed while "
                    "a market or pool was not read may be missing"
                )
    earlier = read_earlier_changes(held, run_id, before)
    for text in earlier.warnings:
        job.log.warning(text)
    return PreviousRun(watched, earlier.changes, earlier.rows)


def read_missed_prices(job: Job, held: HeldStore) -> frozenset[PoolKey]:
    """The pools whose prices the previous run missed; empty, with a warning, if that cannot be read."""
    missed = frozenset[PoolKey]()
    with job.log.optional("earlier runs' list of missing prices cannot be read; this run may report them again"):
        missed |= load_missed(held)
    return missed
