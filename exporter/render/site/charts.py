"""What the charts show: the histories in buckets, of a length that suits how much history there is.

A chart takes the shortest bucket of which the series at hand still has every one: five minutes in the first hours,
days after some weeks, weeks after some months. Nothing is read for it: the frames of `exporter.history.series.Series`
have it. All work is on whole frames, one pass for each length that is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from html import escape

import polars as pl
from markupsafe import Markup

from exporter.history.buckets import BUCKETS, Bucket, aggregate
from exporter.history.series import Series
from exporter.render.site.text import NOTHING, TIMES, dollars, exact_dollars, exact_percent, moment, percent

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


def _legend(line: Line, unit: Unit) -> str:
    last = next((value for value in reversed(line.values) if value is not None), None)
    shown = NOTHING if last is None else f'<b title="{unit.full(last)}">{unit.short(last)}</b>'
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
