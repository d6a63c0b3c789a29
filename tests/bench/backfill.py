"""A backfill of 500 ledger snapshot files: two processes against one, and a cluster that loses a worker."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from exporter.backfill.executors import dask_cluster, processes
from exporter.backfill.job import backfill
from exporter.config import load
from exporter.localnet.made import MadeNetwork
from exporter.stores.folder import FolderStore
from tests.bench.timing import Finding, Spread
from tests.snapshot_files import write_snapshots

FILES, QUICK_FILES = 500, 4
POOLS, QUICK_POOLS = 40, 4


def run(quick: bool = False) -> list[Finding]:
    """The time of each, and that all three give the same bytes."""
    folder = Path(tempfile.mkdtemp(prefix="exporter-backfill-"))
    try:
        return _measure(folder, *((QUICK_FILES, QUICK_POOLS) if quick else (FILES, POOLS)), cluster=not quick)
    finally:
        shutil.rmtree(folder)


def _measure(folder: Path, count: int, pools: int, *, cluster: bool) -> list[Finding]:
    files = write_snapshots(MadeNetwork(pools=pools, alula_markets=1, close_seconds=600), folder / "snapshots", count)
    size = sum(file.stat().st_size for file in files) / count
    seconds: dict[str, float] = {}
    trees = {}
    for name, workers in (("one", 1), ("two", 2)):
        trees[name], seconds[name] = _timed(folder / name, files, partial(processes, workers), 2 * workers)
    facts: dict[str, object] = {f"{name}_s": round(value, 1) for name, value in seconds.items()}
    facts |= {"files": count, "kB_a_file": round(size / 1000)}
    findings = [
        Finding(
            f"{count} snapshot files: one process / two processes, the same bytes",
            Spread.of([seconds["one"] / seconds["two"]]), "times as long", None, facts,
        )
    ]  # fmt: skip
    assert trees["one"] == trees["two"], "one and two processes gave different bytes"
    clustered = _on_a_cluster(folder / "dask", files) if cluster else None
    if clustered is not None:
        tree, took, killed = clustered
        assert killed, "the backfill was over before a worker was killed"
        assert tree == trees["one"], "the cluster gave different bytes"
        title = f"{count} snapshot files: a Dask cluster of two that loses a worker / two processes, the same bytes"
        findings.append(Finding(title, Spread.of([took / seconds["two"]]), "times as long"))
    return findings


def _timed(
    out: Path, files: list[Path], start: Any, at_once: int, on_file: Any = None
) -> tuple[dict[str, bytes], float]:
    settings = load(None, {"network.name": "local"}, environment={}).settings
    store = FolderStore(out)
    began = time.perf_counter()
    result = backfill(store, settings, files, start, at_once=at_once, on_file=on_file or (lambda: None))
    seconds = time.perf_counter() - began
    assert (len(files), {}) == (result.added, result.failed)
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.parquet")}, seconds


def _on_a_cluster(out: Path, files: list[Path]) -> tuple[dict[str, bytes], float, bool] | None:
    try:
        import distributed
    except ImportError:
        return None
    done: list[None] = []
    killed = threading.Event()
    with distributed.LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:

        def kill_one() -> None:
            while len(done) < len(files) // 4:
                time.sleep(0.01)
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            killed.set()

        threading.Thread(target=kill_one, daemon=True).start()
        start = partial(dask_cluster, cluster.scheduler_address)
        tree, seconds = _timed(out, files, start, 8, lambda: done.append(None))
    return tree, seconds, killed.is_set()
