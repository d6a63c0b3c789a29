"""The reserves of the made K2 markets: their state, and the operations that change it, in plain Python integers.

The embedded network plays the contract here, so this is written apart from the exporter's own math. All formulas are
those of facts/other-protocols.md 3.1; amounts are token base units, rates, indexes and ratios have 27 decimals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

RAY = 10**27
_SECONDS_PER_YEAR = 31_536_000
_BPS = 10_000

ACTIVE, FROZEN, BORROWING, PAUSED, FLASH = 1 << 50, 1 << 51, 1 << 52, 1 << 53, 1 << 56
"""Bits of a reserve's configuration."""


@dataclass(frozen=True, slots=True)
class Model:
    """A rate model: what borrowers pay over the utilization."""

    base: int = 0
    optimal: int = 8 * RAY // 10
    slope1: int = 4 * RAY // 100
    slope2: int = 6 * RAY // 10

    def rates(self, supplied: int, borrowed: int, reserve_factor: int) -> tuple[int, int]:
        """The supply and the borrow rate at these totals."""
        liquidity = max(supplied, borrowed)
        used = _over(borrowed, liquidity) if liquidity else 0
        if used > self.optimal:
            rate = self.base + self.slope1 + _times(self.slope2, _over(used - self.optimal, RAY - self.optimal))
        else:
            rate = self.base + (_times(self.slope1, _over(used, self.optimal)) if self.optimal else 0)
        return _times(_times(rate, used), RAY - reserve_factor * RAY // _BPS), rate


@dataclass(slots=True)
class Reserve:
    """A reserve: its entries' values, and in ``own_model`` whether it has parameters of its own."""

    asset: str
    symbol: str
    decimals: int
    a_token: str
    debt_token: str
    last_update: int
    id: int = 0
    model: Model = field(default_factory=Model)
    own_model: bool = True
    reserve_factor: int = 2_000
    flags: int = ACTIVE | BORROWING | FLASH
    borrow_cap: int = 0
    supply_cap: int = 0
    liquidity_index: int = RAY
    borrow_index: int = RAY
    liquidity_rate: int = 0
    borrow_rate: int = 0
    supply_scaled: int = 0
    debt_scaled: int = 0

    @property
    def data_low(self) -> int:
        """The lower half of the configuration."""
        limits = 7_500 | 8_000 << 14 | 10_500 << 28 | self.decimals << 42
        return limits | self.flags | self.reserve_factor << 57

    @property
    def data_high(self) -> int:
        """The upper half: both caps, in whole tokens."""
        return self.borrow_cap | self.supply_cap << 64

    def indexes_at(self, time: int) -> tuple[int, int]:
        """The supply and the borrow index at a time that is not before the last update."""
        seconds = time - self.last_update
        supply = RAY + self.liquidity_rate * seconds // _SECONDS_PER_YEAR
        return _times(self.liquidity_index, supply), _times(self.borrow_index, _compounded(self.borrow_rate, seconds))

    def totals(self) -> tuple[int, int]:
        """What is supplied and what is borrowed, at the stored indexes."""
        return _times(self.supply_scaled, self.liquidity_index), _times(self.debt_scaled, self.borrow_index)

    def accrue(self, time: int) -> None:
        """Bring the indexes to a time."""
        self.liquidity_index, self.borrow_index = self.indexes_at(time)
        self.last_update = time

    def update_rates(self) -> None:
        """Fix the rates until the next action."""
        self.liquidity_rate, self.borrow_rate = self.model.rates(*self.totals(), self.reserve_factor)

    def operate(self, random: Random, time: int) -> str:
        """A user's operation at a time: its name."""
        self.accrue(time)
        supplied, borrowed = self.totals()
        free = max(supplied - borrowed, 0)
        operations = ["supply", "withdraw", "repay"]
        if self.flags & BORROWING and not self.flags & FROZEN:
            operations.append("borrow")
        operation = random.choice(operations)
        share = random.randint(1, 400)
        if operation == "supply":
            self.supply_scaled += (supplied + 10**self.decimals) * share // _BPS * RAY // self.liquidity_index
        elif operation == "withdraw":
            amount = min(supplied * share // _BPS, free) * RAY // self.liquidity_index
            self.supply_scaled -= min(amount, self.supply_scaled)
        elif operation == "borrow":
            self.debt_scaled += free * share // _BPS * RAY // self.borrow_index
        else:
            self.debt_scaled -= min(borrowed * share // _BPS * RAY // self.borrow_index, self.debt_scaled)
        self.update_rates()
        return operation


def _times(left: int, right: int) -> int:
    return (left * right + RAY // 2) // RAY


def _over(left: int, right: int) -> int:
    return (left * RAY + right // 2) // right


def _compounded(rate: int, seconds: int) -> int:
    """The growth of debt: the second and third power's coefficients are cut to integers before they are multiplied."""
    power2 = _times(rate, rate) // _SECONDS_PER_YEAR**2
    power3 = _times(power2, rate) // _SECONDS_PER_YEAR
    before, two_before = max(seconds - 1, 0), max(seconds - 2, 0)
    growth = rate * seconds // _SECONDS_PER_YEAR
    growth += seconds * before * power2 // 2
    return RAY + growth + seconds * before * two_before * power3 // 6
