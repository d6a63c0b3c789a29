"""K2's math, function by function as the contract has it (docs/protocols/k2.md, "Formulas").

Indexes, rates a year and utilizations have 27 decimals (RAY); totals are token base units, scaled totals those before
the index. The contract computes in unsigned 128 bits; here every value that has a name must fit into signed 128 bits,
because no published number is larger. Otherwise there is an ExactError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec.entries import instance_key
from exporter.protocols.base import AccrualRule, RateModel, Step, Transition, changed, is_variant
from exporter.protocols.k2 import layout
from exporter.protocols.k2.layout import BPS, MIN_FIRST_SUPPLY, MODEL_FIELDS, RAY_DECIMALS
from exporter.tree.values import RewardReason

RAY: int = 10**RAY_DECIMALS
ONLY_LISTED = "only listed accounts"
UNKNOWN_LISTS = "whether only listed accounts may is not known"
"""Why gates are not known (docs/protocols/k2.md, "Statuses")."""

SECONDS_PER_YEAR = 31_536_000
"""The contract's year, 365 days."""


def project(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The published numbers of a reserve at its ``close_time``. Raises `ExactError`."""
    *_, stored_utilization = totals(pool, pool["liquidity_index"], pool["variable_borrow_index"])
    indexes = accrued_indexes(pool)
    supplied, borrowed, utilization = totals(pool, *indexes)
    supply_rate, borrow_rate = rates(pool, utilization)
    return {
        "total_supplied": supplied,
        "total_borrowed": borrowed,
        "utilization_bps": exact.utilization_bps(borrowed, supplied),
        "last_accrual_time": pool["last_update_timestamp"],
        "supply_index": indexes[0],
        "borrow_index": indexes[1],
        "stored_supply_apr": pool["current_liquidity_rate"],
        "stored_borrow_apr": pool["current_variable_borrow_rate"],
        "accrued_supply_apr": supply_rate,
        "accrued_borrow_apr": borrow_rate,
        "supply_apy_bps": pool["current_liquidity_rate"] * BPS // RAY,  # linear interest, which is the rate in a year
        "borrow_apy_bps": borrow_apy_bps(pool["current_variable_borrow_rate"]),
        "stored_utilization": stored_utilization,
        "accrued_utilization": utilization,
        **dict.fromkeys(("index_decimals", "apr_decimals", "utilization_decimals"), RAY_DECIMALS),
        "rate_modifier": 1,
        **dict.fromkeys(("total_collateral", "backstop_credit", "rate_modifier_decimals"), 0),
        "share_token": pool["a_token"],
        "share_supply": supplied,  # as the token itself has it
        **_terms(pool),
        **_amounts(pool, supplied, borrowed),
        **rewards_at(pool["supply_emissions"], pool["borrow_emissions"], pool["close_time"]),
    }


def _terms(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Who may do what, and at what risk (docs/protocols/k2.md, "Statuses" and "Risk and liquidity")."""
    takes_part = bool(pool["active"] and not pool["paused"] and not pool["router_paused"])
    enters = takes_part and not pool["frozen"]
    lends = bool(pool["borrowing_enabled"])
    status = "active" if lends else "borrowing_disabled"
    for name, is_so in (("frozen", pool["frozen"]), ("paused", pool["paused"]), ("inactive", not pool["active"])):
        status = name if is_so else status
    users, liquidators = pool["users_are_listed"], pool["liquidators_are_listed"]
    gates = {
        "can_supply": _for_anybody(users, is_open=enters),
        "can_withdraw": _for_anybody(users, is_open=takes_part),
        "can_borrow": _for_anybody(users, is_open=enters and lends),
        "can_repay": _for_anybody(users, is_open=takes_part),
        "can_liquidate": _for_anybody(liquidators, is_open=takes_part),
    }
    return {
        **gates,
        "can_reason": _reason(gates, users, liquidators),
        "pool_status": status,
        "min_first_supply": MIN_FIRST_SUPPLY,
        "risk_scope": "reserve",
        "collateral_factor_bps": pool["ltv"],
        "liquidation_threshold_bps": pool["liquidation_threshold"],
        "liability_factor_bps": 10_000,
        "liquidation_bonus_bps": pool["liquidation_bonus"],
        "liquidation_kind": "fixed",
        "reserve_factor_bps": pool["reserve_factor"],
        "can_be_collateral": pool["ltv"] > 0,
        "can_be_borrowed": lends,
    }


def _for_anybody(are_listed: bool | None, *, is_open: bool) -> bool | None:
    """Whether anybody may do what is open; None where only listed accounts may, or where that is not known."""
    return is_open if are_listed is False or not is_open else None


def _reason(gates: Mapping[str, bool | None], users: bool | None, liquidators: bool | None) -> str | None:
    """Why a gate is not known, for those who use a reserve and for those who liquidate."""
    unknown = {name for name, is_open in gates.items() if is_open is None}
    lists = {users} if unknown - {"can_liquidate"} else set()
    lists |= {liquidators} if "can_liquidate" in unknown else set()
    said = [ONLY_LISTED] if True in lists else []
    return "; ".join(said + [UNKNOWN_LISTS] * (None in lists)) or None


def _amounts(pool: Mapping[str, Any], supplied: int, borrowed: int) -> dict[str, int | None]:
    """The caps in base units, None for none, and how much can be withdrawn, borrowed and supplied, whatever gates say.

    The aToken's balance, ``cash``, bounds what it pays out.
    """
    unit, cash = 10 ** pool["decimals"], pool["cash"]
    supply_cap, *of_debt = (pool[name] * unit for name in ("supply_cap", "borrow_cap", "debt_ceiling"))
    debt_caps = [cap for cap in of_debt if cap]
    amounts = {
        "available_to_withdraw": None if cash is None else min(cash, supplied),
        "available_to_borrow": None if cash is None else min([cash, *(_room(cap, borrowed) for cap in debt_caps)]),
        "available_to_supply": _room(supply_cap, supplied) if supply_cap else None,
        "supply_cap": supply_cap or None,
        "borrow_cap": min(debt_caps, default=None),
    }
    return {name: None if value is None else exact.clamp(value, 0, exact.INT128_MAX) for name, value in amounts.items()}


def _room(cap: int, used: int) -> int:
    """What a cap leaves; with one of more than the contract's unsigned 128 bits nothing passes."""
    return cap - used if cap < 2**128 else 0


def accrued_indexes(reserve: Mapping[str, Any]) -> tuple[int, int]:
    """The indexes of supply and of debt at the ``close_time`` (unix seconds). Raises `ExactError`."""
    seconds = reserve["close_time"] - reserve["last_update_timestamp"]
    if seconds < 0:  # the call would fail
        raise ExactOverflowError("time since the last update: seconds below zero: the result does not fit")
    with exact.naming("accrued liquidity index"):
        growth = linear_interest(reserve["current_liquidity_rate"], seconds)
        liquidity_index = ray_mul(reserve["liquidity_index"], growth)
    with exact.naming("accrued borrow index"):
        growth = compound_interest(reserve["current_variable_borrow_rate"], seconds)
        return liquidity_index, ray_mul(reserve["variable_borrow_index"], growth)


def rates(reserve: Mapping[str, Any], utilization: int) -> tuple[int, int]:
    """The rates of supply and of debt that the model has for a utilization. Raises `ExactError`."""
    borrow_rate = variable_borrow_rate(utilization, *(reserve[name] for name in MODEL_FIELDS))
    return liquidity_rate(borrow_rate, utilization, reserve["reserve_factor"]), borrow_rate


def rewards_at(supply: layout.Emissions, borrow: layout.Emissions, time: int) -> dict[str, Any]:
    """The reward columns of a reserve at a time (unix seconds): amounts of several tokens are not given."""
    row: dict[str, Any] = {"reward_decimals": 0}
    running = {
        side: [each for each in emissions or () if each.per_second and (not each.end or time < each.end)]
        for side, emissions in zip(layout.SHARE_TOKENS, (supply, borrow), strict=True)
    }
    tokens = {paid[0].token for paid in running.values() if len(paid) == 1}
    row["reward_token"] = next(iter(tokens)) if len(tokens) == 1 else None
    for (side, paid), emissions in zip(running.items(), (supply, borrow), strict=True):
        per_second, end = None, None
        if emissions is None:
            reason = RewardReason.UNREAD
        elif not paid:
            per_second, reason = 0, RewardReason.EXPIRED if emissions else RewardReason.NO_EMISSIONS
        elif len(paid) > 1 or len(tokens) > 1:
            reason = RewardReason.SEVERAL_TOKENS
        else:
            per_second, end, reason = paid[0].per_second, paid[0].end or None, RewardReason.VALID
        row |= {f"{side}_reward_per_second": per_second, f"{side}_reward_expiration": end}
        row[f"{side}_reward_reason"] = reason
    return row


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


def totals(reserve: Mapping[str, Any], liquidity_index: int, borrow_index: int) -> tuple[int, int, int]:
    """The supply and the debt at these indexes, in base units, and their utilization, 0 where there is nothing."""
    with exact.naming("total supply"):
        supplied = ray_mul(reserve["total_supply_scaled"], liquidity_index)
    with exact.naming("total debt"):
        borrowed = ray_mul(reserve["total_debt_scaled"], borrow_index)
    with exact.naming("utilization"):
        return supplied, borrowed, ray_div(borrowed, exact.add(max(supplied - borrowed, 0), borrowed))


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


_INDEXES = ("liquidity_index", "variable_borrow_index")
_RATES = ("current_liquidity_rate", "current_variable_borrow_rate")


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""
    old, new = (layout.decode_reserve(entry).numbers for entry in changed(key, step))
    last = old["last_update_timestamp"]
    if not last < new["last_update_timestamp"] == step.time or not old["current_variable_borrow_rate"]:
        return
    before = {name: old[name] for name in layout.RESERVE} | {"close_time": step.time}
    after = {name: new[name] for name in _INDEXES}
    settled = _settled(key, step)
    if any(settled[name] != old[name] for name in _RATES if settled):  # a flash loan stores the old rates
        before = settled | before
        after |= {name: settled[name] for name in _RATES}
    yield Transition({**before}, after)


def _settled(key: bytes, step: Step) -> dict[str, int]:
    """All numbers of a reserve at the end of a ledger, from which its rates follow; none where an entry is gone."""
    entry = step.after(key)
    if entry is None:
        return {}
    reserve = layout.decode_reserve(entry)
    numbers = dict(reserve.numbers)
    for side, token in reserve.share_tokens.items():
        instance = step.after(instance_key(token))
        if instance is None:
            return {}
        numbers[layout.SHARE_TOKENS[side][2]] = layout.decode_share_token(instance, side)[2]
    asset = entry.contract_data().key[1][1][1]
    own, defaults = (step.after(model) for model in layout.rate_model_keys(reserve.rate_contract, asset))
    return {} if own is defaults is None else numbers | layout.decode_rate_model(own, defaults)


def _compute(before: Mapping[str, Any]) -> dict[str, int]:
    indexes = accrued_indexes(before)
    found = dict(zip(_INDEXES, indexes, strict=True))
    if "total_debt_scaled" in before:
        found |= zip(_RATES, rates(before, totals(before, *indexes)[2]), strict=True)
    return found


ACCRUAL = AccrualRule(is_variant("RDATA"), _read, _compute)
