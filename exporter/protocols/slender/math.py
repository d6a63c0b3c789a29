"""Slender's math over columns of reserves (docs/protocols/slender.md, "Formulas").

Coefficients and rates a year have 9 decimals. The contract's views bring its two accrued rates from the last update
to now with the interest rates that are stored, in whole windows of time, and so does this. Its products have to fit
into 128 bits before they are divided, as here.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact_columns as exact
from exporter.protocols.shared_columns import (
    NO_REWARDS,
    Given,
    numbers_of,
    raw_rows,
    shared_columns,
    simple_yield_bps,
    utilization_bps,
    within,
)
from exporter.protocols.slender.layout import POOL_NUMBERS, RESERVE_TERMS, VERSION

ONE, DECIMALS = 10**9, 9
"""Of rates, coefficients and utilization."""

SECONDS_PER_YEAR = 31_557_600
"""The contract's year, 365.25 days."""

RESERVE_COLUMNS = (
    "lender_ar",
    "lender_ir",
    "borrower_ar",
    "borrower_ir",
    "last_update_timestamp",
    "window",
    "s_supply",
    "debt_supply",
    "cash",
    "fees",
)
"""The raw columns that the numbers follow from; none is negative."""

TERM_COLUMNS = (*POOL_NUMBERS[1:], *RESERVE_TERMS)


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given, at the close time."""
    raw = raw_rows(columns, (*RESERVE_COLUMNS, *TERM_COLUMNS), "s_token")
    state = numbers_of(raw, (*RESERVE_COLUMNS, "util_cap", "liquidity_cap", "close_time"))
    cash, s_supply, debt_supply = (state[name] for name in ("cash", "s_supply", "debt_supply"))
    elapsed = elapsed_seconds(state["last_update_timestamp"], state["window"], state["close_time"])
    lender = accrued_rate(state["lender_ar"], state["lender_ir"], elapsed)
    debt_coeff = accrued_rate(state["borrower_ar"], state["borrower_ir"], elapsed)

    def of_lenders(accrued: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
        lent = exact.naming("lent")(times)(accrued, debt_supply)
        owned = exact.add(cash, lent)
        return owned, share(lent, owned, ONE), share(lent, owned, state["lender_ir"])

    stored_owned, stored_used, stored_apr = of_lenders(state["lender_ar"])
    owned, accrued_used, accrued_apr = of_lenders(lender)
    supplied = exact.select(s_supply != 0, owned, 0)  # without shares nobody owns what lies there
    borrowed = times(debt_coeff, debt_supply)
    by_shares = borrowable(s_supply, debt_supply, debt_coeff, state["util_cap"])
    return shared_columns(
        raw,
        "slender",
        VERSION,
        total_supplied=supplied,
        total_borrowed=borrowed,
        total_collateral=0,  # collateral is supplied, and is in that total
        last_accrual_time="last_update_timestamp",
        utilization_bps=utilization_bps(borrowed, supplied),
        supply_apy_bps=simple_yield_bps(stored_apr, ONE),
        borrow_apy_bps=simple_yield_bps(state["borrower_ir"], ONE),
        supply_index=collateral_coefficient(owned, s_supply),
        borrow_index=debt_coeff,
        index_decimals=DECIMALS,
        stored_supply_apr=stored_apr,
        stored_borrow_apr="borrower_ir",
        accrued_supply_apr=accrued_apr,
        accrued_borrow_apr="borrower_ir",
        apr_decimals=DECIMALS,
        stored_utilization=stored_used,
        accrued_utilization=accrued_used,
        utilization_decimals=DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit="fees",
        share_token="s_token",
        share_supply="s_supply",
        available_to_withdraw=within(cash, supplied),
        available_to_borrow=within(cash, by_shares),
        available_to_supply=within(exact.subtract(state["liquidity_cap"], stored_owned)),
        **_TERMS,
        **NO_REWARDS,
    )


_active, _paused, _lends = (pl.col(name) != 0 for name in ("is_active", "paused", "borrowing_enabled"))
_in_grace = pl.col("close_time") < pl.col("grace_ends_at")
_open = _active & ~_paused
_TERMS: dict[str, Given] = {
    "can_supply": _open,
    "can_withdraw": _open & ~_in_grace,
    "can_borrow": _open & ~_in_grace & _lends,
    "can_repay": _open,
    "can_liquidate": _open & ~_in_grace,
    "pool_status": pl.when(~_active)
    .then(pl.lit("inactive"))
    .when(_in_grace)
    .then(pl.lit("grace"))
    .when(~_lends)
    .then(pl.lit("borrowing_disabled"))
    .otherwise(pl.lit("active")),
    "risk_scope": pl.lit("reserve"),
    "collateral_factor_bps": pl.col("discount") * (10_000 - pl.col("initial_health")).clip(0) // 10_000,
    "liquidation_threshold_bps": "discount",
    "liability_factor_bps": 10_000,
    "liquidation_kind": pl.lit("dynamic"),
    "supply_cap": "liquidity_cap",
    "max_utilization_bps": "util_cap",
    "reserve_factor_bps": (10_000 - pl.col("ir_scaling_coeff")).clip(0),
    "can_be_collateral": pl.col("discount") > 0,
    "can_be_borrowed": _lends,
}


@exact.at_most(exact.INT128_MAX)
def borrowable(s_supply: pl.Series, debt_supply: pl.Series, coefficient: pl.Series, util_cap: pl.Series) -> pl.Series:
    """The most that the utilization cap lets be borrowed.

    With n shares of debt in all the utilization is floor(10^9 × n / supply). An amount takes floor(10^9 × amount /
    coefficient) shares, and one more unless it is a multiple of the coefficient.
    """
    cap = exact.multiply(util_cap, ONE // 10_000)
    most = exact.subtract(exact.multiply_divide_ceil(exact.add(cap, 1), s_supply, ONE), 1)
    free = exact.clamp(exact.subtract(most, debt_supply), 0, exact.INT128_MAX)
    amount = exact.multiply_divide_ceil(free, coefficient, ONE)
    multiple = exact.multiply(exact.floor_divide(free, ONE), ONE) == free
    return exact.select(multiple, amount, exact.subtract(amount, 1))


@exact.naming("elapsed time")
def elapsed_seconds(last_update: pl.Series, window: pl.Series, close_time: exact.Operand) -> pl.Series:
    """The whole windows since the last update, in seconds; 0 where that is later, or the window has no length."""
    since = exact.clamp(exact.subtract(close_time, last_update), 0, exact.INT128_MAX)
    counted = window != 0
    windows = exact.floor_divide(since, exact.select(counted, window, 1))
    return exact.multiply(windows, exact.select(counted, window, 0))


@exact.naming("accrued rate")
def accrued_rate(accrued: pl.Series, rate: pl.Series, seconds: pl.Series) -> pl.Series:
    """The rate accrued × (1 + rate × seconds / year), 9 decimals, each step rounded down; unchanged in no time."""
    moved = seconds != 0
    years = exact.floor_divide(exact.multiply(seconds, ONE), SECONDS_PER_YEAR)
    growth = exact.add(times(exact.select(moved, rate, 0), years), ONE)
    return exact.select(moved, times(exact.select(moved, accrued, 0), growth), accrued)


def times(left: pl.Series, right: pl.Series) -> pl.Series:
    """floor(left × right / 10^9), where the product has to fit."""
    return exact.floor_divide(exact.multiply(left, right), ONE)


@exact.naming("collateral coefficient")
def collateral_coefficient(owned: pl.Series, s_supply: pl.Series) -> pl.Series:
    """The value of a share of the supply, 1 without shares."""
    divided = s_supply != 0
    return exact.floor_divide(exact.multiply(exact.select(divided, owned, 1), ONE), exact.select(divided, s_supply, 1))


@exact.naming("share")
def share(lent: pl.Series, owned: pl.Series, of: exact.Operand) -> pl.Series:
    """The part of a number that the lent share of what is owned makes; 0 where nothing is owned."""
    return exact.or_zero(exact.multiply_divide_floor, lent, of, owned)
