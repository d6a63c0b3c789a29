"""A long past: a hundred thousand ledgers of six protocols, and a cluster that loses a worker."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exporter.backfill.executors import dask_cluster, processes
from exporter.backfill.lake_job import LakeJob
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from tests.backfill.histories import history_of
from tests.backfill.recorded_lake import RecordedLake, make_lake

pytestmark = [
    pytest.mark.slow,
    # The cluster's own threads and sockets end a moment after it is closed.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

LEDGERS = 20_000
EVERY = 4 * 3600  # of ledgers of 5 seconds: 2,880


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> RecordedLake:
    """More than a day in ledgers of five seconds, 64 an object; markets are deployed on the way."""
    network = RecordedNetwork(moves_per_ledger=1)
    boundary = 1_440  # of 12:00, two hours after the first ledger
    return make_lake(
        tmp_path_factory.mktemp("recorded"),
        network,
        LEDGERS,
        ledgers_per_batch=64,
        batches_per_partition=100,
        live_at=[count for count in (boundary, boundary + 3 * 2_880, boundary + 6 * 2_880) if count <= LEDGERS],
        events={
            LEDGERS // 3: lambda played: played.deploy("a pool"),
            LEDGERS // 2: lambda played: played.deploy("another"),
        },
    )


def test_a_long_past_is_that_of_live_runs(lake: RecordedLake) -> None:
    """Backfilled rows are those that live runs published, at the beginning, in the middle and near the end."""
    store = MemoryStore()
    result = lake.backfill(partial(processes, 2), EVERY, store, range_ledgers=2_048)
    backfilled = history_of(store)

    assert ({}, {}, {}) == (result.failed, result.refused, result.tally.differing)
    assert lake.live
    for key, data in lake.live.items():
        assert data == backfilled[key]


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three workers, each a process of its own with a nanny that starts it again."""
    distributed: Any = pytest.importorskip("distributed", reason="dask.distributed, an extra, is not installed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster


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
