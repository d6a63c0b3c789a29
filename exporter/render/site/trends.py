"""The histories of pools, and of many pools together, as charts.

A chart of a pool takes the shortest bucket of which the series still has all of the pool's history, in at most
`MAX_POINTS`. A chart of many pools has days. Of a longer history it has only some of them (`thinned`), so that the size
of a page is bounded. Histories have closed buckets only; the last point of every line is what the run itself observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
from markupsafe import Markup

from exporter.history.buckets import NETWORK, SCOPES, aggregate, observations_of, totals_of
from exporter.history.closed_buckets import Histories, Place
from exporter.history.series import Series
from exporter.history.time_buckets import BUCKETS, DAY, WEEK, Bucket
from exporter.render.site.charts import COUNT, MONEY, RATE, Column, Line, chart, charts_of, table
from exporter.render.site.rows import by_value, by_yield
from exporter.render.site.text import cut

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

_OF_POOL = (
    ("Supply APY", RATE, "comparable_supply_apy_bps"),
    ("Borrow APY", RATE, "comparable_borrow_apy_bps"),
    ("Utilization", RATE, "utilization_bps"),
    ("TVL", MONEY, "tvl_usd_cents"),
)
_OF_MANY = (
    ("TVL", MONEY, "tvl_usd_cents"),
    ("Supplied", MONEY, "supplied_usd_cents"),
    ("Borrowed", MONEY, "borrowed_usd_cents"),
    ("Mean supply APY", RATE, "mean_comparable_supply_apy_bps"),
    ("Mean borrow APY", RATE, "mean_comparable_borrow_apy_bps"),
    ("Best supply APY", RATE, "best_comparable_supply_apy_bps"),
    ("Best borrow APY", RATE, "best_comparable_borrow_apy_bps"),
    ("Pools", COUNT, "pool_count"),
    ("With a price", COUNT, "priced_count"),
)


@dataclass(frozen=True, slots=True)
class Trend:
    """Pools over time: the values of each column, one for each start (unix seconds) of an observed bucket."""

    bucket: str
    starts: Sequence[int]
    values: Mapping[str, Sequence[int | None]]
    greatest: tuple[tuple[Place, Trend], ...] = ()
    is_thinned: bool = False

    @property
    def every(self) -> str:
        """The words for the time between two points, which follow "every"."""
        return _THINNED_WORDS if self.is_thinned else _BUCKET_WORDS[self.bucket]

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
        self._places: list[Place] = pools.select("market", "pool").rows()

    def of_pools(self) -> Iterator[Trend]:
        places = self._places
        lengths = _lengths(self._series.pools, places)
        trends: dict[Place, Trend] = {}
        for bucket in BUCKETS:
            trends |= self._pool_trends(bucket, {place for place, own in lengths.items() if own == bucket})
        yield from (trends[place] for place in places)

    def of_groups(self, scope: str) -> dict[str, Trend]:
        members: dict[Place, list[Place]] = {}
        for own_id, market, pool in self._pools[scope].iter_rows():
            members.setdefault((scope, own_id), []).append((market, pool))
        shown = {group: places[:MAX_LINES] for group, places in members.items()}
        totals = _trends(self._series.totals, DAY, self._totals_now, _OF_MANY, set(members))
        pools = self._pool_trends(DAY, {place for places in shown.values() for place in places})
        return {
            group[1]: replace(thinned(trend), greatest=tuple((place, pools[place]) for place in shown[group]))
            for group, trend in totals.items()
        }

    def _pool_trends(self, bucket: Bucket, chosen: set[Place]) -> dict[Place, Trend]:
        return _trends(self._series.pools, bucket, self._now, _OF_POOL, chosen) if chosen else {}


def _lengths(histories: Histories, places: Sequence[Place]) -> dict[Place, Bucket]:
    """The shortest bucket of which a pool or group has all of its history in the series, in at most `MAX_POINTS`."""
    *shorter, longest = histories.kind.buckets
    left, lengths = set(places), dict.fromkeys(places, longest)
    for bucket in shorter:
        counts = histories.closed(bucket).group_by(histories.kind.keys).len().iter_rows()
        many = {(one, other) for one, other, count in counts if count >= MAX_POINTS}
        suited = left - many - histories.cursors(bucket).keys()
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
    histories: Histories,
    bucket: Bucket,
    now: pl.DataFrame,
    columns: Sequence[tuple[str, object, str]],
    places: set[Place],
) -> dict[Place, Trend]:
    keys, names = histories.kind.keys, [name for _, _, name in columns]
    wanted = pl.DataFrame(sorted(places), schema=dict.fromkeys(keys, pl.String()), orient="row")
    rows = pl.concat([part.select(*keys, "start", *names) for part in (histories.closed(bucket), now)])
    rows = rows.join(wanted, on=keys, how="semi").sort(*keys, "start")
    sums = {name for name in names if rows.schema[name] == pl.String}  # beyond 128 bits
    return {
        (one, other): Trend(
            bucket.name,
            starts,
            {name: _integers(own) if name in sums else own for name, own in zip(names, values, strict=True)},
        )
        for one, other, starts, *values in rows.group_by(keys, maintain_order=True).agg("start", *names).iter_rows()
    }


def _integers(column: Sequence[str | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in column]


def pool_charts(trend: Trend) -> tuple[Markup, Markup, Markup, Markup]:
    """Charts of a pool's rates, utilization and value, and their table."""
    starts, columns = trend.starts, [Column(title, unit, trend.values[name]) for title, unit, name in _OF_POOL]
    rates = [Line("Supply APY", 1, 0), Line("Borrow APY", 2, 1)]
    return (
        chart("rates", "Supply and borrow rate", starts, columns, rates),
        chart("use", "Utilization", starts, columns, [Line("Lent out", 3, 2)], area=True),
        chart("value", "Total value", starts, columns, [Line("TVL", 4, 3)], area=True),
        table(starts, columns, "Rates, utilization and value over time"),
    )


def totals_charts(trend: Trend) -> tuple[Markup, ...]:
    """Charts of many pools together, and their table: value, what is supplied and borrowed, and mean rates."""
    columns = _totals_columns(trend)
    return (*_drawn_totals(trend, columns, "value"), table(trend.starts, columns, "Totals over time"))


def protocol_charts(trend: Trend, protocol: str) -> tuple[Markup, ...]:
    """The charts of a protocol without their table. A page with the tables of all protocols would be too large."""
    return tuple(_drawn_totals(trend, _totals_columns(trend), f"value-{protocol}"))


def group_charts(trend: Trend, labels: Mapping[Place, str]) -> tuple[Markup, ...]:
    """Charts of a market or token, and their table: the totals that are known, and the rates of its greatest pools."""
    columns = _totals_columns(trend)
    drawn = list(_drawn_totals(trend, columns, "value")) if trend.is_priced else []
    lines: dict[str, list[Line]] = {name: [] for _, _, name in _OF_POOL[:3]}
    for colour, (place, pool) in enumerate(trend.greatest, 1):
        label = cut(labels.get(place, place[1]), 30)
        for title, unit, name in _OF_POOL[:3]:
            lines[name].append(Line(label, colour, len(columns)))
            columns.append(Column(f"{label}: {title}", unit, _aligned(pool, name, trend.starts)))
    for identity, (title, _, name) in zip(("supply", "borrow", "use"), _OF_POOL[:3], strict=True):
        drawn.append(chart(identity, title, trend.starts, columns, lines[name]))
    return (*drawn, table(trend.starts, columns, "Totals and rates over time"))


def borrow_chart(trend: Trend, labels: Mapping[Place, str]) -> Markup:
    """The chart of the borrow rates of a token's largest pools, without a table."""
    columns = [
        Column(labels.get(place, place[1]), RATE, _aligned(pool, "comparable_borrow_apy_bps", trend.starts))
        for place, pool in trend.greatest
    ]
    lines = [Line(cut(column.title, 30), number, number - 1) for number, column in enumerate(columns, 1)]
    return chart("first-plot", "Borrow APY", trend.starts, columns, lines)


def _totals_columns(trend: Trend) -> list[Column]:
    return [Column(title, unit, trend.values[name]) for title, unit, name in _OF_MANY]


def _drawn_totals(trend: Trend, columns: Sequence[Column], name: str) -> Iterator[Markup]:
    for identity, title, lines in (
        (name, "Total value", [Line("TVL", 4, 0)]),
        (f"{name}-sums", "Supplied and borrowed", [Line("Supplied", 1, 1), Line("Borrowed", 2, 2)]),
        (
            f"{name}-rates",
            "Mean rates, compounded daily, weighted by value",
            [Line("Mean supply APY", 1, 3), Line("Mean borrow APY", 2, 4)],
        ),
    ):
        if len(lines) == 1:
            yield chart(identity, title, trend.starts, columns, lines, area=True)
        else:
            yield from charts_of(identity, title, trend.starts, columns, lines)


def _aligned(pool: Trend, name: str, starts: Sequence[int]) -> Sequence[int | None]:
    by_start = dict(zip(pool.starts, pool.values[name], strict=True))
    return [by_start.get(start) for start in starts]
