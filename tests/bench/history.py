"""Thirty days of runs every five minutes over 100 pools: what the history weighs, and what compaction is worth."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import perf_counter

import duckdb
import polars as pl

from exporter.deployments.local import made_address
from exporter.history.manifest import extend_history, read_history_manifest
from exporter.history.parquet import render_history
from exporter.publishing.compaction import compact_history
from exporter.stores.folder import FolderStore
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX
from exporter.tree.read_back import render_document
from tests.bench.timing import Finding, Spread, Target, duel
from tests.history.bucket_judge import Observation
from tests.history.runs import frame_of

DAYS, SECONDS = 30, 300
QUICK_DAYS, QUICK_SECONDS = 2, 7_200
POOLS, TOKENS = 100, 12
BEGIN = 1_793_491_200  # 2026-11-01T00:00:00Z

QUERY = """
    SELECT token_address, avg(supply_apy_bps) AS supply, avg(borrow_apy_bps) AS borrow, sum(total_supplied) AS supplied
    FROM read_parquet(?) GROUP BY token_address ORDER BY token_address
"""
"""A typical query: the average rates of 30 days for each token, over all markets."""


def run(quick: bool = False) -> list[Finding]:
    """Bytes a row, the query's time, compaction's time and memory."""
    folder = Path(tempfile.mkdtemp(prefix="exporter-history-"))
    try:
        return _measure(folder, *((QUICK_DAYS, QUICK_SECONDS) if quick else (DAYS, SECONDS)))
    finally:
        shutil.rmtree(folder)


def _measure(folder: Path, days: int, seconds_apart: int) -> list[Finding]:
    store = FolderStore(folder / "tree")
    write_runs(store, days, seconds_apart)
    before = _files(store)
    rows = sum(file.rows for file in before)

    began = perf_counter()
    peak = _compacted_in_a_process(store.uri)
    seconds = perf_counter() - began
    by_day = _files(store)
    month = FolderStore(folder / "month")
    shutil.copytree(folder / "tree", folder / "month")
    _move_on(month, days)
    compact_history(month, months=0)
    by_month = _files(month)[:1]

    connection = duckdb.connect()

    def query(store: FolderStore, files: list[HistoryFile]) -> list[tuple[object, ...]]:
        return connection.execute(QUERY, [[f"{store.uri}/{file.key}" for file in files]]).fetchall()

    def rates(pools: pl.LazyFrame) -> pl.DataFrame:
        means = (pl.col("supply_apy_bps", "borrow_apy_bps").mean(), pl.col("total_supplied").sum())
        return pools.group_by("token_address").agg(*means).sort("token_address").collect(engine="streaming")

    table, files = f"{month.uri}/{HISTORY_PREFIX}", [f"{month.uri}/{file.key}" for file in _files(month)]
    assert rates(pl.scan_delta(table)).equals(rates(pl.scan_parquet(files, hive_partitioning=False)))
    versus_files = duel(
        lambda: rates(pl.scan_parquet(files, hive_partitioning=False)), lambda: rates(pl.scan_delta(table)), rounds=15
    )
    newest = before[-1].last_ledger
    old = [file for file in before if (folder / "tree" / file.key).exists()]
    assert len(old) == len(before), "the files that were compacted are still there"
    expected = query(store, before)
    assert expected == query(store, by_day)
    where = f"{rows:,} rows in {len(before):,} files"
    versus_day = duel(lambda: query(store, by_day), lambda: query(store, before), rounds=5)
    versus_month = duel(lambda: query(month, by_month), lambda: query(store, before), rounds=5)
    sizes = {"uncompacted": sum(f.bytes for f in before) / rows, "by_day": sum(f.bytes for f in by_day) / rows}
    facts = {name: f"{size:.1f} B a row" for name, size in sizes.items()}
    month_rows = sum(file.rows for file in by_month)
    facts["by_month"] = f"{sum(file.bytes for file in by_month) / month_rows:.1f} B a row"
    once = Spread(seconds, seconds, seconds, 1)
    return [
        Finding(
            f"{where}: bytes a row, uncompacted / one file a day",
            Spread.of([sizes["uncompacted"] / sizes["by_day"]]), "times as many", None, facts | {"ledgers_to": newest},
        ),
        Finding(
            f"30-day average rates by token in DuckDB: {len(before):,} files / {len(by_day)} of a day each",
            versus_day.ratio, "times as long", Target(5),
            {"uncompacted_s": round(versus_day.theirs.median, 3), "by_day_s": round(versus_day.ours.median, 4)},
        ),
        Finding(
            f"the same: {len(before):,} files / one file of the month", versus_month.ratio, "times as long", Target(5),
            {"by_month_s": round(versus_month.ours.median, 4)},
        ),
        Finding(
            f"the same in Polars, compacted by month: the Delta table / a scan of its {len(files)} files",
            versus_files.ratio, "times as long", Target(1.2, at_least=False),
            {"table_s": round(versus_files.theirs.median, 4), "files_s": round(versus_files.ours.median, 4)},
        ),
        Finding("compaction of all days, in a process of its own", once, "s", None, {"peak_memory_mb": peak}),
    ]  # fmt: skip


def write_runs(store: FolderStore, days: int, seconds_apart: int = SECONDS) -> None:
    """Every run's file and the manifest; numbers move from run to run as those of real pools do."""
    manifest = None
    for ledger, time, frame in _runs(days, seconds_apart):
        part = render_history(frame, observed_ledger=ledger, ledger_close_time=time, network="made")
        store.put_new(part.file.key, part.file.data)
        manifest = extend_history(manifest, part.entry) if manifest is None else _appended(manifest, part.entry)
    assert manifest is not None
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)


def _appended(manifest: HistoryManifest, entry: HistoryFile) -> HistoryManifest:
    """The manifest with one more entry at its end, without looking at all others as a publisher does."""
    manifest.files.append(entry)
    return HistoryManifest(manifest.schema_version, entry.last_ledger, manifest.files)


def _runs(days: int, seconds_apart: int) -> Iterator[tuple[int, int, pl.DataFrame]]:
    random = Random(1)
    places = [(made_address(f"market {pool // 5}"), made_address(f"token {pool % TOKENS}")) for pool in range(POOLS)]
    supplied = [random.randrange(10**9, 10**15) for _ in places]
    borrowed = [amount // random.randint(2, 9) for amount in supplied]
    for number in range(days * 86_400 // seconds_apart):
        ledger, time = 60_000_000 + number * 58, BEGIN + number * seconds_apart
        for pool in range(POOLS):  # interest in each, an operation in some
            borrowed[pool] += borrowed[pool] // 1_000_000
            supplied[pool] += supplied[pool] // 2_000_000
            if random.random() < 0.1:
                supplied[pool] += random.randrange(10**7, 10**10)
        observations = [
            Observation(
                market=market, pool=token, ledger=ledger, time=time, total_supplied=supplied[pool],
                total_borrowed=borrowed[pool], supply_apy_bps=borrowed[pool] * 500 // supplied[pool],
                borrow_apy_bps=borrowed[pool] * 900 // supplied[pool],
                utilization_bps=borrowed[pool] * 10_000 // supplied[pool], tvl_usd_cents=supplied[pool] // 10**5,
                token=token, protocol="blend", active=True, decimals=7, price=(10**14 + number * 10**9, 14),
            )
            for pool, (market, token) in enumerate(places)
        ]  # fmt: skip
        yield ledger, time, frame_of(observations, ledger, time)


def _move_on(store: FolderStore, days: int) -> None:
    """One run in the month after, so that the month before is over."""
    ledger, time = 70_000_000, BEGIN + max(days, 30) * 86_400 + 86_400
    part = render_history(frame_of([], ledger, time), observed_ledger=ledger, ledger_close_time=time, network="made")
    store.put_new(part.file.key, part.file.data)
    store.put(HISTORY_MANIFEST_KEY, render_document(extend_history(read_history_manifest(store), part.entry)).data)


def _compacted_in_a_process(uri: str) -> int:
    """Compact by the command; gives the peak memory of that process in MB."""
    command = [sys.executable, "-m", "exporter", "history", "compact", uri, "--log-format", "json"]
    subprocess.run(command, check=True, capture_output=True, env=os.environ)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024


def _files(store: FolderStore) -> list[HistoryFile]:
    manifest = read_history_manifest(store)
    assert manifest is not None
    return manifest.files
