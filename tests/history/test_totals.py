"""Totals of markets, tokens, protocols and the network, against loops over plain Python integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from exporter.best import MIN_VALUE_CENTS
from exporter.history.buckets import BUCKETS_FRAME, ENDS, NETWORK, PARTS, TOTALS_FRAME, totals_of

Row = dict[str, Any]

MONEY = ("supplied_usd_cents", "borrowed_usd_cents", "tvl_usd_cents")
LARGEST_RATE = 2**53 - 1
CENTS = (
    st.none() | st.sampled_from([0, 1, MIN_VALUE_CENTS - 1, MIN_VALUE_CENTS, 10**38 - 1]) | st.integers(0, 10**38 - 1)
)
RATES = st.none() | st.integers(-5, 10_000) | st.just(LARGEST_RATE)

ROWS = st.fixed_dictionaries(
    {
        "market": st.sampled_from(["M1", "M2", "M3"]),
        "token_address": st.sampled_from(["T1", "T2"]),
        "start": st.sampled_from([0, 86_400]),
        "listed": st.booleans(),
        "active": st.booleans(),
        "first_ledger": st.integers(1, 9),
        "last_ledger": st.integers(10, 19),
        **dict.fromkeys(MONEY, CENTS),
        **{f"{basis}{side}_apy_bps": RATES for basis in ("", "comparable_") for side in ("supply", "borrow")},
    }
)


def frame_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Rows of `aggregate` with the columns that totals use; a protocol has the markets M1 and M2."""
    schema = {**BUCKETS_FRAME, **ENDS, **PARTS}
    whole = [
        {**dict.fromkeys(schema), **row, "pool": f"P{number}", "protocol": "q" if row["market"] == "M3" else "p"}
        for number, row in enumerate(rows)
    ]
    return pl.DataFrame(whole, schema=schema).sort("market", "pool", "start")


def judged(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """The totals of rows, in the order of the frame's columns."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        own = {"market": row["market"], "token": row["token_address"], "protocol": row["protocol"], NETWORK: NETWORK}
        for scope, name in own.items():
            groups.setdefault((scope, name, row["start"]), []).append(row)
    return [tuple((_total(*place, groups[place]))[name] for name in TOTALS_FRAME) for place in sorted(groups)]


def _total(scope: str, name: str, start: int, rows: Sequence[Row]) -> Row:
    own = [row for row in rows if row["listed"] or scope == "market"]
    priced = [row for row in own if _is_priced(row)]
    lending = [row for row in priced if row["active"] and row["listed"] and row["tvl_usd_cents"] >= MIN_VALUE_CENTS]
    lendable = [row for row in lending if row["borrowed_usd_cents"] < row["supplied_usd_cents"]]
    total: Row = {"scope": scope, "id": name, "start": start, **_sums(own, "")}
    for basis in ("", "comparable_"):
        supply, borrow = f"{basis}supply_apy_bps", f"{basis}borrow_apy_bps"
        total[f"mean_{supply}"] = _mean((row[supply], row["supplied_usd_cents"]) for row in priced)
        total[f"mean_{borrow}"] = _mean((row[borrow], row["borrowed_usd_cents"]) for row in priced)
        total[f"best_{supply}"] = max((row[supply] for row in lending if row[supply] is not None), default=None)
        total[f"best_{borrow}"] = min((row[borrow] for row in lendable if row[borrow] is not None), default=None)
    newest = max(rows, key=lambda row: row["last_ledger"])
    return {
        **total,
        **_sums([row for row in rows if row not in own], "unlisted_"),
        "listed": newest["listed"] if scope == "market" else None,
        "first_ledger": min(row["first_ledger"] for row in rows),
        "last_ledger": max(row["last_ledger"] for row in rows),
    }


def _is_priced(row: Row) -> bool:
    return all(row[name] is not None for name in MONEY)


def _sums(rows: Sequence[Row], prefix: str) -> Row:
    priced = [row for row in rows if _is_priced(row)]
    return {
        **{f"{prefix}{name}": str(sum(row[name] for row in priced)) if priced else None for name in MONEY},
        f"{prefix}market_count": len({row["market"] for row in rows}),
        f"{prefix}pool_count": len(rows),
        f"{prefix}priced_count": len(priced),
    }


def _mean(weighted: Iterable[tuple[int | None, int]]) -> int | None:
    known = [(rate, weight) for rate, weight in weighted if rate is not None]
    weights = sum(weight for _, weight in known)
    return sum(rate * weight for rate, weight in known) // weights if weights else None


@given(st.lists(ROWS, min_size=1, max_size=12))
def test_totals_of_any_pools(rows: list[Row]) -> None:
    """Sums, weighted means, best rates and counts are exact, also of sums and products beyond 128 bits."""
    frame = frame_of(rows)
    assert judged(frame.rows(named=True)) == totals_of(frame).rows()


def test_no_pools_have_no_totals() -> None:
    """An empty frame gives an empty frame of the same columns."""
    totals = totals_of(frame_of([]))
    assert (0, TOTALS_FRAME) == (totals.height, dict(totals.schema))
