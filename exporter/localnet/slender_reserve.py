"""Slender's reserves in the embedded network: plain integers, written apart from the exporter's math.

What the exporter has to know of a reserve is what the contract's views compute from it; how the contract chooses the
rates at an operation matters to nobody but its users, so here that is a simpler curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

ONE = 10**9
YEAR = 31_557_600
WINDOW = 20
_BASE_RATE, _HIGHEST_RATE = 20_000_000, 5 * ONE


@dataclass(slots=True)
class Reserve:
    """A reserve's state: shares, coefficients and rates of 9 decimals, ``balance`` in base units of the token."""

    token: str
    s_token: str
    debt_token: str
    decimals: int
    last_update: int
    lender_ar: int = ONE
    lender_ir: int = 0
    borrower_ar: int = ONE
    borrower_ir: int = 0
    s_supply: int = 0
    debt_supply: int = 0
    balance: int = 0

    def elapsed(self, time: int) -> int:
        """The whole windows since the last update, in seconds."""
        return max(time - self.last_update, 0) // WINDOW * WINDOW

    def lender_rate(self, time: int) -> int:
        """The lenders' accrued rate."""
        return _grown(self.lender_ar, self.lender_ir, self.elapsed(time))

    def debt_coefficient(self, time: int) -> int:
        """What a share of the debt is worth."""
        return _grown(self.borrower_ar, self.borrower_ir, self.elapsed(time))

    def owned(self, time: int) -> int:
        """What the suppliers own."""
        return self.balance + self.lender_rate(time) * self.debt_supply // ONE

    def collateral_coefficient(self, time: int) -> int:
        """What a share of the supply is worth."""
        return self.owned(time) * ONE // self.s_supply if self.s_supply else ONE

    def update(self, time: int) -> None:
        """Bring the accrued rates up to date, then choose new rates by what is lent."""
        elapsed = self.elapsed(time)
        self.lender_ar, self.borrower_ar = self.lender_rate(time), self.debt_coefficient(time)
        self.last_update += elapsed
        free = ONE - min(self.debt_supply * ONE // self.s_supply, ONE) if self.s_supply else ONE
        self.borrower_ir = min(_BASE_RATE * ONE // free, _HIGHEST_RATE) if free else _HIGHEST_RATE
        self.borrower_ir *= bool(self.debt_supply)
        self.lender_ir = self.borrower_ir * 9 // 10

    def operate(self, random: Random, time: int) -> None:
        """Update, and do what one user might."""
        self.update(time)
        part = random.randint(1, 200)  # up to 2% of what is there
        if random.random() < 0.5:
            self.deposit(max(self.owned(time), 10**self.decimals) * part // 10_000, time)
        elif random.random() < 0.5:
            self.borrow(self.balance * part // 10_000, time)
        else:
            shares = self.debt_supply * part // 10_000
            self.balance += shares * self.debt_coefficient(time) // ONE
            self.debt_supply -= shares

    def deposit(self, amount: int, time: int) -> None:
        """Supply an amount for shares."""
        self.s_supply += amount * ONE // self.collateral_coefficient(time)
        self.balance += amount

    def borrow(self, amount: int, time: int) -> None:
        """Lend an amount for shares of debt."""
        self.debt_supply += amount * ONE // self.debt_coefficient(time)
        self.balance -= amount


def _grown(accrued: int, rate: int, seconds: int) -> int:
    return accrued * (ONE + rate * (seconds * ONE // YEAR) // ONE) // ONE
