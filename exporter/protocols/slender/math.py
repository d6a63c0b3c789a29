"""Slender's math of one reserve (docs/protocols/slender.md, "Formulas").

Coefficients and annual rates have 9 decimals. Like the contract's getters, this brings the two accrued rates from the
last update to now, at the stored interest rates and in whole windows of time. As in the contract, a product must fit
into 128 bits before it is divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from exporter import exact
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed
from exporter.protocols.base import NO_REWARDS, PoolReading
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Risk
from exporter.protocols.slender import layout
from exporter.protocols.slender.layout import Reserve

ONE, DECIMALS = 10**9, 9
"""The scale and the decimals of rates, coefficients and utilization."""

SECONDS_PER_YEAR = 31_557_600
"""The contract's year, which has 365.25 days."""


class Lenders(Struct, frozen=True):
    """The position of a reserve's lenders at one value of their accrued rate."""

    owned: int
    """What the lenders own, in base units: the cash and what is lent."""
    utilization: int
    """The lent share of what they own, with 9 decimals."""
    apr: int
    """The annual rate that the lenders earn on all that they own, with 9 decimals."""


def project(pool: PoolReading[Reserve], close_time: int) -> PoolNumbers:
    """The numbers of a reserve at the ledger's close time. Raises `ExactError`."""
    reserve = pool.state
    accrued = accrue(reserve, close_time)
    stored = lenders_of(reserve, reserve.lender_ar)
    now = lenders_of(reserve, accrued.lender_ar)
    supplied = now.owned if reserve.s_supply else 0  # without shares nobody owns the cash
    borrowed = times(accrued.borrower_ar, reserve.debt_supply)
    by_shares = borrowable(reserve.s_supply, reserve.debt_supply, accrued.borrower_ar, reserve.util_cap)
    return PoolNumbers(
        total_supplied=supplied,
        total_borrowed=borrowed,
        total_collateral=0,  # collateral is supplied, so total_supplied has it
        last_accrual_time=reserve.last_update_timestamp,
        utilization_bps=exact.utilization_bps(borrowed, supplied),
        supply_apy_bps=stored.apr * 10_000 // ONE,
        borrow_apy_bps=reserve.borrower_ir * 10_000 // ONE,
        supply_index=collateral_coefficient(now.owned, reserve.s_supply),
        borrow_index=accrued.borrower_ar,
        index_decimals=DECIMALS,
        stored_supply_apr=stored.apr,
        stored_borrow_apr=reserve.borrower_ir,
        accrued_supply_apr=now.apr,
        accrued_borrow_apr=reserve.borrower_ir,
        apr_decimals=DECIMALS,
        stored_utilization=stored.utilization,
        accrued_utilization=now.utilization,
        utilization_decimals=DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=reserve.fees,
        share_token=reserve.s_token,
        share_supply=reserve.s_supply,
        operations=operations_of(reserve, close_time),
        amounts=Amounts(
            available_to_withdraw=min(reserve.cash, supplied),
            available_to_borrow=min(reserve.cash, by_shares),
            available_to_supply=max(reserve.liquidity_cap - stored.owned, 0),
            shortfall=0,  # what suppliers own is the cash and what is lent
        ),
        risk=risk_of(reserve),
        rewards=NO_REWARDS,
    )


def lenders_of(reserve: Reserve, lender_ar: int) -> Lenders:
    """The position of the lenders at a value of their accrued rate. Raises `ExactError`."""
    with exact.naming("lent"):
        lent = times(lender_ar, reserve.debt_supply)
    owned = exact.add(reserve.cash, lent)
    return Lenders(owned, share(lent, owned, ONE), share(lent, owned, reserve.lender_ir))


def operations_of(reserve: Reserve, close_time: int) -> Operations:
    """The operations that the pause, the grace period after it, and the reserve's flags allow."""
    settings = reserve.settings
    in_grace = close_time < settings.grace_ends_at
    is_open = reserve.is_active and not settings.paused
    if not reserve.is_active:
        status = "inactive"
    elif in_grace:
        status = "grace"
    else:
        status = "active" if reserve.borrowing_enabled else "borrowing_disabled"
    return Operations(
        can_supply=is_open,
        can_withdraw=is_open and not in_grace,
        can_borrow=is_open and not in_grace and reserve.borrowing_enabled,
        can_repay=is_open,
        can_liquidate=is_open and not in_grace,
        pool_status=status,
    )


def risk_of(reserve: Reserve) -> Risk:
    """The terms of collateral, debt and limits in the reserve's configuration."""
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=reserve.discount * (10_000 - reserve.settings.initial_health) // 10_000,
        liquidation_threshold_bps=reserve.discount,
        liability_factor_bps=10_000,
        liquidation_kind="dynamic",
        supply_cap=reserve.liquidity_cap,
        max_utilization_bps=reserve.util_cap,
        reserve_factor_bps=10_000 - reserve.settings.ir_scaling_coeff,
        can_be_collateral=reserve.discount > 0,
        can_be_borrowed=reserve.borrowing_enabled,
    )


def borrowable(s_supply: int, debt_supply: int, coefficient: int, util_cap: int) -> int:
    """The most that can be borrowed, in base units, before the utilization exceeds its cap. It may have any size.

    The utilization with n shares of debt is floor(10^9 × n / supply). Borrowing an amount takes floor(10^9 × amount /
    coefficient) shares, and one more unless the amount is a multiple of the coefficient.
    """
    most_shares = exact.ceil_divide((util_cap * (ONE // 10_000) + 1) * s_supply, ONE) - 1
    free_shares = max(most_shares - debt_supply, 0)
    amount = exact.ceil_divide(free_shares * coefficient, ONE)
    return amount if free_shares % ONE == 0 else amount - 1


def accrue(reserve: Reserve, close_time: int) -> Reserve:
    """The reserve with both accrued rates brought to the close time (unix seconds), at the stored interest rates."""
    seconds = elapsed_seconds(reserve.last_update_timestamp, reserve.settings.window, close_time)
    return replace(
        reserve,
        lender_ar=accrued_rate(reserve.lender_ar, reserve.lender_ir, seconds),
        borrower_ar=accrued_rate(reserve.borrower_ar, reserve.borrower_ir, seconds),
    )


def elapsed_seconds(last_update: int, window: int, close_time: int) -> int:
    """The seconds in all whole windows since the last update.

    It is 0 if the last update is later than the close time, or if the window's length is 0.
    """
    return max(close_time - last_update, 0) // window * window if window else 0


@exact.naming("accrued rate")
def accrued_rate(accrued: int, rate: int, seconds: int) -> int:
    """The rate accrued × (1 + rate × seconds / year), with 9 decimals. Each step is rounded down.

    After 0 seconds it is unchanged.
    """
    if seconds == 0:
        return accrued
    years = exact.multiply(seconds, ONE) // SECONDS_PER_YEAR
    return times(accrued, exact.add(times(rate, years), ONE))


def times(left: int, right: int) -> int:
    """The number floor(left × right / 10^9). Raises `ExactError` if the product does not fit into 128 bits."""
    return exact.multiply(left, right) // ONE


@exact.naming("collateral coefficient")
def collateral_coefficient(owned: int, s_supply: int) -> int:
    """The worth of a share of the supply in base units, with 9 decimals; 1 without shares."""
    return exact.multiply(owned, ONE) // s_supply if s_supply else ONE


@exact.naming("share")
def share(lent: int, owned: int, number: int) -> int:
    """The lent share of what is owned, times a number: floor(number × lent / owned). 0 if nothing is owned."""
    return exact.multiply_divide_floor(lent, number, owned) if owned else 0


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accruals that a ledger's change of a pool's instance shows."""
    was, is_now = (layout.decode_instance(entry) for entry in changed(key, step))
    for asset in was.reserves:
        old, new = (layout.decode_reserve(pool, asset) for pool in (was, is_now))
        if old is None or new is None or not old.debt_supply:
            continue
        if old.last_update_timestamp < new.last_update_timestamp:
            # The contract accrues with the rates that follow from the operation, which are the new ones.
            before = replace(old, lender_ir=new.lender_ir, borrower_ir=new.borrower_ir)
            after = {"lender_ar": new.lender_ar, "borrower_ar": new.borrower_ar}
            yield Transition(partial(_accrued_rates, before, step.time), after)


def _accrued_rates(reserve: Reserve, close_time: int) -> dict[str, int]:
    accrued = accrue(reserve, close_time)
    return {"lender_ar": accrued.lender_ar, "borrower_ar": accrued.borrower_ar}


ACCRUAL = AccrualRule(lambda key: len(key) == 48, _read)
