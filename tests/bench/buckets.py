"""One more hourly run after thirty days of them: what carrying the histories in buckets on costs, a pool."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time

import msgspec
import polars as pl

from exporter.deployments.local import made_address
from exporter.history.buckets import OBSERVATIONS
from exporter.history.periods import periods_of
from exporter.history.series import Series, load_series, save_series
from exporter.stores.folder import FolderStore
from exporter.tree.documents import HistoryFile, HistoryManifest
from tests.bench.child import run_child
from tests.bench.timing import Finding, Spread, Target

RUNS, SECONDS, BATCH = 720, 3_600, 24
BEGIN = 1_793_491_200  # 2026-11-01T00:00:00Z
SIZES, QUICK_SIZES, QUICK_RUNS = (200, 1_000), (4, 8), 30


def run(quick: bool = False) -> list[Finding]:
    """Processor time and peak memory of the histories' part of a run, at two sizes and as one pool more costs."""
    sizes, runs = (QUICK_SIZES, QUICK_RUNS) if quick else (SIZES, RUNS)
    found = []
    for pools in sizes:
        folder = Path(tempfile.mkdtemp(prefix="exporter-buckets-"))
        try:
            _carry_on(folder, pools, runs)
            cost = run_child([sys.executable, "-m", "tests.bench.buckets", str(folder), str(pools), str(runs)])
            found.append((cost.peak_bytes, json.loads(cost.output)))
        finally:
            shutil.rmtree(folder)
    (small, _), (large, seconds) = found
    growth = max(0, large - small) / (sizes[1] - sizes[0]) / 1000
    once = Spread.of([sum(seconds.values())])
    return [
        Finding(
            f"histories of {sizes[1]:,} pools after {runs} hourly runs: one run more, all newest documents rendered",
            once, "s of processor time", None, seconds | {"peak_mb": large // 10**6},
        ),
        Finding(
            f"memory that a pool more takes, between {sizes[0]:,} and {sizes[1]:,} pools", Spread.of([growth]),
            "kB", Target(25, at_least=False),
        ),
    ]  # fmt: skip


def _carry_on(folder: Path, pools: int, runs: int) -> None:
    """Keep the state after so many runs."""
    series = Series()
    batch: list[pl.DataFrame] = []
    for number, rows in enumerate(_observations(pools, runs)):
        batch.append(rows)
        if len(batch) == BATCH or number == runs - 1:
            for _ in series.extend(pl.concat(batch), number + 1, BEGIN + number * SECONDS):
                pass
            batch.clear()
    save_series(FolderStore(folder), series)


def _observations(pools: int, runs: int) -> Iterator[pl.DataFrame]:
    """The rows of each run; numbers move as those of real pools do."""
    random = Random(1)
    places = sorted((made_address(f"market {pool // 7}"), made_address(f"token {pool % 70}")) for pool in range(pools))
    supplied = [random.randrange(10**9, 10**15) for _ in places]
    borrowed = [amount // random.randint(2, 9) for amount in supplied]
    for number in range(runs):
        supplied = [amount + amount // 2_000_000 for amount in supplied]
        borrowed = [amount + amount // 1_000_000 for amount in borrowed]
        price = 10**14 + number * 10**9
        rows = [
            (
                market, token, token, "blend", number + 1, BEGIN + number * SECONDS, lent, owed, owed * 500 // lent,
                owed * 900 // lent, owed * 10_000 // lent, lent * price // 10**19, price, 14, lent * price // 10**19,
                owed * price // 10**19, True,
            )
            for (market, token), lent, owed in zip(places, supplied, borrowed, strict=True)
        ]  # fmt: skip
        yield pl.DataFrame(rows, OBSERVATIONS, orient="row")


def _one_run_more(folder: Path, pools: int, runs: int) -> None:
    """What a run does with its histories; prints the processor time of each step."""
    store = FolderStore(folder)
    spans = HistoryFile("x", "x", pools * runs, 1, "0" * 64, 1, runs, 1)
    time = BEGIN + runs * SECONDS
    last = pl.col("observed_ledger") + runs
    [rows] = _observations(pools, 1)
    rows = rows.with_columns(last, pl.lit(time, pl.Int64).alias("ledger_close_time"))
    began, seconds = process_time(), {}

    def done(step: str) -> None:
        nonlocal began
        seconds[f"{step}_s"] = round(process_time() - began, 3)
        began = process_time()

    series = load_series(store, HistoryManifest(1, runs, [spans]), runs + 1)
    assert series.through_ledger == runs
    done("load")
    for _ in series.extend(rows, runs + 1, time):
        pass
    done("take_in")
    for _ in series.heads():
        pass
    done("render")
    for _ in periods_of(series.pools, time, rows):
        pass
    done("periods")
    save_series(store, series)
    done("save")
    sys.stdout.write(msgspec.json.encode(seconds).decode())


if __name__ == "__main__":
    _one_run_more(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
