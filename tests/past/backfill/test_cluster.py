"""A Dask cluster as an executor: who may work, the error if work is lost, and how long anything is waited for."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError, ExitCode, WorkerDiedError
from exporter.localnet.player import RecordedNetwork
from exporter.past.backfill import executors
from exporter.past.backfill.cluster import ANSWER_SECONDS, RESULT_SECONDS, Cluster, Versions, _checked, dask_cluster
from exporter.past.backfill.executors import processes, run_all
from exporter.past.backfill.lake_job import LakeJob
from exporter.stores.memory import MemoryStore
from tests.past.backfill.recorded_lake import IN_LINE, history_of, make_lake

# It is looked for, and not imported: that would take each worker of a test run half a second.
if find_spec("distributed") is None:
    pytest.skip("dask.distributed, an optional extra, is not installed", allow_module_level=True)

ADDRESS = "tcp://127.0.0.1:1"
HERE = Versions.here()


def double(number: int) -> int:
    return 2 * number


@pytest.mark.slow
def test_without_a_scheduler_the_error_names_the_address() -> None:
    """If no scheduler answers, the error names the address and what was asked of it."""
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


def lacking_the_exporter() -> ModuleNotFoundError:
    return ModuleNotFoundError("No module named 'exporter'", name="exporter.past")


def test_a_later_worker_without_the_exporter_is_named_so() -> None:
    """Work that a worker cannot unpack because it lacks the package is no bug, and says what to install."""
    with pytest.raises(ConfigError, match=r"has no version .* of the exporter .*run the same command again"):
        list(run_all(Lost(lacking_the_exporter()), double, range(4), 4))

    with pytest.raises(ModuleNotFoundError, match="another"):
        list(run_all(Lost(ModuleNotFoundError("another", name="another")), double, range(4), 4))


@dataclass
class Client:
    """A client of a Dask scheduler.

    Attributes:
        stated: Python, dask and distributed, as the scheduler and each worker state them.
        exporters: what the scheduler and each worker say when they are asked with code of the exporter, or the error.
        workers: how many are there later; None where the scheduler does not answer any more.
    """

    stated: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    exporters: dict[str, Versions | Exception] = field(default_factory=dict)
    has_workers: bool = True
    workers: int | None = 1
    limits: list[float] = field(default_factory=list)

    def get_executor(self, **_: object) -> Executor:
        return IN_LINE

    def wait_for_workers(self, count: int, timeout: float) -> None:
        if not self.has_workers:
            raise TimeoutError(f"{count} in {timeout}")

    def sync(self, question: Callable[..., Any], *given: Any, callback_timeout: float) -> Any:
        self.limits.append(callback_timeout)
        return question(*given)

    def get_versions(self) -> dict[str, Any]:
        own = {"scheduler": HERE[1:], "a": HERE[1:]} | self.stated
        said = {
            name: {"packages": {"python": f"{python}.7.final.0", "dask": dask, "distributed": distributed}}
            for name, (python, dask, distributed) in own.items()
        }
        return {"scheduler": said.pop("scheduler"), "workers": said, "client": {}}

    def _answer(self, name: str) -> Versions:
        answer = self.exporters.get(name, HERE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run_on_scheduler(self, _function: object) -> Versions:
        return self._answer("scheduler")

    def run(self, _function: object) -> dict[str, Versions]:
        return {name: self._answer(name) for name in ("a", "b")}

    def nthreads(self) -> dict[str, int]:
        if self.workers is None:
            raise TimeoutError
        return dict.fromkeys(map(str, range(self.workers)), 1)


OLDER = HERE._replace(exporter="0.1")


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Client(has_workers=False), "no worker joined the scheduler within 60 s"),
        (Client({"scheduler": ("3.9", *HERE[2:])}), r"the scheduler has Python 3\.9, and here it is 3\."),
        (Client({"b": (HERE.python, "1.0", HERE.distributed)}), r"worker b has dask 1\.0, and here it is"),
        (Client({"b": (*HERE[1:3], "")}), r"worker b has distributed not at all"),
        (Client(exporters={"scheduler": lacking_the_exporter()}), r"the scheduler could not say .*ModuleNotFound"),
        (Client(exporters={"scheduler": OLDER}), r"the scheduler has the exporter 0\.1"),
        (Client(exporters={"b": lacking_the_exporter()}), r"a worker could not say which .*\(ModuleNotFoundError\)"),
        (Client(exporters={"b": TimeoutError()}), r"a worker could not say which versions it has \(TimeoutError\)"),
        (Client(exporters={"b": OLDER}), r"worker b has the exporter 0\.1, and here it is"),
    ],
)
def test_machines_that_cannot_do_the_work_are_refused_first(client: Client, said: str) -> None:
    """No workers, and another Python, Dask or exporter anywhere, end the command before any work, within bounds."""
    announced = list[str]()
    with pytest.raises(ConfigError, match=f"^--scheduler {ADDRESS}: .*{said}"):
        Cluster(client, ADDRESS, announced.append).require_same_versions()

    assert [f"waiting up to 60 s for a worker of --scheduler {ADDRESS}"] == announced
    assert {ANSWER_SECONDS} >= set(client.limits)


def test_machines_that_agree_work() -> None:
    """If all have the same versions, the work is done."""
    cluster = Cluster(Client(), ADDRESS, print)
    cluster.require_same_versions()

    assert {0: 0, 1: 2, 2: 4} == dict(run_all(cluster, double, range(3), 2))


def test_a_worker_checks_its_versions_with_each_piece() -> None:
    """A worker that joined later with another version gives no result."""
    assert 4 == _checked(HERE, double, 2)
    with pytest.raises(ConfigError, match=r"has the exporter .*, and here it is 0\.1; .*run the same command again"):
        _checked(OLDER, double, 2)


class Silent(Executor):
    """Takes work, and brings no result."""

    def submit(self, *_given: object, **_named: object) -> Future[Any]:
        return Future()


@pytest.mark.parametrize(
    ("workers", "seconds", "said"),
    [
        (1, RESULT_SECONDS, "none of 1 worker brought a result for 1800 s"),
        (0, 60, "there was no worker for 60 s"),
        (None, 0, r"the scheduler does not answer \(TimeoutError\)"),
    ],
)
def test_a_silent_cluster_is_not_waited_for_for_ever(
    workers: int | None, seconds: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting is announced, and ends: soon without a worker or a scheduler, later with workers that bring nothing."""
    now = -10

    def clock() -> int:
        nonlocal now
        now += 10
        return now

    monkeypatch.setattr(executors, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(executors, "monotonic", clock)
    announced = list[str]()
    client = Client(workers=workers)
    monkeypatch.setattr(client, "get_executor", lambda **_: Silent())
    with pytest.raises(WorkerDiedError, match=f"{said}.*run the same command again to continue"):
        list(run_all(Cluster(client, ADDRESS, announced.append), double, range(4), 4))

    assert max(0, seconds // 10 - 1) == len(announced)
    who = "a worker" if not workers else "a result of 1 worker"
    limit = RESULT_SECONDS if workers else 60
    expected = [f"waiting for {who} of --scheduler {ADDRESS} for 10 s, at most {limit} s"]
    assert (expected if announced else []) == announced[:1]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three workers, each a process of its own with a nanny that starts it again."""
    import distributed

    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
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
