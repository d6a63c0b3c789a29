"""Where the work is done: processes of this machine, or a Dask cluster. Both are a ``concurrent.futures.Executor``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import get_context
from typing import Any, TypeVar

from exporter import __version__
from exporter.errors import ConfigError, ExitCode, ExporterError

CLUSTER_RETRIES = 2
"""How often a cluster does a piece of work again whose worker died."""

SILENT_SECONDS = 30.0
"""After this long without a result, processes of this machine are looked at: one may have died over its result."""

CONNECT_SECONDS = 15

WORKERS_SECONDS = 60
"""How long the first worker of a cluster is waited for."""

CLUSTER_AT_ONCE = 64
"""Pieces that are submitted to a cluster at a time."""

_THREADS = "POLARS_MAX_THREADS"

Work = TypeVar("Work")
Result = TypeVar("Result")


class WorkerDiedError(ExporterError):
    """The workers are gone, or one died over its work again and again; what was finished is kept."""

    exit_code = ExitCode.SOURCE


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

    Before any work is given out, each worker is asked for its version of the exporter: a worker without it, or with
    another one, would fail or write other bytes. Raises `ConfigError` where dask.distributed is not installed, no
    scheduler answers, no worker comes within `WORKERS_SECONDS`, or the versions differ.
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
        _require_workers(client, address)
        yield client.get_executor(retries=CLUSTER_RETRIES, pure=False)
    finally:
        with suppress(Exception):  # of a scheduler that is gone
            client.close()


def _require_workers(client: Any, address: str) -> None:
    """Wait for a worker, and see that all have this version of the exporter. Raises `ConfigError`."""
    try:
        client.wait_for_workers(1, timeout=WORKERS_SECONDS)
    except TimeoutError:
        raise ConfigError(
            f"--scheduler {address}: no worker joined the scheduler within {WORKERS_SECONDS} s; start workers "
            "(`dask worker ADDRESS`) in an environment with this exporter, and run the same command again"
        ) from None
    try:
        versions: dict[str, str] = client.run(_version_of_the_exporter)
    except Exception as error:  # whatever a worker without the package, or of another Dask, answers
        raise ConfigError(
            f"--scheduler {address}: a worker could not say which exporter it has ({type(error).__name__}); install "
            f"version {__version__} of the exporter, with the same versions of Python and Dask, on every worker"
        ) from None
    others = {worker: version for worker, version in versions.items() if version != __version__}
    if others:
        worker, version = min(others.items())
        raise ConfigError(
            f"--scheduler {address}: worker {worker} has version {version} of the exporter, and this is {__version__}; "
            "install the same version on every worker"
        )


def _version_of_the_exporter() -> str:
    import exporter

    return exporter.__version__


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
                yield pending.pop(future), _result_of(future)
    except BrokenProcessPool:
        raise WorkerDiedError(
            "a worker died, as one does that uses too much memory; run the same command again to continue, perhaps "
            "with fewer --workers"
        ) from None


def _result_of(future: Future[Result]) -> Result:
    """A result. Raises `WorkerDiedError` where a cluster lost the work, and what the work itself raised."""
    try:
        return future.result()
    except CancelledError:
        why = "the scheduler is gone, and with it the work that it had"
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("distributed", "dask", "tornado"):
            raise
        why = f"the cluster lost a piece of work {CLUSTER_RETRIES + 1} times or more ({type(error).__name__})"
    raise WorkerDiedError(
        f"{why}; what was finished is kept: run the same command again to continue, once the cluster is well"
    ) from None
