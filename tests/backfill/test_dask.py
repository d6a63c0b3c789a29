"""A backfill on a real Dask cluster of several worker processes, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.backfill.executors import dask_cluster
from exporter.backfill.job import backfill
from exporter.config import load
from exporter.errors import ConfigError
from exporter.localnet.made import MadeNetwork
from exporter.stores.memory import MemoryStore
from tests.backfill.test_backfill import fill, history_of
from tests.snapshot_files import write_snapshots

distributed: Any = pytest.importorskip("distributed", reason="dask.distributed, an optional extra, is not installed")

pytestmark = [
    pytest.mark.slow,
    # The cluster's own threads and sockets end a moment after it is closed.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FILES = 60


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three workers, each a process of its own with a nanny that starts it again."""
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster


def test_a_killed_worker_changes_no_byte(cluster: Any, tmp_path: Path) -> None:
    """A worker that is killed with work in its hands costs nothing: the history is that of one process."""
    network = MadeNetwork(pools=12, alula_markets=1, close_seconds=3600)
    files = write_snapshots(network, tmp_path, FILES)
    expected = MemoryStore()
    fill(expected, files)
    done: list[float] = []
    killed = threading.Event()

    def kill_one() -> None:
        while len(done) < FILES // 4:
            time.sleep(0.01)
        victim = next(iter(cluster.workers.values()))
        os.kill(victim.pid, signal.SIGKILL)
        killed.set()

    killer = threading.Thread(target=kill_one)
    killer.start()
    store = MemoryStore()
    settings = load(None, {"network.name": "local"}, environment={}).settings
    result = backfill(
        store, settings, files, partial(dask_cluster, cluster.scheduler_address), at_once=6,
        on_file=lambda: done.append(time.monotonic()),
    )  # fmt: skip
    killer.join()

    assert killed.is_set()
    assert (FILES, {}) == (result.added, result.failed)
    assert history_of(expected) == history_of(store)


def test_no_scheduler() -> None:
    """Where no scheduler answers, the error names the address and what was wanted."""
    with pytest.raises(ConfigError, match=r"--scheduler tcp://127\.0\.0\.1:9: no Dask scheduler answers there"):  # noqa: SIM117
        with dask_cluster("tcp://127.0.0.1:9"):
            pass
