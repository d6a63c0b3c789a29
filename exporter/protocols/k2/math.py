"""K2's math, function by function as the contract has it (docs/protocols/k2.md, "Formulas").

Indexes, annual rates and utilizations have 27 decimals (RAY). Totals are in base units of the token, and a scaled total
times its index is a total. The contract computes with unsigned 128 bits. Here every value that has a name must fit into
signed 128 bits, because no published number is larger; otherwise an `ExactError` is raised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec.entries import instance_key
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed, is_variant
from exporter.protocols.base import PoolReading
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
from exporter.protocols.protocol import RateModel, RateRow
from exporter.tables import Gate
from exporter.tree.values import RewardReason

RAY: int = 10**RAY_DECIMALS
ONLY_LISTED = "only listed accounts"
UNKNOWN_LISTS = "whether only listed accounts can do it is not known"
"""The reasons why gates are not known (docs/protocols/k2.md, "Statuses")."""

SECONDS_PER_YEAR = 31_536_000
"""The contract's year, which has 365 days."""


def project(pool: PoolReading[Reserve], close_time: int) -> PoolNumbers:
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
        supply_apy_bps=data.current_liquidity_rate * BPS // RAY,  # linear interest in a year is the annual rate
        borrow_apy_bps=borrow_apy_bps(data.current_variable_borrow_rate),
        stored_utilization=stored.utilization,
        accrued_utilization=now.utilization,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        share_token=reserve.a_token,
        share_supply=now.supplied,  # the aToken's own total supply
        operations=operations_of(reserve),
        amounts=amounts_of(reserve, caps, now),
        risk=risk_of(reserve.configuration, caps),
        rewards=rewards_at(reserve.supply_emissions, reserve.borrow_emissions, close_time),
    )


def operations_of(reserve: Reserve) -> Operations:
    """The operations that are open to anybody (docs/protocols/k2.md, "Statuses")."""
    flags = reserve.configuration
    is_open = bool(flags.active and not flags.paused and not reserve.router_paused)
    takes_new = is_open and not flags.frozen
    users, liquidators = reserve.users_are_listed, reserve.liquidators_are_listed
    gates: dict[Gate, bool | None] = {
        "can_supply": _for_anybody(users, is_open=takes_new),
        "can_withdraw": _for_anybody(users, is_open=is_open),
        "can_borrow": _for_anybody(users, is_open=takes_new and bool(flags.borrowing_enabled)),
        "can_repay": _for_anybody(users, is_open=is_open),
        "can_liquidate": _for_anybody(liquidators, is_open=is_open),
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
    """The terms of collateral, debt and limits of a reserve (docs/protocols/k2.md, "Risk and liquidity")."""
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=configuration.ltv,
        liquidation_threshold_bps=configuration.liquidation_threshold,
        liability_factor_bps=10_000,
        liquidation_bonus_bps=configuration.liquidation_bonus,
        liquidation_kind="fixed",
        supply_cap=_clamped(caps.supply),
        borrow_cap=_clamped(min(caps.debt, default=None)),
        reserve_factor_bps=configuration.reserve_factor,
        can_be_collateral=configuration.ltv > 0,
        can_be_borrowed=bool(configuration.borrowing_enabled),
    )


def _for_anybody(are_listed: bool | None, *, is_open: bool) -> bool | None:
    """Whether anybody may do what is open. None if only listed accounts may, or if that is not known."""
    return is_open if are_listed is False or not is_open else None


def _reason(gates: Mapping[Gate, bool | None], users: bool | None, liquidators: bool | None) -> str | None:
    """Why some gates are not known; None if all are.

    ``users`` and ``liquidators`` say whether only listed accounts may use a reserve, and liquidate.
    """
    unknown = {name for name, is_open in gates.items() if is_open is None}
    lists = set[bool | None]()
    if unknown - {"can_liquidate"}:
        lists.add(users)
    if "can_liquidate" in unknown:
        lists.add(liquidators)
    reasons = []
    if True in lists:
        reasons.append(ONLY_LISTED)
    if None in lists:
        reasons.append(UNKNOWN_LISTS)
    return "; ".join(reasons) or None


class Caps(Struct, frozen=True):
    """The limits of a reserve in base units."""

    supply: int | None
    """The most that may be supplied; None if there is no cap."""
    debt: tuple[int, ...]
    """The most that may be borrowed: the borrow cap and the debt ceiling, if they are set."""


def caps_of(reserve: Reserve) -> Caps:
    """The limits that are set for a reserve."""
    configuration = reserve.configuration
    unit = 10**configuration.decimals
    debt = (configuration.borrow_cap * unit, reserve.debt_ceiling * unit)
    return Caps(configuration.supply_cap * unit or None, tuple(cap for cap in debt if cap))


MAX_ROUNDED_PART = 10_000
"""A shortfall of at most one part in this many of the supply counts as none.

The contract rounds shares half up at each operation, so its totals drift away from the aToken's balance.
"""


def amounts_of(reserve: Reserve, caps: Caps, now: Totals) -> Amounts:
    """The most that can be withdrawn, borrowed and supplied, whatever the gates say.

    A reserve cannot pay out more than the balance of its aToken (``cash``).
    """
    to_withdraw = to_borrow = to_supply = shortfall = None
    if reserve.cash is not None:
        missing = now.supplied - now.borrowed - reserve.cash
        shortfall = missing if missing * MAX_ROUNDED_PART > now.supplied else 0
        to_withdraw = min(reserve.cash, now.supplied)
        to_borrow = min([reserve.cash, *(_room(cap, now.borrowed) for cap in caps.debt)])
    if caps.supply is not None:
        to_supply = _room(caps.supply, now.supplied)
    return Amounts(
        available_to_withdraw=_clamped(to_withdraw),
        available_to_borrow=_clamped(to_borrow),
        available_to_supply=_clamped(to_supply),
        min_first_supply=MIN_FIRST_SUPPLY,
        shortfall=_clamped(shortfall),
    )


def _clamped(value: int | None) -> int | None:
    """The amount within 0 and the largest signed number of 128 bits."""
    return None if value is None else exact.clamp(value, 0, exact.INT128_MAX)


def _room(cap: int, used: int) -> int:
    """What a cap leaves. It is 0 if the cap exceeds unsigned 128 bits, because then the contract lets nothing pass."""
    return cap - used if cap < 2**128 else 0


class Indexes(NamedTuple):
    """The indexes of supply and of debt, with 27 decimals."""

    supply: int
    borrow: int


class Totals(NamedTuple):
    """The supply and the debt in base units, and their utilization with 27 decimals."""

    supplied: int
    borrowed: int
    utilization: int


class Rates(NamedTuple):
    """The annual rates of supply and of debt, with 27 decimals."""

    supply: int
    borrow: int


def accrued_indexes(data: ReserveData, close_time: int) -> Indexes:
    """The indexes at the close time (unix seconds). Raises `ExactError`."""
    seconds = close_time - data.last_update_timestamp
    if seconds < 0:  # a call of the contract would fail
        raise ExactOverflowError("time since the last update: seconds below zero: the result does not fit")
    with exact.naming("accrued liquidity index"):
        growth = linear_interest(data.current_liquidity_rate, seconds)
        liquidity_index = ray_mul(data.liquidity_index, growth)
    with exact.naming("accrued borrow index"):
        growth = compound_interest(data.current_variable_borrow_rate, seconds)
        return Indexes(liquidity_index, ray_mul(data.variable_borrow_index, growth))


def rates(reserve: Reserve, utilization: int) -> Rates:
    """The rates that follow from the reserve's rate model at a utilization. Raises `ExactError`."""
    model = reserve.model
    borrow_rate = variable_borrow_rate(
        utilization,
        model.base_variable_borrow_rate,
        model.optimal_utilization_rate,
        model.variable_rate_slope1,
        model.variable_rate_slope2,
    )
    return Rates(liquidity_rate(borrow_rate, utilization, reserve.configuration.reserve_factor), borrow_rate)


class EmissionOfSide(NamedTuple):
    """The reward of one side of a reserve: base units of the reward token a second, its end, and the reason."""

    per_second: int | None
    end: int | None
    reason: RewardReason


def rewards_at(supply: layout.Emissions, borrow: layout.Emissions, time: int) -> Rewards:
    """The rewards of a reserve at a time (unix seconds). If they are paid in several tokens, no amount is given."""
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


def _reward(emissions: layout.Emissions, paid: Sequence[layout.Emission], tokens: Collection[str]) -> EmissionOfSide:
    """The reward of a side whose emissions ``paid`` are running. ``tokens`` are the reward tokens of both sides."""
    if emissions is None:
        return EmissionOfSide(None, None, RewardReason.UNREAD)
    if not paid:
        return EmissionOfSide(0, None, RewardReason.EXPIRED if emissions else RewardReason.NO_EMISSIONS)
    if len(paid) > 1 or len(tokens) > 1:
        return EmissionOfSide(None, None, RewardReason.SEVERAL_TOKENS)
    return EmissionOfSide(paid[0].per_second, paid[0].end or None, RewardReason.VALID)


def ray_mul(left: int, right: int) -> int:
    """The product of two numbers with 27 decimals, neither negative: floor((left × right + RAY / 2) / RAY)."""
    return exact.multiply_divide_half_up(left, right, RAY)


def ray_div(left: int, right: int) -> int:
    """The quotient of two unsigned numbers, with 27 decimals: floor((left × RAY + floor(right / 2)) / right).

    It is 0 if ``right`` is 0.
    """
    return exact.multiply_divide_half_up(left, RAY, right) if right else 0


@exact.naming("linear interest")
def linear_interest(rate: int, seconds: int) -> int:
    """The factor by which supply grows in some seconds at an annual rate: RAY + floor(rate × seconds / year)."""
    return exact.add(exact.multiply(rate, seconds) // SECONDS_PER_YEAR, RAY)


@exact.naming("compound interest")
def compound_interest(rate: int, seconds: int) -> int:
    """The factor by which debt grows in some seconds at an annual rate: three terms of the binomial series."""
    square = ray_mul(rate, rate) // SECONDS_PER_YEAR**2
    cube = ray_mul(square, rate) // SECONDS_PER_YEAR
    pairs = exact.multiply(seconds, seconds - 1)
    triples = exact.multiply(pairs, seconds - 2)
    first = exact.multiply_divide_floor(rate, seconds, SECONDS_PER_YEAR)
    second = exact.multiply_divide_floor(pairs, square, 2)
    third = exact.multiply_divide_floor(triples, cube, 6)
    return exact.add(exact.add(exact.add(first, second), third), RAY)


def totals(reserve: Reserve, indexes: Indexes) -> Totals:
    """The totals of a reserve at these indexes. The utilization of an empty reserve is 0. Raises `ExactError`."""
    with exact.naming("total supply"):
        supplied = ray_mul(reserve.total_supply_scaled, indexes.supply)
    with exact.naming("total debt"):
        borrowed = ray_mul(reserve.total_debt_scaled, indexes.borrow)
    with exact.naming("utilization"):
        return Totals(supplied, borrowed, ray_div(borrowed, exact.add(max(supplied - borrowed, 0), borrowed)))


@exact.naming("variable borrow rate")
def variable_borrow_rate(utilization: int, base: int, optimal: int, slope1: int, slope2: int) -> int:
    """The annual borrow rate at a utilization of at most 1. The kink belongs to the lower slope.

    If utilization and optimum are 0, it is the base.
    """
    if utilization <= optimal:
        return exact.add(base, ray_mul(slope1, ray_div(utilization, optimal)))
    above = ray_mul(slope2, ray_div(utilization - optimal, exact.subtract(RAY, optimal)))
    return exact.add(exact.add(base, slope1), above)


def _rate_at(utilization: int, own: Mapping[str, int], row: RateRow) -> int:  # noqa: ARG001
    base, optimal = own["base_variable_borrow_rate"], own["optimal_utilization_rate"]
    slopes = own["variable_rate_slope1"], own["variable_rate_slope2"]
    return variable_borrow_rate(utilization, base, optimal, *slopes)


RATE_MODEL = RateModel(MODEL_FIELDS, RAY, lambda own: (own["optimal_utilization_rate"],), _rate_at)


@exact.naming("liquidity rate")
def liquidity_rate(borrow_rate: int, utilization: int, reserve_factor: int) -> int:
    """The annual rate that suppliers earn: ray_mul(ray_mul(borrow, U), RAY - floor(factor × RAY / 10000))."""
    return ray_mul(ray_mul(borrow_rate, utilization), RAY - reserve_factor * RAY // BPS)


def borrow_apy_bps(rate: int) -> int:
    """The compound interest of a year at this annual rate, in whole basis points."""
    try:
        return (compound_interest(rate, SECONDS_PER_YEAR) - RAY) * BPS // RAY
    except ExactOverflowError:
        return exact.JSON_INTEGER_MAX


class _FinalState(Struct, frozen=True):
    """The state at the end of a ledger from which a reserve's rates follow."""

    entry: layout.ReserveEntry
    model: RateParameters
    total_supply_scaled: int
    total_debt_scaled: int


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a ledger's change of a reserve shows, if it shows one (docs/lake.md)."""
    old, new = (layout.decode_reserve(entry).data for entry in changed(key, step))
    if not old.last_update_timestamp < new.last_update_timestamp == step.time or not old.current_variable_borrow_rate:
        return
    after = {"liquidity_index": new.liquidity_index, "variable_borrow_index": new.variable_borrow_index}
    final = _final_state(key, step)
    if final is not None:
        data = final.entry.data
        rates_before = (old.current_liquidity_rate, old.current_variable_borrow_rate)
        if rates_before == (data.current_liquidity_rate, data.current_variable_borrow_rate):
            final = None  # a flash loan stores the old rates again
        else:
            after["current_liquidity_rate"] = data.current_liquidity_rate
            after["current_variable_borrow_rate"] = data.current_variable_borrow_rate
    yield Transition(partial(_compute, old, step.time, final), after)


def _final_state(key: bytes, step: Step) -> _FinalState | None:
    """The state at the end of a ledger from which a reserve's rates follow; None if an entry of it is gone."""
    entry = step.after(key)
    if entry is None:
        return None
    reserve = layout.decode_reserve(entry)
    scaled: dict[str, int] = {}
    for side, token in reserve.share_tokens.items():
        instance = step.after(instance_key(token))
        if instance is None:
            return None
        scaled[side] = layout.decode_share_token(instance, side).scaled_total
    asset = entry.contract_data().key[1][1][1]
    own, defaults = (step.after(model) for model in layout.rate_model_keys(reserve.rate_contract, asset))
    if own is None and defaults is None:
        return None
    return _FinalState(reserve, layout.decode_rate_model(own, defaults), scaled["supply"], scaled["borrow"])


def _compute(before: ReserveData, close_time: int, final: _FinalState | None) -> dict[str, int]:
    """The indexes at the close time (unix seconds) and, if the ledger's final state is known, the rates."""
    indexes = accrued_indexes(before, close_time)
    computed = {"liquidity_index": indexes.supply, "variable_borrow_index": indexes.borrow}
    if final is not None:
        reserve = Reserve(
            data=final.entry.data,
            configuration=final.entry.configuration,
            model=final.model,
            a_token=final.entry.share_tokens["supply"],
            debt_token=final.entry.share_tokens["borrow"],
            total_supply_scaled=final.total_supply_scaled,
            total_debt_scaled=final.total_debt_scaled,
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
