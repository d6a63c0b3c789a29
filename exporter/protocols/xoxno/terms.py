"""Who may do what with a hub market, how much of it and at what risk (docs/protocols/xoxno.md, "Spokes").

Here the integers have no bound: what is compared on the way may need more than 128 bits where the result does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec
import polars as pl

from exporter import exact_columns as exact
from exporter.protocols.shared_columns import numbers_of
from exporter.protocols.xoxno.layout import BPS, RAY, RAY_DECIMALS, Spoke
from exporter.tables import MAX_DECIMAL, SPOKES, TERMS

LIQUIDATION_BUFFER_BPS = 200
"""Of what is supplied, that a loan has to leave as cash."""

UNKNOWN_SPOKES = "what its hub or its spokes allow could not be read"


class AccruedPool(NamedTuple):
    """A hub market at the close time, as it is stored: scaled amounts and indexes in RAY, the cash in base units."""

    supplied: int
    revenue: int
    supply_index: int
    borrowed: int
    borrow_index: int
    cash: int
    max_utilization: int
    asset_decimals: int

    @property
    def unit(self) -> int:
        """A base unit in RAY."""
        unit: int = 10 ** (RAY_DECIMALS - self.asset_decimals)
        return unit

    @property
    def claims(self) -> int:
        """The worth of what is supplied, in base units."""
        return self.supplied * self.supply_index // RAY // self.unit

    @property
    def is_backed(self) -> bool:
        """Whether cash and debt are worth what suppliers are owed: nobody can supply where they are not."""
        return self.claims - self.cash <= -(-self.borrowed * self.borrow_index // RAY) // self.unit


def terms_of(projected: pl.DataFrame, columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """`SPOKES` and those of `TERMS` that XOXNO has; what hangs on spokes or a hub that could not be read is null."""
    names = [f"accrued_{name}" if f"accrued_{name}" in projected.columns else name for name in AccruedPool._fields]
    gates = (columns[name] for name in ("paused", "hub_active", "spokes"))
    rows = [
        _terms(AccruedPool(*row), *allowed)
        for row, *allowed in zip(numbers_of(projected, names).iter_rows(), *gates, strict=True)
    ]
    schema = {name: dtype for name, dtype in TERMS.items() if any(name in row for row in rows)} | {SPOKES: pl.String()}
    return exact.frame({name: [row.get(name) for row in rows] for name in schema}, schema)


def _terms(pool: AccruedPool, paused: object, hub_active: object, spokes: object) -> dict[str, object]:
    borrowable = most_borrowed(pool)
    terms: dict[str, object] = {"available_to_withdraw": most_withdrawn(pool), "available_to_borrow": borrowable}
    if not isinstance(spokes, tuple) or not isinstance(hub_active, bool):
        return terms | {"can_reason": UNKNOWN_SPOKES}
    status = ("active" if spokes else "unlisted") if pool.is_backed else "insolvent"
    terms |= {"pool_status": status if hub_active else "hub_inactive"}
    terms |= {"risk_scope": "spoke", "liquidation_kind": "range"}
    return terms | _terms_of_spokes(spokes, pool, borrowable, enters=hub_active and not paused)


def _terms_of_spokes(spokes: Sequence[Spoke], pool: AccruedPool, borrowable: int, *, enters: bool) -> dict[str, object]:
    """The terms of a pool and its list of spokes; ``enters``: the controller and the hub let somebody in."""
    shown: list[dict[str, Any]] = []
    for spoke in spokes:
        open_ = enters and not (spoke.deprecated or spoke.paused or spoke.frozen)
        supplies = open_ and spoke.can_be_collateral and pool.is_backed
        borrows = open_ and spoke.can_be_borrowed
        own = {name: value for name, value in asdict(spoke).items() if name not in ("supplied", "borrowed")}
        shown.append(
            own
            | dict.fromkeys(("can_withdraw", "can_repay", "can_liquidate"), not spoke.paused)
            | {
                "can_supply": supplies,
                "can_borrow": borrows,
                "available_to_supply": supply_room(spoke, pool) if supplies else 0,
                "available_to_borrow": min(borrow_room(spoke, pool), borrowable) if borrows else 0,
            }
        )
    in_use = [spoke for spoke in spokes if not spoke.deprecated]
    collateral = [spoke for spoke in in_use if spoke.can_be_collateral]
    best = max(collateral, key=lambda spoke: spoke.collateral_factor_bps, default=None)
    lending = [spoke for spoke in in_use if spoke.can_be_borrowed]
    exits = not spokes or any(not spoke.paused for spoke in spokes)
    amounts = ("available_to_supply", "available_to_borrow", "supply_cap", "borrow_cap")
    listed = [row | {name: str(_bounded(row[name])) for name in amounts} for row in shown]
    return {
        "can_supply": any(row["can_supply"] for row in shown),
        "can_borrow": any(row["can_borrow"] for row in shown),
        **dict.fromkeys(("can_withdraw", "can_repay", "can_liquidate"), exits),
        "available_to_supply": _bounded(sum(row["available_to_supply"] for row in shown)),
        "available_to_borrow": min(borrowable, sum(row["available_to_borrow"] for row in shown)),
        "collateral_factor_bps": best.collateral_factor_bps if best else 0,
        "liquidation_threshold_bps": best.liquidation_threshold_bps if best else 0,
        "liquidation_bonus_bps": best.liquidation_bonus_bps if best else None,
        "supply_cap": _bounded(sum(spoke.supply_cap for spoke in collateral)),
        "borrow_cap": _bounded(sum(spoke.borrow_cap for spoke in lending)),
        "can_be_collateral": bool(collateral),
        "can_be_borrowed": bool(lending),
        SPOKES: msgspec.json.encode(listed).decode(),
    }


def _bounded(amount: int) -> int:
    return min(amount, MAX_DECIMAL)


def supply_room(spoke: Spoke, pool: AccruedPool) -> int:
    """The most that a spoke's cap lets in: the new shares, rounded down, may not be more than are left."""
    left = _scaled(spoke.supply_cap, pool.unit, pool.supply_index) - spoke.supplied
    return max(-(-(left + 1) * pool.supply_index // RAY) - 1, 0) // pool.unit if left > 0 else 0


def borrow_room(spoke: Spoke, pool: AccruedPool) -> int:
    """The most that a spoke's cap lets be borrowed: the new shares are rounded up."""
    left = _scaled(spoke.borrow_cap, pool.unit, pool.borrow_index) - spoke.borrowed
    return max(left, 0) * pool.borrow_index // RAY // pool.unit


def _scaled(cap: int, unit: int, index: int) -> int:
    return min(cap * unit * RAY // index, exact.INT128_MAX)


def most_withdrawn(pool: AccruedPool) -> int:
    """The most that can be withdrawn, whatever gates say; the revenue is not for suppliers (guards.rs, withdraw.rs)."""
    burnt = min(pool.supplied - shares_to_keep(pool), pool.supplied - pool.revenue)
    return max(min(pool.cash, burnt * pool.supply_index // RAY // pool.unit), 0)


def most_borrowed(pool: AccruedPool) -> int:
    """The same of a loan, which has to leave `LIQUIDATION_BUFFER_BPS` of what is supplied as cash (ops/borrow.rs)."""
    buffer = (pool.claims * LIQUIDATION_BUFFER_BPS + BPS // 2) // BPS
    lent = shares_to_lend(pool) - pool.borrowed
    return max(min(pool.cash - buffer, lent * pool.borrow_index // RAY // pool.unit), 0)


def _value(shares: int, index: int) -> int:
    return (shares * index + RAY // 2) // RAY


def _fewest(value: int, index: int) -> int:
    """The fewest shares whose value, half up, is this one or more: shares × index >= (2 × value - 1) × RAY / 2."""
    return -(-(2 * value - 1) * (RAY // 2) // max(index, 1))


def shares_to_keep(pool: AccruedPool) -> int:
    """The fewest scaled amounts of supply with which a withdrawal passes: hu(debt, RAY, value) <= most."""
    if pool.borrowed == 0:
        return 0
    debt = _value(pool.borrowed, pool.borrow_index)
    if pool.max_utilization >= RAY or debt == 0:
        return 1
    return _fewest(2 * debt * RAY // (2 * pool.max_utilization + 1) + 1, pool.supply_index)


def shares_to_lend(pool: AccruedPool) -> int:
    """The most scaled amounts of debt with which a loan passes: the converse; the value of the debt has 128 bits."""
    most, value = exact.INT128_MAX, _value(pool.supplied, pool.supply_index)
    if pool.max_utilization < RAY and value != 0:
        most = min(most, -(-(2 * pool.max_utilization + 1) * value // (2 * RAY)) - 1)
    return min(_fewest(most + 1, pool.borrow_index) - 1, exact.INT128_MAX)
