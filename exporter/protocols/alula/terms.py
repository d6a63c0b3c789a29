"""Operations, amounts and risk of Alula's pools (docs/protocols/alula.md, "Terms").

Like all numbers of Alula here, amounts are of the state as it is stored: the contract's own views do not accrue.
"""

from __future__ import annotations

import polars as pl

from exporter import exact
from exporter.protocols.alula.layout import STATUS_NAMES
from exporter.protocols.shared_columns import Given
from exporter.tree.values import RewardReason

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


def terms(pools: pl.DataFrame, available: pl.Series, supplied: pl.Series, used: pl.Series) -> dict[str, Given]:
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
