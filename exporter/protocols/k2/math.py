"""K2's math over columns of reserves, function by function as the contract has it (docs/protocols/k2.md, "Formulas").

Scales: indexes, rates a year and utilizations have 27 decimals (RAY); totals are token base units, scaled totals are
totals before the index. ray_mul and ray_div round half up; everything else is rounded down.

The contract computes in unsigned 128 bits, with 256 bits in between; here every value that has a name must fit into
signed 128 bits, because no published number is larger. Otherwise an ExactError carries the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from exporter import exact_columns as exact
from exporter.exact_columns import failure
from exporter.protocols.curves import RateModel
from exporter.protocols.k2.layout import (
    BITS,
    BPS,
    MIN_FIRST_SUPPLY,
    MODEL_FIELDS,
    RAY_DECIMALS,
    RESERVE,
    VERSION,
)
from exporter.protocols.k2.rewards import of_reserve
from exporter.protocols.shared_columns import Given, numbers_of, raw_rows, shared_columns, utilization_bps
from exporter.tables import TERMS

RAY: int = 10**RAY_DECIMALS
SECONDS_PER_YEAR = 31_536_000
"""The contract's year, 365 days."""

RESERVE_COLUMNS = (*RESERVE, "reserve_factor", "total_supply_scaled", "total_debt_scaled", *MODEL_FIELDS)
"""The raw columns that `project` reads."""

TERM_COLUMNS = (*BITS, "router_paused", "debt_ceiling")
"""Those that the terms also read, and ``cash``, null if not known."""


class Totals(NamedTuple):
    """The supply and the debt, in token base units, and the utilization (RAY) it amounts to."""

    supplied: pl.Series
    borrowed: pl.Series
    utilization: pl.Series


def project(frame: pl.DataFrame) -> pl.DataFrame:
    """Bring every reserve to the close time of the ledger, and add what is published of it.

    ``frame`` has RESERVE_COLUMNS and `close_time` (unix seconds), none null or negative. Added are totals, indexes,
    rates and utilizations, Int128; `utilization_bps` and the yields of the stored rates, Int64. Raises `ValueError` for
    a null, and `ExactOverflowError`, also for a reserve that was last updated after `close_time`.
    """
    state = numbers_of(frame, (*RESERVE_COLUMNS, "close_time"))
    seconds = elapsed(state["last_update_timestamp"], state["close_time"])
    with exact.naming("accrued liquidity index"):
        liquidity_index = ray_mul(state["liquidity_index"], linear_interest(state["current_liquidity_rate"], seconds))
    with exact.naming("accrued borrow index"):
        borrow_index = ray_mul(
            state["variable_borrow_index"], compound_interest(state["current_variable_borrow_rate"], seconds)
        )
    scaled = state["total_supply_scaled"], state["total_debt_scaled"]
    stored = totals(*scaled, state["liquidity_index"], state["variable_borrow_index"])
    accrued = totals(*scaled, liquidity_index, borrow_index)
    borrow_rate = variable_borrow_rate(accrued.utilization, *(state[name] for name in MODEL_FIELDS))
    return frame.with_columns(
        liquidity_index.alias("accrued_liquidity_index"),
        borrow_index.alias("accrued_variable_borrow_index"),
        accrued.supplied.alias("total_supplied"),
        accrued.borrowed.alias("total_borrowed"),
        utilization_bps(accrued.borrowed, accrued.supplied).alias("utilization_bps"),
        stored.utilization.alias("stored_utilization"),
        accrued.utilization.alias("accrued_utilization"),
        liquidity_rate(borrow_rate, accrued.utilization, state["reserve_factor"]).alias("accrued_liquidity_rate"),
        borrow_rate.alias("accrued_variable_borrow_rate"),
        supply_apy_bps(state["current_liquidity_rate"]).alias("supply_apy_bps"),
        borrow_apy_bps(state["current_variable_borrow_rate"]).alias("borrow_apy_bps"),
    )


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `PROTOCOL_COLUMNS` and `TERMS`, a row a reserve, in the order given. Raises `ExactError`."""
    reserves = project(raw_rows(columns, (*RESERVE_COLUMNS, *TERM_COLUMNS, "cash"), "a_token"))
    amounts = [_available(reserve) for reserve in reserves.iter_rows(named=True)]
    return shared_columns(
        reserves.hstack(_rewards(columns)),
        "k2",
        VERSION,
        total_collateral=0,
        last_accrual_time="last_update_timestamp",
        supply_index="accrued_liquidity_index",
        borrow_index="accrued_variable_borrow_index",
        index_decimals=RAY_DECIMALS,
        stored_supply_apr="current_liquidity_rate",
        stored_borrow_apr="current_variable_borrow_rate",
        accrued_supply_apr="accrued_liquidity_rate",
        accrued_borrow_apr="accrued_variable_borrow_rate",
        apr_decimals=RAY_DECIMALS,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        share_token="a_token",
        share_supply="total_supplied",  # as the token itself has it
        **_TERMS,
        **{name: exact.column([row[name] for row in amounts]) for name in AMOUNTS},
        **{name: name for name in REWARD_COLUMNS},
    )


REWARD_COLUMNS = {name: TERMS[name] for name in of_reserve((), (), 0)}


def _rewards(columns: Mapping[str, list[Any]]) -> pl.DataFrame:
    sides = (columns[name] for name in ("supply_emissions", "borrow_emissions", "close_time"))
    rows = [of_reserve(*row) for row in zip(*sides, strict=True)]
    return exact.frame({name: [row[name] for row in rows] for name in REWARD_COLUMNS}, REWARD_COLUMNS)


_on = {name: pl.col(name) != 0 for name in ("router_paused", "active", "frozen", "borrowing_enabled", "paused")}
_open = ~_on["router_paused"] & _on["active"] & ~_on["paused"]
_TERMS: dict[str, Given] = {
    "can_supply": _open & ~_on["frozen"],
    "can_withdraw": _open,
    "can_borrow": _open & ~_on["frozen"] & _on["borrowing_enabled"],
    "can_repay": _open,
    "can_liquidate": _open,
    "pool_status": pl.when(~_on["active"])
    .then(pl.lit("inactive"))
    .when(_on["paused"])
    .then(pl.lit("paused"))
    .when(_on["frozen"])
    .then(pl.lit("frozen"))
    .when(~_on["borrowing_enabled"])
    .then(pl.lit("borrowing_disabled"))
    .otherwise(pl.lit("active")),
    "min_first_supply": MIN_FIRST_SUPPLY,
    "risk_scope": pl.lit("reserve"),
    "collateral_factor_bps": "ltv",
    "liquidation_threshold_bps": "liquidation_threshold",
    "liability_factor_bps": 10_000,
    "liquidation_bonus_bps": "liquidation_bonus",
    "liquidation_kind": pl.lit("fixed"),
    "reserve_factor_bps": "reserve_factor",
    "can_be_collateral": pl.col("ltv") > 0,
    "can_be_borrowed": _on["borrowing_enabled"],
}
"""Who may do what, and at what risk (docs/protocols/k2.md, "Statuses" and "Risk and liquidity")."""


AMOUNTS = ("available_to_withdraw", "available_to_borrow", "available_to_supply", "supply_cap", "borrow_cap")


def _available(reserve: Mapping[str, Any]) -> dict[str, int | None]:
    """The caps in base units, None for none, and how much can be withdrawn, borrowed and supplied, whatever gates say.

    The aToken's balance bounds what it pays out. With a limit of more than the contract's unsigned 128 bits nothing
    passes.
    """
    supplied, borrowed, cash = reserve["total_supplied"], reserve["total_borrowed"], reserve["cash"]
    limits = (reserve[name] * 10 ** reserve["decimals"] for name in ("supply_cap", "borrow_cap", "debt_ceiling"))
    supply_cap, *of_debt = (limit or None for limit in limits)
    debt_limits = [limit for limit in of_debt if limit is not None]
    most = min(debt_limits, default=None)
    amounts = {
        "available_to_withdraw": None if cash is None else min(cash, supplied),
        "available_to_borrow": None if cash is None else cash if most is None else min(cash, most - borrowed),
        "available_to_supply": None if supply_cap is None else supply_cap - supplied,
    }
    if max(debt_limits, default=0) >= 2**128:
        amounts["available_to_borrow"] = 0
    if (supply_cap or 0) >= 2**128:
        amounts["available_to_supply"] = 0
    amounts |= {"supply_cap": supply_cap, "borrow_cap": most}
    return {name: None if value is None else min(max(value, 0), exact.INT128_MAX) for name, value in amounts.items()}


def ray_mul(left: exact.Operand, right: exact.Operand) -> pl.Series:
    """The product of numbers of 27 decimals, none negative: floor((left × right + RAY / 2) / RAY)."""
    return exact.multiply_divide_half_up(left, right, RAY)


def ray_div(left: exact.Operand, right: pl.Series) -> pl.Series:
    """Quotients of unsigned numbers, in rays: floor((left × RAY + floor(right / 2)) / right), 0 where right is 0."""
    return exact.or_zero(exact.multiply_divide_half_up, left, RAY, right)


@exact.naming("time since the last update")
def elapsed(last_update: pl.Series, close_time: pl.Series) -> pl.Series:
    """The seconds that interest has run for. A last update after the close time has no result, as in the contract."""
    seconds = exact.subtract(close_time, last_update)
    if (seconds < 0).any():
        raise failure("seconds below zero", (seconds < 0).arg_true().to_list())
    return seconds


@exact.naming("linear interest")
def linear_interest(rate: pl.Series, seconds: exact.Operand) -> pl.Series:
    """The factor of supply in some seconds at a rate a year: RAY + floor(rate × seconds / year)."""
    return exact.add(exact.floor_divide(exact.multiply(rate, seconds), SECONDS_PER_YEAR), RAY)


@exact.naming("compound interest")
def compound_interest(rate: pl.Series, seconds: exact.Operand) -> pl.Series:
    """The factor of debt in n seconds at a rate a year, RAY: three terms of the binomial series."""
    square = exact.floor_divide(ray_mul(rate, rate), SECONDS_PER_YEAR**2)
    cube = exact.floor_divide(ray_mul(square, rate), SECONDS_PER_YEAR)
    columns = exact.add(exact.multiply(rate, 0), seconds)
    pairs = exact.multiply(columns, exact.subtract(columns, 1))
    triples = exact.multiply(pairs, exact.subtract(columns, 2))
    first = exact.multiply_divide_floor(rate, columns, SECONDS_PER_YEAR)
    second = exact.multiply_divide_floor(pairs, square, 2)
    third = exact.multiply_divide_floor(triples, cube, 6)
    return exact.add(exact.add(exact.add(first, second), third), RAY)


def totals(
    supply_scaled: pl.Series, debt_scaled: pl.Series, liquidity_index: pl.Series, borrow_index: pl.Series
) -> Totals:
    """The totals at these indexes, and their utilization, which is 0 where there is nothing."""
    with exact.naming("total supply"):
        supplied = ray_mul(supply_scaled, liquidity_index)
    with exact.naming("total debt"):
        borrowed = ray_mul(debt_scaled, borrow_index)
    with exact.naming("utilization"):
        available = exact.clamp(exact.subtract(supplied, borrowed), 0, exact.INT128_MAX)
        liquidity = exact.add(available, borrowed)
        used = ray_div(borrowed, liquidity)
    return Totals(supplied, borrowed, used)


@exact.naming("variable borrow rate")
def variable_borrow_rate(
    utilization: pl.Series, base: pl.Series, optimal: pl.Series, slope1: pl.Series, slope2: pl.Series
) -> pl.Series:
    """The rate a year at a utilization of at most 1. The knot is in the lower slope; an optimum of 0 gives the base."""
    above = utilization > optimal
    used = exact.select(above, exact.subtract(utilization, optimal), utilization)
    span = exact.select(above, exact.subtract(RAY, optimal), optimal)
    part = ray_div(used, span)
    sloped = ray_mul(exact.select(above, slope2, slope1), part)
    return exact.add(exact.add(base, exact.select(above, slope1, 0)), sloped)


RATE_MODEL = RateModel(
    MODEL_FIELDS, RAY, lambda own: (own["optimal_utilization_rate"],), exact.by_number(variable_borrow_rate)
)


@exact.naming("liquidity rate")
def liquidity_rate(borrow_rate: pl.Series, utilization: pl.Series, reserve_factor: pl.Series) -> pl.Series:
    """The rate a year that suppliers earn: ray_mul(ray_mul(borrow, U), RAY - floor(factor × RAY / 10000))."""
    kept = exact.subtract(RAY, exact.floor_divide(exact.multiply(reserve_factor, RAY), BPS))
    return ray_mul(ray_mul(borrow_rate, utilization), kept)


@exact.basis_points
def supply_apy_bps(rate: pl.Series) -> pl.Series:
    """The growth of supply in a year at a rate that stays, in whole basis points (Int64): the linear interest."""
    return exact.multiply_divide_floor(rate, BPS, RAY)  # the linear interest of a whole year is the rate


@exact.basis_points
def borrow_apy_bps(rate: pl.Series) -> pl.Series:
    """The growth of debt in a year at a rate that stays, in whole basis points (Int64): the compound interest."""
    return exact.multiply_divide_floor(exact.subtract(compound_interest(rate, SECONDS_PER_YEAR), RAY), BPS, RAY)
