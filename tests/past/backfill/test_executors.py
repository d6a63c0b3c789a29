"""Work on many workers: every piece has its result once, and a worker that dies is reported."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, Future
from pathlib import Path
from typing import Any

import pytest

from exporter import __version__
from exporter.errors import ConfigError, ExitCode
from exporter.localnet.player import RecordedNetwork
from exporter.past.backfill import executors
from exporter.past.backfill.executors import WorkerDiedError, dask_cluster, processes, run_all, workers_of
from exporter.past.backfill.lake_job import LakeJob
from exporter.stores.memory import MemoryStore
from tests.past.backfill.recorded_lake import IN_LINE, history_of, make_lake


def double(number: int) -> int:
    return 2 * number


def test_work_is_taken_up_as_there_is_room() -> None:
    """Of a long stream only this many pieces are held at a time, and each has its result once."""
    taken: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    done = {}
    for piece, result in run_all(IN_LINE, double, stream(), 4):
        done[piece] = result
        assert len(taken) <= len(done) + 2 * 4
    assert {number: 2 * number for number in range(100)} == done


def killed_while_it_reports(number: int) -> None:
    """Kill its own process in the middle of a result: the pool waits for the rest of it."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1_000) + b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_while_it_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ends and says how to go on, and does not wait for ever."""
    monkeypatch.setattr(executors, "SILENT_SECONDS", 0.5)

    with processes(1) as executor, pytest.raises(WorkerDiedError, match="run the same command again to continue"):
        list(run_all(executor, killed_while_it_reports, range(4), 4))


def test_processes_or_a_cluster() -> None:
    """Processes of this machine and a cluster are not asked for together."""
    with pytest.raises(ConfigError, match=r"a cluster \(--scheduler\) has its own"):
        workers_of(1, "tcp://127.0.0.1:1")


@pytest.mark.slow
def test_no_scheduler() -> None:
    """Where no scheduler answers, the error names the address and what was wanted."""
    pytest.importorskip("distributed", reason="dask.distributed, an optional extra, is not installed")
    with pytest.raises(ConfigError, match=r"--scheduler tcp://127\.0\.0\.1:9: no Dask scheduler answers there"):  # noqa: SIM117
        with dask_cluster("tcp://127.0.0.1:9"):
            pass


class Lost(Executor):
    """A cluster whose futures all end with one error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def submit(self, *given: object, **named: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(self._error)
        return future


def error_of_the_cluster() -> Exception:
    """An error of Dask's own, as a worker that died too often gives it."""
    kind = type("KilledWorker", (Exception,), {"__module__": "distributed.scheduler"})
    error: Exception = kind("a piece of work")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [(CancelledError(), "the scheduler is gone"), (error_of_the_cluster(), r"lost a piece of work.*KilledWorker")],
)
def test_a_cluster_that_loses_its_work_says_how_to_continue(error: BaseException, said: str) -> None:
    """A scheduler that dies, or a worker that dies over its work again and again, is no bug of the exporter."""
    with pytest.raises(WorkerDiedError, match=f"{said}.*run the same command again to continue") as caught:
        list(run_all(Lost(error), double, range(4), 4))

    assert ExitCode.SOURCE == caught.value.exit_code


def test_what_the_work_itself_raises_stays() -> None:
    """An error of the work is not taken for one of the cluster."""
    with pytest.raises(ValueError, match="mine"):
        list(run_all(Lost(ValueError("mine")), double, range(4), 4))


class Client:
    """A client of a Dask scheduler whose workers answer with these versions of the exporter, or with an error."""

    def __init__(self, versions: dict[str, str] | Exception | None) -> None:
        self._versions = versions

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if self._versions is None:
            raise TimeoutError(f"{count} in {timeout}")

    def run(self, function: object) -> dict[str, str]:
        if isinstance(self._versions, Exception):
            raise self._versions
        return self._versions or {}


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (None, "no worker joined the scheduler within 60 s"),
        (ModuleNotFoundError("exporter"), r"could not say which exporter it has \(ModuleNotFoundError\)"),
        ({"a": __version__, "b": "0.1"}, "worker b has version 0.1 of the exporter"),
    ],
)
def test_workers_that_cannot_do_the_work_are_refused_first(
    versions: dict[str, str] | Exception | None, said: str
) -> None:
    """No workers, workers without the exporter, and workers with another version end the command before any work."""
    with pytest.raises(ConfigError, match=said):
        executors._require_workers(Client(versions), "tcp://127.0.0.1:1")

    executors._require_workers(Client({"a": __version__}), "tcp://127.0.0.1:1")


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three workers, each a process of its own with a nanny that starts it again."""
    distributed: Any = pytest.importorskip("distributed", reason="dask.distributed, an extra, is not installed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.mark.slow
# The cluster's own threads and sockets end a moment after it is closed.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_that_loses_a_worker(cluster: Any, tmp_path: Path) -> None:
    """A worker of a Dask cluster that is killed with work in its hands changes no byte."""
    network = RecordedNetwork(close_seconds=600)
    lake = make_lake(tmp_path, network, 300)
    expected, store = MemoryStore(), MemoryStore()
    with processes(1) as executor:
        lake.backfill(7_200, expected, executor=executor, range_ledgers=10)
    seen = threading.Event()

    def kill_one() -> None:
        seen.wait(60)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    plan = lake.plan(7_200, range_ledgers=10)
    with dask_cluster(cluster.scheduler_address) as executor:
        job = LakeJob(plan, store, MemoryStore(), executor, at_once=6, on_progress=lambda *_: seen.set())
        result = job.run()
    killer.join()

    assert result.added == result.boundaries > 0
    assert history_of(expected) == history_of(store)
