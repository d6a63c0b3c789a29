"""Who may do what with a hub market, how much of it and at what risk (docs/protocols/xoxno.md, "Spokes").

Here the integers have no bound: what is compared on the way may need more than 128 bits where the result does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.exact import INT128_MAX, ceil_divide
from exporter.protocols.numbers import Amounts, Operations, Risk, SpokeTerms
from exporter.protocols.xoxno.layout import BPS, RAY, HubMarket, Parameters, Spoke
from exporter.tables import MAX_DECIMAL

LIQUIDATION_BUFFER_BPS = 200
"""Basis points of what is supplied that a loan has to leave as cash."""

UNKNOWN_SPOKES = "what its hub or its spokes allow could not be read"


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a hub market's numbers that follow from its hub and its spokes."""

    operations: Operations
    amounts: Amounts
    risk: Risk
    spokes: tuple[SpokeTerms, ...] = ()


def terms_of(market: HubMarket) -> Terms:
    """The terms of an accrued hub market; only amounts where its spokes or its hub could not be read."""
    state, spokes = market.state, market.spokes
    withdrawable, borrowable = most_withdrawn(market), most_borrowed(market)
    liability = Risk(
        liability_factor_bps=10_000,
        reserve_factor_bps=market.parameters.reserve_factor,
        max_utilization_bps=_max_utilization_bps(market.parameters),
    )
    if spokes is None or market.hub_active is None:
        amounts = Amounts(available_to_withdraw=withdrawable, available_to_borrow=borrowable)
        return Terms(Operations(can_reason=UNKNOWN_SPOKES), amounts, liability)
    enters = market.hub_active and not market.paused
    # Nobody can supply where cash and debt are not worth what suppliers are owed.
    debt = ceil_divide(state.borrowed * state.borrow_index, RAY) // market.unit
    is_backed = _claims(market) - state.cash <= debt
    shown = tuple(_terms_of_spoke(spoke, market, borrowable, enters=enters, is_backed=is_backed) for spoke in spokes)
    in_use = [spoke for spoke in spokes if not spoke.deprecated]
    collateral = [spoke for spoke in in_use if spoke.can_be_collateral]
    best = max(collateral, key=lambda spoke: spoke.collateral_factor_bps, default=None)
    lending = [spoke for spoke in in_use if spoke.can_be_borrowed]
    exits = not spokes or any(not spoke.paused for spoke in spokes)
    status = ("active" if spokes else "unlisted") if is_backed else "insolvent"
    operations = Operations(
        can_supply=any(spoke.can_supply for spoke in shown),
        can_withdraw=exits,
        can_borrow=any(spoke.can_borrow for spoke in shown),
        can_repay=exits,
        can_liquidate=exits,
        pool_status=status if market.hub_active else "hub_inactive",
    )
    # No amount is None yet: only a missing price makes one unknown, and prices are applied later.
    borrowable_in_spokes = sum(spoke.available_to_borrow or 0 for spoke in shown)
    amounts = Amounts(
        available_to_withdraw=withdrawable,
        available_to_borrow=min(borrowable_in_spokes, borrowable),
        available_to_supply=min(sum(spoke.available_to_supply for spoke in shown), MAX_DECIMAL),
    )
    risk = replace(
        liability,
        risk_scope="spoke",
        liquidation_kind="range",
        collateral_factor_bps=best.collateral_factor_bps if best else 0,
        liquidation_threshold_bps=best.liquidation_threshold_bps if best else 0,
        liquidation_bonus_bps=best.liquidation_bonus_bps if best else None,
        supply_cap=min(sum(spoke.supply_cap for spoke in collateral), MAX_DECIMAL),
        borrow_cap=min(sum(spoke.borrow_cap for spoke in lending), MAX_DECIMAL),
        can_be_collateral=bool(collateral),
        can_be_borrowed=bool(lending),
    )
    return Terms(operations, amounts, risk, shown)


def _max_utilization_bps(parameters: Parameters) -> int | None:
    return parameters.max_utilization // (RAY // BPS) if parameters.max_utilization < RAY else None


def _terms_of_spoke(spoke: Spoke, market: HubMarket, borrowable: int, *, enters: bool, is_backed: bool) -> SpokeTerms:
    """One spoke's terms. ``enters``: the controller and the hub let somebody in."""
    is_open = enters and not (spoke.deprecated or spoke.paused or spoke.frozen)
    supplies = is_open and spoke.can_be_collateral and is_backed
    borrows = is_open and spoke.can_be_borrowed
    return SpokeTerms(
        spoke=spoke.spoke,
        deprecated=spoke.deprecated,
        paused=spoke.paused,
        frozen=spoke.frozen,
        can_supply=supplies,
        can_withdraw=not spoke.paused,
        can_borrow=borrows,
        can_repay=not spoke.paused,
        can_liquidate=not spoke.paused,
        can_be_seized=spoke.can_be_seized,
        available_to_supply=supply_room(spoke, market) if supplies else 0,
        available_to_borrow=min(borrow_room(spoke, market), borrowable) if borrows else 0,
        collateral_factor_bps=spoke.collateral_factor_bps,
        liquidation_threshold_bps=spoke.liquidation_threshold_bps,
        liquidation_bonus_bps=spoke.liquidation_bonus_bps,
        supply_cap=spoke.supply_cap,
        borrow_cap=spoke.borrow_cap,
        can_be_collateral=spoke.can_be_collateral,
        can_be_borrowed=spoke.can_be_borrowed,
    )


def _claims(market: HubMarket) -> int:
    """The worth of what is supplied, in base units."""
    return market.state.supplied * market.state.supply_index // RAY // market.unit


def supply_room(spoke: Spoke, market: HubMarket) -> int:
    """The most that a spoke's cap lets in: the new shares, rounded down, may not be more than are left."""
    index = market.state.supply_index
    left = _scaled(spoke.supply_cap, market, index) - spoke.supplied
    return max(ceil_divide((left + 1) * index, RAY) - 1, 0) // market.unit if left > 0 else 0


def borrow_room(spoke: Spoke, market: HubMarket) -> int:
    """The most that a spoke's cap lets be borrowed: the new shares are rounded up."""
    index = market.state.borrow_index
    left = _scaled(spoke.borrow_cap, market, index) - spoke.borrowed
    return max(left, 0) * index // RAY // market.unit


def _scaled(cap: int, market: HubMarket, index: int) -> int:
    return min(cap * market.unit * RAY // index, INT128_MAX)


def most_withdrawn(market: HubMarket) -> int:
    """The most that can be withdrawn, whatever gates say; the revenue is not for suppliers (guards.rs, withdraw.rs).

    The shares that stay have to hold the debt: hu(debt, RAY, value) <= the highest utilization.
    """
    state, most = market.state, market.parameters.max_utilization
    debt = _value(state.borrowed, state.borrow_index)
    kept = 0 if state.borrowed == 0 else 1
    if most < RAY and debt > 0:
        kept = _fewest(2 * debt * RAY // (2 * most + 1) + 1, state.supply_index)
    burnt = state.supplied - max(kept, state.revenue)
    return max(min(state.cash, burnt * state.supply_index // RAY // market.unit), 0)


def most_borrowed(market: HubMarket) -> int:
    """The most that can be borrowed, whatever gates say (ops/borrow.rs).

    A loan has to leave `LIQUIDATION_BUFFER_BPS` of what is supplied as cash. The shares of debt are bounded by the
    highest utilization, and their value by 128 bits.
    """
    state, most_used = market.state, market.parameters.max_utilization
    most, value = INT128_MAX, _value(state.supplied, state.supply_index)
    if most_used < RAY and value != 0:
        most = min(most, ceil_divide((2 * most_used + 1) * value, 2 * RAY) - 1)
    lent = min(_fewest(most + 1, state.borrow_index) - 1, INT128_MAX) - state.borrowed
    buffer = (_claims(market) * LIQUIDATION_BUFFER_BPS + BPS // 2) // BPS
    return max(min(state.cash - buffer, lent * state.borrow_index // RAY // market.unit), 0)


def _value(shares: int, index: int) -> int:
    return (shares * index + RAY // 2) // RAY


def _fewest(value: int, index: int) -> int:
    """The fewest shares whose value, half up, is this one or more: shares × index >= (2 × value - 1) × RAY / 2."""
    return ceil_divide((2 * value - 1) * (RAY // 2), index)
