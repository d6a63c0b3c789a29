"""Computes how every pool did over the last day, week and month, from its closed time buckets.

A period is a number of buckets. It ends where the bucket that is still open began.

- A mean is the mean of the period's observed buckets, rounded down. Each bucket counts once, however many observations
  it has.
- A change is what the run observed, less the value of the bucket before the period. That is the newest bucket that
  ended when the period began or earlier, but earlier by a quarter of the period at most.
- A realized yield is the growth of the pool's index from the last observation of that bucket to the last observation of
  the period. Both times are given, because they can be hours away from the period's ends.

If there is no bucket before the period, the history does not reach that far, and all numbers of the period are null.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from msgspec import Struct

from exporter.history.buckets import LAST_INDEXES, floored_mean
from exporter.history.closed_buckets import Histories
from exporter.history.realized import realized_column
from exporter.history.time_buckets import DAY, HOUR, Bucket
from exporter.tables import PoolKey, time_text
from exporter.tree.pool_periods import AssetPeriod

_CHANGING_FIELDS = ("supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
"""Fields of a bucket for which a period has a mean and a change."""

_MEAN_ONLY_FIELDS = ("comparable_supply_apy_bps", "comparable_borrow_apy_bps")
"""Fields of a bucket for which a period has only a mean."""


class Period(Struct, frozen=True):
    """A period: its name in the API, the length of its buckets, and their number."""

    name: str
    bucket: Bucket
    count: int


PERIODS = (Period("24h", HOUR, 24), Period("7d", HOUR, 168), Period("30d", DAY, 30))
"""All periods, ascending. A history document has enough buckets for the period and a quarter more, if its pool is
observed regularly."""


_LAST_COLUMNS = {"ledger_close_time": "last_ledger_close_time"} | {name: name for name in LAST_INDEXES}
"""The columns of a bucket that are of its last observation, by the names that observations have for them."""


def periods_of(histories: Histories[PoolKey], close_time: int, pools: pl.DataFrame) -> Iterator[list[AssetPeriod]]:
    """The periods of each pool, in the order of ``pools``, which is what the run observed.

    ``histories`` are those of the pools, and ``close_time`` is that of the run's ledger, in unix seconds.
    """
    periods = [_period(histories, period, close_time, pools) for period in PERIODS]
    return map(list, zip(*periods, strict=True))


def _period(histories: Histories[PoolKey], period: Period, close_time: int, pools: pl.DataFrame) -> list[AssetPeriod]:
    keys, start = PoolKey._fields, pl.col("start")
    length = period.count * period.bucket.seconds
    begin = period.bucket.start(close_time) - length
    closed = histories.closed(period.bucket)
    before = closed.filter((start < begin) & (start + period.bucket.seconds >= begin - length // 4)).sort("start")
    olds = before.group_by(keys).agg(
        pl.col(_CHANGING_FIELDS).last().name.prefix("old_"),
        *(pl.col(column).last().alias(f"first_{name}") for name, column in _LAST_COLUMNS.items()),
    )
    means = (
        closed.filter(start >= begin)
        .sort("start")
        .group_by(keys)
        .agg(
            pl.len().alias("observed"),
            *(floored_mean(name).alias(f"mean_{name}") for name in (*_CHANGING_FIELDS, *_MEAN_ONLY_FIELDS)),
            *(pl.col(column).last().alias(f"last_{name}") for name, column in _LAST_COLUMNS.items()),
        )
    )
    joined = means.join(olds, on=keys)
    joined = joined.with_columns(
        realized_column(joined, side, f"realized_{side}_apy_bps") for side in ("supply", "borrow")
    )
    rows = pools.join(joined, on=keys, how="left", maintain_order="left").select(
        pl.col("observed").fill_null(0),
        *(f"mean_{name}" for name in (*_CHANGING_FIELDS, *_MEAN_ONLY_FIELDS)),
        "realized_supply_apy_bps",
        "realized_borrow_apy_bps",
        *(time_text(pl.col(f"{end}_ledger_close_time")) for end in ("first", "last")),
        *((pl.col(name) - pl.col(f"old_{name}")).alias(f"{name}_change") for name in _CHANGING_FIELDS),
    )
    money = pl.col("mean_tvl_usd_cents", "tvl_usd_cents_change").cast(pl.String)
    return [AssetPeriod(period.name, *row) for row in rows.with_columns(money).iter_rows()]
