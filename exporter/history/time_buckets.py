"""Defines time buckets: where they start, and which columns they have in the API's histories and in the rollups.

A bucket has what was observed from its start (inclusive) to its end (exclusive). Starts are multiples of its length
since 1970; weeks begin on Monday. A bucket is summed up in two ways:

* In the API's histories it has the means (`MEANS`) and medians (`MEDIANS`) of all observations in it.
* In the rollups (``history/daily.parquet``, ``history/hourly.parquet``) it has the last run in it, as that run
  published it. The daily rollup has every column, the hourly one has those that charts need.
"""

from __future__ import annotations

from typing import Final, TypeVar

import polars as pl
from msgspec import Struct

from exporter.tree.values import BUCKET_NAMES

_DAY_SECONDS = 86_400
_FIRST_MONDAY = 4 * _DAY_SECONDS  # 1970-01-05

Time = TypeVar("Time", int, pl.Expr)


class Span(Struct, frozen=True, kw_only=True):
    """A length of time that repeats without gaps. One of the repetitions starts at ``origin``, in unix seconds."""

    seconds: int
    origin: int = 0

    def start(self, time: Time) -> Time:
        """The start of the span that a time lies in, or each time of a column, in unix seconds."""
        return (time - self.origin) // self.seconds * self.seconds + self.origin


class Bucket(Span, frozen=True, kw_only=True):
    """A length of the API's time buckets.

    Attributes:
        name: its name in URLs.
        pages: how many complete pages the newest document has in front of its newest, incomplete one.
        page_buckets: how many buckets a page covers.
        kept_seconds: how long a page is published after its last bucket ended; None for pages that stay for good.
    """

    name: str
    pages: int
    page_buckets: int = 48
    kept_seconds: int | None = None

    def page_starts(self, time: pl.Expr) -> pl.Expr:
        """The start of the page that covers each time of a column, in unix seconds."""
        return Span(seconds=self.seconds * self.page_buckets, origin=self.origin).start(time)


# What the newest document of each length covers: at most 3 hours of 5m, because it is rewritten every five minutes; a
# week and a day of 1h; 192 to 240 days of 1d, because a year of days is more than 200 kB; and at least 144 weeks of 1w.
FIVE_MINUTES: Final = Bucket(name="5m", seconds=300, pages=0, page_buckets=36, kept_seconds=_DAY_SECONDS)
HOUR: Final = Bucket(name="1h", seconds=3_600, pages=4)
DAY: Final = Bucket(name="1d", seconds=_DAY_SECONDS, pages=4)
WEEK: Final = Bucket(name="1w", seconds=7 * _DAY_SECONDS, pages=3, origin=_FIRST_MONDAY)

BUCKETS: Final = (FIVE_MINUTES, HOUR, DAY, WEEK)
"""All lengths of time buckets, ascending."""

assert tuple(bucket.name for bucket in BUCKETS) == BUCKET_NAMES

THIRTY_TWO_DAYS: Final = Span(seconds=32 * _DAY_SECONDS)
"""The span whose rows lie next to each other in the file of the daily rollup."""

MEANS: Final = (
    "total_supplied",
    "total_borrowed",
    "available_to_withdraw",
    "tvl_usd_cents",
    "supplied_usd_cents",
    "borrowed_usd_cents",
)
"""Columns for which a bucket has the mean."""

MEDIANS: Final = (
    "supply_apy_bps",
    "borrow_apy_bps",
    "comparable_supply_apy_bps",
    "comparable_borrow_apy_bps",
    "total_supply_apy_bps",
    "utilization_bps",
)
"""Columns for which a bucket has the median."""

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
"""The exact columns of the hourly rollup."""

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
"""The approximate columns of the hourly rollup."""
