"""Slender's reserves in the embedded network: plain integers, written apart from the exporter's math.

The formulas are the contract's (docs/protocols/slender.md, "Formulas"), with the configuration that mainnet's pool was
deployed with. Coefficients and rates have 9 decimals, ``//`` rounds down.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

ONE = 10**9
YEAR = 31_557_600
WINDOW = 20
ALPHA, INITIAL_RATE, HIGHEST_RATE, LENDERS_SHARE = 143 * ONE // 100, 2 * ONE // 100, 5 * ONE, 9 * ONE // 10


@dataclass(slots=True)
class Reserve:
    """A reserve's state: shares, coefficients and rates, and in base units of the token ``cash`` and ``fees``."""

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
    cash: int = 0
    fees: int = 0

    def elapsed(self, time: int) -> int:
        """The whole windows since the last update, in seconds."""
        return max(time - self.last_update, 0) // WINDOW * WINDOW

    def debt_coefficient(self, time: int) -> int:
        """What a share of the debt is worth."""
        return _grown(self.borrower_ar, self.borrower_ir, self.elapsed(time))

    def owned(self, time: int) -> int:
        """What the suppliers own: what lies there, and their part of the debt."""
        return self.cash + _grown(self.lender_ar, self.lender_ir, self.elapsed(time)) * self.debt_supply // ONE

    def collateral_coefficient(self, time: int) -> int:
        """What a share of the supply is worth."""
        return self.owned(time) * ONE // self.s_supply if self.s_supply else ONE

    def operate(self, random: Random, time: int) -> None:
        """Do what one user might."""
        part = random.randint(1, 200)  # up to 2% of what is there
        if random.random() < 0.5:
            self.deposit(max(self.owned(time), 10**self.decimals) * part // 10_000, time)
        elif random.random() < 0.5:
            self.borrow(self.cash * part // 10_000, time)
        else:
            self.repay(self.debt_supply * self.debt_coefficient(time) // ONE * part // 10_000, time)

    def deposit(self, amount: int, time: int) -> None:
        """Supply an amount for shares."""
        self.s_supply += self.s_supply * amount // self.owned(time) if self.s_supply else amount
        self.cash += amount
        self._update(time)

    def borrow(self, amount: int, time: int) -> None:
        """Lend an amount for shares of debt: one more than the quotient, unless the amount is a multiple of a share."""
        if amount:
            coefficient = self.debt_coefficient(time)
            self.debt_supply += max(amount * ONE // coefficient + (amount % coefficient != 0), 1)
            self.cash -= amount
            self._update(time)

    def repay(self, amount: int, time: int) -> None:
        """Take an amount back, of which the protocol keeps what debt has grown by more than supply."""
        coefficient = self.debt_coefficient(time)
        fee = (coefficient - self.collateral_coefficient(time)) * amount // ONE
        self.debt_supply -= amount * ONE // coefficient
        self.cash += amount - fee
        self.fees += fee
        self._update(time)

    def _update(self, time: int) -> None:
        """Fix the rates by what is lent now, and accrue the whole time since the last update with them."""
        elapsed = self.elapsed(time)
        if not elapsed or not self.s_supply:
            return
        self.borrower_ir = borrow_rate(self.s_supply, self.debt_supply)
        self.lender_ir = self.borrower_ir * LENDERS_SHARE // ONE
        self.lender_ar = _grown(self.lender_ar, self.lender_ir, elapsed)
        self.borrower_ar = _grown(self.borrower_ar, self.borrower_ir, elapsed)
        self.last_update = time


def borrow_rate(s_supply: int, debt_supply: int) -> int:
    """The rate a year by the share of shares that is lent, u: the initial rate over (1 - u) to the power of alpha.

    The power is the first terms of its binomial series, 4 up to u = 1/2 and 20 above.
    """
    used = debt_supply * ONE // s_supply
    if not used:
        return 0
    if used >= ONE:
        return HIGHEST_RATE
    term = ALPHA * -used // ONE
    power = ONE + term
    for number in range(2, 21 if used > ONE // 2 else 5):
        term = (term * -used // ONE) * (ALPHA - (number - 1) * ONE) // ONE
        term = term // number if term >= 0 else -(-term // number)  # divided toward zero
        power += term
    return HIGHEST_RATE if power < 0 else min(INITIAL_RATE * ONE // power, HIGHEST_RATE)


def _grown(accrued: int, rate: int, seconds: int) -> int:
    return accrued * (ONE + rate * (seconds * ONE // YEAR) // ONE) // ONE
