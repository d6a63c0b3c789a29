"""The workers of a backfill: processes of this machine, or a Dask cluster. Both are executors."""

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
"""Time without a result after which the workers are looked at. One may have died while it sent its result, or all may
be gone."""

CLUSTER_AT_ONCE = 64
"""Number of pieces of work that are submitted to a cluster at the same time."""

_THREADS = "POLARS_MAX_THREADS"

Work = TypeVar("Work")
Result = TypeVar("Result")


class Processes(ProcessPoolExecutor):
    """Processes of this machine. Unlike those of the base class, they end if one died while it sent its result."""

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        self._began = context.Event()
        super().__init__(count, mp_context=context, initializer=self._began.set)

    @property
    def has_begun(self) -> bool:
        """Whether any of the processes was able to begin."""
        return self._began.is_set()

    def when_silent(self, _seconds: float) -> None:
        """End all workers if one died. The pool would wait forever for the rest of the dead worker's result."""
        workers = list((self._processes or {}).values())
        if any(not worker.is_alive() for worker in workers):
            for worker in workers:
                worker.kill()
            self._result_queue._writer.close()  # type: ignore[attr-defined]


def workers_of(
    workers: int | None, scheduler: str | None, announce: Callable[[str], None]
) -> tuple[AbstractContextManager[Executor], int]:
    """The executor that a command asks for, and how many pieces of work it gets at the same time.

    ``announce`` is called with a text that says what a cluster is waited for. Raises `ConfigError` if both ``workers``
    and ``scheduler`` are given.
    """
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        return processes(count), 2 * count
    if workers is not None:
        raise ConfigError("--workers is for processes of this machine; a cluster (--scheduler) has its own")
    return dask_cluster(scheduler, announce), CLUSTER_AT_ONCE


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Processes of this machine. Polars has one thread in each, because there is a process for each core."""
    before = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, "1")  # a worker's Polars reads it when it is imported
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
    """Do all work, and yield each piece with its result as soon as it is finished, in any order.

    At most ``at_once`` pieces are submitted at the same time. Raises what the work raises, `WorkerDiedError` if a
    worker died, and `ConfigError` if no worker could begin.
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
                'script, make the call below `if __name__ == "__main__":`; if that is not it, see the error '
                "that the worker printed"
            ) from None
        raise WorkerDiedError(
            "a worker died, as one does that uses too much memory; run the same command again to continue, perhaps "
            "with fewer --workers"
        ) from None


def _result_of(future: Future[Result]) -> Result:
    """The result of a piece of work. Raises what the work raised, or an error that says how a cluster lost it."""
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        if (explained := explain_loss(error)) is None:
            raise
        raise explained from None
