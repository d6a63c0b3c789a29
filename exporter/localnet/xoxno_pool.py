"""The hub markets of the made XOXNO pool: their state, and the operations that change it, in plain Python integers.

The embedded network plays the contract here, so this is written apart from the exporter's own math. All formulas are
those of facts/other-protocols.md 2.7; scaled amounts, indexes and rates are RAY, cash is token base units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

RAY = 10**27
BPS = 10_000
YEAR = 31_556_926_000
"""Milliseconds."""
_TOP_INDEX = 10**36
_BUFFER_BPS = 200  # of what is supplied, that a borrower has to leave


class NoResultError(Exception):
    """The contract's arithmetic has no result: a division by zero."""


def half_up(left: int, right: int, divisor: int) -> int:
    """The contract's rounding of left × right / divisor."""
    if divisor == 0:
        raise NoResultError
    return (left * right + divisor // 2) // divisor


@dataclass(frozen=True, slots=True)
class Params:
    """The ``Params`` of a hub market but its token and decimals: rates and utilizations in RAY, the rest as named."""

    base_borrow_rate: int = 5 * 10**24
    slope1: int = 30 * 10**24
    slope2: int = 95 * 10**24
    slope3: int = RAY
    mid_utilization: int = 600 * 10**24
    optimal_utilization: int = 850 * 10**24
    max_utilization: int = 950 * 10**24
    max_borrow_rate: int = 1_250 * 10**24
    reserve_factor: int = 1_500
    flashloan_fee: int = 9
    is_flashloanable: bool = True

    def rate(self, utilization: int) -> int:
        """The rate a year; a knot belongs to the segment above it."""
        used = min(utilization, RAY)
        rate = self.base_borrow_rate
        if used < self.mid_utilization:
            rate += half_up(half_up(used, self.slope1, RAY), RAY, self.mid_utilization)
        elif used < self.optimal_utilization:
            over = half_up(used - self.mid_utilization, self.slope2, RAY)
            rate += self.slope1 + half_up(over, RAY, self.optimal_utilization - self.mid_utilization)
        else:
            over = half_up(used - self.optimal_utilization, self.slope3, RAY)
            rate += self.slope1 + self.slope2 + half_up(over, RAY, RAY - self.optimal_utilization)
        return min(rate, self.max_borrow_rate)


@dataclass(slots=True)
class HubMarket:
    """A hub market: its key, its parameters, and its state by the names of the ``State`` entry's fields."""

    hub: int
    token: str
    decimals: int
    params: Params = field(default_factory=Params)
    borrow_index: int = RAY
    borrowed: int = 0
    cash: int = 0
    last_timestamp: int = 0
    revenue: int = 0
    supplied: int = 0
    supply_index: int = RAY

    @property
    def scale(self) -> int:
        """What one base unit is in RAY."""
        return int(10 ** (27 - self.decimals))

    def supply_value(self) -> int:
        """What the suppliers and the protocol own, RAY."""
        return half_up(self.supplied, self.supply_index, RAY)

    def debt_value(self) -> int:
        """What is owed, RAY."""
        return half_up(self.borrowed, self.borrow_index, RAY)

    def utilization(self) -> int:
        """Of the indexes as they stand."""
        supply = self.supply_value()
        return half_up(self.debt_value(), RAY, supply) if supply else 0

    def borrow_rate(self) -> int:
        """The rate a year of the indexes as they stand."""
        return self.params.rate(self.utilization())

    def deposit_rate(self) -> int:
        """The rate a year that suppliers earn."""
        factor = self.params.reserve_factor
        if not 0 <= factor < BPS:
            return 0
        return half_up(half_up(self.utilization(), self.borrow_rate(), RAY), BPS - factor, BPS)

    def amount(self, scaled: int, index: int) -> int:
        """Base units of a scaled amount, by two roundings."""
        return half_up(half_up(scaled, index, RAY), 1, self.scale)

    def claimable(self) -> int:
        """Base units of the protocol's revenue; unlike other amounts it is rounded down, twice."""
        return self.revenue * self.supply_index // RAY // self.scale

    def accrue(self, now: int) -> None:
        """Bring the state to a time, in milliseconds; to an earlier one no time has passed."""
        while self.last_timestamp < now:
            step = min(now - self.last_timestamp, YEAR)
            self._accrue(step)
            self.last_timestamp += step

    def _accrue(self, milliseconds: int) -> None:
        debt, supply = self.debt_value(), self.supply_value()
        x = half_up(self.borrow_rate(), 1, YEAR) * milliseconds
        factor, power, faculty = RAY + x, x, 1
        for k in range(2, 9):
            power, faculty = half_up(power, x, RAY), faculty * k
            factor += half_up(power, 1, faculty)
        self.borrow_index = min(half_up(self.borrow_index, factor, RAY), _TOP_INDEX)
        interest = self.debt_value() - debt
        fee = half_up(interest, self.params.reserve_factor, BPS)
        if supply and interest > fee:
            raised = (supply + interest - fee) * RAY // self.supplied
            self.supply_index = min(max(raised, self.supply_index), _TOP_INDEX)
        shares = (interest - (self.supply_value() - supply)) * RAY // self.supply_index
        self.supplied += shares
        self.revenue += shares

    def supply(self, amount: int) -> None:
        """Supply base units; the shares are rounded down."""
        self.supplied += amount * self.scale * RAY // self.supply_index
        self.cash += amount

    def borrow(self, amount: int) -> None:
        """Borrow base units; the debt's shares are rounded up."""
        self.borrowed += -(-amount * self.scale * RAY // self.borrow_index)
        self.cash -= amount

    def free(self) -> int:
        """Base units that can be borrowed: cash above the buffer, below the highest utilization."""
        supply = self.supply_value() // self.scale
        buffer = half_up(supply, _BUFFER_BPS, BPS)
        room = supply * self.params.max_utilization // RAY - -(-self.debt_value() // self.scale)
        return max(min(self.cash - buffer, room), 0)

    def write_off(self, value: int) -> None:
        """Take a bad debt, in RAY, from the suppliers: the supply index falls, to 1e24 at least."""
        total = self.supply_value()
        remaining = max(total - value, 0) * RAY // total
        self.supply_index = max(self.supply_index * remaining // RAY, 10**24)
        self.borrowed = max(self.borrowed - value * RAY // self.borrow_index, 0)

    def operate(self, random: Random, now: int) -> None:
        """What a user's operation does at a time in milliseconds: accrue, then supply, withdraw, borrow or repay."""
        self.accrue(now)
        supply = self.supply_value() // self.scale
        kind = random.randrange(4)
        if kind == 0 or not supply:
            self.supply(random.randint(1, max(supply // 50, 10 ** max(self.decimals, 1))))
        elif kind == 1:
            amount = min(random.randint(1, max(supply // 100, 1)), self.free())
            shares = -(-amount * self.scale * RAY // self.supply_index)
            if amount and shares <= self.supplied - self.revenue:
                self.supplied -= shares
                self.cash -= amount
        elif kind == 2:
            self.borrow(min(random.randint(1, max(supply // 80, 1)), self.free()))
        else:
            debt = self.debt_value() // self.scale
            amount = random.randint(0, max(debt // 20, 0))
            self.borrowed = max(self.borrowed - amount * self.scale * RAY // self.borrow_index, 0)
            self.cash += amount
