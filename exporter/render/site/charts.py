"""Charts as inline SVG, built as text: lines over time, with axes.

A chart is drawn at 720 by 360, and pages show it at about half that size. All style is in the style sheet, so that it
follows the theme: the classes ``k1`` to ``k4`` are the colours of lines. Values and coordinates are exact integers, so
nothing depends on how a float is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup
from msgspec import Struct

from exporter.render.site.text import (
    MONTHS,
    NOTHING,
    THIN,
    TIMES,
    dollars,
    exact_dollars,
    exact_percent,
    moment,
    percent,
    with_addresses,
)
from exporter.tables import YEAR

_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 704, 24, 296
_TICKS = 4
_STEPS = (300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000)
_STEEP, _OUTLIER = 4, 5

FEWEST_POINTS = 2
"""Number of points up to which a chart has no lines, and says that the history begins today."""

_APART = 20
"""Factor between the heights of two lines from which each line has a chart of its own."""


class Unit(Struct, frozen=True):
    """How values are written in short, in full, and at an axis. No chart clips values up to ``shown``."""

    short: Callable[[int], str]
    full: Callable[[int], str]
    tick: Callable[[int], str]
    shown: int = 0


class ChartColumn(NamedTuple):
    """A column of the table next to charts: its title, its unit, and a value for each start (None is a gap)."""

    title: str
    unit: Unit
    values: Sequence[int | None]


class Line(NamedTuple):
    """One line of a chart: its name, its colour (1 to 4), and the number of its column."""

    name: str
    colour: int
    column: int


def _percent_tick(basis_points: int) -> str:
    whole, part = divmod(basis_points, 100)
    if basis_points >= 10**9:
        return percent(basis_points).replace(f".00{TIMES}", TIMES)
    if whole >= 100_000:
        return f"{whole // 1_000:,}K{THIN}%"
    return f"{whole:,}{f'.{part:02d}'.rstrip('0') if part else ''}{THIN}%"


def _dollars_tick(cents: int) -> str:
    """A round sum at an axis. From 1,000 dollars on it is in thousands: next to ``$10K`` is ``$5K``, not ``$5,000``."""
    if 100_000 <= cents < 1_000_000:
        thousands, rest = divmod(cents, 100_000)
        return f"${f'{thousands}.{rest:05d}'.rstrip('0').rstrip('.')}K"
    text = dollars(cents)
    number, unit = (text[:-1], text[-1]) if text[-1] in "KMBT" else (text, "")
    return (number.rstrip("0").rstrip(".") if "." in number and TIMES not in number else number) + unit


RATE = Unit(percent, exact_percent, _percent_tick, 10_000)
"""Unit of rates, in basis points."""

MONEY = Unit(dollars, exact_dollars, _dollars_tick)
"""Unit of values, in US cents."""

COUNT = Unit(str, str, str)


def charts_of(
    name: str, title: str, starts: Sequence[int], columns: Sequence[ChartColumn], lines: Sequence[Line]
) -> list[Markup]:
    """One `chart` of these lines, or a chart for each.

    Each has its own if the highest line would press another flat against the axis (`_APART`).
    """
    tops = [max((value for value in columns[line.column].values if value is not None), default=0) for line in lines]
    heights = [top for top in tops if top > 0]
    if len(heights) < 2 or max(heights) < _APART * min(heights):
        return [chart(name, title, starts, columns, lines)]
    return [chart(f"{name}-{line.colour}", line.name, starts, columns, [line], area=True) for line in lines]


def chart(
    name: str,
    title: str,
    starts: Sequence[int],
    columns: Sequence[ChartColumn],
    lines: Sequence[Line],
    *,
    area: bool = False,
) -> Markup:
    """Draw some columns of the table that follows (`table`) over time.

    A few values far above the usual ones would press all others flat. They are drawn at the top of the chart, and the
    legend names the greatest.

    Args:
        name: a name that no other chart of the page has.
        title: the caption.
        starts: the start of each bucket in unix seconds, ascending.
        columns: the columns of the table.
        lines: at most four columns to draw, all of one unit.
        area: whether the area below the lines is filled.
    """
    unit = columns[lines[0].column].unit
    drawn = [columns[line.column].values for line in lines]
    present = [[value for value in values if value is not None] for values in drawn]
    legend, description = _legend(lines, present, unit)
    description = f"{moment(starts[0])} to {moment(starts[-1])}.{description}"
    greatest = max((value for values in present for value in values), default=-1)
    if greatest > unit.shown and (end := _usual_end(present, unit)) < greatest:
        clipped = f"Clipped: values up to {unit.short(greatest)}"
        legend += f'<li title="{unit.full(greatest)}">{clipped}</li>'
        description += f" {clipped}."
        greatest = end
        cut = _scale(end)[0]
        drawn = [[value and min(value, cut) for value in values] for values in drawn]
    head = f'<figure class="chart"><figcaption>{escape(title)}</figcaption><ul class="legend">{legend}</ul>'
    if greatest < 0:
        return Markup(f'{head}<p class="blank">Nothing to draw yet: no value is known.</p></figure>')
    if len(starts) <= FEWEST_POINTS:
        return Markup(f'{head}<p class="blank">The history begins here.</p></figure>')
    top, step = _scale(greatest)
    xs, axis = _time_axis(tuple(starts))
    paths = "".join([_draw(line.colour, own, xs, top, area) for line, own in zip(lines, drawn, strict=True)])
    return Markup(
        f'{head}<svg class="plot" viewBox="0 0 720 360" data-top="{top}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{escape(title)}</title>'
        f'<desc id="{name}-d">{description}</desc>'
        f"{_value_axis(unit, top, step)}{axis}{paths}</svg></figure>"
    )


def _legend(lines: Sequence[Line], present: Sequence[Sequence[int]], unit: Unit) -> tuple[str, str]:
    """The items of a legend, and the same as sentences for those who hear the page: range and last value of each line.

    ``present`` has the known values of each line.
    """
    items = sentences = ""
    for line, values in zip(lines, present, strict=True):
        mark, label = f'<li class="k{line.colour}" data-column="{line.column}">', with_addresses(line.name)
        if not values:
            items += f"{mark}<bdi>{label}</bdi> <b>{NOTHING}</b></li>"
            continue
        least, most, last = min(values), max(values), values[-1]
        low, high, now = unit.short(least), unit.short(most), unit.short(last)
        items += f'{mark}<bdi>{label}</bdi> <b title="{unit.full(last)}">{now}</b>'
        items += "</li>" if least == most else f' <span class="range">(low {low}, high {high})</span></li>'
        sentences += f" {escape(line.name)}: from {low} to {high}, last {now}."
    return items, sentences


def _usual_end(lines: Sequence[Sequence[int]], unit: Unit) -> int:
    """The greatest value that is not far above the usual ones.

    A line's usual value is its ninth decile, or its last value if that is greater. Values above `_OUTLIER` times the
    median of these are far above.
    """
    with_values = [line for line in lines if line]
    usual = sorted(max(line[-1], sorted(line)[(len(line) - 1) * 9 // 10]) for line in with_values)
    limit = max(unit.shown, _OUTLIER * usual[len(usual) // 2])
    return max((value for line in with_values for value in line if value <= limit), default=limit)


def table(starts: Sequence[int], columns: Sequence[ChartColumn], caption: str) -> Markup:
    """The data of charts as a folded table, the newest row first.

    Its attributes have what the page's script needs to point at a row: the abscissas, and the span of time.
    """
    heads = "".join(f'<th scope="col" class="number">{escape(column.title)}</th>' for column in columns)
    cells = [[NOTHING if value is None else unit.full(value) for value in values] for _, unit, values in columns]
    row = '<tr><th scope="row">%s</th>' + '<td class="number">%s</td>' * len(columns)
    times = [moment(start).removesuffix(" UTC") for start in starts]
    rows = "".join([row % parts for parts in zip(times, *cells, strict=True)][::-1])
    return Markup(
        f'<details class="data"><summary>The same numbers as a table</summary><div class="scroll" tabindex="0" '
        f'role="region" aria-label="{escape(caption)}"><table><caption>{escape(caption)}</caption>'
        f'<thead><tr><th scope="col">From (UTC)</th>{heads}</tr></thead>'
        f'<tbody data-x="{"".join(_time_axis(tuple(starts))[0]).rstrip()}" data-span="{starts[-1] - starts[0]}">{rows}'
        "</tbody></table></div></details>"
    )


_CURVE_RATES = "a year, not compounded, as the next operation sets it"
"""Which rates a curve has. The yields of the page are compounded, and of the rate that holds until that operation."""


def curve(points: Sequence[tuple[int, int]], now: tuple[int, int]) -> Markup:
    """Draw what borrowing costs at each utilization, and where the pool is, all in basis points.

    If the last stretch is so steep that it would press the others flat, it leaves the chart at its top, and the legend
    has its end. If the pool is on that stretch, all of it is drawn.
    """
    beyond, widest = "", max(points[-1][0], 1)
    if len(points) > 2 and now[0] <= points[-2][0] and points[-1][1] > _STEEP * points[-2][1]:
        *points, last = points
        beyond = f"<li>At {_percent_tick(last[0])} <b>{percent(last[1])}</b></li>"
    highest = max(rate for _, rate in (*points, now))
    top, step = _scale(highest * 5 // 4 if beyond else highest)  # room in which the last stretch is seen to rise

    def position(utilization: int, rate: int) -> tuple[int, int]:
        return _LEFT + utilization * (_RIGHT - _LEFT) // widest, _BOTTOM - rate * (_BOTTOM - _TOP) // top

    parts = range(0, widest // 100 + 1, 25)
    axis = _axis_labels([(_LEFT + part * 100 * (_RIGHT - _LEFT) // widest, f"{part}{THIN}%") for part in parts])
    knots_at, descriptions = [position(*point) for point in points], [_costs(*point) for point in points]
    path = "L".join([f"{x} {y}" for x, y in knots_at])
    if beyond:  # the last stretch, up to where it leaves the chart
        (left, low), run, rise = points[-1], last[0] - points[-1][0], last[1] - points[-1][1]
        x, y = position(left + run * (top - low) // rise, top)
        path += f"L{x} {y}"
    knots = "".join(
        [
            f'<circle class="knot" cx="{x}" cy="{y}" r="6"><title>{described}</title></circle>'
            for (x, y), described in zip(knots_at, descriptions, strict=True)
        ]
    )
    (x, y), described = position(*now), _costs(*now)
    return Markup(
        f'<figure class="chart"><figcaption>Borrow rate by utilization <span class="quiet">{_CURVE_RATES}</span>'
        '</figcaption><ul class="legend">'
        f'<li class="k2">Now <b>{percent(now[1])}</b> at <b>{percent(now[0])}</b></li>{beyond}</ul>'
        '<svg class="plot" viewBox="0 0 720 360" role="img" aria-labelledby="curve-t curve-d">'
        f'<title id="curve-t">Borrow rate by utilization, {_CURVE_RATES}</title>'
        f'<desc id="curve-d">{"; ".join(descriptions)}. Now: {described}.</desc>'
        f'{_value_axis(RATE, top, step)}{axis}<path class="line k3" d="M{path}"/>{knots}'
        f'<circle class="dot k2" cx="{x}" cy="{y}" r="10"><title>{described}</title></circle></svg></figure>'
    )


def fall_chart(points: Sequence[tuple[int, int]], what: str) -> Markup:
    """Draw what part of a market's debt can be liquidated after each fall of prices, both in basis points."""
    widest = points[-1][0]
    top, step = _scale(max(max(part for _, part in points), 1))

    def position(fall: int, part: int) -> tuple[int, int]:
        return _LEFT + fall * (_RIGHT - _LEFT) // widest, _BOTTOM - part * (_BOTTOM - _TOP) // top

    ticks = range(0, widest // 100 + 1, 10)
    axis = _axis_labels([(_LEFT + tick * 100 * (_RIGHT - _LEFT) // widest, f"{tick}{THIN}%") for tick in ticks])
    descriptions = [f"at a fall of {percent(fall)}, {exact_percent(part)} of the debt" for fall, part in points]
    knots_at = [position(*point) for point in points]
    path = "L".join([f"{x} {y}" for x, y in knots_at])
    knots = "".join(
        [
            f'<circle class="knot" cx="{x}" cy="{y}" r="6"><title>{described}</title></circle>'
            for (x, y), described in zip(knots_at, descriptions, strict=True)
        ]
    )
    title = f"Debt that can be liquidated if {escape(what)} falls"
    return Markup(
        f'<figure class="chart"><figcaption>{title}</figcaption>'
        '<svg class="plot" viewBox="0 0 720 360" role="img" aria-labelledby="fall-t fall-d">'
        f'<title id="fall-t">{title}, in parts of all debt, by how far the price falls</title>'
        f'<desc id="fall-d">{"; ".join(descriptions)}.</desc>'
        f'{_value_axis(RATE, top, step)}{axis}<path class="line k2" d="M{path}"/>{knots}</svg></figure>'
    )


def _costs(utilization: int, rate: int) -> str:
    return f"at a utilization of {exact_percent(utilization)} borrowing costs {exact_percent(rate)} a year"


def _scale(greatest: int) -> tuple[int, int]:
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
def _time_axis(starts: tuple[int, ...]) -> tuple[list[str], str]:
    first, last = starts[0], starts[-1]
    span = last - first
    if not span:
        middle = (_LEFT + _RIGHT) // 2
        return [f"{middle} "] * len(starts), _axis_labels([(middle, _day_and_time(first))])
    xs = [f"{_LEFT + (start - first) * (_RIGHT - _LEFT) // span} " for start in starts]
    step = next((step for step in _STEPS if span <= step * _TICKS), YEAR)
    ticks = range(-(-first // step) * step, last + 1, step)
    if len(ticks) < 2:
        ends = [(_LEFT, _day_and_time(first)), (_RIGHT, _day_and_time(last))]
        return xs, _axis_labels(ends)
    return xs, _axis_labels(
        [(_LEFT + (tick - first) * (_RIGHT - _LEFT) // span, _tick_label(tick, step)) for tick in ticks]
    )


def _axis_labels(labels: Sequence[tuple[int, str]]) -> str:
    marks = "".join(f"M{x} {_BOTTOM}v10" for x, _ in labels)
    texts = "".join(f'<text x="{min(x, 716)}" y="338"{_anchor(x, len(text))}>{text}</text>' for x, text in labels)
    return f'<path class="marks" d="{marks}"/><g class="ticks x" aria-hidden="true">{texts}</g>'


def _anchor(x: int, length: int) -> str:
    half = 7 * length
    if x + half > 716:
        return ' class="end"'
    return ' class="start"' if x - half < 4 else ""


def _tick_label(time: int, step: int) -> str:
    at = datetime.fromtimestamp(time, UTC)
    if step < 86_400 and time % 86_400:
        return f"{at:%H:%M}"
    if step >= 2_592_000:
        return f"{MONTHS[at.month - 1]} {at.year}"
    return f"{at.day} {MONTHS[at.month - 1]}"


def _day_and_time(time: int) -> str:
    at = datetime.fromtimestamp(time, UTC)
    return f"{at.day} {MONTHS[at.month - 1]}, {at:%H:%M}"


def _draw(colour: int, values: Sequence[int | None], xs: Sequence[str], top: int, area: bool) -> str:
    height = _BOTTOM - _TOP
    strokes = fills = ""
    points: list[str] = []
    for is_known, run in groupby(zip(xs, values, strict=True), key=lambda point: point[1] is not None):
        if is_known:
            points = [x + _YS[value * height // top] for x, value in run if value is not None]
            path, (first, *_), (last, *_) = " ".join(points), points[0].split(), points[-1].split()
            strokes += f"M{path}" if len(points) > 1 else f"M{path}h0"
            fills += f"M{path} {last} {_BOTTOM} {first} {_BOTTOM}Z"
    if not points:
        return ""
    x, _, y = points[-1].partition(" ")
    below = f'<path class="area k{colour}" d="{fills}"/>' if area else ""
    return f'{below}<path class="line k{colour}" d="{strokes}"/><circle class="dot k{colour}" cx="{x}" cy="{y}" r="8"/>'


_YS = [str(_BOTTOM - up) for up in range(_BOTTOM - _TOP + 1)]
"""The ordinates of a plot as text, indexed by the height above its axis."""
