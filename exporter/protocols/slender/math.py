"""Slender's math over columns of reserves (docs/protocols/slender.md, "Formulas").

Coefficients and rates a year have 9 decimals. The contract's views bring its two accrued rates from the last update
to now with the interest rates that are stored, in whole windows of time, and so does this. Its products have to fit
into 128 bits before they are divided, as here.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.shared_columns import (
    NO_REWARDS,
    Given,
    numbers_of,
    raw_rows,
    shared_columns,
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
"""The raw columns that `project` reads."""

TERM_COLUMNS = (*POOL_NUMBERS[1:], *RESERVE_TERMS)
"""Those that `with_terms` also reads."""


def project(frame: pl.DataFrame) -> pl.DataFrame:
    """Bring the coefficients to the close time, and add what is published of the reserves.

    Args:
        frame: a row a reserve, with RESERVE_COLUMNS and `close_time` (unix
            seconds; Int128 or smaller integers), without nulls and none negative.
            Other columns are kept as they are.

    Returns:
        The frame with these columns added: `collat_coeff`, `debt_coeff`, `stored_utilization`,
        `accrued_utilization`, `stored_supply_apr`, `accrued_supply_apr` (Int128, 9 decimals), `supplied`, `borrowed`
        (Int128, base units), `utilization_bps`, `supply_apy_bps` and `borrow_apy_bps` (Int64).

    Raises:
        ExactOverflowError: with the rows in which a value does not fit into 128 bits.
        ValueError: for a null.
    """
    state = numbers_of(frame, (*RESERVE_COLUMNS, "close_time"))
    elapsed = elapsed_seconds(state["last_update_timestamp"], state["window"], state["close_time"])
    lender = accrued_rate(state["lender_ar"], state["lender_ir"], elapsed)
    debt_coeff = accrued_rate(state["borrower_ar"], state["borrower_ir"], elapsed)

    def of_lenders(accrued: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
        lent = lent_out(accrued, state["debt_supply"])
        owned = exact.add(state["cash"], lent)
        return owned, share(lent, owned, ONE), share(lent, owned, state["lender_ir"])

    _, stored_used, stored_apr = of_lenders(state["lender_ar"])
    owned, accrued_used, accrued_apr = of_lenders(lender)
    collat_coeff = collateral_coefficient(owned, state["s_supply"])
    supplied = exact.select(state["s_supply"] != 0, owned, 0)  # without shares nobody owns what lies there
    borrowed = _times(debt_coeff, state["debt_supply"])
    return frame.with_columns(
        collat_coeff.alias("collat_coeff"),
        debt_coeff.alias("debt_coeff"),
        stored_used.alias("stored_utilization"),
        accrued_used.alias("accrued_utilization"),
        stored_apr.alias("stored_supply_apr"),
        accrued_apr.alias("accrued_supply_apr"),
        supplied.alias("supplied"),
        borrowed.alias("borrowed"),
        utilization_bps(borrowed, supplied).alias("utilization_bps"),
        simple_yield_bps(stored_apr).alias("supply_apy_bps"),
        simple_yield_bps(state["borrower_ir"]).alias("borrow_apy_bps"),
    )


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    There is no rate modifier and no plain collateral: the one is 1, the other 0. The protocol's collected fees are
    as the backstop's credit. Raises `ExactError` with the positions of the reserves for which the contract's math has
    no result.
    """
    raw = raw_rows(columns, (*RESERVE_COLUMNS, *TERM_COLUMNS), "s_token")
    return shared_columns(
        with_available(project(raw)),
        "slender",
        VERSION,
        total_supplied="supplied",
        total_borrowed="borrowed",
        total_collateral=0,  # collateral is supplied, and is in that total
        last_accrual_time="last_update_timestamp",
        supply_index="collat_coeff",
        borrow_index="debt_coeff",
        index_decimals=DECIMALS,
        stored_borrow_apr="borrower_ir",
        accrued_borrow_apr="borrower_ir",
        apr_decimals=DECIMALS,
        utilization_decimals=DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit="fees",
        share_token="s_token",
        share_supply="s_supply",
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
    "available_to_withdraw": "available_to_withdraw",
    "available_to_borrow": "available_to_borrow",
    "available_to_supply": "available_to_supply",
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
"""Who may do what, and at what risk (docs/protocols/slender.md, "Statuses" and "Risk and liquidity")."""


def with_available(projected: pl.DataFrame) -> pl.DataFrame:
    """Add how much can be withdrawn, borrowed and supplied at the most (Int128, base units), whatever the gates say.

    The cash bounds withdrawals and loans. A loan fails, too, where the debt's shares are above the utilization cap of
    the supply's; a deposit where what the stored lenders' rate makes of the debt, the cash and the amount are together
    above the liquidity cap.
    """
    state = numbers_of(
        projected,
        ("cash", "supplied", "s_supply", "debt_supply", "debt_coeff", "lender_ar", "util_cap", "liquidity_cap"),
    )
    by_shares = borrowable(state["s_supply"], state["debt_supply"], state["debt_coeff"], state["util_cap"])
    counted = exact.add(state["cash"], lent_out(state["lender_ar"], state["debt_supply"]))
    return projected.with_columns(
        within(state["cash"], state["supplied"]).alias("available_to_withdraw"),
        within(state["cash"], by_shares).alias("available_to_borrow"),
        within(exact.subtract(state["liquidity_cap"], counted)).alias("available_to_supply"),
    )


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
    """The rate accrued × (1 + rate × seconds / year), each product and quotient rounded down to 9 decimals.

    In no time the contract multiplies nothing: a rate of any size stays as it is.
    """
    moved = seconds != 0
    years = exact.floor_divide(exact.multiply(seconds, ONE), SECONDS_PER_YEAR)
    growth = exact.add(_times(exact.select(moved, rate, 0), years), ONE)
    return exact.select(moved, _times(exact.select(moved, accrued, 0), growth), accrued)


@exact.naming("lent")
def lent_out(accrued: pl.Series, debt_supply: pl.Series) -> pl.Series:
    """The lenders' part of the debt: floor(accrued × debt shares)."""
    return _times(accrued, debt_supply)


def _times(left: pl.Series, right: pl.Series) -> pl.Series:
    """floor(left × right / 10^9), where the product has to fit."""
    return exact.floor_divide(exact.multiply(left, right), ONE)


@exact.naming("collateral coefficient")
def collateral_coefficient(owned: pl.Series, s_supply: pl.Series) -> pl.Series:
    """The value of a share of the supply: floor(owned / shares), 1 without shares."""
    divided = s_supply != 0
    return exact.floor_divide(exact.multiply(exact.select(divided, owned, 1), ONE), exact.select(divided, s_supply, 1))


@exact.naming("share")
def share(lent: pl.Series, owned: pl.Series, of: exact.Operand) -> pl.Series:
    """The part of a number that the lent share of what is owned makes, rounded down; 0 where nothing is owned."""
    return exact.or_zero(exact.multiply_divide_floor, lent, of, owned)


@exact.basis_points
def simple_yield_bps(rate: pl.Series) -> pl.Series:
    """A rate a year as basis points, rounded down, Int64: between two updates interest is simple."""
    return exact.floor_divide(rate, ONE // 10_000)
