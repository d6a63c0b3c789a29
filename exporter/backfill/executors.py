"""Where the work is done: processes of this machine, or a Dask cluster. Both are a ``concurrent.futures.Executor``.

Workers die: they are killed for memory, their machine is taken away. A pool whose worker died is replaced and what
was under way is submitted again, a bounded number of times; a Dask scheduler does the same by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

from exporter.errors import ConfigError, ExporterError

TRIES = 3
"""How often a piece of work is submitted when workers die over it."""

SILENT_SECONDS = 30.0
"""After this long without a result the executor checks whether a worker died silently."""

CONNECT_SECONDS = 15

CLUSTER_AT_ONCE = 64
"""Pieces that are submitted to a cluster at a time."""

_THREADS = "POLARS_MAX_THREADS"

Work = TypeVar("Work")
Result = TypeVar("Result")
Started = Callable[[], AbstractContextManager[Executor]]
"""Starts an executor; it is shut down when the context ends."""


class WorkerDiedError(ExporterError):
    """Workers died again and again over one piece of work."""


class Processes(ProcessPoolExecutor):
    """Processes of this machine, which can be freed from one that died while it sent its result."""

    def free(self) -> None:
        """End all workers where one died and the pool waits for the rest of what it said: it would wait for ever."""
        workers = list((self._processes or {}).values())
        if any(not worker.is_alive() for worker in workers):
            for worker in workers:
                worker.kill()
            self._result_queue._writer.close()  # type: ignore[attr-defined]


def started(workers: int | None, scheduler: str | None) -> tuple[Started, int]:
    """What does the work, as a command names it, and how many pieces it is given at a time. Raises `ConfigError`."""
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        return partial(processes, count), 2 * count
    if workers is not None:
        raise ConfigError("--workers is for processes of this machine; a cluster (--scheduler) has its own")
    return partial(dask_cluster, scheduler), CLUSTER_AT_ONCE


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
        yield client.get_executor(retries=TRIES - 1, pure=False)
    finally:
        client.close()


class Workers:
    """An executor that is started when there is work, and again when its workers died."""

    def __init__(self, start: Started) -> None:
        self._start = start
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _submit(self, function: Callable[[Work], Result], piece: Work) -> Future[Result]:
        if self._executor is None:
            self._executor = self._stack.enter_context(self._start())
        try:
            return self._executor.submit(function, piece)
        except BrokenProcessPool as error:  # a worker died in the meantime
            lost = Future[Result]()
            lost.set_exception(error)
            return lost

    def run_all(
        self, function: Callable[[Work], Result], work: Iterable[Work], at_once: int
    ) -> Iterator[tuple[Work, Result]]:
        """Do all work, giving each piece with its result as it is finished, in no promised order.

        ``at_once`` pieces are taken up at a time. Raises `WorkerDiedError` where workers died `TRIES` times over one.
        """
        todo = iter(work)
        tries: dict[Future[Result], tuple[Work, int]] = {}
        while True:
            while len(tries) < at_once and (piece := next(todo, None)) is not None:
                tries[self._submit(function, piece)] = piece, 1
            if not tries:
                return
            finished, _ = wait(tries, timeout=SILENT_SECONDS, return_when=FIRST_COMPLETED)
            if not finished and isinstance(self._executor, Processes):
                self._executor.free()
            lost: list[tuple[Work, int]] = []
            for future in finished:
                piece, count = tries.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    lost.append((piece, count))
                    continue
                yield piece, result
            if lost:  # a dead worker takes the whole pool with it: what else is out is lost as well
                lost += tries.values()
                tries.clear()
                self._stack.close()
                self._executor = None
                for piece, count in lost:
                    if count >= TRIES:
                        name = str(getattr(piece, "name", piece))[:200]
                        raise WorkerDiedError(f"workers died {TRIES} times over {name}; use fewer --workers")
                    tries[self._submit(function, piece)] = piece, count + 1
