"""Where the work is done: processes of this machine, or a Dask cluster. Both are a ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from exporter.errors import ConfigError, ExporterError

CLUSTER_RETRIES = 2
"""How often a cluster does a piece of work again whose worker died."""

SILENT_SECONDS = 30.0
"""After this long without a result, processes of this machine are looked at: one may have died over its result."""

CONNECT_SECONDS = 15

CLUSTER_AT_ONCE = 64
"""Pieces that are submitted to a cluster at a time."""

_THREADS = "POLARS_MAX_THREADS"

Work = TypeVar("Work")
Result = TypeVar("Result")


class WorkerDiedError(ExporterError):
    """A process of this machine died over its work, as one does that the system kills for memory."""


class Processes(ProcessPoolExecutor):
    """Processes of this machine, which can be freed from one that died while it sent its result."""

    def free(self) -> None:
        """End all workers where one died and the pool waits for the rest of what it said: it would wait for ever."""
        workers = list((self._processes or {}).values())
        if any(not worker.is_alive() for worker in workers):
            for worker in workers:
                worker.kill()
            self._result_queue._writer.close()  # type: ignore[attr-defined]


def workers_of(workers: int | None, scheduler: str | None) -> tuple[AbstractContextManager[Executor], int]:
    """What does the work, as a command names it, and how many pieces it is given at a time. Raises `ConfigError`."""
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        return processes(count), 2 * count
    if workers is not None:
        raise ConfigError("--workers is for processes of this machine; a cluster (--scheduler) has its own")
    return dask_cluster(scheduler), CLUSTER_AT_ONCE


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """A number of processes of this machine, each with one thread of Polars: there is one process a core."""
    before = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, "1")  # Polars reads it when a worker imports it
    executor = Processes(count, mp_context=get_context("spawn"))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        if before is None:
            os.environ.pop(_THREADS, None)


@contextmanager
def dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler, such as ``tcp://10.0.0.1:8786``; they need this package installed.

    Raises `ConfigError` where dask.distributed is not installed, or no scheduler answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError(
            "--scheduler needs dask.distributed; install the exporter with the extra: lending-markets-exporter[dask]"
        ) from None
    try:
        client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"--scheduler {address}: no Dask scheduler answers there ({type(error).__name__})") from None
    try:
        yield client.get_executor(retries=CLUSTER_RETRIES, pure=False)
    finally:
        client.close()


def run_all(
    executor: Executor, function: Callable[[Work], Result], work: Iterable[Work], at_once: int
) -> Iterator[tuple[Work, Result]]:
    """Do all work, ``at_once`` pieces at a time, giving each with its result as it is finished, in no promised order.

    Raises `WorkerDiedError`.
    """
    todo, pending = iter(work), dict[Future[Result], Work]()
    try:
        while True:
            while len(pending) < at_once and (piece := next(todo, None)) is not None:
                pending[executor.submit(function, piece)] = piece
            if not pending:
                return
            finished, _ = wait(pending, timeout=SILENT_SECONDS, return_when=FIRST_COMPLETED)
            if not finished and isinstance(executor, Processes):
                executor.free()
            for future in finished:
                yield pending.pop(future), future.result()
    except BrokenProcessPool:
        raise WorkerDiedError(
            "a worker died, as one does that uses too much memory; run the same command again to continue, perhaps "
            "with fewer --workers"
        ) from None
