"""Work on many workers: every piece has its result once, whatever becomes of the workers."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exporter.backfill import executors
from exporter.backfill.executors import WorkerDiedError, Workers, dask_cluster, processes, started
from exporter.backfill.lake_job import LakeJob
from exporter.errors import ConfigError
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from tests.backfill.histories import history_of, in_line
from tests.backfill.recorded_lake import make_lake


class FragileExecutor(Executor):
    """An executor whose workers die over some pieces of work, each for a number of times."""

    deaths: ClassVar[dict[int, int]] = {}

    def __init__(self) -> None:
        self._broken = False

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        piece = arguments[0]
        if self._broken:
            raise BrokenProcessPool("a worker died before")
        if self.deaths.get(piece, 0):
            self._broken = True
            self.deaths[piece] -= 1
            future.set_exception(BrokenProcessPool("a worker died"))
        else:
            future.set_result(function(*arguments, **keywords))
        return future


@contextmanager
def fragile() -> Iterator[Executor]:
    yield FragileExecutor()


def double(number: int) -> int:
    return 2 * number


class TestRunAll:
    @pytest.mark.parametrize("at_once", [1, 3, 50])
    def test_dying_workers(self, at_once: int) -> None:
        """Work that was lost with a worker is given out again, and every piece has its result once."""
        FragileExecutor.deaths = {3: 1, 7: 1}
        results = sorted(Workers(fragile).run_all(double, range(20), at_once))

        assert [(number, 2 * number) for number in range(20)] == results

    def test_deadly_work(self) -> None:
        """A piece that kills its workers every time ends the job by its name."""
        FragileExecutor.deaths = {5: 99}
        with pytest.raises(WorkerDiedError, match=r"died 3 times over 5; use fewer --workers"):
            list(Workers(fragile).run_all(double, range(5, 9), 1))

    def test_work_is_taken_up_as_there_is_room(self) -> None:
        """Of a long stream only this many pieces are held at a time."""
        taken: list[int] = []

        def stream() -> Iterator[int]:
            for number in range(100):
                taken.append(number)
                yield number

        done = 0
        for _ in Workers(in_line).run_all(double, stream(), 4):
            assert len(taken) <= done + 2 * 4
            done += 1
        assert 100 == done


def killed_while_it_reported(path_and_marker: tuple[str, str]) -> str:
    """Work that kills its own process the first time, in the middle of a result: the pool waits for the rest of it."""
    path, marker = path_and_marker
    if not Path(marker).exists():
        Path(marker).touch()
        frame = sys._getframe()
        while "result_queue" not in frame.f_locals:
            assert frame.f_back is not None
            frame = frame.f_back
        os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1_000) + b"half of it")
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def test_a_worker_that_is_killed_while_it_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In real processes even a worker that dies in the middle of its result costs nothing: another does its work."""
    monkeypatch.setattr(executors, "SILENT_SECONDS", 0.5)
    work = [(str(number), str(tmp_path / "marker")) for number in range(4)]

    assert sorted(work) == sorted(
        piece for piece, _ in Workers(partial(processes, 1)).run_all(killed_while_it_reported, work, 4)
    )


def test_processes_or_a_cluster() -> None:
    """Processes of this machine and a cluster are not asked for together."""
    with pytest.raises(ConfigError, match=r"a cluster \(--scheduler\) has its own"):
        started(1, "tcp://127.0.0.1:1")


@pytest.mark.slow
def test_no_scheduler() -> None:
    """Where no scheduler answers, the error names the address and what was wanted."""
    pytest.importorskip("distributed", reason="dask.distributed, an optional extra, is not installed")
    with pytest.raises(ConfigError, match=r"--scheduler tcp://127\.0\.0\.1:9: no Dask scheduler answers there"):  # noqa: SIM117
        with dask_cluster("tcp://127.0.0.1:9"):
            pass


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
    lake.backfill(partial(processes, 1), 7_200, expected, range_ledgers=10)
    seen = threading.Event()

    def kill_one() -> None:
        seen.wait(60)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    result = LakeJob(
        lake.plan(7_200, range_ledgers=10),
        store,
        MemoryStore(),
        partial(dask_cluster, cluster.scheduler_address),
        at_once=6,
        on_progress=lambda *_: seen.set(),
    ).run()
    killer.join()

    assert result.added == result.boundaries > 0
    assert history_of(expected) == history_of(store)
