"""DuckDB and Polars next to a compaction: whatever manifest a reader holds, he reads the same rows to the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import duckdb
import polars as pl
import pytest

from exporter.history.parquet import render_history
from exporter.publishing.compaction import compact_history
from exporter.publishing.retention import sweep
from exporter.stores.folder import FolderStore
from exporter.stores.store import utc_now
from tests.publishing.published_tree import TestClock, make_run, publish_run
from tests.readers.trees import DAY, FIRST_LEDGER, LAST_DAY, extreme_frame, record

RETENTION = timedelta(hours=24)
DAYS, RUNS_A_DAY = 6, 4

Facts = tuple[int, int, int]
"""How many rows, the sum of their amounts, and the sum of the ledgers."""


def taken(folder: Path) -> list[str]:
    """The files of the current manifest."""
    manifest = json.loads((folder / "v1" / "history.json").read_bytes())
    return [str(folder / file["key"]) for file in manifest["files"]]


def by_duckdb(files: Sequence[str]) -> Facts:
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT count(*), sum(total_supplied)::HUGEINT, sum(observed_ledger)::BIGINT "
            "FROM read_parquet($files, union_by_name = true, hive_partitioning = false) "
            "WHERE token_address = 'TOKEN-D'",
            {"files": list(files)},
        ).fetchone()
    assert found is not None
    return found


def by_polars(files: Sequence[str]) -> Facts:
    rows = pl.scan_parquet(list(files), hive_partitioning=False).filter(pl.col("token_address") == "TOKEN-D")
    found = rows.select(pl.len(), pl.col("total_supplied").sum(), pl.col("observed_ledger").sum()).collect().row(0)
    return found[0], int(found[1]), found[2]


@pytest.fixture
def tree(tmp_path: Path) -> tuple[FolderStore, TestClock]:
    """A published tree whose history has several days that were not compacted yet."""
    store, clock, random = FolderStore(tmp_path / "public", durable=False), TestClock(), Random(11)
    clock.now = utc_now()  # a sweep compares it with the times of the files
    times = [LAST_DAY - DAY * day + 3600 * hour for day in range(DAYS - 1, -1, -1) for hour in range(RUNS_A_DAY)]
    *earlier, newest = enumerate(times, FIRST_LEDGER)
    for ledger, time in earlier:
        record(store, bounded(random, ledger, time), ledger, time)
    ledger, time = newest
    part = render_history(bounded(random, ledger, time), observed_ledger=ledger, ledger_close_time=time, network="made")
    publish_run(store, replace(make_run(ledger), history=part), clock)
    return store, clock


def bounded(random: Random, ledger: int, time: int) -> pl.DataFrame:
    """A run whose sums over all runs fit."""
    amounts = pl.Series("total_supplied", [random.randrange(10**36) for _ in range(6)], dtype=pl.Int128)
    return extreme_frame(random, ledger, time).with_columns(amounts)


@pytest.mark.parametrize("read", [by_duckdb, by_polars])
def test_reading_while_it_is_compacted(
    read: Callable[[Sequence[str]], Facts], tree: tuple[FolderStore, TestClock]
) -> None:
    """A reader who takes the manifest again and again, while day after day is compacted, always finds the same rows."""
    store, clock = tree
    expected = read(taken(store.root))
    stop, wanted, came = threading.Event(), threading.Event(), threading.Event()
    found: list[tuple[int, Facts]] = []
    failures: list[BaseException] = []

    def reading() -> None:
        try:
            while not stop.is_set():
                files = taken(store.root)
                wanted.set()  # from here on the next day is compacted, while these files are read
                found.append((len(files), read(files)))
                came.set()
        except BaseException as error:
            failures.append(error)
            wanted.set()
            came.set()

    thread = threading.Thread(target=reading)
    thread.start()
    for _ in range(DAYS - 1):
        assert wanted.wait(timeout=20)
        compact_history(store, most=1, now=clock)
        sweep(store, RETENTION, now=clock)
        came.clear()
        wanted.clear()
        assert came.wait(timeout=20)
    wanted.wait(timeout=20)
    stop.set()
    thread.join(timeout=20)

    assert [] == failures
    assert {expected} == {facts for _, facts in found}
    assert len({files for files, _ in found}) >= DAYS - 2  # he saw the manifest change on the way
