"""The spokes' terms for a hub market, and what of it holds for the pool (docs/protocols/xoxno.md, "Spokes")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import msgspec

from exporter.protocols.xoxno.layout import RAY_DECIMALS, Spoke
from exporter.tables import MAX_DECIMAL

RAY: int = 10**RAY_DECIMALS


class SpokeTerms(TypedDict):
    """The terms of a pool in the columns of `exporter.tables.TERMS`, but for what the pool itself allows."""

    can_supply: bool
    can_borrow: bool
    can_exit: bool
    """Withdraw, repay, and be liquidated."""
    room_to_supply: int
    room_to_borrow: int
    collateral_factor_bps: int
    liquidation_threshold_bps: int
    liquidation_bonus_bps: int | None
    supply_cap: int
    borrow_cap: int
    can_be_collateral: bool
    can_be_borrowed: bool
    spokes: str


@dataclass(frozen=True, slots=True)
class AccruedPool:
    """A hub market at the close time: indexes (RAY), what a base unit is in RAY, what can be borrowed in all."""

    supply_index: int
    borrow_index: int
    unit: int
    borrowable: int
    enters: bool
    """Whether the controller and the hub let anybody in; each spoke says that, too."""
    backed: bool
    """Whether cash and debt are worth what suppliers are owed: nobody can supply where they are not."""


def supply_room(spoke: Spoke, pool: AccruedPool) -> int:
    """The most that a spoke's cap lets in: the new shares, rounded down, may not be more than are left."""
    left = _scaled(spoke.supply_cap, pool.unit, pool.supply_index) - spoke.supplied
    return max(-(-(left + 1) * pool.supply_index // RAY) - 1, 0) // pool.unit if left > 0 else 0


def borrow_room(spoke: Spoke, pool: AccruedPool) -> int:
    """The most that a spoke's cap lets be borrowed: the new shares are rounded up."""
    left = _scaled(spoke.borrow_cap, pool.unit, pool.borrow_index) - spoke.borrowed
    return max(left, 0) * pool.borrow_index // RAY // pool.unit


def _scaled(cap: int, unit: int, index: int) -> int:
    return min(cap * unit * RAY // index, 2**127 - 1)


def terms_of(spokes: Sequence[Spoke], pool: AccruedPool) -> SpokeTerms:
    """The terms of a pool that these spokes list, and the document's list of them.

    An account belongs to one spoke. A gate is open where some spoke opens it; room and caps are the sums of what the
    spokes have that may lend or borrow; factors and bonus are together those of the spoke with the highest factor.
    """
    rooms = []
    shown = []
    for spoke in spokes:
        enters = pool.enters and not (spoke.deprecated or spoke.paused or spoke.frozen)
        supplies = enters and spoke.is_collateralizable and pool.backed
        borrows = enters and spoke.is_borrowable
        supply = supply_room(spoke, pool) if supplies else 0
        borrow = min(borrow_room(spoke, pool), pool.borrowable) if borrows else 0
        rooms.append((supplies, supply, borrows, borrow))
        shown.append(
            {
                "spoke": spoke.number,
                "deprecated": spoke.deprecated,
                "paused": spoke.paused,
                "frozen": spoke.frozen,
                "can_supply": supplies,
                "can_withdraw": not spoke.paused,
                "can_borrow": borrows,
                "can_repay": not spoke.paused,
                "can_liquidate": not spoke.paused,
                "can_be_seized": not spoke.no_seize,
                "available_to_supply": _digits(supply),
                "available_to_borrow": _digits(borrow),
                "collateral_factor_bps": spoke.loan_to_value,
                "liquidation_threshold_bps": spoke.liquidation_threshold,
                "liquidation_bonus_bps": spoke.liquidation_bonus,
                "supply_cap": _digits(spoke.supply_cap),
                "borrow_cap": _digits(spoke.borrow_cap),
                "can_be_collateral": spoke.is_collateralizable,
                "can_be_borrowed": spoke.is_borrowable,
            }
        )
    in_use = [spoke for spoke in spokes if not spoke.deprecated]
    collateral = [spoke for spoke in in_use if spoke.is_collateralizable]
    best = max(collateral, key=lambda spoke: spoke.loan_to_value, default=None)
    lending = [spoke for spoke in in_use if spoke.is_borrowable]
    return SpokeTerms(
        can_supply=any(supplies for supplies, _, _, _ in rooms),
        can_borrow=any(borrows for _, _, borrows, _ in rooms),
        can_exit=not spokes or any(not spoke.paused for spoke in spokes),
        room_to_supply=_bounded(sum(room for _, room, _, _ in rooms)),
        room_to_borrow=_bounded(sum(room for _, _, _, room in rooms)),
        collateral_factor_bps=best.loan_to_value if best else 0,
        liquidation_threshold_bps=best.liquidation_threshold if best else 0,
        liquidation_bonus_bps=best.liquidation_bonus if best else None,
        supply_cap=_bounded(sum(spoke.supply_cap for spoke in collateral)),
        borrow_cap=_bounded(sum(spoke.borrow_cap for spoke in lending)),
        can_be_collateral=bool(collateral),
        can_be_borrowed=bool(lending),
        spokes=msgspec.json.encode(shown).decode(),
    )


def _bounded(amount: int) -> int:
    return min(amount, MAX_DECIMAL)


def _digits(amount: int) -> str:
    return str(_bounded(amount))
