"""The histories of pools, and of many pools together, as charts.

A chart of a pool takes the shortest bucket in which the series still has all of the pool's history, in at most
`MAX_POINTS`. A chart of many pools has days. Of a longer history it has only some of them (`thinned`), so that the size
of a page is bounded. Histories have closed buckets only; the last point of every line is what the run itself observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl
from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from exporter.history.buckets import NETWORK, SCOPES, TotalKey, aggregate, observations_of, totals_of
from exporter.history.closed_buckets import Histories, Owner
from exporter.history.series import Series
from exporter.history.time_buckets import BUCKETS, DAY, WEEK, Bucket
from exporter.render.site.charts import (
    COUNT,
    FEWEST_POINTS,
    MONEY,
    RATE,
    ChartColumn,
    Line,
    Unit,
    chart,
    charts_of,
    table,
)
from exporter.render.site.rows import by_value, by_yield
from exporter.render.site.text import cut
from exporter.tables import PoolKey, pool_keys

MAX_LINES = 4
"""Number of pools that a chart of many shows.

The pools of listed markets come first: of a token those with the best yields, and of others those with most value.
"""

MAX_POINTS = 96
"""Number of points from which a chart takes a longer bucket.

A chart of the longest bucket has as many points as the newest document of the history.
"""

RECENT_SECONDS = 31 * DAY.seconds
"""Period in which a `thinned` history has every day. Before it, the history has the Mondays."""

_BUCKET_WORDS = {"5m": "5 minutes", "1h": "hour", "1d": "day", "1w": "week"}
_THINNED_WORDS = "day of the last month, and every Monday before it,"


class _Plotted(NamedTuple):
    """A column of a history as a chart and its table have it."""

    title: str
    unit: Unit
    column: str


_OF_POOL = (
    _Plotted("Supply APY", RATE, "comparable_supply_apy_bps"),
    _Plotted("Borrow APY", RATE, "comparable_borrow_apy_bps"),
    _Plotted("Utilization", RATE, "utilization_bps"),
    _Plotted("TVL", MONEY, "tvl_usd_cents"),
)
_OF_MANY = (
    _Plotted("TVL", MONEY, "tvl_usd_cents"),
    _Plotted("Supplied", MONEY, "supplied_usd_cents"),
    _Plotted("Borrowed", MONEY, "borrowed_usd_cents"),
    _Plotted("Mean supply APY", RATE, "mean_comparable_supply_apy_bps"),
    _Plotted("Mean borrow APY", RATE, "mean_comparable_borrow_apy_bps"),
    _Plotted("Best supply APY", RATE, "best_comparable_supply_apy_bps"),
    _Plotted("Best borrow APY", RATE, "best_comparable_borrow_apy_bps"),
    _Plotted("Pools", COUNT, "pool_count"),
    _Plotted("With a price", COUNT, "priced_count"),
)


_ALIKE = 20
"""Part of a value up to which what is supplied may differ from it (1 in 20) where one chart shows both."""


class Trend(Struct, frozen=True):
    """Pools over time: the values of each column, one for each start (unix seconds) of an observed bucket."""

    bucket: str
    starts: Sequence[int]
    values: Mapping[str, Sequence[int | None]]
    greatest: tuple[tuple[PoolKey, Trend], ...] = ()
    is_thinned: bool = False

    @property
    def every(self) -> str:
        """The words for the time between two points, which follow "every"."""
        return _THINNED_WORDS if self.is_thinned else _BUCKET_WORDS[self.bucket]

    @property
    def has_lines(self) -> bool:
        """Whether there are more points than those of a history that has just begun, so that charts have lines."""
        return len(self.starts) > FEWEST_POINTS

    @property
    def is_priced(self) -> bool:
        return any(value is not None for value in self.values["tvl_usd_cents"])


class Trends:
    """The histories of all pools that a run has, in the order of its pools frame, and of their totals."""

    def __init__(self, series: Series, pools: pl.DataFrame) -> None:
        self._series = series
        now = aggregate(observations_of(pools), WEEK)
        closed = pl.lit(series.through_time, pl.Int64).alias("start")
        self._now, self._totals_now = now.with_columns(closed), totals_of(now).with_columns(closed)
        self._pools = {
            scope: order(pools).select(SCOPES[scope].alias("id"), "market", "pool")
            for scope, order in (("token", by_yield), *((name, by_value) for name in ("market", "protocol", NETWORK)))
        }
        self._pool_keys = pool_keys(pools)

    def of_pools(self) -> Iterator[Trend]:
        lengths = _lengths(self._series.pools, self._pool_keys)
        trends: dict[PoolKey, Trend] = {}
        for bucket in BUCKETS:
            trends |= self._pool_trends(bucket, {pool for pool, own in lengths.items() if own == bucket})
        yield from (trends[pool] for pool in self._pool_keys)

    def of_groups(self, scope: str) -> dict[str, Trend]:
        members: dict[TotalKey, list[PoolKey]] = {}
        pools_in_order = self._pools[scope]
        for own_id, pool in zip(pools_in_order["id"], pool_keys(pools_in_order), strict=True):
            members.setdefault(TotalKey(scope, own_id), []).append(pool)
        shown = {group: pools[:MAX_LINES] for group, pools in members.items()}
        totals = _trends(self._series.totals, DAY, self._totals_now, _OF_MANY, set(members))
        trends = self._pool_trends(DAY, {pool for pools in shown.values() for pool in pools})
        return {
            group.id: replace(thinned(total), greatest=tuple((pool, trends[pool]) for pool in shown[group]))
            for group, total in totals.items()
        }

    def _pool_trends(self, bucket: Bucket, chosen: set[PoolKey]) -> dict[PoolKey, Trend]:
        return _trends(self._series.pools, bucket, self._now, _OF_POOL, chosen) if chosen else {}


def _lengths(histories: Histories[PoolKey], pools: Sequence[PoolKey]) -> dict[PoolKey, Bucket]:
    """The shortest bucket in which the series has all of a pool's history, in at most `MAX_POINTS`."""
    *shorter, longest = histories.kind.buckets
    left, lengths = set(pools), dict.fromkeys(pools, longest)
    for bucket in shorter:
        counts = histories.closed(bucket).group_by(PoolKey._fields).len("count")
        with_many = pool_keys(counts.filter(pl.col("count") >= MAX_POINTS))
        suited = left.difference(with_many, histories.earlier_pages(bucket))
        lengths.update(dict.fromkeys(suited, bucket))
        left -= suited
    return lengths


def thinned(trend: Trend) -> Trend:
    """A trend of days with at most about `MAX_POINTS` points.

    If it has more, only the days of `RECENT_SECONDS` and earlier Mondays are left.
    """
    if len(trend.starts) <= MAX_POINTS:
        return trend
    recent = trend.starts[-1] - RECENT_SECONDS
    left = [index for index, start in enumerate(trend.starts) if start >= recent or WEEK.start(start) == start]
    values = {name: [column[index] for index in left] for name, column in trend.values.items()}
    return replace(trend, starts=[trend.starts[index] for index in left], values=values, is_thinned=True)


def _trends(
    histories: Histories[Owner],
    bucket: Bucket,
    now: pl.DataFrame,
    plotted: Sequence[_Plotted],
    owners: set[Owner],
) -> dict[Owner, Trend]:
    keys, names = histories.kind.keys, [each.column for each in plotted]
    wanted = pl.DataFrame(sorted(owners), schema=dict.fromkeys(keys, pl.String()), orient="row")
    rows = pl.concat([part.select(*keys, "start", *names) for part in (histories.closed(bucket), now)])
    rows = rows.join(wanted, on=keys, how="semi").sort(*keys, "start")
    sums = {name for name in names if rows.schema[name] == pl.String}  # beyond 128 bits
    return {
        histories.kind.owner(one, other): Trend(
            bucket.name,
            starts,
            {name: _integers(own) if name in sums else own for name, own in zip(names, values, strict=True)},
        )
        for one, other, starts, *values in rows.group_by(keys, maintain_order=True).agg("start", *names).iter_rows()
    }


def _integers(column: Sequence[str | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in column]


def pool_charts(trend: Trend) -> tuple[Markup, ...]:
    """Charts of a pool's rates, utilization and value, and their table; the table alone before they have lines."""
    starts, columns = trend.starts, _columns(trend, _OF_POOL)
    numbers = table(starts, columns, "Rates, utilization and value over time")
    if not trend.has_lines:
        return (numbers,)
    rates = [Line("Supply APY", 1, 0), Line("Borrow APY", 2, 1)]
    return (
        chart("rates", "Supply and borrow rate", starts, columns, rates),
        chart("use", "Utilization", starts, columns, [Line("Lent out", 3, 2)], area=True),
        chart("value", "Total value", starts, columns, [Line("TVL", 4, 3)], area=True),
        numbers,
    )


def totals_charts(trend: Trend) -> tuple[Markup, ...]:
    """Charts of many pools together, and their table: value, what is supplied and borrowed, and mean rates.

    The value has no chart of its own where it looks like what is supplied. Before charts have lines, there is the table
    alone.
    """
    columns = _columns(trend, _OF_MANY)
    drawn = _drawn_totals(trend, columns, "value") if trend.has_lines else ()
    return (*drawn, table(trend.starts, columns, "Totals over time"))


def protocol_charts(trend: Trend, protocol: str) -> tuple[Markup, ...]:
    """The charts of a protocol without their table. A page with the tables of all protocols would be too large.

    There are none before they have lines.
    """
    return tuple(_drawn_totals(trend, _columns(trend, _OF_MANY), f"value-{protocol}")) if trend.has_lines else ()


def group_charts(trend: Trend, labels: Mapping[PoolKey, str]) -> tuple[Markup, ...]:
    """Charts of a market or token, and their table: the totals that are known, and the rates of its greatest pools.

    Totals are those of `totals_charts`. Before charts have lines, there is the table alone.
    """
    columns = _columns(trend, _OF_MANY)
    drawn = list(_drawn_totals(trend, columns, "value")) if trend.is_priced and trend.has_lines else []
    lines: dict[str, list[Line]] = {each.column: [] for each in _OF_POOL[:3]}
    for colour, (key, pool) in enumerate(trend.greatest, 1):
        label = cut(labels.get(key, key.pool), 30)
        for each in _OF_POOL[:3]:
            lines[each.column].append(Line(label, colour, len(columns)))
            columns.append(ChartColumn(f"{label}: {each.title}", each.unit, _aligned(pool, each.column, trend.starts)))
    if trend.has_lines:
        for identity, each in zip(("supply", "borrow", "use"), _OF_POOL[:3], strict=True):
            drawn.append(chart(identity, each.title, trend.starts, columns, lines[each.column]))
    return (*drawn, table(trend.starts, columns, "Totals and rates over time"))


def borrow_chart(trend: Trend, labels: Mapping[PoolKey, str]) -> Markup:
    """The chart of the borrow rates of a token's largest pools, without a table."""
    columns = [
        ChartColumn(labels.get(key, key.pool), RATE, _aligned(pool, "comparable_borrow_apy_bps", trend.starts))
        for key, pool in trend.greatest
    ]
    lines = [Line(cut(column.title, 30), number, number - 1) for number, column in enumerate(columns, 1)]
    return chart("first-plot", "Borrow APY", trend.starts, columns, lines)


def _columns(trend: Trend, plotted: Iterable[_Plotted]) -> list[ChartColumn]:
    return [ChartColumn(each.title, each.unit, trend.values[each.column]) for each in plotted]


def _drawn_totals(trend: Trend, columns: Sequence[ChartColumn], name: str) -> Iterator[Markup]:
    if not _looks_like_supplied(trend):
        yield chart(name, "Total value", trend.starts, columns, [Line("TVL", 4, 0)], area=True)
    for identity, title, lines in (
        (f"{name}-sums", "Supplied and borrowed", [Line("Supplied", 1, 1), Line("Borrowed", 2, 2)]),
        (
            f"{name}-rates",
            "Mean rates, compounded daily, weighted by value",
            [Line("Mean supply APY", 1, 3), Line("Mean borrow APY", 2, 4)],
        ),
    ):
        yield from charts_of(identity, title, trend.starts, columns, lines)


def _looks_like_supplied(trend: Trend) -> bool:
    """Whether the total value is nearly what is supplied, wherever both are known: there is little plain collateral."""
    both = zip(trend.values["tvl_usd_cents"], trend.values["supplied_usd_cents"], strict=True)
    known = [(value, supplied) for value, supplied in both if value is not None and supplied is not None]
    return all(abs(value - supplied) * _ALIKE <= value for value, supplied in known)


def _aligned(pool: Trend, name: str, starts: Sequence[int]) -> Sequence[int | None]:
    by_start = dict(zip(pool.starts, pool.values[name], strict=True))
    return [by_start.get(start) for start in starts]
