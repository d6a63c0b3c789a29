"""Runs at consecutive ledgers that closed in the same second, as protocol 30 allows (CAP-88)."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from exporter.audit.published_tree import check_files
from exporter.history.series import STATE_KEY
from exporter.localnet.player import RecordedNetwork
from exporter.stores import open_store
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only

BOUNDARY = 1_795_219_200
"""2026-11-21 00:00:00 UTC: where buckets of every length but the week begin, and a day of the history."""

STEPS = (0, 1, 0, 300, 0)
"""Seconds from each run's ledger to the next one's; the first two closed in the second before the boundary."""


@pytest.mark.slow
def test_runs_of_one_second(tmp_path: Path) -> None:
    """Every run has its rows, those of a day that closed in one file; runs of one second are in one bucket."""
    network, ledgers = RecordedNetwork(start_time=BOUNDARY - 1), list[int]()
    settings = settings_for(tmp_path, **only("slender"))
    for network.close_seconds in STEPS:
        ledgers.append(run(settings, network=network)[1]["certificate"]["ledger"])
        network.advance()
    open_store(str(tmp_path)).delete([STATE_KEY])
    ledgers.append(run(settings, network=network)[1]["certificate"]["ledger"])
    check_files(str(tmp_path))
    files = json.loads((tmp_path / "v1/history.json").read_bytes())["files"]
    rows = pl.concat(pl.read_parquet(tmp_path / file["key"]) for file in files)
    runs = rows.group_by("observed_ledger", pl.col("ledger_close_time").dt.epoch("s")).len().sort("observed_ledger")
    times = [BOUNDARY - 1 + sum(STEPS[:count]) for count in range(6)]
    (pool, *_) = sorted(tmp_path.glob("v1/assets/*/*/history"))
    buckets = [json.loads((pool / name).read_bytes())["data"][-1] for name in ("1d.json", "5m.json")]

    assert [1, 0, 0, 0, 0] == [file["last_ledger"] - file["first_ledger"] for file in files]
    assert list(zip(ledgers, times, strict=True)) == [row[:2] for row in runs.iter_rows()]
    assert 1 == runs["len"].n_unique()
    assert ["2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"] == [bucket["start_time"] for bucket in buckets]
    assert [2, 2] == [bucket["observation_count"] for bucket in buckets]
    assert [1, 1] == [bucket["last_ledger"] - bucket["first_ledger"] for bucket in buckets]
