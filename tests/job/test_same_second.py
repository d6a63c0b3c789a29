"""Runs at consecutive ledgers that closed in the same second, as protocol 30 allows (CAP-88)."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from exporter.check.published_tree import check_files
from exporter.history.series import STATE_KEY
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores import open_store
from tests.jobs import on_chain, run, settings_for

BOUNDARY = 1_795_219_200
"""2026-11-21 00:00:00 UTC: where buckets of every length but the week begin, and a day of the history."""

STEPS = (0, 1, 0, 300, 0)
"""Seconds from each run's ledger to the next one's; the first two closed in the second before the boundary."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the runs published, one at each ledger; the last one had lost the state of the buckets."""
    out = tmp_path_factory.mktemp("out")
    network = RecordedNetwork(start_time=BOUNDARY - 1)
    with running(create_app(network)) as url:
        settings = settings_for(out, url)
        for network.close_seconds in STEPS:
            assert 0 == run(settings)[0]
            network.advance()
        open_store(str(out)).delete([STATE_KEY])
        assert 0 == run(settings)[0]
        assert [] == on_chain(settings).differences
    return out


def test_the_tree(tree: Path) -> None:
    """It passes the check, which computes every history again from the Parquet files.

    That the contracts' own view functions agree, where no time passed since the last accrual, is in the fixture.
    """
    check_files(str(tree))


def test_the_history(tree: Path) -> None:
    """Every run has its rows; those of a day that closed are in one file, which the check reads like any other."""
    files = json.loads((tree / "v1/history.json").read_bytes())["files"]
    paths = [str(tree / file["key"]) for file in files]
    found = duckdb.sql(
        f"select observed_ledger, epoch(ledger_close_time)::bigint, count(*) from read_parquet({paths}) "
        "group by all order by all"
    )
    assert found is not None
    rows = found.fetchall()
    ledgers, times, counts = (list(column) for column in zip(*rows, strict=True))

    assert [1, 0, 0, 0, 0] == [file["last_ledger"] - file["first_ledger"] for file in files]
    assert list(range(ledgers[0], ledgers[0] + 6)) == ledgers
    assert [BOUNDARY - 1 + sum(STEPS[:count]) for count in range(6)] == times
    assert 1 == len(set(counts))


def test_the_buckets(tree: Path) -> None:
    """The two runs of the last second of a day are one bucket of that day, the next two one of five minutes."""
    (pool, *_) = sorted(tree.glob("v1/assets/*/*/history"))
    buckets = [json.loads((pool / name).read_bytes())["data"][-1] for name in ("1d.json", "5m.json")]

    assert ["2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"] == [bucket["start_time"] for bucket in buckets]
    assert [2, 2] == [bucket["observation_count"] for bucket in buckets]
    assert [1, 1] == [bucket["last_ledger"] - bucket["first_ledger"] for bucket in buckets]
