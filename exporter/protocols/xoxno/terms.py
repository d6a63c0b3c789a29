"""Who may do what with a hub market, how much of it and at what risk (docs/protocols/xoxno.md, "Spokes").

Here the integers have no bound: what is compared on the way may need more than 128 bits where the result does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.exact import INT128_MAX, ceil_divide
from exporter.protocols.xoxno.layout import BPS, RAY, RAY_DECIMALS, Spoke
from exporter.tables import MAX_DECIMAL, SPOKES

LIQUIDATION_BUFFER_BPS = 200
"""Of what is supplied, that a loan has to leave as cash."""

UNKNOWN_SPOKES = "what its hub or its spokes allow could not be read"

Pool = Mapping[str, Any]
"""The raw state of a hub market, accrued: scaled amounts and indexes in RAY, the cash in base units."""


def terms_of(pool: Pool) -> dict[str, Any]:
    """`SPOKES` and those of `TERMS` that hang on spokes and hub; only amounts where these could not be read."""
    spokes, hub_active = pool["spokes"], pool["hub_active"]
    borrowable = most_borrowed(pool)
    amounts = {"available_to_withdraw": most_withdrawn(pool), "available_to_borrow": borrowable}
    if spokes is None or hub_active is None:
        return {**amounts, "can_reason": UNKNOWN_SPOKES}
    enters = hub_active and not pool["paused"]
    # Nobody can supply where cash and debt are not worth what suppliers are owed.
    is_backed = _claims(pool) - pool["cash"] <= ceil_divide(pool["borrowed"] * pool["borrow_index"], RAY) // _unit(pool)
    shown = [_terms_of_spoke(spoke, pool, borrowable, enters=enters, is_backed=is_backed) for spoke in spokes]
    in_use = [spoke for spoke in spokes if not spoke["deprecated"]]
    collateral = [spoke for spoke in in_use if spoke["can_be_collateral"]]
    best = max(collateral, key=lambda spoke: spoke["collateral_factor_bps"], default=None)
    lending = [spoke for spoke in in_use if spoke["can_be_borrowed"]]
    exits = not spokes or any(not spoke["paused"] for spoke in spokes)
    status = ("active" if spokes else "unlisted") if is_backed else "insolvent"
    listed = shown
    return {
        **amounts,
        "pool_status": status if hub_active else "hub_inactive",
        "risk_scope": "spoke",
        "liquidation_kind": "range",
        "can_supply": any(row["can_supply"] for row in shown),
        "can_borrow": any(row["can_borrow"] for row in shown),
        **dict.fromkeys(("can_withdraw", "can_repay", "can_liquidate"), exits),
        "available_to_supply": min(sum(row["available_to_supply"] for row in shown), MAX_DECIMAL),
        "available_to_borrow": min(sum(row["available_to_borrow"] for row in shown), borrowable),
        "collateral_factor_bps": best["collateral_factor_bps"] if best else 0,
        "liquidation_threshold_bps": best["liquidation_threshold_bps"] if best else 0,
        "liquidation_bonus_bps": best["liquidation_bonus_bps"] if best else None,
        "supply_cap": min(sum(spoke["supply_cap"] for spoke in collateral), MAX_DECIMAL),
        "borrow_cap": min(sum(spoke["borrow_cap"] for spoke in lending), MAX_DECIMAL),
        "can_be_collateral": bool(collateral),
        "can_be_borrowed": bool(lending),
        SPOKES: listed,
    }


def _terms_of_spoke(spoke: Spoke, pool: Pool, borrowable: int, *, enters: bool, is_backed: bool) -> dict[str, Any]:
    """``enters``: the controller and the hub let somebody in."""
    is_open = enters and not (spoke["deprecated"] or spoke["paused"] or spoke["frozen"])
    supplies = is_open and spoke["can_be_collateral"] and is_backed
    borrows = is_open and spoke["can_be_borrowed"]
    return {
        **{name: value for name, value in spoke.items() if name not in ("supplied", "borrowed")},
        **dict.fromkeys(("can_withdraw", "can_repay", "can_liquidate"), not spoke["paused"]),
        "can_supply": supplies,
        "can_borrow": borrows,
        "available_to_supply": supply_room(spoke, pool) if supplies else 0,
        "available_to_borrow": min(borrow_room(spoke, pool), borrowable) if borrows else 0,
    }


def _unit(pool: Pool) -> int:
    """A base unit in RAY."""
    return int(10 ** (RAY_DECIMALS - pool["asset_decimals"]))


def _claims(pool: Pool) -> int:
    """The worth of what is supplied, in base units."""
    return int(pool["supplied"] * pool["supply_index"] // RAY // _unit(pool))


def supply_room(spoke: Spoke, pool: Pool) -> int:
    """The most that a spoke's cap lets in: the new shares, rounded down, may not be more than are left."""
    left = _scaled(spoke["supply_cap"], pool, pool["supply_index"]) - spoke["supplied"]
    return max(ceil_divide((left + 1) * pool["supply_index"], RAY) - 1, 0) // _unit(pool) if left > 0 else 0


def borrow_room(spoke: Spoke, pool: Pool) -> int:
    """The most that a spoke's cap lets be borrowed: the new shares are rounded up."""
    left = _scaled(spoke["borrow_cap"], pool, pool["borrow_index"]) - spoke["borrowed"]
    return int(max(left, 0) * pool["borrow_index"] // RAY // _unit(pool))


def _scaled(cap: int, pool: Pool, index: int) -> int:
    return min(cap * _unit(pool) * RAY // index, INT128_MAX)


def most_withdrawn(pool: Pool) -> int:
    """The most that can be withdrawn, whatever gates say; the revenue is not for suppliers (guards.rs, withdraw.rs).

    The shares that stay have to hold the debt: hu(debt, RAY, value) <= the highest utilization.
    """
    most, debt = pool["max_utilization"], _value(pool["borrowed"], pool["borrow_index"])
    kept = 0 if pool["borrowed"] == 0 else 1
    if most < RAY and debt > 0:
        kept = _fewest(2 * debt * RAY // (2 * most + 1) + 1, pool["supply_index"])
    burnt = pool["supplied"] - max(kept, pool["revenue"])
    return int(max(min(pool["cash"], burnt * pool["supply_index"] // RAY // _unit(pool)), 0))


def most_borrowed(pool: Pool) -> int:
    """The same of a loan, which has to leave `LIQUIDATION_BUFFER_BPS` of what is supplied as cash (ops/borrow.rs).

    The shares of debt are bounded by the highest utilization, and their value by 128 bits.
    """
    most, value = INT128_MAX, _value(pool["supplied"], pool["supply_index"])
    if pool["max_utilization"] < RAY and value != 0:
        most = min(most, ceil_divide((2 * pool["max_utilization"] + 1) * value, 2 * RAY) - 1)
    lent = min(_fewest(most + 1, pool["borrow_index"]) - 1, INT128_MAX) - pool["borrowed"]
    buffer = (_claims(pool) * LIQUIDATION_BUFFER_BPS + BPS // 2) // BPS
    return int(max(min(pool["cash"] - buffer, lent * pool["borrow_index"] // RAY // _unit(pool)), 0))


def _value(shares: int, index: int) -> int:
    return (shares * index + RAY // 2) // RAY


def _fewest(value: int, index: int) -> int:
    """The fewest shares whose value, half up, is this one or more: shares × index >= (2 × value - 1) × RAY / 2."""
    return ceil_divide((2 * value - 1) * (RAY // 2), index)
