"""Where buckets of time begin, and which columns a bucket has: in the API's histories, and in the rollups.

A bucket holds what was observed from its start to before its end. The two kinds of files say different things of it:

* a bucket of the API has the means (`MEANS`) and medians (`MEDIANS`) of all observations in it;
* a rollup (``history/daily.parquet``, ``history/hourly.parquet``) has the last run in it, as that run published it.
  The daily one has every column, the hourly one those that charts need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import polars as pl

from exporter.tree.values import BUCKET_NAMES

_DAY_SECONDS = 86_400
_FIRST_MONDAY = 4 * _DAY_SECONDS  # 1970-01-05

Time = TypeVar("Time", int, pl.Expr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A length of time that repeats without a gap. One of them begins at ``origin`` (unix seconds)."""

    seconds: int
    origin: int = 0

    def start(self, time: Time) -> Time:
        """When the span that holds a time, or each of a column, began. Unix seconds, as everywhere here."""
        return (time - self.origin) // self.seconds * self.seconds + self.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Span):
    """A length of bucket of the API.

    Attributes:
        name: its name in URLs.
        page_buckets: how many buckets a page covers.
        pages: how many pages' worth of whole spans the newest document has before its newest span.
        kept_seconds: pages that ended longer ago are not published any more; None: they stay for good.
    """

    name: str
    pages: int
    page_buckets: int = 48
    kept_seconds: int | None = None

    def page_starts(self, time: pl.Expr) -> pl.Expr:
        """When the page that covers each time of a column begins."""
        return Span(seconds=self.seconds * self.page_buckets, origin=self.origin).start(time)


# At most 3 hours of 5m, because its newest document is rewritten every five minutes; a week and a day of 1h; 192 to 240
# days of 1d, because a year of days is more than 200 kB; 144 weeks of 1w.
FIVE_MINUTES: Final = Bucket(name="5m", seconds=300, pages=0, page_buckets=36, kept_seconds=_DAY_SECONDS)
HOUR: Final = Bucket(name="1h", seconds=3_600, pages=4)
DAY: Final = Bucket(name="1d", seconds=_DAY_SECONDS, pages=4)
WEEK: Final = Bucket(name="1w", seconds=7 * _DAY_SECONDS, pages=3, origin=_FIRST_MONDAY)

BUCKETS: Final = (FIVE_MINUTES, HOUR, DAY, WEEK)
"""Every length, ascending."""

assert tuple(bucket.name for bucket in BUCKETS) == BUCKET_NAMES

THIRTY_TWO_DAYS: Final = Span(seconds=32 * _DAY_SECONDS)
"""The rows of the daily rollup that lie next to each other in the file."""

MEANS: Final = ("total_supplied", "total_borrowed", "tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents")
"""Columns of which a bucket of the API has the mean."""

MEDIANS: Final = (
    "supply_apy_bps",
    "borrow_apy_bps",
    "comparable_supply_apy_bps",
    "comparable_borrow_apy_bps",
    "utilization_bps",
)
"""Columns of which a bucket of the API has the median."""

HOURLY_COLUMNS: Final = (
    "market",
    "pool",
    "token_address",
    "symbol",
    "decimals",
    "protocol",
    "market_name",
    "listed",
    "supply_apy_bps",
    "borrow_apy_bps",
    "comparable_supply_apy_bps",
    "comparable_borrow_apy_bps",
    "utilization_bps",
    "total_supplied",
    "total_borrowed",
    "total_collateral",
    "oracle_price_usd",
    "tvl_usd_cents",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "available_usd_cents",
    "supply_reward_apr_bps",
    "borrow_reward_apr_bps",
    "observed_ledger",
    "ledger_close_time",
)
"""Columns of the hourly rollup, exact."""

HOURLY_APPROXIMATE: Final = (
    "supplied",
    "supplied_usd",
    "tvl_usd",
    "price_usd",
    "supply_apy",
    "borrow_apy",
    "comparable_supply_apy",
    "comparable_borrow_apy",
)
"""Columns of the hourly rollup that are doubles."""
