"""Renders the files of a run from its inputs, checks them, and publishes them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from exporter.job.inputs import RunInputs
from exporter.job.rendering import render_run, times_of
from exporter.job.steps.job import Job
from exporter.publishing.acceptance import AcceptedRun
from exporter.publishing.checker import TreeChecker
from exporter.publishing.publication import Publication, RunIdentity
from exporter.publishing.unchanged_histories import UnchangedHistories, find_unchanged_histories
from exporter.stores.held_store import HeldStore
from exporter.tree.documents import timestamp
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import file_of


def publish_tree(job: Job, held: HeldStore, accepted: AcceptedRun, inputs: RunInputs) -> RunIdentity:
    """Render and publish the tree. The run's files are checked before anything that readers can find is replaced.

    Rollups are made later, while publishing, from checked files of the history. So the manifest of the history that
    is checked here has the previous rollups; the one with the new rollups is rendered, and read back as it is,
    when they are written (docs/decisions.md, "Rollups are made after the check of a run").
    """
    settings = job.settings
    tables, series = inputs.tables, inputs.series
    checker = TreeChecker(tables.ledger, inputs.settings.page_sizes)
    with (
        job.log.step("publish", "rendering and publishing") as facts,
        without_collecting(),
        job.log.console.progress("files") as progress,
    ):
        rendered = render_run(inputs)
        publication = Publication(held, accepted, rendered.history_part, job.now)
        unchanged = UnchangedHistories()
        if accepted.published is not None and job.replaced_ledger is None:
            lengths = series.still_open(accepted.published.status.observed_ledger, tables.close_time)
            totals = series.keys_of_totals  # of the runs before this one
            unchanged = find_unchanged_histories(held, accepted.published, lengths, totals)
        publication.list_again(unchanged.files)
        checker.seen.update(file.key for file in unchanged.files)  # the previous run checked them
        checker.add_rendered(rendered.history_part.file)
        if tables.risk is not None:
            checker.seen.add(tables.risk.key)  # the census checked it

        def checked() -> Iterator[RenderedFile]:
            for file in rendered.files(unchanged.lengths):
                progress.advance()
                checker.add_rendered(file)
                yield file

        publication.write(checked())
        sealed = publication.seal(inputs.settings, inputs.named())
        times = times_of(sealed.identity, settings.schedule.interval)
        expected = times.get("next_expected_at")
        status = rendered.status(
            sealed.identity,
            retention_hours=settings.output.retention // timedelta(hours=1),
            next_expected_at=None if expected is None else timestamp(expected),
        )
        for file in (*sealed.manifests, file_of(status)):
            checker.add_rendered(file)
        job.log.add(checked=checker.finish().as_dict())
        total = publication.complete(sealed, status)
        facts.update(written=total.written, unchanged=total.unchanged, bytes=total.bytes)
    return sealed.identity


@contextmanager
def without_collecting() -> Iterator[None]:
    """Turn Python's search for reference cycles off. It takes a tenth of rendering's time, and hardly any are there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
