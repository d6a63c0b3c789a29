"""K2's math, function by function as the contract has it (docs/protocols/k2.md, "Formulas").

Indexes, rates a year and utilizations have 27 decimals (RAY); totals are token base units, scaled totals those before
the index. The contract computes in unsigned 128 bits; here every value that has a name must fit into signed 128 bits,
because no published number is larger. Otherwise there is an ExactError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec.entries import instance_key
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed, is_variant
from exporter.protocols.base import PoolRead
from exporter.protocols.k2 import layout
from exporter.protocols.k2.layout import (
    BPS,
    MIN_FIRST_SUPPLY,
    MODEL_FIELDS,
    RAY_DECIMALS,
    Configuration,
    RateParameters,
    Reserve,
    ReserveData,
)
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Rewards, Risk
from exporter.protocols.protocol import RateModel
from exporter.tables import Gate
from exporter.tree.values import RewardReason

RAY: int = 10**RAY_DECIMALS
ONLY_LISTED = "only listed accounts"
UNKNOWN_LISTS = "whether only listed accounts may is not known"
"""Why gates are not known (docs/protocols/k2.md, "Statuses")."""

SECONDS_PER_YEAR = 31_536_000
"""The contract's year, 365 days."""


def project(pool: PoolRead[Reserve], close_time: int) -> PoolNumbers:
    """The numbers of a reserve at the ledger's close time. Raises `ExactError`."""
    reserve = pool.state
    data = reserve.data
    stored = totals(reserve, Indexes(data.liquidity_index, data.variable_borrow_index))
    indexes = accrued_indexes(data, close_time)
    now = totals(reserve, indexes)
    accrued = rates(reserve, now.utilization)
    caps = caps_of(reserve)
    return PoolNumbers(
        total_supplied=now.supplied,
        total_borrowed=now.borrowed,
        total_collateral=0,
        utilization_bps=exact.utilization_bps(now.borrowed, now.supplied),
        last_accrual_time=data.last_update_timestamp,
        supply_index=indexes.supply,
        borrow_index=indexes.borrow,
        index_decimals=RAY_DECIMALS,
        stored_supply_apr=data.current_liquidity_rate,
        stored_borrow_apr=data.current_variable_borrow_rate,
        accrued_supply_apr=accrued.supply,
        accrued_borrow_apr=accrued.borrow,
        apr_decimals=RAY_DECIMALS,
        supply_apy_bps=data.current_liquidity_rate * BPS // RAY,  # linear interest, which is the rate in a year
        borrow_apy_bps=borrow_apy_bps(data.current_variable_borrow_rate),
        stored_utilization=stored.utilization,
        accrued_utilization=now.utilization,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        share_token=reserve.a_token,
        share_supply=now.supplied,  # as the token itself has it
        operations=operations_of(reserve),
        amounts=amounts_of(reserve, caps, now),
        risk=risk_of(reserve.configuration, caps),
        rewards=rewards_at(reserve.supply_emissions, reserve.borrow_emissions, close_time),
    )


def operations_of(reserve: Reserve) -> Operations:
    """Who may do what (docs/protocols/k2.md, "Statuses")."""
    flags = reserve.configuration
    takes_part = bool(flags.active and not flags.paused and not reserve.router_paused)
    enters = takes_part and not flags.frozen
    users, liquidators = reserve.users_are_listed, reserve.liquidators_are_listed
    gates: dict[Gate, bool | None] = {
        "can_supply": _for_anybody(users, is_open=enters),
        "can_withdraw": _for_anybody(users, is_open=takes_part),
        "can_borrow": _for_anybody(users, is_open=enters and bool(flags.borrowing_enabled)),
        "can_repay": _for_anybody(users, is_open=takes_part),
        "can_liquidate": _for_anybody(liquidators, is_open=takes_part),
    }
    return Operations(
        can_supply=gates["can_supply"],
        can_withdraw=gates["can_withdraw"],
        can_borrow=gates["can_borrow"],
        can_repay=gates["can_repay"],
        can_liquidate=gates["can_liquidate"],
        can_reason=_reason(gates, users, liquidators),
        pool_status=_status(flags),
    )


def _status(flags: Configuration) -> str:
    if not flags.active:
        return "inactive"
    if flags.paused:
        return "paused"
    if flags.frozen:
        return "frozen"
    return "active" if flags.borrowing_enabled else "borrowing_disabled"


def risk_of(configuration: Configuration, caps: Caps) -> Risk:
    """Collateral, debt and limits of a reserve (docs/protocols/k2.md, "Risk and liquidity")."""
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=configuration.ltv,
        liquidation_threshold_bps=configuration.liquidation_threshold,
        liability_factor_bps=10_000,
        liquidation_bonus_bps=configuration.liquidation_bonus,
        liquidation_kind="fixed",
        supply_cap=_shown_amount(caps.supply),
        borrow_cap=_shown_amount(min(caps.debt, default=None)),
        reserve_factor_bps=configuration.reserve_factor,
        can_be_collateral=configuration.ltv > 0,
        can_be_borrowed=bool(configuration.borrowing_enabled),
    )


def _for_anybody(are_listed: bool | None, *, is_open: bool) -> bool | None:
    """Whether anybody may do what is open; None where only listed accounts may, or where that is not known."""
    return is_open if are_listed is False or not is_open else None


def _reason(gates: Mapping[Gate, bool | None], users: bool | None, liquidators: bool | None) -> str | None:
    """Why a gate is not known, for those who use a reserve and for those who liquidate."""
    unknown = {name for name, is_open in gates.items() if is_open is None}
    lists = {users} if unknown - {"can_liquidate"} else set()
    lists |= {liquidators} if "can_liquidate" in unknown else set()
    said = [ONLY_LISTED] if True in lists else []
    return "; ".join(said + [UNKNOWN_LISTS] * (None in lists)) or None


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of a reserve in base units."""

    supply: int | None
    """None: no cap."""
    debt: tuple[int, ...]
    """The borrow cap and the debt ceiling, if they are set."""


def caps_of(reserve: Reserve) -> Caps:
    """The caps that are set."""
    configuration = reserve.configuration
    unit = 10**configuration.decimals
    debt = (configuration.borrow_cap * unit, reserve.debt_ceiling * unit)
    return Caps(configuration.supply_cap * unit or None, tuple(cap for cap in debt if cap))


def amounts_of(reserve: Reserve, caps: Caps, now: Totals) -> Amounts:
    """How much can be withdrawn, borrowed and supplied, whatever gates say.

    The aToken's balance, ``cash``, bounds what it pays out.
    """
    withdrawn = borrowed = supplied = None
    if reserve.cash is not None:
        withdrawn = min(reserve.cash, now.supplied)
        borrowed = min([reserve.cash, *(_room(cap, now.borrowed) for cap in caps.debt)])
    if caps.supply is not None:
        supplied = _room(caps.supply, now.supplied)
    return Amounts(
        available_to_withdraw=_shown_amount(withdrawn),
        available_to_borrow=_shown_amount(borrowed),
        available_to_supply=_shown_amount(supplied),
        min_first_supply=MIN_FIRST_SUPPLY,
    )


def _shown_amount(value: int | None) -> int | None:
    return None if value is None else exact.clamp(value, 0, exact.INT128_MAX)


def _room(cap: int, used: int) -> int:
    """What a cap leaves; with one of more than the contract's unsigned 128 bits nothing passes."""
    return cap - used if cap < 2**128 else 0


class Indexes(NamedTuple):
    """The indexes of supply and of debt, 27 decimals."""

    supply: int
    borrow: int


class Totals(NamedTuple):
    """The supply and the debt in base units, and their utilization with 27 decimals."""

    supplied: int
    borrowed: int
    utilization: int


class Rates(NamedTuple):
    """The annual rates of supply and of debt, 27 decimals."""

    supply: int
    borrow: int


def accrued_indexes(data: ReserveData, close_time: int) -> Indexes:
    """The indexes at the close time (unix seconds). Raises `ExactError`."""
    seconds = close_time - data.last_update_timestamp
    if seconds < 0:  # the call would fail
        raise ExactOverflowError("time since the last update: seconds below zero: the result does not fit")
    with exact.naming("accrued liquidity index"):
        growth = linear_interest(data.current_liquidity_rate, seconds)
        liquidity_index = ray_mul(data.liquidity_index, growth)
    with exact.naming("accrued borrow index"):
        growth = compound_interest(data.current_variable_borrow_rate, seconds)
        return Indexes(liquidity_index, ray_mul(data.variable_borrow_index, growth))


def rates(reserve: Reserve, utilization: int) -> Rates:
    """The rates that the model has for a utilization. Raises `ExactError`."""
    model = reserve.model
    borrow_rate = variable_borrow_rate(
        utilization,
        model.base_variable_borrow_rate,
        model.optimal_utilization_rate,
        model.variable_rate_slope1,
        model.variable_rate_slope2,
    )
    return Rates(liquidity_rate(borrow_rate, utilization, reserve.configuration.reserve_factor), borrow_rate)


class SideReward(NamedTuple):
    """What one side of a reserve is paid: base units of the reward token a second, the end, and the reason."""

    per_second: int | None
    end: int | None
    reason: RewardReason


def rewards_at(supply: layout.Emissions, borrow: layout.Emissions, time: int) -> Rewards:
    """The rewards of a reserve at a time (unix seconds): amounts of several tokens are not given."""
    supply_running, borrow_running = _running(supply, time), _running(borrow, time)
    tokens = {paid[0].token for paid in (supply_running, borrow_running) if len(paid) == 1}
    supply_reward = _reward(supply, supply_running, tokens)
    borrow_reward = _reward(borrow, borrow_running, tokens)
    return Rewards(
        reward_token=next(iter(tokens)) if len(tokens) == 1 else None,
        reward_decimals=0,
        supply_reward_per_second=supply_reward.per_second,
        supply_reward_expiration=supply_reward.end,
        supply_reward_reason=supply_reward.reason,
        borrow_reward_per_second=borrow_reward.per_second,
        borrow_reward_expiration=borrow_reward.end,
        borrow_reward_reason=borrow_reward.reason,
    )


def _running(emissions: layout.Emissions, time: int) -> list[layout.Emission]:
    return [each for each in emissions or () if each.per_second and (not each.end or time < each.end)]


def _reward(emissions: layout.Emissions, paid: Sequence[layout.Emission], tokens: Collection[str]) -> SideReward:
    """The reward of a side that is ``paid`` these emissions now; ``tokens`` are those of both sides."""
    if emissions is None:
        return SideReward(None, None, RewardReason.UNREAD)
    if not paid:
        return SideReward(0, None, RewardReason.EXPIRED if emissions else RewardReason.NO_EMISSIONS)
    if len(paid) > 1 or len(tokens) > 1:
        return SideReward(None, None, RewardReason.SEVERAL_TOKENS)
    return SideReward(paid[0].per_second, paid[0].end or None, RewardReason.VALID)


def ray_mul(left: int, right: int) -> int:
    """The product of numbers of 27 decimals, none negative: floor((left × right + RAY / 2) / RAY)."""
    return exact.multiply_divide_half_up(left, right, RAY)


def ray_div(left: int, right: int) -> int:
    """The quotient of unsigned numbers, in rays: floor((left × RAY + floor(right / 2)) / right), 0 where right is 0."""
    return exact.multiply_divide_half_up(left, RAY, right) if right else 0


@exact.naming("linear interest")
def linear_interest(rate: int, seconds: int) -> int:
    """The factor of supply in some seconds at a rate a year: RAY + floor(rate × seconds / year)."""
    return exact.add(exact.multiply(rate, seconds) // SECONDS_PER_YEAR, RAY)


@exact.naming("compound interest")
def compound_interest(rate: int, seconds: int) -> int:
    """The factor of debt in n seconds at a rate a year, RAY: three terms of the binomial series."""
    square = ray_mul(rate, rate) // SECONDS_PER_YEAR**2
    cube = ray_mul(square, rate) // SECONDS_PER_YEAR
    pairs = exact.multiply(seconds, seconds - 1)
    triples = exact.multiply(pairs, seconds - 2)
    first = exact.multiply_divide_floor(rate, seconds, SECONDS_PER_YEAR)
    second = exact.multiply_divide_floor(pairs, square, 2)
    third = exact.multiply_divide_floor(triples, cube, 6)
    return exact.add(exact.add(exact.add(first, second), third), RAY)


def totals(reserve: Reserve, indexes: Indexes) -> Totals:
    """The totals of a reserve at these indexes; the utilization is 0 where there is nothing."""
    with exact.naming("total supply"):
        supplied = ray_mul(reserve.total_supply_scaled, indexes.supply)
    with exact.naming("total debt"):
        borrowed = ray_mul(reserve.total_debt_scaled, indexes.borrow)
    with exact.naming("utilization"):
        return Totals(supplied, borrowed, ray_div(borrowed, exact.add(max(supplied - borrowed, 0), borrowed)))


@exact.naming("variable borrow rate")
def variable_borrow_rate(utilization: int, base: int, optimal: int, slope1: int, slope2: int) -> int:
    """The rate a year at a utilization of at most 1. The knot is in the lower slope; an optimum of 0 gives the base."""
    if utilization <= optimal:
        return exact.add(base, ray_mul(slope1, ray_div(utilization, optimal)))
    above = ray_mul(slope2, ray_div(utilization - optimal, exact.subtract(RAY, optimal)))
    return exact.add(exact.add(base, slope1), above)


RATE_MODEL = RateModel(MODEL_FIELDS, RAY, lambda own: (own["optimal_utilization_rate"],), variable_borrow_rate)


@exact.naming("liquidity rate")
def liquidity_rate(borrow_rate: int, utilization: int, reserve_factor: int) -> int:
    """The rate a year that suppliers earn: ray_mul(ray_mul(borrow, U), RAY - floor(factor × RAY / 10000))."""
    return ray_mul(ray_mul(borrow_rate, utilization), RAY - reserve_factor * RAY // BPS)


def borrow_apy_bps(rate: int) -> int:
    """The growth of debt in a year at a rate that stays, in whole basis points: the compound interest."""
    try:
        return (compound_interest(rate, SECONDS_PER_YEAR) - RAY) * BPS // RAY
    except ExactOverflowError:
        return exact.JSON_INTEGER_MAX


@dataclass(frozen=True, slots=True)
class _Settled:
    """What a reserve's rates follow from, at the end of a ledger."""

    entry: layout.ReserveEntry
    model: RateParameters
    total_supply_scaled: int
    total_debt_scaled: int


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""
    old, new = (layout.decode_reserve(entry).data for entry in changed(key, step))
    if not old.last_update_timestamp < new.last_update_timestamp == step.time or not old.current_variable_borrow_rate:
        return
    after = {"liquidity_index": new.liquidity_index, "variable_borrow_index": new.variable_borrow_index}
    settled = _settled(key, step)
    if settled is not None:
        data = settled.entry.data
        rates_then = (old.current_liquidity_rate, old.current_variable_borrow_rate)
        if rates_then == (data.current_liquidity_rate, data.current_variable_borrow_rate):
            settled = None  # a flash loan stores the old rates
        else:
            after["current_liquidity_rate"] = data.current_liquidity_rate
            after["current_variable_borrow_rate"] = data.current_variable_borrow_rate
    yield Transition(partial(_compute, old, step.time, settled), after)


def _settled(key: bytes, step: Step) -> _Settled | None:
    """What a reserve's rates follow from at the end of a ledger; None where an entry is gone."""
    entry = step.after(key)
    if entry is None:
        return None
    reserve = layout.decode_reserve(entry)
    scaled: dict[str, int] = {}
    for side, token in reserve.share_tokens.items():
        instance = step.after(instance_key(token))
        if instance is None:
            return None
        scaled[side] = layout.decode_share_token(instance, side)[2]
    asset = entry.contract_data().key[1][1][1]
    own, defaults = (step.after(model) for model in layout.rate_model_keys(reserve.rate_contract, asset))
    if own is None and defaults is None:
        return None
    return _Settled(reserve, layout.decode_rate_model(own, defaults), scaled["supply"], scaled["borrow"])


def _compute(before: ReserveData, close_time: int, settled: _Settled | None) -> dict[str, int]:
    """The indexes at the close time and, from what the ledger settled, the rates."""
    indexes = accrued_indexes(before, close_time)
    computed = {"liquidity_index": indexes.supply, "variable_borrow_index": indexes.borrow}
    if settled is not None:
        reserve = Reserve(
            data=settled.entry.data,
            configuration=settled.entry.configuration,
            model=settled.model,
            a_token=settled.entry.share_tokens["supply"],
            debt_token=settled.entry.share_tokens["borrow"],
            total_supply_scaled=settled.total_supply_scaled,
            total_debt_scaled=settled.total_debt_scaled,
            router_paused=False,
            users_are_listed=None,
            liquidators_are_listed=None,
            debt_ceiling=0,
            cash=None,
            supply_emissions=None,
            borrow_emissions=None,
        )
        accrued = rates(reserve, totals(reserve, indexes).utilization)
        computed |= {"current_liquidity_rate": accrued.supply, "current_variable_borrow_rate": accrued.borrow}
    return computed


ACCRUAL = AccrualRule(is_variant("RDATA"), _read)
