"""The pools of the made Alula markets: their state, and the operations that change it, in plain Python integers.

The embedded network plays the contract here, so this is written apart from the exporter's own math. All formulas are
those of facts/alula.md 4; amounts are token base units, rates and ratios basis points.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

BPS = 10_000
SCALED_ONE = 10**18
SECONDS_PER_YEAR = 31_556_926
_LOWEST_MODIFIER, _HIGHEST_MODIFIER = 1_000, 100_000
_MODIFIER_SECONDS = 900  # more time than this does not move the modifier further: in the newest source
_FIRST_SHARES = 10  # shares that the first deposit gets for each base unit, so that one is worth about 0.1

ALL_ENABLED = 2**32 - 1
DEPOSIT, BORROW, ADD_COLLATERAL = 1, 2, 4
"""Bits of a pool's status."""


class NoResultError(Exception):
    """The contract's arithmetic has no result: a division by zero, or a number that does not fit."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``KinkedIRConfig``: the rate a year over the utilization."""

    base_apr_bps: int = 1
    kink1_apr_bps: int = 3_000
    kink1_ur_bps: int = 7_000
    kink2_apr_bps: int = 6_000
    kink2_ur_bps: int = 8_000
    max_apr_bps: int = 40_000

    def apr(self, utilization: int) -> int:
        """The rate before the modifier; a knot belongs to the slope above it (4.4)."""
        if utilization < self.kink1_ur_bps:
            return self.base_apr_bps + (self.kink1_apr_bps - self.base_apr_bps) * utilization // self.kink1_ur_bps
        if utilization < self.kink2_ur_bps:
            run, span = utilization - self.kink1_ur_bps, self.kink2_ur_bps - self.kink1_ur_bps
            return self.kink1_apr_bps + (self.kink2_apr_bps - self.kink1_apr_bps) * run // span
        if self.kink2_ur_bps == BPS:
            raise NoResultError
        run, span = utilization - self.kink2_ur_bps, BPS - self.kink2_ur_bps
        return self.kink2_apr_bps + (self.max_apr_bps - self.kink2_apr_bps) * run // span


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """What of ``PoolConfig`` differs between the made pools; the rest is the same in all."""

    curve: Curve = Curve()
    take_rate_bps: int = 1_000
    borrow_fee_bps: int = 10
    open_ltv_bps: int = 7_500
    close_ltv_bps: int = 8_000
    liquidation_incentive_bps: int = 500
    supply_limit: int = 0
    utilization_limit_bps: int = 9_000
    reactivity: int = 0
    target_utilization_bps: int = 6_500
    flags: int = ALL_ENABLED


@dataclass(slots=True)
class Pool:
    """A ``Pool`` entry: ``address`` is the token's; ``borrow_apr_bps`` and ``supply_apr_bps`` of the last accrual."""

    address: str
    symbol: str
    name: str
    decimals: int
    config: PoolConfig
    last_accrual_timestamp: int
    total_available: int = 0
    total_borrowed: int = 0
    total_collateral: int = 0
    total_j_tokens: int = 0
    total_d_tokens: int = 0
    take_rate_fees_sum: int = 0
    operation_fees_sum: int = 0
    interest_rate_modifier_bps: int = BPS
    borrow_apr_bps: int = 0
    supply_apr_bps: int = 0

    @property
    def available(self) -> int:
        """What can be lent or withdrawn (4.1)."""
        return max(self.total_available - self.take_rate_fees_sum, 0)

    @property
    def supply(self) -> int:
        """What the suppliers own (4.2)."""
        return self.available + self.total_borrowed

    def utilization(self) -> int:
        """The utilization that drives the rates, rounded up (4.3)."""
        return _ceiling(self.total_borrowed * BPS, self.supply) if self.supply else 0

    def current_aprs(self) -> tuple[int, int]:
        """The borrow and the supply rate a year at the stored utilization and modifier (4.5)."""
        utilization = self.utilization()
        borrow = _ceiling(self.config.curve.apr(utilization) * self.interest_rate_modifier_bps, BPS)
        return borrow, borrow * utilization // BPS * (BPS - self.config.take_rate_bps) // BPS

    def share_rates(self) -> tuple[int, int]:
        """What a supply share and a debt share are worth, in basis points (4.8)."""
        supply_rate = self.supply * BPS // self.total_j_tokens if self.total_j_tokens else 0
        debt_rate = _ceiling(self.total_borrowed * BPS, self.total_d_tokens) if self.total_d_tokens else 0
        return supply_rate, debt_rate

    def accrue(self, time: int) -> None:
        """Bring interest up to ``time`` and then move the modifier (4.6 and 4.7, as in the newest source)."""
        elapsed = time - self.last_accrual_timestamp
        if elapsed <= 0:
            return
        utilization = self.utilization()
        self.borrow_apr_bps, self.supply_apr_bps = self.current_aprs()
        grown = _ceiling(self.total_borrowed * multiplier(self.borrow_apr_bps, elapsed), SCALED_ONE)
        self.take_rate_fees_sum += (grown - self.total_borrowed) * self.config.take_rate_bps // BPS
        self.total_borrowed = grown
        self.last_accrual_timestamp = time
        self.interest_rate_modifier_bps = next_modifier(
            self.interest_rate_modifier_bps,
            utilization,
            self.config.target_utilization_bps,
            self.config.reactivity,
            min(elapsed, _MODIFIER_SECONDS),
        )

    def operate(self, random: Random, time: int, may_deposit: bool = True, may_borrow: bool = True) -> str:
        """Accrue, and do what one user might: gives which operation it was.

        What the market's status, the pool's own or its limits forbid becomes a repayment or, without debt, nothing but
        the accrual (``refresh``).
        """
        self.accrue(time)
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("deposit", "withdraw", "borrow", "repay", "add_collateral", "remove_collateral"))
        flags = self.config.flags
        allowed = {
            "deposit": may_deposit and flags & DEPOSIT != 0,
            "add_collateral": may_deposit and flags & ADD_COLLATERAL != 0,
            "borrow": may_borrow and flags & BORROW != 0,
        }
        if allowed.get(operation, True) and getattr(self, f"_{operation}")(part):
            return operation
        return "repay" if self._repay(part) else "refresh"

    def deposit(self, amount: int) -> None:
        """Supply an amount for shares at their present worth; the first ones are worth about 0.1."""
        shares = amount * self.total_j_tokens // self.supply if self.supply else amount * _FIRST_SHARES
        self.total_j_tokens += shares
        self.total_available += amount

    def borrow(self, amount: int) -> None:
        """Lend an amount, with the operation's fee added to the debt; the debt's shares are rounded up."""
        fee = amount * self.config.borrow_fee_bps // BPS
        debt = amount + fee
        shares = _ceiling(debt * self.total_d_tokens, self.total_borrowed) if self.total_borrowed else debt
        self.total_d_tokens += shares
        self.total_borrowed += debt
        self.total_available -= debt
        self.operation_fees_sum += fee

    def _deposit(self, part: int) -> bool:
        amount = max(self.supply, 10**self.decimals) * part // BPS
        limit = self.config.supply_limit
        if amount == 0 or (limit and self.supply + amount > limit):
            return False
        self.deposit(amount)
        return True

    def _withdraw(self, part: int) -> bool:
        amount = self.available * part // BPS
        shares = _ceiling(amount * self.total_j_tokens, self.supply) if self.supply else 0
        if not 0 < shares <= self.total_j_tokens:
            return False
        self.total_j_tokens -= shares
        self.total_available -= amount
        return True

    def _borrow(self, part: int) -> bool:
        amount = self.available * part // BPS
        owed = self.total_borrowed + amount + amount * self.config.borrow_fee_bps // BPS
        if amount == 0 or owed * BPS > self.supply * self.config.utilization_limit_bps:
            return False
        self.borrow(amount)
        return True

    def _repay(self, part: int) -> bool:
        amount = self.total_borrowed * part // BPS
        shares = amount * self.total_d_tokens // self.total_borrowed if self.total_borrowed else 0
        if shares == 0:
            return False
        self.total_d_tokens -= shares
        self.total_borrowed -= amount
        self.total_available += amount
        return True

    def _add_collateral(self, part: int) -> bool:
        self.total_collateral += max(self.total_collateral, 10**self.decimals) * part // BPS
        return True

    def _remove_collateral(self, part: int) -> bool:
        self.total_collateral -= self.total_collateral * part // BPS
        return True


def multiplier(apr: int, seconds: int) -> int:
    """The growth of a debt, with 18 decimals: the growth of a second to the power of the seconds (4.5).

    Raises `NoResultError` when it does not fit into 128 bits.
    """
    square = SCALED_ONE + _ceiling(apr * SCALED_ONE, BPS) // SECONDS_PER_YEAR
    result = SCALED_ONE
    while seconds:
        if seconds & 1:
            result = result * square // SCALED_ONE
        seconds >>= 1
        if seconds:  # the result will be at least this square
            square = square * square // SCALED_ONE
        if max(result, square) >= 2**127:
            raise NoResultError
    return result


def apy(apr: int) -> int:
    """A rate compounded every second for a year, in basis points; raises `NoResultError` above 32 bits (4.5)."""
    bps = max(0, multiplier(apr, SECONDS_PER_YEAR) // 10**14 - BPS)
    if bps >= 2**32:
        raise NoResultError
    return bps


def next_modifier(modifier: int, utilization: int, target: int, reactivity: int, seconds: int) -> int:
    """The modifier after some time at a utilization off its target (4.7): higher below it, lower above it."""
    difference = utilization - target
    step = seconds * abs(difference) * reactivity // BPS
    if difference >= 0:
        return max(_LOWEST_MODIFIER, modifier - step)
    return min(_HIGHEST_MODIFIER, modifier + step)


def _ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)
