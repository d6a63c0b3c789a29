"""Measuring: two things against each other in alternation, and what a benchmark found."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several measurements, with the lowest and the highest."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def times(self, factor: float) -> Spread:
        """The same measurements in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.count)


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure must reach: at least, or else at most, a bound."""

    bound: float
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Whether a value reaches it."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure: what was measured against what, its spread and unit, and the target if there is one.

    ``facts`` are the absolute figures behind it, for people and for ``--json``.
    """

    title: str
    value: Spread
    unit: str
    target: Target | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the median reaches the target; always, where there is none."""
        return self.target is None or self.target.met(self.value.median)


@dataclass(frozen=True, slots=True)
class Duel:
    """Seconds for one unit of ``ours`` and of ``theirs``, and how many times as fast ours is, each over all rounds."""

    ours: Spread
    theirs: Spread
    ratio: Spread


def duel(
    ours: Action,
    theirs: Action,
    *,
    rounds: int,
    seconds: float = 0.0,
    our_units: int = 1,
    their_units: int = 1,
) -> Duel:
    """Time two actions in alternation, so that whatever else the machine does meets both.

    Each is run once before. A sample repeats its action until it has taken about ``seconds``. ``our_units`` and
    ``their_units`` say how much work one run does (rows, pages), where that differs.
    """
    our_repeats, their_repeats = _repeats(ours, seconds), _repeats(theirs, seconds)
    our_times, their_times = [], []
    for number in range(rounds):
        first_ours = number % 2 == 0
        if first_ours:
            our_times.append(_sample(ours, our_repeats) / our_units)
        their_times.append(_sample(theirs, their_repeats) / their_units)
        if not first_ours:
            our_times.append(_sample(ours, our_repeats) / our_units)
    ratios = [slow / fast for fast, slow in zip(our_times, their_times, strict=True)]
    return Duel(Spread.of(our_times), Spread.of(their_times), Spread.of(ratios))


def _repeats(action: Action, seconds: float) -> int:
    began = perf_counter()
    action()  # caches, lazy imports
    once = _sample(action, 1) if perf_counter() - began < seconds else seconds
    return max(1, min(100_000, round(seconds / max(once, 1e-7))))


def _sample(action: Action, repeats: int) -> float:
    gc.collect()
    began = perf_counter()
    for _ in range(repeats):
        action()
    return (perf_counter() - began) / repeats
