"""Charts as inline SVG, built as text: lines over time with axes, in integer coordinates, coloured by classes alone.

A chart is drawn at 720 by 360 and shown at half that or so, so its text has the size of the text around it. Style is
all in the style sheet (``k1`` to ``k4`` are the colours of lines), so that it follows the theme and needs no style
attribute. Values are exact integers, and so is every step to a coordinate; nothing depends on how a float prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from html import escape

from markupsafe import Markup

from exporter.history.buckets import BUCKETS
from exporter.site.numbers import NOTHING, TIMES, dollars, exact_dollars, exact_percent, moment, percent

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
