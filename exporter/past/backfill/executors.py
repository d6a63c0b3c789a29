"""The workers of a backfill: local processes, or a Dask cluster. Both are a ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from time import monotonic
from typing import TypeVar

from exporter.errors import ConfigError, WorkerDiedError
from exporter.past.backfill.cluster import Cluster, dask_cluster, explain_loss

SILENT_SECONDS = 30.0
"""After this long without a result, the workers are looked at: one may have died over its result, or all be gone."""

CLUSTER_AT_ONCE = 64
"""Pieces that are submitted to a cluster at a time."""

_THREADS = "POLARS_MAX_THREADS"

Work = TypeVar("Work")
Result = TypeVar("Result")


class Processes(ProcessPoolExecutor):
    """Processes of this machine, which can be freed from one that died while it sent its result."""

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        self._began = context.Event()
        super().__init__(count, mp_context=context, initializer=self._began.set)

    @property
    def has_begun(self) -> bool:
        """Whether any of the processes got so far that it could take work."""
        return self._began.is_set()

    def when_silent(self, _seconds: float) -> None:
        """End all workers where one died and the pool waits for the rest of what it said: it would wait for ever."""
        workers = list((self._processes or {}).values())
        if any(not worker.is_alive() for worker in workers):
            for worker in workers:
                worker.kill()
            self._result_queue._writer.close()  # type: ignore[attr-defined]


def workers_of(
    workers: int | None, scheduler: str | None, announce: Callable[[str], None]
) -> tuple[AbstractContextManager[Executor], int]:
    """What does the work, as a command names it, and how many pieces it is given at a time. Raises `ConfigError`.

    ``announce`` is called with what a cluster is waited for.
    """
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        return processes(count), 2 * count
    if workers is not None:
        raise ConfigError("--workers is for processes of this machine; a cluster (--scheduler) has its own")
    return dask_cluster(scheduler, announce), CLUSTER_AT_ONCE


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """A number of processes of this machine, each with one thread of Polars: there is one process a core."""
    before = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, "1")  # Polars reads it when a worker imports it
    executor = Processes(count)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        if before is None:
            os.environ.pop(_THREADS, None)


def run_all(
    executor: Executor, function: Callable[[Work], Result], work: Iterable[Work], at_once: int
) -> Iterator[tuple[Work, Result]]:
    """Do all work, ``at_once`` pieces at a time, giving each with its result as it is finished, in no promised order.

    Raises `WorkerDiedError`.
    """
    todo, pending = iter(work), dict[Future[Result], Work]()
    silent_since = monotonic()
    try:
        while True:
            while len(pending) < at_once and (piece := next(todo, None)) is not None:
                pending[executor.submit(function, piece)] = piece
            if not pending:
                return
            finished, _ = wait(pending, timeout=SILENT_SECONDS, return_when=FIRST_COMPLETED)
            if finished:
                silent_since = monotonic()
            elif isinstance(executor, Processes | Cluster):
                executor.when_silent(monotonic() - silent_since)
            for future in finished:
                yield pending.pop(future), _result_of(future)
    except BrokenProcessPool:
        if isinstance(executor, Processes) and not executor.has_begun:
            raise ConfigError(
                "no worker could begin, because a worker first imports the program that calls the exporter: in a "
                'script, make the call below `if __name__ == "__main__":`; what else may hinder it is in the error '
                "that the worker printed"
            ) from None
        raise WorkerDiedError(
            "a worker died, as one does that uses too much memory; run the same command again to continue, perhaps "
            "with fewer --workers"
        ) from None


def _result_of(future: Future[Result]) -> Result:
    """A result. Raises what the work itself raised, and where a cluster lost the work, an error that says so."""
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        if (explained := explain_loss(error)) is None:
            raise
        raise explained from None
