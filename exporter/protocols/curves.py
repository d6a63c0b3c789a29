"""The borrow rate over the utilization: a protocol's own math at the knots of the curve that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from exporter.errors import ExactError


@dataclass(frozen=True, slots=True)
class RateModel:
    """How a protocol's borrow rate follows from the utilization, in straight lines between knots.

    ``full`` is a utilization of 100 %; ``knots`` are where one pool's curve bends, of its parameters. ``rate`` is the
    math of a utilization, what ``more`` gives of the pool's row of the pools frame, and the parameters.
    """

    parameters: tuple[str, ...]
    full: int
    knots: Callable[[Mapping[str, int]], Iterable[int]]
    rate: Callable[..., int]
    more: Callable[[pl.DataFrame], Sequence[tuple[int, ...]]] = lambda pools: [()] * pools.height


def curves(
    model: RateModel, pools: pl.DataFrame, parameters: Sequence[Mapping[str, int]]
) -> dict[int, list[tuple[int, int]]]:
    """Utilizations with the rates there: at the knots, now, at none and at all; by the position of the pool.

    ``pools`` are rows of the pools frame, in whose decimals the numbers are; ``parameters`` are what was read of each.
    A pool for which the math has no result at one of them, or whose parameters are not given, has no curve.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for place, (own, now, more) in enumerate(
        zip(parameters, pools["accrued_utilization"], model.more(pools), strict=True)
    ):
        if own.keys() >= set(model.parameters):
            numbers = (*more, *(own[name] for name in model.parameters))
            places = {0, *(min(knot, model.full) for knot in model.knots(own)), model.full, now}
            with suppress(ExactError):
                found[place] = [(utilization, model.rate(utilization, *numbers)) for utilization in sorted(places)]
    return found
