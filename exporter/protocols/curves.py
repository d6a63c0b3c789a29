"""The borrow rate over the utilization: a protocol's own math at the knots of the curve that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from exporter import exact


@dataclass(frozen=True, slots=True)
class RateModel:
    """How a protocol's borrow rate follows from the utilization, in straight lines between knots.

    ``full`` is a utilization of 100 %; ``knots`` are where one pool's curve bends, of its parameters. ``rate`` is the
    math over Int128 columns: the utilizations, what ``more`` gives of rows of the pools frame, and the parameters.
    """

    parameters: tuple[str, ...]
    full: int
    knots: Callable[[Mapping[str, int]], Iterable[int]]
    rate: Callable[..., pl.Series]
    more: Callable[[pl.DataFrame], Sequence[tuple[int, ...]]] = lambda pools: [()] * pools.height


def curves(
    model: RateModel, pools: pl.DataFrame, parameters: Sequence[Mapping[str, int]]
) -> dict[int, list[tuple[int, int]]]:
    """Utilizations with the rates there: at the knots, now, at none and at all; by the position of the pool.

    ``pools`` are rows of the pools frame, in whose decimals the numbers are; ``parameters`` are what was read of each.
    A pool for which the math has no result at one of them, or whose parameters are not given, has no curve.
    """
    rows = [
        (place, utilization, *more, *(own[name] for name in model.parameters))
        for place, (own, now, more) in enumerate(
            zip(parameters, pools["accrued_utilization"], model.more(pools), strict=True)
        )
        if own.keys() >= set(model.parameters)
        for utilization in sorted({0, *(min(knot, model.full) for knot in model.knots(own)), model.full, now})
    ]
    if not rows:
        return {}
    names = [str(number) for number in range(len(rows[0]))]
    frame = exact.frame(dict(zip(names, zip(*rows, strict=True), strict=True)), dict.fromkeys(names, pl.Int128()))

    def at_knots(knots: pl.DataFrame) -> pl.DataFrame:
        return knots.select("0", "1", model.rate(*(knots[name] for name in names[1:])).alias("rate"))

    found: dict[int, list[tuple[int, int]]] = {}
    drawn, failures = exact.set_aside_failures(frame, at_knots)
    for place, utilization, rate in drawn.iter_rows():
        found.setdefault(place, []).append((utilization, rate))
    for position in failures:
        found.pop(rows[position][0], None)
    return found
