"""What ``exporter backfill`` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from exporter.backfill.executors import Started, dask_cluster, processes
from exporter.backfill.job import BackfillResult, backfill, find_files
from exporter.config import Settings
from exporter.console import Console
from exporter.errors import EXIT_DONE, EXIT_SOURCE, EXIT_UNREAD, ConfigError
from exporter.numbers.wording import counted
from exporter.stores import open_store

SHOWN = 20
"""So many failed files, or files with unread markets, are named."""

CLUSTER_AT_ONCE = 64
"""So many files are given out to a cluster at a time."""


def run_backfill(
    settings: Settings, paths: Sequence[Path], workers: int | None, scheduler: str | None, console: Console
) -> int:
    """Backfill and say what came of it; gives the exit code."""
    if scheduler is not None and workers is not None:
        raise ConfigError("--workers is for processes of this machine; a cluster (--scheduler) has its own")
    files = find_files(paths)
    count = workers or os.cpu_count() or 1
    start: Started = partial(processes, count) if scheduler is None else partial(dask_cluster, scheduler)
    at_once = 2 * count if scheduler is None else CLUSTER_AT_ONCE
    store = open_store(settings.output.uri)
    store.try_writing()  # before the work that would be lost
    with console.step("backfill", f"adding {counted(len(files), 'file')}") as facts:
        with console.progress("files", len(files)) as progress:
            result = backfill(store, settings, files, start, at_once=at_once, on_file=progress.advance)
        facts.update(files=len(files), added=result.added, known=result.known, empty=result.empty)
        facts.update(failed=len(result.failed), rows=result.rows)
    return _exit_code(result, settings, console)


def _exit_code(result: BackfillResult, settings: Settings, console: Console) -> int:
    for name, problem in sorted(result.failed.items())[:SHOWN]:
        console.warning(f"{name} was not added: {problem}", file=name)
    surprises = {
        name: [place for place in places if not settings.may_be_unread(place)]
        for name, places in sorted(result.unread.items())
    }
    surprises = {name: places for name, places in surprises.items() if places}
    for name, places in list(surprises.items())[:SHOWN]:
        console.warning(f"{name}: could not be read, of its markets and pools: {', '.join(places[:SHOWN])}")
    if result.failed:
        return EXIT_SOURCE
    return EXIT_UNREAD if surprises else EXIT_DONE
