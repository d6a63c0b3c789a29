"""Which operations a hub market allows, how much of each, and at what risk (docs/protocols/xoxno.md, "Spokes").

Integers have no bound here, because a number on the way may need more than 128 bits even if the result does not.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from exporter.exact import INT128_MAX, ceil_divide
from exporter.protocols.numbers import Amounts, Operations, Risk, SpokeTerms
from exporter.protocols.xoxno.layout import BPS, RAY, HubMarket, Parameters, Spoke
from exporter.tables import MAX_DECIMAL

LIQUIDATION_BUFFER_BPS = 200
"""The share of what is supplied that a loan has to leave as cash, in basis points."""

UNKNOWN_SPOKES = "what its hub or its spokes allow could not be read"


class Terms(Struct, frozen=True):
    """The parts of a hub market's numbers that follow from its hub and its spokes."""

    operations: Operations
    amounts: Amounts
    risk: Risk
    spokes: tuple[SpokeTerms, ...] = ()


def terms_of(market: HubMarket) -> Terms:
    """The terms of an accrued hub market. Operations are not known if its spokes or its hub could not be read."""
    state, spokes = market.state, market.spokes
    withdrawable, borrowable = most_withdrawn(market), most_borrowed(market)
    liability = Risk(
        liability_factor_bps=10_000,
        reserve_factor_bps=market.parameters.reserve_factor,
        max_utilization_bps=_max_utilization_bps(market.parameters),
    )
    debt = ceil_divide(state.borrowed * state.borrow_index, RAY) // market.unit
    shortfall = max(_claims(market) - state.cash - debt, 0)
    if spokes is None or market.hub_active is None:
        amounts = Amounts(available_to_withdraw=withdrawable, available_to_borrow=borrowable, shortfall=shortfall)
        return Terms(Operations(can_reason=UNKNOWN_SPOKES), amounts, liability)
    takes_new = market.hub_active and not market.paused
    is_backed = shortfall == 0  # the contract lets nobody supply otherwise
    spoke_terms = tuple(
        _terms_of_spoke(spoke, market, borrowable, takes_new=takes_new, is_backed=is_backed) for spoke in spokes
    )
    in_use = [spoke for spoke in spokes if not spoke.deprecated]
    collateral = [spoke for spoke in in_use if spoke.can_be_collateral]
    best = max(collateral, key=lambda spoke: spoke.collateral_factor_bps, default=None)
    lending = [spoke for spoke in in_use if spoke.can_be_borrowed]
    lets_out = not spokes or any(not spoke.paused for spoke in spokes)
    status = ("active" if spokes else "unlisted") if is_backed else "insolvent"
    operations = Operations(
        can_supply=any(spoke.can_supply for spoke in spoke_terms),
        can_withdraw=lets_out,
        can_borrow=any(spoke.can_borrow for spoke in spoke_terms),
        can_repay=lets_out,
        can_liquidate=lets_out,
        pool_status=status if market.hub_active else "hub_inactive",
    )
    # No amount is None yet. Only a missing price makes one unknown, and prices are applied later.
    borrowable_in_spokes = sum(spoke.available_to_borrow or 0 for spoke in spoke_terms)
    amounts = Amounts(
        available_to_withdraw=withdrawable,
        available_to_borrow=min(borrowable_in_spokes, borrowable),
        available_to_supply=min(sum(spoke.available_to_supply for spoke in spoke_terms), MAX_DECIMAL),
        shortfall=shortfall,
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
    return Terms(operations, amounts, risk, spoke_terms)


def _max_utilization_bps(parameters: Parameters) -> int | None:
    return parameters.max_utilization // (RAY // BPS) if parameters.max_utilization < RAY else None


def _terms_of_spoke(
    spoke: Spoke, market: HubMarket, borrowable: int, *, takes_new: bool, is_backed: bool
) -> SpokeTerms:
    """One spoke's terms. ``takes_new`` says whether the controller and the hub take something new."""
    is_open = takes_new and not (spoke.deprecated or spoke.paused or spoke.frozen)
    can_supply = is_open and spoke.can_be_collateral and is_backed
    can_borrow = is_open and spoke.can_be_borrowed
    return SpokeTerms(
        spoke=spoke.spoke,
        deprecated=spoke.deprecated,
        paused=spoke.paused,
        frozen=spoke.frozen,
        can_supply=can_supply,
        can_withdraw=not spoke.paused,
        can_borrow=can_borrow,
        can_repay=not spoke.paused,
        can_liquidate=not spoke.paused,
        can_be_seized=spoke.can_be_seized,
        available_to_supply=supply_room(spoke, market) if can_supply else 0,
        available_to_borrow=min(borrow_room(spoke, market), borrowable) if can_borrow else 0,
        collateral_factor_bps=spoke.collateral_factor_bps,
        liquidation_threshold_bps=spoke.liquidation_threshold_bps,
        liquidation_bonus_bps=spoke.liquidation_bonus_bps,
        supply_cap=spoke.supply_cap,
        borrow_cap=spoke.borrow_cap,
        can_be_collateral=spoke.can_be_collateral,
        can_be_borrowed=spoke.can_be_borrowed,
    )


def _claims(market: HubMarket) -> int:
    """What suppliers are owed, in base units."""
    return market.state.supplied * market.state.supply_index // RAY // market.unit


def supply_room(spoke: Spoke, market: HubMarket) -> int:
    """The most, in base units, that a spoke's cap lets somebody supply. New shares are rounded down."""
    index = market.state.supply_index
    shares_left = _capped_shares(spoke.supply_cap, market, index) - spoke.supplied
    return max(ceil_divide((shares_left + 1) * index, RAY) - 1, 0) // market.unit if shares_left > 0 else 0


def borrow_room(spoke: Spoke, market: HubMarket) -> int:
    """The most, in base units, that a spoke's cap lets somebody borrow. New shares are rounded up."""
    index = market.state.borrow_index
    shares_left = _capped_shares(spoke.borrow_cap, market, index) - spoke.borrowed
    return max(shares_left, 0) * index // RAY // market.unit


def _capped_shares(cap: int, market: HubMarket, index: int) -> int:
    """The shares that a cap in base units allows."""
    return min(cap * market.unit * RAY // index, INT128_MAX)


def most_withdrawn(market: HubMarket) -> int:
    """The most that can be withdrawn, in base units, whatever the gates say (guards.rs, withdraw.rs).

    The revenue is not for suppliers. The shares that stay must hold the debt: half up of (debt × RAY / their value) is
    at most the highest utilization.
    """
    state, highest_utilization = market.state, market.parameters.max_utilization
    debt = _value(state.borrowed, state.borrow_index)
    shares_left = 0 if state.borrowed == 0 else 1
    if highest_utilization < RAY and debt > 0:
        value_left = 2 * debt * RAY // (2 * highest_utilization + 1) + 1
        shares_left = _fewest_shares(value_left, state.supply_index)
    burnt = state.supplied - max(shares_left, state.revenue)
    return max(min(state.cash, burnt * state.supply_index // RAY // market.unit), 0)


def most_borrowed(market: HubMarket) -> int:
    """The most that can be borrowed, in base units, whatever the gates say (ops/borrow.rs).

    A loan must leave `LIQUIDATION_BUFFER_BPS` of what is supplied as cash. The highest utilization bounds the shares of
    debt, and 128 bits bound their value.
    """
    state, highest_utilization = market.state, market.parameters.max_utilization
    supplied = _value(state.supplied, state.supply_index)
    most_debt = INT128_MAX
    if highest_utilization < RAY and supplied != 0:
        most_debt = min(most_debt, ceil_divide((2 * highest_utilization + 1) * supplied, 2 * RAY) - 1)
    most_shares = min(_fewest_shares(most_debt + 1, state.borrow_index) - 1, INT128_MAX)
    new_shares = most_shares - state.borrowed
    buffer = (_claims(market) * LIQUIDATION_BUFFER_BPS + BPS // 2) // BPS
    return max(min(state.cash - buffer, new_shares * state.borrow_index // RAY // market.unit), 0)


def _value(shares: int, index: int) -> int:
    """The value of shares in RAY, rounded half up."""
    return (shares * index + RAY // 2) // RAY


def _fewest_shares(value: int, index: int) -> int:
    """The fewest shares that have at least this value, rounded half up.

    It is the smallest number for which shares × index >= (2 × value - 1) × RAY / 2.
    """
    return ceil_divide((2 * value - 1) * (RAY // 2), index)
