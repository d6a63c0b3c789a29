"""The borrow rate over the utilization: a protocol's own math at the knots of the curve that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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
    more: Callable[[Mapping[str, Any]], tuple[int, ...]] = lambda _: ()

    def curve(self, row: Mapping[str, Any], parameters: Mapping[str, int]) -> list[tuple[int, int]]:
        """Utilizations with the rates there: at the knots, now, at none and at all, in the decimals of the row.

        Empty where the math has no result at one of them, or the parameters are not all there.
        """
        if not parameters.keys() >= set(self.parameters):
            return []
        numbers = (*self.more(row), *(parameters[name] for name in self.parameters))
        knots = (min(knot, self.full) for knot in self.knots(parameters))
        places = sorted({0, *knots, self.full, row["accrued_utilization"]})
        with suppress(ExactError):
            return [(place, self.rate(place, *numbers)) for place in places]
        return []
