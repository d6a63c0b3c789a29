"""Alula's math over columns of pools, function by function as the contract has it.

The formulas are those of docs/protocols/alula.md, "Formulas", on the exact operations of `exporter.exact`. The
contract's views do not accrue interest, and neither does this: all numbers are those of the state as it is stored.

Scales: utilization, rates a year, the rate modifier, the take rate and what a share is worth are basis points; the
growth of a debt has 18 decimals; totals and fees are token base units.

Every value that has a name in the contract must fit into signed 128 bits, as it must there; products before a
division may be wider. A pool for which this fails, or that divides by zero, raises an ExactError that carries its
row: `exact.set_aside_failures` then computes the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from exporter import exact
from exporter.exact import failure
from exporter.protocols.alula.layout import CURVE_FIELDS, STATUS_NAMES, VERSION
from exporter.protocols.curves import RateModel
from exporter.protocols.shared_columns import Given, numbers_of, raw_rows, shared_columns, utilization_bps
from exporter.tree.values import RewardReason

BPS = 10_000
SCALED_ONE = 10**18
SECONDS_PER_YEAR = 31_556_926
"""The contract's year, 365.2422 days."""

LOWEST_MODIFIER, HIGHEST_MODIFIER = 1_000, 100_000
MODIFIER_SECONDS = 900
"""More time than this does not move the modifier further, in the newest contract."""

POOL_COLUMNS = (
    "total_available",
    "total_borrowed",
    "take_rate_fees_sum",
    "total_j_tokens",
    "total_d_tokens",
    "interest_rate_modifier_bps",
    "take_rate_bps",
    *CURVE_FIELDS,
)
"""The raw columns that the numbers follow from; none is negative, and the take rate is at most BPS."""

TERM_COLUMNS = (
    "open_ltv_bps",
    "close_ltv_bps",
    "liability_factor_bps",
    "utilization_ratio_limit_bps",
    "max_liquidation_incentive_bps",
    "supply_limit",
    "flags",
    "bad_debt_lock_d",
    "bad_debt_request_count",
)
"""The raw columns that only the terms need; null where an entry does not have the field."""

FARM_COLUMNS = ("supply_reward_reason", "borrow_reward_reason")
"""The facts about the rewards of each side, without which nothing is paid."""

POOL_STATUSES = {
    "enabled": "depositing, borrowing, adding collateral and flash loans are open, as far as the market is",
    "partly_disabled": "some of depositing, borrowing, adding collateral and flash loans is closed",
    "disabled": "depositing, borrowing, adding collateral and flash loans are closed",
    "bad_debt_locked": "no depositing, withdrawing or borrowing: bad debt waits for the insurance fund",
}

_DEPOSIT, _BORROW, _EVERYTHING = 1, 2, 15

_REVISION = "whether one can leave a frozen market depends on the contract's revision, and which one runs is not known"

BPS_DECIMALS = 4
"""Of rates, indexes and the modifier."""


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS` and `TERMS`, a row a pool, in the order given.

    Nothing accrues here, so the accrued rates are the stored ones: those that the contract's own view computes from
    the stored totals and modifier, not the snapshot of the last accrual that the Pool entry holds next to them.
    Indexes are the contract's share rates.

    Raises:
        ExactOverflowError: with the rows in which a value does not fit into 128 bits.
        ExactDivisionError: with the rows that divide by zero: a rate curve whose second kink is at 100 percent, at a
            utilization of 100 percent (validated against in the newest contract only).
        ValueError: for a null.
    """
    numbers = ("last_accrual_timestamp", "total_collateral", *POOL_COLUMNS, *TERM_COLUMNS)
    raw = raw_rows(columns, numbers, *FARM_COLUMNS)
    state = numbers_of(raw, POOL_COLUMNS)
    borrowed = state["total_borrowed"]
    available = available_adjusted(state["total_available"], state["take_rate_fees_sum"])
    supplied = total_supply(available, borrowed)
    used = utilization(borrowed, supplied)
    modified = _rate(state, used)
    earned = supply_apr(modified, used, state["take_rate_bps"])
    return shared_columns(
        raw,
        "alula",
        VERSION,
        total_supplied=supplied,
        utilization_bps=utilization_bps(borrowed, supplied),
        supply_apy_bps=apy_bps(earned),
        borrow_apy_bps=apy_bps(modified),
        last_accrual_time="last_accrual_timestamp",
        supply_index=j_token_rate_bps(supplied, state["total_j_tokens"]),
        borrow_index=d_token_rate_bps(borrowed, state["total_d_tokens"]),
        index_decimals=BPS_DECIMALS,
        stored_supply_apr=earned,
        stored_borrow_apr=modified,
        accrued_supply_apr=earned,
        accrued_borrow_apr=modified,
        apr_decimals=BPS_DECIMALS,
        stored_utilization=used,
        accrued_utilization=used,
        utilization_decimals=BPS_DECIMALS,
        rate_modifier="interest_rate_modifier_bps",
        rate_modifier_decimals=BPS_DECIMALS,
        backstop_credit="take_rate_fees_sum",
        **_terms(raw, available, supplied, used),
    )


def _terms(pools: pl.DataFrame, available: pl.Series, supplied: pl.Series, used: pl.Series) -> dict[str, Given]:
    """The columns of `exporter.tables.TERMS`, of raw pools.

    ``available`` is what they have without the fees that are not paid out yet, ``used`` their utilization, rounded up.
    """
    status = pl.col("market_status")
    known = status.is_in([*STATUS_NAMES.values()])
    frozen = status.is_in(["frozen", "frozen_by_admin"])
    unlocked = (pl.col("bad_debt_request_count") == 0) & (pl.col("close_time") >= pl.col("bad_debt_lock_d"))
    flags = pl.col("flags").cast(pl.Int64)

    def on(bit: int) -> pl.Expr:
        return (flags & bit) != 0

    def gate(is_open: pl.Expr) -> pl.Expr:
        return pl.when(known).then(is_open)

    leaving = pl.when(known & ~frozen)
    pool_status = (
        pl.when(~unlocked)
        .then(pl.lit("bad_debt_locked"))
        .when((flags & _EVERYTHING) == _EVERYTHING)
        .then(pl.lit("enabled"))
        .when((flags & _EVERYTHING) == 0)
        .then(pl.lit("disabled"))
        .otherwise(pl.lit("partly_disabled"))
    )
    reason = (
        pl.when(~known)
        .then(pl.lit("the market's status is not known"))
        .when(frozen)
        .then(pl.lit(_REVISION))
        .when(flags.is_null() | unlocked.is_null())
        .then(pl.lit("the pool's entry does not have all that its operations hang on"))
    )
    # floor(supply × (limit - U) / 10000), 0 where the utilization U is above the limit; at most the available.
    room = _left(pools["utilization_ratio_limit_bps"], used)
    return {
        "can_supply": gate(status.is_in(["active", "borrow_frozen"]) & on(_DEPOSIT) & unlocked),
        "can_withdraw": leaving.then(unlocked),
        "can_borrow": gate((status == "active") & on(_BORROW) & unlocked),
        "can_repay": leaving.then(pl.lit(True)),
        "can_liquidate": leaving.then(pl.lit(True)),
        "can_reason": reason,
        "pool_status": pl.when(flags.is_not_null() & unlocked.is_not_null()).then(pool_status),
        "available_to_withdraw": available,
        "available_to_borrow": exact.clamp(_share(supplied, room), 0, available),
        "available_to_supply": _capped(_left(pools["supply_limit"], supplied)),
        "risk_scope": pl.lit("reserve"),
        "collateral_factor_bps": _published("open_ltv_bps"),
        "liquidation_threshold_bps": _published("close_ltv_bps"),
        "liability_factor_bps": _published("liability_factor_bps"),
        "liquidation_bonus_bps": _published("max_liquidation_incentive_bps"),
        "liquidation_kind": pl.lit("range"),
        "supply_cap": _capped(pools["supply_limit"]),
        "max_utilization_bps": _published("utilization_ratio_limit_bps"),
        "reserve_factor_bps": "take_rate_bps",
        "can_be_collateral": pl.col("open_ltv_bps") > 0,
        "can_be_borrowed": on(_BORROW),
        "reward_decimals": 0,
        **{f"{side}_reward_per_second": _unpaid(side) for side in ("supply", "borrow")},
        **{name: name for name in FARM_COLUMNS},
    }


def _left(limit: pl.Series, used: pl.Series) -> pl.Series:
    return exact.clamp(exact.subtract(exact.clamp(limit, 0, exact.INT128_MAX), used), 0, exact.INT128_MAX)


@exact.at_most(exact.INT128_MAX)
def _share(amount: pl.Series, part_bps: pl.Series) -> pl.Series:
    return exact.multiply_divide_floor(amount, part_bps, 10_000)


def _capped(values: pl.Series) -> pl.Expr:
    """Null where the limit is 0: the contract takes that for none."""
    return pl.when(pl.col("supply_limit") != 0).then(pl.lit(values))


def _unpaid(side: str) -> pl.Expr:
    return pl.when(pl.col(f"{side}_reward_reason") == RewardReason.NO_EMISSIONS).then(pl.lit(0))


def _published(name: str) -> pl.Expr:
    return pl.col(name).clip(0, exact.JSON_INTEGER_MAX)


@exact.naming("available")
def available_adjusted(total_available: pl.Series, take_rate_fees_sum: pl.Series) -> pl.Series:
    """The amount that can be lent or withdrawn: the available less the fees that are not paid out yet, at least 0."""
    return exact.clamp(exact.subtract(total_available, take_rate_fees_sum), 0, exact.INT128_MAX)


@exact.naming("total supply")
def total_supply(available: pl.Series, total_borrowed: pl.Series) -> pl.Series:
    """The supply: the adjusted available and what is lent. Collateral is outside the pool."""
    return exact.add(available, total_borrowed)


@exact.naming("utilization")
def utilization(total_borrowed: pl.Series, supplied: pl.Series) -> pl.Series:
    """The utilization that drives the rates: ceil(borrowed × 10000 / supplied), 0 where nothing is supplied."""
    return exact.or_zero(exact.multiply_divide_ceil, total_borrowed, BPS, supplied)


@exact.naming("kinked APR")
def kinked_apr(
    utilization: pl.Series,
    base_apr: pl.Series,
    kink1_apr: pl.Series,
    kink1_ur: pl.Series,
    kink2_apr: pl.Series,
    kink2_ur: pl.Series,
    max_apr: pl.Series,
) -> pl.Series:
    """The rate a year before the modifier: three slopes over the utilization U.

    U < kink1_ur:              base_apr  + floor((kink1_apr - base_apr) × U / kink1_ur)
    kink1_ur <= U < kink2_ur:  kink1_apr + floor((kink2_apr - kink1_apr) × (U - kink1_ur) / (kink2_ur - kink1_ur))
    kink2_ur <= U:             kink2_apr + floor((max_apr - kink2_apr) × (U - kink2_ur) / (10000 - kink2_ur))

    Both knots belong to the upper slope. With kink2_ur = 10000 = U the last divides by zero, as in the contract.
    """
    first = utilization < kink1_ur
    third = ~first & (utilization >= kink2_ur)

    def of_slope(on_first: exact.Operand, on_second: exact.Operand, on_third: exact.Operand) -> pl.Series:
        return exact.select(first, on_first, exact.select(third, on_third, on_second))

    start_apr = of_slope(base_apr, kink1_apr, kink2_apr)
    rise = exact.subtract(of_slope(kink1_apr, kink2_apr, max_apr), start_apr)
    start_ur = of_slope(0, kink1_ur, kink2_ur)
    span = exact.subtract(of_slope(kink1_ur, kink2_ur, BPS), start_ur)
    return exact.add(start_apr, exact.multiply_divide_floor(rise, exact.subtract(utilization, start_ur), span))


@exact.naming("borrow APR")
def borrow_apr(kinked: pl.Series, modifier: pl.Series) -> pl.Series:
    """The rate a year that borrowers pay: ceil(kinked × modifier / 10000)."""
    return exact.multiply_divide_ceil(kinked, modifier, BPS)


def _rate(state: pl.DataFrame, used: pl.Series) -> pl.Series:
    kinked = kinked_apr(used, *(state[name] for name in CURVE_FIELDS))
    return borrow_apr(kinked, state["interest_rate_modifier_bps"])


RATE_MODEL = RateModel(
    CURVE_FIELDS,
    BPS,
    lambda own: (own["kink1_ur_bps"], own["kink2_ur_bps"]),
    lambda used, modifier, *curve: borrow_apr(kinked_apr(used, *curve), modifier),
    lambda pools: pools.select("rate_modifier").rows(),
)
"""The three slopes at the modifier now."""


@exact.naming("supply APR")
def supply_apr(borrow_apr: pl.Series, utilization: pl.Series, take_rate: pl.Series) -> pl.Series:
    """The rate a year that suppliers earn: floor(floor(borrow_apr × U / 10000) × (10000 - take_rate) / 10000)."""
    earned = exact.multiply_divide_floor(borrow_apr, utilization, BPS)
    return exact.multiply_divide_floor(earned, exact.subtract(BPS, take_rate), BPS)


class Accrued(NamedTuple):
    """A pool after an accrual, before the operation that it comes with.

    Older contracts round the fees up (``fees_up``), and let all the time move the modifier (``modifier_wholly``).
    """

    borrow_apr: pl.Series
    supply_apr: pl.Series
    total_borrowed: pl.Series
    fees: pl.Series
    fees_up: pl.Series
    modifier: pl.Series
    modifier_wholly: pl.Series


def accrue(state: pl.DataFrame, seconds: pl.Series) -> Accrued:
    """Pools after the next transaction, some seconds after their last accrual.

    Args:
        state: POOL_COLUMNS, `target_utilization_ratio_bps` and `ir_reactivity_constant`, Int128.
        seconds: since the last accrual, at least 0.
    """
    borrowed = state["total_borrowed"]
    supplied = total_supply(available_adjusted(state["total_available"], state["take_rate_fees_sum"]), borrowed)
    used = utilization(borrowed, supplied)
    apr = _rate(state, used)
    with exact.naming("accrued debt"):
        owed = exact.multiply_divide_ceil(borrowed, multiplier(apr, seconds), SCALED_ONE)
    grown, take_rate = exact.subtract(owed, borrowed), state["take_rate_bps"]
    return Accrued(
        apr,
        supply_apr(apr, used, take_rate),
        owed,
        exact.add(state["take_rate_fees_sum"], exact.multiply_divide_floor(grown, take_rate, BPS)),
        exact.add(state["take_rate_fees_sum"], exact.multiply_divide_ceil(grown, take_rate, BPS)),
        _modifier(state, used, exact.clamp(seconds, 0, MODIFIER_SECONDS)),
        _modifier(state, used, seconds),
    )


def _modifier(state: pl.DataFrame, used: pl.Series, seconds: pl.Series) -> pl.Series:
    """The modifier after some seconds: lower above the target utilization by floor(seconds × difference × reactivity /
    10000), higher below it by the like, and always from 0.1 to 10.
    """
    difference = exact.subtract(used, state["target_utilization_ratio_bps"])
    above = difference >= 0
    distance = exact.select(above, difference, exact.subtract(0, difference))
    step = exact.multiply_divide_floor(exact.multiply(seconds, distance), state["ir_reactivity_constant"], BPS)
    before = state["interest_rate_modifier_bps"]
    moved = exact.select(above, exact.subtract(before, step), exact.add(before, step))
    return exact.clamp(moved, LOWEST_MODIFIER, HIGHEST_MODIFIER)


def multiplier(apr: pl.Series, seconds: exact.Operand) -> pl.Series:
    """The factor, with 18 decimals, by which a debt grows in `seconds` at a rate a year in basis points.

    1 + floor(ceil(apr × 10^18 / 10000) / 31556926) × 10^-18, the growth of a second, to the power of the seconds: by
    squaring, rounded down after every multiplication, in 256 bits; only the result must fit into 128.

    Raises:
        ExactOverflowError: with the rows of which the result does not fit, or whose rate is negative: an error in
            the contract.
    """
    if (apr < 0).any():
        raise failure("growth at a negative rate", (apr < 0).arg_true().to_list())
    a_second = exact.floor_divide(exact.multiply_divide_ceil(apr, SCALED_ONE, BPS), SECONDS_PER_YEAR)
    return exact.power_floor(exact.add(a_second, SCALED_ONE), seconds, SCALED_ONE)


@exact.basis_points
def apy_bps(apr: pl.Series) -> pl.Series:
    """The yield of a rate that is compounded every second for a year, in whole basis points, Int64.

    max(0, floor(multiplier(apr, a year) / 10^14) - 10000). The contract's own view fails beyond 32 bits.
    """
    grown = exact.floor_divide(multiplier(apr, SECONDS_PER_YEAR), SCALED_ONE // BPS)
    return exact.clamp(exact.subtract(grown, BPS), 0, exact.INT128_MAX)


@exact.at_most(exact.INT128_MAX)
def j_token_rate_bps(supplied: pl.Series, total_j_tokens: pl.Series) -> pl.Series:
    """The value of a supply share: floor(total supply × 10000 / shares), 0 without shares."""
    return exact.or_zero(exact.multiply_divide_floor, supplied, BPS, total_j_tokens)


@exact.at_most(exact.INT128_MAX)
def d_token_rate_bps(total_borrowed: pl.Series, total_d_tokens: pl.Series) -> pl.Series:
    """The value of a debt share: ceil(borrowed × 10000 / shares), 0 without shares."""
    return exact.or_zero(exact.multiply_divide_ceil, total_borrowed, BPS, total_d_tokens)
