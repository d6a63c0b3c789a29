"""Alula's math over columns of pools, function by function as the contract has it (docs/protocols/alula.md).

Scales: utilization, rates a year, the rate modifier, the take rate and what a share is worth are basis points; the
growth of a debt has 18 decimals; totals and fees are token base units. Every value that has a name in the contract must
fit into signed 128 bits, as it must there; products before a division may be wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from exporter import exact_columns as exact
from exporter.protocols.alula.layout import CURVE, STATUS_NAMES, TERMS, VERSION
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
    *CURVE,
)
"""The raw columns that the numbers follow from; none is negative, and the take rate is at most BPS."""

FARM_COLUMNS = ("supply_reward_reason", "borrow_reward_reason")

POOL_STATUSES = {
    "enabled": "depositing, borrowing, adding collateral and flash loans are open, as far as the market is",
    "partly_disabled": "some of depositing, borrowing, adding collateral and flash loans is closed",
    "disabled": "depositing, borrowing, adding collateral and flash loans are closed",
    "bad_debt_locked": "no depositing, withdrawing or borrowing: bad debt waits for the insurance fund",
}

_DEPOSIT, _BORROW, _EVERYTHING = 1, 2, 15

_REVISION = "whether one can leave a frozen market depends on the contract's revision, and which one runs is not known"


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `PROTOCOL_COLUMNS` and `TERMS`, a row a pool. As in the contract's own views, nothing accrues."""
    numbers = ("last_accrual_timestamp", "total_collateral", *POOL_COLUMNS, *TERMS)
    raw = raw_rows(columns, numbers, *FARM_COLUMNS)
    state = numbers_of(raw, POOL_COLUMNS)
    borrowed = state["total_borrowed"]
    available, supplied = supply_of(state)
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
        supply_index=_share_rate(exact.multiply_divide_floor, supplied, BPS, state["total_j_tokens"]),
        borrow_index=_share_rate(exact.multiply_divide_ceil, borrowed, BPS, state["total_d_tokens"]),
        index_decimals=4,
        stored_supply_apr=earned,
        stored_borrow_apr=modified,
        accrued_supply_apr=earned,
        accrued_borrow_apr=modified,
        apr_decimals=4,
        stored_utilization=used,
        accrued_utilization=used,
        utilization_decimals=4,
        rate_modifier="interest_rate_modifier_bps",
        rate_modifier_decimals=4,
        backstop_credit="take_rate_fees_sum",
        **_terms(raw, available, supplied, used),
    )


def _terms(pools: pl.DataFrame, available: pl.Series, supplied: pl.Series, used: pl.Series) -> dict[str, Given]:
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
    room = _left(pools["utilization_ratio_limit_bps"], used)
    capped = pl.col("supply_limit") != 0  # the contract takes 0 for no limit
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
        "available_to_supply": pl.when(capped).then(pl.lit(_left(pools["supply_limit"], supplied))),
        "risk_scope": pl.lit("reserve"),
        "collateral_factor_bps": _published("open_ltv_bps"),
        "liquidation_threshold_bps": _published("close_ltv_bps"),
        "liability_factor_bps": _published("liability_factor_bps"),
        "liquidation_bonus_bps": _published("max_liquidation_incentive_bps"),
        "liquidation_kind": pl.lit("range"),
        "supply_cap": pl.when(capped).then(pl.col("supply_limit")),
        "max_utilization_bps": _published("utilization_ratio_limit_bps"),
        "reserve_factor_bps": "take_rate_bps",
        "can_be_collateral": pl.col("open_ltv_bps") > 0,
        "can_be_borrowed": on(_BORROW),
        "reward_decimals": 0,
        **{
            f"{side}_reward_per_second": pl.when(pl.col(f"{side}_reward_reason") == RewardReason.NO_EMISSIONS).then(0)
            for side in ("supply", "borrow")
        },
        **{name: name for name in FARM_COLUMNS},
    }


def _left(limit: pl.Series, used: pl.Series) -> pl.Series:
    return exact.clamp(exact.subtract(exact.clamp(limit, 0, exact.INT128_MAX), used), 0, exact.INT128_MAX)


@exact.at_most(exact.INT128_MAX)
def _share(amount: pl.Series, part_bps: pl.Series) -> pl.Series:
    return exact.multiply_divide_floor(amount, part_bps, 10_000)


def _published(name: str) -> pl.Expr:
    return pl.col(name).clip(0, exact.JSON_INTEGER_MAX)


def supply_of(state: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """What can be lent or withdrawn, less the fees that are not paid out yet; and all that suppliers own."""
    with exact.naming("available"):
        left = exact.subtract(state["total_available"], state["take_rate_fees_sum"])
        available = exact.clamp(left, 0, exact.INT128_MAX)
    with exact.naming("total supply"):
        return available, exact.add(available, state["total_borrowed"])


@exact.naming("utilization")
def utilization(total_borrowed: pl.Series, supplied: pl.Series) -> pl.Series:
    """The utilization that drives the rates, rounded up; 0 where nothing is supplied."""
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
    """The rate before the modifier; a knot belongs to the upper slope. A second kink at 10000 divides by zero there."""
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
    """The rate a year that borrowers pay."""
    return exact.multiply_divide_ceil(kinked, modifier, BPS)


def _rate(state: pl.DataFrame, used: pl.Series) -> pl.Series:
    kinked = kinked_apr(used, *(state[name] for name in CURVE))
    return borrow_apr(kinked, state["interest_rate_modifier_bps"])


RATE_MODEL = RateModel(
    tuple(CURVE),
    BPS,
    lambda own: (own["kink1_ur_bps"], own["kink2_ur_bps"]),
    exact.by_number(lambda used, modifier, *curve: borrow_apr(kinked_apr(used, *curve), modifier)),
    lambda pools: pools.select("rate_modifier").rows(),
)


@exact.naming("supply APR")
def supply_apr(borrow_apr: pl.Series, utilization: pl.Series, take_rate: pl.Series) -> pl.Series:
    """The rate a year that suppliers earn."""
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
    """Pools after the next transaction, some seconds (at least 0) after their last accrual.

    ``state`` has POOL_COLUMNS, target_utilization_ratio_bps and ir_reactivity_constant, Int128.
    """
    borrowed = state["total_borrowed"]
    _, supplied = supply_of(state)
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
    """Lower above the target utilization, higher below it, and always from 0.1 to 10."""
    difference = exact.subtract(used, state["target_utilization_ratio_bps"])
    above = difference >= 0
    distance = exact.select(above, difference, exact.subtract(0, difference))
    step = exact.multiply_divide_floor(exact.multiply(seconds, distance), state["ir_reactivity_constant"], BPS)
    before = state["interest_rate_modifier_bps"]
    moved = exact.select(above, exact.subtract(before, step), exact.add(before, step))
    return exact.clamp(moved, LOWEST_MODIFIER, HIGHEST_MODIFIER)


def multiplier(apr: pl.Series, seconds: exact.Operand) -> pl.Series:
    """The factor, with 18 decimals, by which a debt grows in `seconds`: the growth of one second to their power."""
    a_second = exact.floor_divide(exact.multiply(apr, SCALED_ONE // BPS), SECONDS_PER_YEAR)
    return exact.power_floor(exact.add(a_second, SCALED_ONE), seconds, SCALED_ONE)


@exact.basis_points
def apy_bps(apr: pl.Series) -> pl.Series:
    """The yield of a rate that is compounded every second for a year. The contract's own view fails beyond 32 bits."""
    return exact.subtract(exact.floor_divide(multiplier(apr, SECONDS_PER_YEAR), SCALED_ONE // BPS), BPS)


_share_rate = exact.at_most(exact.INT128_MAX)(exact.or_zero)
