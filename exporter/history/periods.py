"""How every pool did over the last day, week and month: means, and changes up to now, from its closed buckets.

A period of this many buckets ends where the bucket that is open began. A mean is that of the buckets of the period that
were observed, each counting once however many observations it has, rounded down. A change is what the run observed less
what the bucket before the period had: the newest that ended by its begin, and by no more than a quarter of the period
before. Where there is no such bucket, the history does not reach that far, and all numbers of the period are null. What
was paid is the growth of the pool's indexes from the last observation of that bucket to the last one of the period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from exporter.history.buckets import ENDS, floored_mean
from exporter.history.closed_buckets import Histories
from exporter.history.realized import realized_column
from exporter.history.time_buckets import DAY, HOUR, Bucket
from exporter.tree.pools import AssetPeriod

_FIELDS = ("supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
"""The fields of a bucket that have a mean and a change."""

_COMPARABLE = ("comparable_supply_apy_bps", "comparable_borrow_apy_bps")
"""The fields of a bucket that have a mean alone."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period by its name in the API, the bucket that it is made of, and how many of these."""

    name: str
    bucket: Bucket
    count: int


PERIODS = (Period("24h", HOUR, 24), Period("7d", HOUR, 168), Period("30d", DAY, 30))
"""Ascending. The newest documents hold this many buckets and a quarter more, where pools are observed regularly."""


def periods_of(histories: Histories, close_time: int, pools: pl.DataFrame) -> Iterator[list[AssetPeriod]]:
    """The periods of each pool, in the order of the frame of what the run observed, from the histories of pools."""
    periods = [_period(histories, period, close_time, pools) for period in PERIODS]
    return map(list, zip(*periods, strict=True))


def _period(histories: Histories, period: Period, close_time: int, pools: pl.DataFrame) -> list[AssetPeriod]:
    keys, start = ["market", "pool"], pl.col("start")
    length = period.count * period.bucket.seconds
    begin = period.bucket.start(close_time) - length
    closed = histories.closed(period.bucket)
    before = closed.filter((start < begin) & (start + period.bucket.seconds >= begin - length // 4)).sort("start")
    olds = before.group_by(keys).agg(
        pl.col(_FIELDS).last().name.prefix("old_"),
        pl.col(list(ENDS)).last().name.map(lambda name: name.replace("last_", "first_", 1)),
    )
    means = (
        closed.filter(start >= begin)
        .sort("start")
        .group_by(keys)
        .agg(
            pl.len().alias("observed"),
            *(floored_mean(name).alias(f"mean_{name}") for name in (*_FIELDS, *_COMPARABLE)),
            pl.col(list(ENDS)).last(),
        )
    )
    joined = means.join(olds, on=keys)
    joined = joined.with_columns(
        realized_column(joined, side, f"realized_{side}_apy_bps") for side in ("supply", "borrow")
    )
    rows = pools.join(joined, on=keys, how="left", maintain_order="left").select(
        pl.col("observed").fill_null(0),
        *(f"mean_{name}" for name in (*_FIELDS, *_COMPARABLE)),
        "realized_supply_apy_bps",
        "realized_borrow_apy_bps",
        *((pl.col(name) - pl.col(f"old_{name}")).alias(f"{name}_change") for name in _FIELDS),
    )
    money = pl.col("mean_tvl_usd_cents", "tvl_usd_cents_change").cast(pl.String)
    return [AssetPeriod(period.name, *row) for row in rows.with_columns(money).iter_rows()]
