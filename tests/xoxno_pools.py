"""Hub markets of XOXNO Lending as columns, for tests of their math."""

from __future__ import annotations

from typing import Any

import polars as pl

from exporter import exact
from exporter.protocols.xoxno import math
from tests.xoxno_judge import RAY

Pool = dict[str, int]

NOW = 1_800_000_000
DAY = 86_400_000


def permille(value: float | int) -> int:
    """RAY of a thousandth."""
    return round(value * 10) * 10**23


def parameters(base: float, s1: float, s2: float, s3: float, mid: float, opt: float, top: float, rf: int) -> Pool:
    """Parameters given in percent, as in the facts."""
    return {
        "base_borrow_rate": permille(base * 10),
        "slope1": permille(s1 * 10),
        "slope2": permille(s2 * 10),
        "slope3": permille(s3 * 10),
        "mid_utilization": permille(mid * 10),
        "optimal_utilization": permille(opt * 10),
        "max_utilization": permille(950),
        "max_borrow_rate": permille(top * 10),
        "reserve_factor": rf * 100,
        "asset_decimals": 7,
    }


P1 = parameters(0.5, 3, 9.5, 100, 60, 85, 125, 15)
P2 = parameters(1, 4, 10, 300, 50, 80, 100, 10)
VIEWED = parameters(1, 10, 20, 50, 50, 80, 200, 10)
EMPTY = {
    "supplied": 0, "borrowed": 0, "revenue": 0, "cash": 0, "supply_index": RAY, "borrow_index": RAY,
    "last_timestamp": NOW * 1_000,
}  # fmt: skip
# P1, P2, the pool of the views and the slope of the boundaries are those of facts/other-protocols.md 2.11
BOUNDARY = 186742236914318803376138999


def frame_of(pools: list[Pool]) -> pl.DataFrame:
    """The raw columns of `math.project`."""
    return pl.DataFrame([exact.column([pool[name] for pool in pools], name) for name in math.POOL_COLUMNS])


def one(value: int) -> pl.Series:
    """A column of one number."""
    return exact.column([value])


BUSY = EMPTY | P1 | {
    "supplied": 10**33, "borrowed": 6 * 10**32, "revenue": 10**30, "supply_index": 1083 * 10**24,
    "borrow_index": 11315 * 10**23, "cash": 10**13,
}  # fmt: skip


def at(pool: Pool, time: int = NOW) -> dict[str, Any]:
    """What is published of one pool."""
    return math.project(frame_of([pool]), time).row(0, named=True)
