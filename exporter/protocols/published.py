"""What every protocol publishes of a pool in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter import exact
from exporter.tables import PROTOCOL_COLUMNS
from exporter.tree.values import RewardReason

NO_REWARDS: Mapping[str, Any] = {
    **dict.fromkeys(("supply_reward_per_second", "borrow_reward_per_second", "reward_decimals"), 0),
    **dict.fromkeys(("supply_reward_reason", "borrow_reward_reason"), RewardReason.NONE),
}
"""The columns of a protocol whose contracts pay nothing in addition to interest."""


def row_of(pool: Mapping[str, Any], protocol: str, version: str, **given: Any) -> dict[str, Any]:
    """The row of a pool: the columns given, and of `PROTOCOL_COLUMNS` those that its raw state has by that name."""
    shared = {name: pool[name] for name in PROTOCOL_COLUMNS if name in pool}
    return {**shared, "protocol": protocol, "version": version, **given}


@exact.basis_points
def utilization_bps(borrowed: int, supplied: int) -> int:
    """The published utilization of every protocol: floor(borrowed × 10000 / supplied), 0 without supply."""
    return exact.multiply_divide_floor(borrowed, 10_000, supplied) if supplied else 0


@exact.basis_points
def simple_yield_bps(rate: int, scale: int) -> int:
    """A rate a year that is not compounded as basis points, rounded down; ``scale`` is a rate of 100 %."""
    return rate // (scale // 10_000)


def within(amount: int | None, *bounds: int | None) -> int | None:
    """An amount that can be had, within its bounds and not below 0: null where it is; a null bound does not bind."""
    if amount is None:
        return None
    return max(min([amount, *(bound for bound in bounds if bound is not None)]), 0)
