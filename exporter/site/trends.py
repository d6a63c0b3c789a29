"""What the charts show: the histories in buckets, of a length that suits how much history there is.

A chart takes the shortest bucket of which the series at hand still has every one: five minutes in the first hours,
days after some weeks, weeks after some months. Nothing is read for it: the frames of `exporter.history.series.Series`
have it. All work is on whole frames, one pass for each length that is in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from exporter.history.buckets import BUCKETS, Bucket, aggregate
from exporter.history.series import Series

LINES = 4
"""Pools that a chart of many shows: those of the greatest value."""

ALL = "all"
"""The key of the group of all pools, whose only value is an empty text."""

_COLUMNS = ("start", "supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
_HALF = 10**18


@dataclass(frozen=True, slots=True)
class Trend:
    """One pool over time: its bucket, the starts of those that were observed (unix seconds), and their values."""

    bucket: str
    starts: Sequence[int] = ()
    supply: Sequence[int] = ()
    borrow: Sequence[int] = ()
    utilization: Sequence[int] = ()
    value: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class GroupTrend:
    """Many pools over time, in one bucket: their value together, and the few that are greatest, by market and id."""

    bucket: str
    starts: Sequence[int] = ()
    value: Sequence[int | None] = ()
    pools: tuple[tuple[tuple[str, str], Trend], ...] = ()


class Trends:
    """The histories of all pools that a run has, in the order of its pools frame."""

    def __init__(self, series: Series | None, pools: pl.DataFrame) -> None:
        """From the series that has the run itself, and the pools frame (sorted by market and pool)."""
        self._frames: dict[str, pl.DataFrame] = {}
        self._series = Series() if series is None else series
        self._places = pools.select("market", "pool", "token_address", "tvl_usd_cents", pl.lit("").alias(ALL))
        lengths = [self._length((market, pool)) for market, pool in self._places.select("market", "pool").iter_rows()]
        self._places = self._places.with_columns(pl.Series("length", lengths, dtype=pl.Int64))

    def of_pools(self) -> Iterator[Trend]:
        """The trend of each pool, in the order of the pools frame."""
        columns = self._lists(self._rows(self._places, ["market", "pool"]), ["market", "pool"])
        joined = self._places.select("market", "pool", "length").join(
            columns, on=["market", "pool"], how="left", maintain_order="left"
        )
        for _, _, length, *values in joined.iter_rows():
            yield _trend(length, values)

    def of_groups(self, key: str) -> dict[str, GroupTrend]:
        """The trends of pools that share a ``market`` or ``token_address`` (or of `ALL`), in their longest bucket."""
        own = self._places.with_columns(pl.col("length").max().over(key))
        rows = self._rows(own, [key])
        totals = self._totals(rows, key)
        order = pl.col("tvl_usd_cents").rank("ordinal", descending=True).over(key)
        place = pl.struct("market", "pool").rank("ordinal").over(key)
        greatest = own.with_columns(order.fill_null(10**9).alias("order"), place.alias("place"))
        greatest = greatest.sort(key, "order", "place").group_by(key, maintain_order=True).head(LINES)
        lists = self._lists(rows.join(greatest.select("market", "pool"), on=["market", "pool"]), ["market", "pool"])
        shown: dict[str, list[tuple[tuple[str, str], Trend]]] = {}
        chosen = greatest.select(pl.col(key).alias("key"), "market", "pool", "length")
        for name, market, pool, length, *columns in chosen.join(
            lists, on=["market", "pool"], how="left", maintain_order="left"
        ).iter_rows():
            shown.setdefault(name, []).append(((market, pool), _trend(length, columns)))
        lengths = dict(own.select(key, "length").iter_rows())
        groups = {}
        for name, pools in shown.items():
            starts, values = totals.get(name, ([], []))
            groups[name] = GroupTrend(BUCKETS[lengths[name]].name, starts, values, tuple(pools))
        return groups

    def _length(self, place: tuple[str, str]) -> int:
        """The position in `BUCKETS` of the shortest whose every bucket of a pool is at hand."""
        cursors = self._series.cursors
        return next(
            (number for number, bucket in enumerate(BUCKETS) if place not in cursors[bucket.name]), len(BUCKETS) - 1
        )

    def _frame(self, bucket: Bucket) -> pl.DataFrame:
        """The closed buckets with the open one."""
        if bucket.name not in self._frames:
            start = bucket.start(self._series.through_time)
            opened = aggregate(self._series.recent.filter(pl.col("ledger_close_time") >= start), bucket)
            rows = pl.concat([self._series.closed[bucket.name], opened])
            self._frames[bucket.name] = rows.select("market", "pool", *_COLUMNS)
        return self._frames[bucket.name]

    def _rows(self, places: pl.DataFrame, order: list[str]) -> pl.DataFrame:
        """The buckets of all places, each in its own length, sorted by the order and the start."""
        parts = []
        for length in sorted(set(places["length"])):
            wanted = places.filter(pl.col("length") == length).select("market", "pool", "token_address", ALL)
            parts.append(self._frame(BUCKETS[length]).join(wanted, on=["market", "pool"]))
        if not parts:
            parts = [self._frame(BUCKETS[0]).with_columns(pl.lit("").alias("token_address"), pl.lit("").alias(ALL))]
        return pl.concat(parts).sort(*order, "start")

    def _lists(self, rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
        """One row a pool, with lists for columns."""
        return rows.sort(*keys, "start").group_by(keys, maintain_order=True).agg(*_COLUMNS)

    def _totals(self, rows: pl.DataFrame, key: str) -> dict[str, tuple[list[int], list[int | None]]]:
        """Starts and sums of the value of each group. Sums of halves cannot wrap, so what they make is exact."""
        value = pl.col("tvl_usd_cents")
        sums = rows.group_by(key, "start").agg(
            (value // _HALF).sum().alias("high"), (value % _HALF).sum().alias("low"), value.count().alias("known")
        )
        totals: dict[str, tuple[list[int], list[int | None]]] = {}
        for name, start, high, low, known in sums.sort(key, "start").iter_rows():
            starts, values = totals.setdefault(name, ([], []))
            starts.append(start)
            values.append(high * _HALF + low if known else None)
        return totals


def _trend(length: int, values: list[Sequence[int] | None]) -> Trend:
    return Trend(BUCKETS[length].name, *(() if column is None else column for column in values))
