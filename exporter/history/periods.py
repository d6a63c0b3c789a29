"""How every pool did over the last day, week and month: means, and changes up to now, from its closed buckets.

A period of this many buckets ends where the bucket that is open began. A mean is that of the buckets of the period that
were observed, each counting once however many observations it has, rounded down. A change is what the run observed less
what the bucket before the period had: the newest that ended by its begin, and by no more than a quarter of the period
before. Where there is no such bucket, the history does not reach that far, and all numbers of the period are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from exporter.history.buckets import BUCKETS, floored_mean
from exporter.history.closed_buckets import ClosedBuckets, Frames, Place
from exporter.tree.pools import AssetPeriod

_FIELDS = ("supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")


@dataclass(frozen=True, slots=True)
class Period:
    """A period by its name in the API, the bucket that it is made of, and how many of them."""

    name: str
    bucket: str
    count: int


PERIODS = (Period("24h", "1h", 24), Period("7d", "1h", 168), Period("30d", "1d", 30))
"""Ascending. The newest documents hold this many buckets and a quarter more, where pools are observed regularly."""


def periods_of(frames: Frames, close_time: int, pools: pl.DataFrame) -> Iterator[list[AssetPeriod]]:
    """The periods of each pool, in the order of the frame.

    Args:
        frames: the histories of pools.
        close_time: the close time of the run's ledger.
        pools: what the run observed, with a market, a pool, and the four numbers; sorted by market and pool.
    """
    lengths = {period.bucket for period in PERIODS}
    by_bucket = {bucket.name: frames.closed_buckets(bucket) for bucket in BUCKETS if bucket.name in lengths}
    found = [_numbers(by_bucket[period.bucket], period, close_time) for period in PERIODS]
    for market, pool, *own in pools.select("market", "pool", *_FIELDS).iter_rows():
        now = own[0], own[1], own[2], own[3]
        yield [
            _period(period, numbers.get((market, pool)), now) for period, numbers in zip(PERIODS, found, strict=True)
        ]


_Four = tuple[int | None, int | None, int | None, int | None]
_Numbers = tuple[int, _Four, _Four]
"""How many buckets were observed, the means over them, and what the bucket before the period had."""

_NONE = 0, (None,) * 4, (None,) * 4


def _numbers(buckets: ClosedBuckets, period: Period, close_time: int) -> dict[Place, _Numbers]:
    bucket = buckets.bucket
    length = period.count * bucket.seconds
    begin = bucket.start(close_time) - length
    start = pl.col("start")
    before = buckets.closed.filter((start < begin) & (start + bucket.seconds >= begin - length // 4))
    last = before.sort("start").group_by("market", "pool").agg(pl.col(_FIELDS).last().name.prefix("before_"))
    inside = buckets.closed.filter(start >= begin).group_by("market", "pool")
    means = inside.agg(pl.len().alias("observed"), *(floored_mean(name) for name in _FIELDS))
    columns = ("market", "pool", "observed", *_FIELDS, *(f"before_{name}" for name in _FIELDS))
    rows = last.join(means, on=("market", "pool")).select(columns)
    return {(row[0], row[1]): (row[2], row[3:7], row[7:]) for row in rows.iter_rows()}


def _period(period: Period, numbers: _Numbers | None, now: _Four) -> AssetPeriod:
    observed, means, before = numbers or _NONE
    supply, borrow, utilization, value = means
    earned, paid, used, gain = (
        None if old is None or new is None else new - old for old, new in zip(before, now, strict=True)
    )
    return AssetPeriod(
        period.name, observed, supply, borrow, utilization, _digits(value), earned, paid, used, _digits(gain)
    )


def _digits(value: int | None) -> str | None:
    return None if value is None else str(value)
