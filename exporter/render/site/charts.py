"""What the charts show: the histories in buckets, of a length that suits how much history there is, and the state now.

A chart takes the shortest bucket of which the series at hand still has every one, within `MOST_POINTS`: five minutes in
the first hours, days after some weeks, weeks after some months. Histories hold closed buckets only, so the last point
of every line is what the run itself observed, at its ledger's close. Nothing is read for it: the frames of
`exporter.history.series.Series` have it. All work is on whole frames, one pass for each length that is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from typing import Any

import polars as pl
from markupsafe import Markup

from exporter.history.buckets import BUCKETS, LONGEST, Bucket, aggregate, observations_of
from exporter.history.parts import Part
from exporter.history.series import Series
from exporter.history.shelves import POOLS, TOTALS, Form, Place, Shelf
from exporter.history.totals import places_of, totals_of
from exporter.render.site.text import (
    NOTHING,
    TIMES,
    dollars,
    exact_dollars,
    exact_percent,
    fixed_point,
    moment,
    percent,
)

LINES = 4
"""Pools that a chart of many shows: those of the greatest value."""

MOST_POINTS = 96
"""A longer bucket is taken for more; of the longest there may be as many as the newest document has."""

_COLUMNS = ("start", "supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
_TOTALS = (
    "start", "supplied_usd_cents", "borrowed_usd_cents", "tvl_usd_cents", "mean_supply_apy_bps", "mean_borrow_apy_bps",
    "best_supply_apy_bps", "best_borrow_apy_bps", "pool_count", "priced_count",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trend:
    """One pool over time: its bucket, when each of those that were observed began (unix seconds), and their values."""

    bucket: str
    starts: Sequence[int] = ()
    supply: Sequence[int] = ()
    borrow: Sequence[int] = ()
    utilization: Sequence[int] = ()
    value: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True)
class GroupTrend:
    """Many pools over time: their totals, and the few that are greatest, by market and id, in the same bucket."""

    bucket: str
    pools: tuple[tuple[Place, Trend], ...] = ()
    starts: Sequence[int] = ()
    supplied: Sequence[int | None] = ()
    borrowed: Sequence[int | None] = ()
    value: Sequence[int | None] = ()
    mean_supply: Sequence[int | None] = ()
    mean_borrow: Sequence[int | None] = ()
    best_supply: Sequence[int | None] = ()
    best_borrow: Sequence[int | None] = ()
    pool_count: Sequence[int] = ()
    priced_count: Sequence[int] = ()


class Trends:
    """The histories of all pools that a run has, in the order of its pools frame, and of their totals."""

    def __init__(self, series: Series | None, pools: pl.DataFrame) -> None:
        """From the series that has the run itself, and the pools frame (sorted by market and pool)."""
        self._series = Series() if series is None else series
        now = aggregate(observations_of(pools if series is not None else pools.clear()), LONGEST)
        closed = pl.lit(self._series.through_time, pl.Int64).alias("start")
        self._now, self._totals_now = now.with_columns(closed), totals_of(now).with_columns(closed)
        self._pools = pools.select("market", "pool", "tvl_usd_cents")
        self._places = pools.select("market", "token_address", "protocol")

    def of_pools(self) -> Iterator[Trend]:
        """The trend of each pool, in the order of the pools frame."""
        for part, own in self._series.pools.split(self._pools):
            places = own.select("market", "pool").rows()
            lengths = _lengths(part, places)
            drawn: dict[Place, Trend] = {}
            for bucket, chosen in _by_bucket(lengths):
                drawn |= self._pool_trends(part, bucket, chosen)
            yield from (drawn.get(place, Trend(lengths[place].name)) for place in places)

    def of_groups(self, scope: str) -> dict[str, GroupTrend]:
        """The trends of all markets, tokens or protocols, or of the network (a scope of the totals), by id."""
        members: dict[Place, list[int]] = {}
        for position, row in enumerate(self._places.iter_rows()):
            place = next(place for place in places_of(*row) if place[0] == scope)
            members.setdefault(place, []).append(position)
        names, values = self._pools.select("market", "pool").rows(), self._pools["tvl_usd_cents"].to_list()
        shown = {
            place: [names[i] for i in sorted(own, key=lambda i: (values[i] is None, -(values[i] or 0)))[:LINES]]
            for place, own in members.items()
        }
        totals: list[tuple[Place, Bucket, list[list[Any]]]] = []
        for part, own in self._series.totals.split(_frame(TOTALS, members)):
            for bucket, chosen in _by_bucket(_lengths(part, own.rows())):
                columns = _columns(part.shelf(bucket), self._totals_now, _TOTALS, chosen)
                totals += ((place, bucket, columns[place]) for place in columns)
        wanted: dict[Bucket, set[Place]] = {}
        for place, bucket, _ in totals:
            wanted.setdefault(bucket, set()).update(shown[place])
        pools: dict[tuple[Bucket, Place], Trend] = {}
        for bucket, chosen in wanted.items():
            for part, own in self._series.pools.split(_frame(POOLS, chosen)):
                trends = self._pool_trends(part, bucket, set(own.rows()))
                pools |= {(bucket, place): trend for place, trend in trends.items()}
        groups = {}
        for place, bucket, (starts, supplied, borrowed, value, *rest) in totals:
            lines = tuple((pool, pools[bucket, pool]) for pool in shown[place])
            money = [_cents(column) for column in (supplied, borrowed, value)]
            groups[place[1]] = GroupTrend(bucket.name, lines, starts, *money, *rest)
        return groups

    def _pool_trends(self, part: Part, bucket: Bucket, chosen: set[Place]) -> dict[Place, Trend]:
        columns = _columns(part.shelf(bucket), self._now, _COLUMNS, chosen) if chosen else {}
        return {place: Trend(bucket.name, *own) for place, own in columns.items()}


def _cents(column: Sequence[str | None]) -> Any:
    return [None if value is None else int(value) for value in column]


def _lengths(part: Part, places: Sequence[Place]) -> dict[Place, Bucket]:
    """The shortest bucket of which every one of a place is at hand, and not too many."""
    left, lengths = set(places), dict.fromkeys(places, BUCKETS[-1])
    for bucket in BUCKETS[:-1]:
        if not left:
            break
        shelf = part.shelf(bucket)
        counts = shelf.closed.group_by(shelf.form.keys).len().iter_rows()
        many = {(one, other) for one, other, count in counts if count >= MOST_POINTS}
        suited = left - many - shelf.cursors.keys()
        lengths.update(dict.fromkeys(suited, bucket))
        left -= suited
    return lengths


def _by_bucket(lengths: Mapping[Place, Bucket]) -> Iterator[tuple[Bucket, set[Place]]]:
    for bucket in BUCKETS:
        chosen = {place for place, own in lengths.items() if own == bucket}
        if chosen:
            yield bucket, chosen


def _frame(form: Form, places: Iterable[Place]) -> pl.DataFrame:
    return pl.DataFrame(sorted(places), schema=dict.fromkeys(form.keys, pl.String()), orient="row")


def _columns(shelf: Shelf, now: pl.DataFrame, names: Sequence[str], places: set[Place]) -> dict[Place, list[list[Any]]]:
    """The columns of each place as lists: its closed buckets, and what is observed now."""
    keys = shelf.form.keys
    wanted = _frame(shelf.form, places)
    rows = pl.concat([shelf.closed.select(*keys, *names), now.select(*keys, *names)]).join(wanted, on=keys, how="semi")
    lists = rows.sort(*keys, "start").group_by(keys, maintain_order=True).agg(*names)
    return {(one, other): columns for one, other, *columns in lists.iter_rows()}


# Charts as inline SVG, built as text: lines over time with axes, in integer coordinates, coloured by classes alone.
#
# A chart is drawn at 720 by 360 and shown at half that or so, so its text has the size of the text around it. Style is
# all in the style sheet (``k1`` to ``k4`` are the colours of lines), so that it follows the theme and needs no style
# attribute. Values are exact integers, and so is every step to a coordinate; nothing depends on how a float prints.

BUCKET_WORDS = {"5m": "5 minutes", "15m": "15 minutes", "1h": "hour", "6h": "6 hours", "1d": "day", "1w": "week"}
"""What follows ``every``."""

assert tuple(BUCKET_WORDS) == tuple(bucket.name for bucket in BUCKETS)

_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 704, 24, 296
_TICKS = 4
_STEPS = (300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000)
_YEARLY = 31_536_000
_STEEP = 4
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_THIN = "\N{NARROW NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Unit:
    """How values are written: in short, in full, and at an axis."""

    short: Callable[[int], str]
    full: Callable[[int], str]
    tick: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its name, its colour (1 to 4), and a value for each start; None is a gap."""

    name: str
    colour: int
    values: Sequence[int | None]


@lru_cache(maxsize=1 << 12)
def _percent_tick(basis_points: int) -> str:
    whole, part = divmod(basis_points, 100)
    if basis_points >= 10**9:
        return percent(basis_points).replace(f".00{TIMES}", TIMES)
    if whole >= 100_000:
        return f"{whole // 1_000:,}K{_THIN}%"
    return f"{whole:,}{f'.{part:02d}'.rstrip('0') if part else ''}{_THIN}%"


@lru_cache(maxsize=1 << 12)
def _dollars_tick(cents: int) -> str:
    text = dollars(cents)
    number, unit = (text[:-1], text[-1]) if text[-1] in "KMBT" else (text, "")
    return (number.rstrip("0").rstrip(".") if "." in number and TIMES not in number else number) + unit


RATE = Unit(percent, exact_percent, _percent_tick)
"""Basis points."""

MONEY = Unit(dollars, exact_dollars, _dollars_tick)
"""US cents."""

COUNT = Unit(str, str, str)


def chart(
    name: str, title: str, unit: Unit, starts: Sequence[int], lines: Sequence[Line], *, area: bool = False
) -> Markup:
    """Draw lines over time.

    Args:
        name: unique in the page; the ids of the chart begin with it.
        title: what is drawn, in a few words.
        unit: what the values are.
        starts: when each bucket began, ascending, unix seconds.
        lines: at most four, each with a value for each start.
        area: fill what is below the lines.
    """
    drawn = [line for line in lines if any(value is not None for value in line.values)]
    legend = "".join(_legend(line, unit) for line in lines)
    head = f'<figure class="chart"><figcaption>{escape(title)}</figcaption><ul class="legend">{legend}</ul>'
    if not drawn:
        return Markup(f'{head}<p class="blank">Nothing to draw yet: no value is known.</p></figure>')
    top, step = _scale(max(value for line in drawn for value in line.values if value is not None))
    xs, axis = _time_axis(tuple(starts))
    parts = [
        f'{head}<svg class="plot" viewBox="0 0 720 360" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{_description(unit, starts, drawn)}</desc>',
        _value_axis(unit, top, step),
        axis,
    ]
    for line in drawn:
        parts += _draw(line, xs, top, area)
    parts.append("</svg></figure>")
    return Markup("".join(parts))


def table(starts: Sequence[int], columns: Sequence[tuple[str, Unit, Sequence[int | None]]], caption: str) -> Markup:
    """The data of charts as a table, the newest first, folded away."""
    heads = "".join(f'<th scope="col" class="number">{escape(title)}</th>' for title, _, _ in columns)
    cells = [
        ['<td class="number">' + (NOTHING if value is None else full(value)) + "</td>" for value in values]
        for full, values in ((unit.full, values) for _, unit, values in columns)
    ]
    rows = "".join(["".join(row) for row in zip(_row_heads(tuple(starts)), *cells, strict=True)][::-1])
    return Markup(
        f'<details class="data"><summary>The same numbers as a table</summary><div class="scroll" tabindex="0" '
        f'role="region" aria-label="{escape(caption)}"><table><caption>{escape(caption)}</caption>'
        f'<thead><tr><th scope="col">From (UTC)</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def curve(points: Sequence[tuple[int, int]], now: tuple[int, int], scales: tuple[int, int]) -> Markup:
    """Draw what borrowing costs at each utilization, and where the pool stands.

    A last stretch that would flatten all others is only told, unless the pool stands on it.

    Args:
        points: the knots, at least two, ascending: utilizations and rates.
        now: the utilization and rate now.
        scales: the decimals of utilizations and of rates.
    """
    ones = 10 ** scales[0], 10 ** scales[1]
    beyond = ""
    if len(points) > 2 and now[0] <= points[-2][0] and points[-1][1] > _STEEP * points[-2][1]:
        *points, last = points
        full, most = (exact_percent(value * 10_000 // one) for value, one in zip(last, ones, strict=True))
        beyond = f"<li>At {full} <b>{most}</b></li>"
    widest = points[-1][0]
    top, step = _scale(max(rate for _, rate in (*points, now)) * 10_000 // ones[1])

    def place(utilization: int, rate: int) -> tuple[int, int]:
        y = _BOTTOM - rate * 10_000 * (_BOTTOM - _TOP) // (ones[1] * top)
        return _LEFT + utilization * (_RIGHT - _LEFT) // widest, y

    def said(utilization: int, rate: int) -> str:
        shown = (fixed_point(value * 100, scale) for value, scale in zip((utilization, rate), scales, strict=True))
        return "at a utilization of {}{thin}% borrowing costs {}{thin}% a year".format(*shown, thin=_THIN)

    path = "L".join(f"{x} {y}" for x, y in (place(*point) for point in points))
    dots = "".join(
        f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"><title>{said(*point)}</title></circle>'
        for kind, radius, point in (*(("knot", 6, point) for point in points), ("dot k2", 10, now))
        for x, y in (place(*point),)
    )
    labels = [
        (x, f"{part}{_THIN}%")
        for part in range(0, widest * 100 // ones[0] + 1, 25)
        for x in (_LEFT + part * ones[0] // 100 * (_RIGHT - _LEFT) // widest,)
    ]
    shown = percent(now[0] * 10_000 // ones[0]), percent(now[1] * 10_000 // ones[1])
    return Markup(
        '<figure class="chart"><figcaption>Borrow rate by utilization</figcaption><ul class="legend">'
        f'<li class="k2">Now <b>{shown[1]}</b> at <b>{shown[0]}</b></li>{beyond}</ul>'
        '<svg class="plot" viewBox="0 0 720 360" role="img" aria-labelledby="curve-t curve-d">'
        '<title id="curve-t">Borrow rate by utilization, a year, not compounded</title>'
        f'<desc id="curve-d">{"; ".join(said(*point) for point in points)}. Now: {said(*now)}.</desc>'
        f'{_value_axis(RATE, top, step)}{_axis_labels(labels)}<path class="line k3" d="M{path}"/>{dots}</svg></figure>'
    )


def _legend(line: Line, unit: Unit) -> str:
    last = next((value for value in reversed(line.values) if value is not None), None)
    shown = NOTHING if last is None else f'<b title="{unit.full(last)}">{unit.short(last)}</b>'
    known = [value for value in line.values if value is not None]
    if known and min(known) != max(known):
        shown += f' <span class="range">({unit.short(min(known))} to {unit.short(max(known))})</span>'
    return f'<li class="k{line.colour}"><bdi>{escape(line.name)}</bdi> {shown}</li>'


def _description(unit: Unit, starts: Sequence[int], lines: Sequence[Line]) -> str:
    parts = [f"{moment(starts[0])} to {moment(starts[-1])}."]
    for line in lines:
        known = [value for value in line.values if value is not None]
        least, greatest, last = (unit.short(value) for value in (min(known), max(known), known[-1]))
        parts.append(f"{escape(line.name)}: from {least} to {greatest}, last {last}.")
    return " ".join(parts)


def _scale(greatest: int) -> tuple[int, int]:
    """The end of a value axis that begins at zero, and the step of its ticks: 1, 2 or 5 times a power of ten."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            step = digit * power
            if step * _TICKS >= greatest:
                return max(-(-greatest // step), 1) * step, step
        power *= 10


@lru_cache(maxsize=1 << 12)
def _value_axis(unit: Unit, top: int, step: int) -> str:
    lines, labels = [], []
    for value in range(0, top + 1, step):
        y = _BOTTOM - value * (_BOTTOM - _TOP) // top
        lines.append(f"M{_LEFT} {y}H720")
        labels.append(f'<text x="{_LEFT - 12}" y="{y + 8}">{unit.tick(value)}</text>')
    return f'<path class="grid" d="{"".join(lines)}"/><g class="ticks y" aria-hidden="true">{"".join(labels)}</g>'


@lru_cache(maxsize=1 << 8)
def _time_axis(starts: tuple[int, ...]) -> tuple[list[int], str]:
    """Where each start lies, and the axis below."""
    first, last = starts[0], starts[-1]
    span = last - first
    if not span:
        middle = (_LEFT + _RIGHT) // 2
        return [middle] * len(starts), _axis_labels([(middle, _day_and_time(first))])
    xs = [_LEFT + (start - first) * (_RIGHT - _LEFT) // span for start in starts]
    step = next((step for step in _STEPS if span <= step * _TICKS), _YEARLY)
    ticks = range(-(-first // step) * step, last + 1, step)
    if len(ticks) < 2:
        ends = [(xs[0], _day_and_time(first)), (xs[-1], _day_and_time(last))]
        return xs, _axis_labels(ends)
    return xs, _axis_labels(
        [(_LEFT + (tick - first) * (_RIGHT - _LEFT) // span, _tick_label(tick, step)) for tick in ticks]
    )


def _axis_labels(labels: Sequence[tuple[int, str]]) -> str:
    marks = "".join(f"M{x} {_BOTTOM}v10" for x, _ in labels)
    texts = "".join(f'<text x="{min(x, 716)}" y="338"{_anchor(x, len(text))}>{text}</text>' for x, text in labels)
    return f'<path class="marks" d="{marks}"/><g class="ticks x" aria-hidden="true">{texts}</g>'


def _anchor(x: int, length: int) -> str:
    """Labels stand under their mark, but never beyond the ends of the drawing."""
    half = 7 * length
    if x + half > 716:
        return ' class="end"'
    return ' class="start"' if x - half < 4 else ""


def _tick_label(time: int, step: int) -> str:
    at = datetime.fromtimestamp(time, UTC)
    if step < 86_400 and time % 86_400:
        return f"{at:%H:%M}"
    if step >= 2_592_000:
        return f"{_MONTHS[at.month - 1]} {at.year}"
    return f"{at.day} {_MONTHS[at.month - 1]}"


def _day_and_time(time: int) -> str:
    at = datetime.fromtimestamp(time, UTC)
    return f"{at.day} {_MONTHS[at.month - 1]}, {at:%H:%M}"


def _draw(line: Line, xs: Sequence[int], top: int, area: bool) -> Iterator[str]:
    height = _BOTTOM - _TOP
    colour = line.colour
    strokes, fills = [], []
    points: list[str] = []
    for points, begin, end in _segments(line.values, xs, top, height):
        path = " ".join(points)
        strokes.append(f"M{path}" if len(points) > 1 else f"M{path}h0")
        fills.append(f"M{path} {end} {_BOTTOM} {begin} {_BOTTOM}Z")
    if area:
        yield f'<path class="area k{colour}" d="{"".join(fills)}"/>'
    yield f'<path class="line k{colour}" d="{"".join(strokes)}"/>'
    x, _, y = points[-1].partition(" ")
    yield f'<circle class="dot k{colour}" cx="{x}" cy="{y}" r="8"/>'


def _segments(
    values: Sequence[int | None], xs: Sequence[int], top: int, height: int
) -> Iterator[tuple[list[str], int, int]]:
    """The points of each run of values that are known, with where it begins and ends."""
    if None not in values:
        known: Sequence[int] = values  # type: ignore[assignment]
        yield [f"{x} {_BOTTOM - value * height // top}" for x, value in zip(xs, known, strict=True)], xs[0], xs[-1]
        return
    points: list[str] = []
    begin = end = 0
    for x, value in zip(xs, values, strict=True):
        if value is None:
            if points:
                yield points, begin, end
            points = []
            continue
        if not points:
            begin = x
        end = x
        points.append(f"{x} {_BOTTOM - value * height // top}")
    if points:
        yield points, begin, end


@lru_cache(maxsize=1 << 8)
def _row_heads(starts: tuple[int, ...]) -> list[str]:
    return [f'<tr><th scope="row">{moment(start).removesuffix(" UTC")}</th>' for start in starts]
