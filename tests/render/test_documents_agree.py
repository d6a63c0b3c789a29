"""What the documents of one run say of each other: sums, counts and rows, computed here from the listing of pools."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from exporter.tree.values import as_written
from tests.check.trees import Files, good_tree, status_of, summaries

Row = dict[str, Any]


@pytest.fixture(scope="module")
def files() -> Files:
    """A tree in which one pool is archived, two have no price, and markets list at most two pools."""
    return good_tree()


@pytest.fixture(scope="module")
def rows(files: Files) -> list[Row]:
    """All pools, from the pages of five."""
    found: list[Row] = []
    key = "v1/assets/limit/5.json"
    while True:
        page = json.loads(files[key])
        found += page["data"]
        if page["next_cursor"] is None:
            return found
        key = f"v1/pages/{page['next_cursor']}.json"


def worth(rows: list[Row]) -> str | None:
    """The value of pools as documents write it; None where none has a price."""
    values = [int(row["tvl_usd_cents"]) for row in rows if row["tvl_usd_cents"] is not None]
    return str(sum(values)) if values else None


def load(files: Files, key: str) -> Any:
    return json.loads(files[key])


def test_markets(files: Files, rows: list[Row]) -> None:
    """A market's value is that of its pools; it counts unread ones, too, and lists the first; the list repeats it."""
    status = status_of(files)
    unread = Counter(item["market"] for item in status["unread"] if item["pool"] is not None)
    markets = {document["market"]: document for key in summaries(files) for document in [load(files, key)]}
    listed = {entry["market"]: entry for entry in load(files, "v1/markets.json")["data"]}

    assert unread
    assert sorted(markets) == list(listed)
    for market, document in markets.items():
        own = [row for row in rows if row["market"] == market]
        shown = document["pools"]
        assert worth(own) == document["tvl_usd_cents"] == listed[market]["tvl_usd_cents"]
        assert len(own) + unread[market] == document["pool_count"] == listed[market]["pool_count"]
        assert (len(shown) < len(own)) is document["truncated"]
        assert min(2, len(own)) == len(shown)
        for pool, row in zip(shown, own, strict=False):
            assert pool.items() >= {name: row[name] for name in pool.keys() & row.keys()}.items()
    assert any(document["truncated"] for document in markets.values())


def test_totals(files: Files, rows: list[Row]) -> None:
    """The summary and the status count what is listed, by protocol and in all."""
    status, summary = status_of(files), load(files, "v1/protocol/summary.json")
    entries = load(files, "v1/markets.json")["data"]

    assert worth(rows) == summary["tvl_usd_cents"]
    assert len(entries) == summary["market_count"] == status["market_count"]
    assert sum(entry["pool_count"] for entry in entries) == summary["pool_count"] == status["pool_count"]
    assert len({row["token_address"] for row in rows}) == status["token_count"]
    for part in summary["protocols"]:
        own = [entry for entry in entries if entry["protocol"] == part["protocol"]]
        assert (len(own), sum(entry["pool_count"] for entry in own)) == (part["market_count"], part["pool_count"])
        assert worth(own) == part["tvl_usd_cents"]
    unpriced = [(row["market"], row["pool"]) for row in rows if row["oracle_price_usd"] is None]
    assert unpriced
    assert unpriced == [(item["market"], item["pool"]) for item in status["unpriced"]]
    assert len(unpriced) * 10_000 // len(rows) == status["unpriced_bps"]


def test_pools(files: Files, rows: list[Row]) -> None:
    """The detail of a pool repeats its row, and its curve has the point of now; the changes name the same pools."""
    for row in rows:
        detail = load(files, f"v1/assets/{row['market']}/{row['pool']}.json")
        assert row == {name: detail[name] for name in row}
        curve, rates = detail["rate_curve"], detail["rates"]
        assert [0, 10_000] == [curve[0]["utilization_bps"], curve[-1]["utilization_bps"]]
        now = (rates["accrued_utilization"], "utilization"), (rates["accrued_borrow_apr"], "apr")
        used, rate = (int(value) * 10_000 // 10 ** rates[f"{name}_decimals"] for value, name in now)
        assert {"utilization_bps": used, "borrow_apr_bps": rate} in curve
    changes = load(files, "v1/changes.json")
    assert [(row["market"], row["pool"]) for row in rows] == [
        (pool["market"], pool["pool"]) for pool in changes["pools"]
    ]


def test_parquet(files: Files, rows: list[Row]) -> None:
    """The newest Parquet file has the rows of the listing, and its value plain collateral; the site leads to it."""
    table = pl.read_parquet(files["v1/latest.parquet"])

    recorded = [{name: as_written(value) for name, value in row.items()} for row in table.iter_rows(named=True)]
    assert rows == [{name: row[name] for name in rows[0]} for row in recorded]
    for row in recorded:
        if row["oracle_price_usd"] is not None:
            deposits = int(row["total_supplied"]) + int(row["total_collateral"])
            assert in_cents(deposits, row["oracle_price_usd"], row["decimals"]) == row["tvl_usd_cents"]
    newest = max(load(files, "v1/history.json")["files"], key=lambda file: file["last_ledger"])
    assert f'href="{newest["key"]}" download' in files["data.html"].decode()


def test_liquidity(files: Files, rows: list[Row]) -> None:
    """Amounts are worth what they are at the price, in cents, rounded down."""
    priced = [row for row in rows if row["oracle_price_usd"] is not None]
    for row in priced:
        liquidity = load(files, f"v1/assets/{row['market']}/{row['pool']}.json")["liquidity"]
        for name, amount in (
            ("supplied", row["total_supplied"]),
            ("borrowed", row["total_borrowed"]),
            ("available", liquidity["available_to_withdraw"]),
        ):
            worth = None if amount is None else in_cents(int(amount), row["oracle_price_usd"], row["decimals"])
            assert worth == liquidity[f"{name}_usd_cents"]
    assert len(priced) > 2


def in_cents(amount: int, price: str, decimals: int) -> str:
    return str(math.floor(amount * Fraction(price) * 100 / 10**decimals))
