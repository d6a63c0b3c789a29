"""Blend's interest math of one reserve, function by function as the contract has it, and what follows from it.

Formulas: docs/protocols/blend.md. The contract generations differ in the scale of the rates (R), the scale of the rate
modifier (M) and the cap of the utilization. Utilization, rates a year and every configured factor have 7 decimals in
both (S7); b_rate and d_rate have 9 (v1) or 12 (v2); ir_mod has 9 (v1) or 7 (v2); supplies, credit and totals are token
base units. Every value that has a name in the contract must fit into signed 128 bits, as it must there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.protocols.base import AccrualRule, RateModel, Step, Transition, UntriedError, changed, is_variant
from exporter.protocols.blend.emissions import RATE_DECIMALS as REWARD_DECIMALS
from exporter.protocols.blend.emissions import SIDES
from exporter.protocols.blend.layout import GENERATIONS, NO_CAP, RATE_DECIMALS, decode_instance, decode_reserve

S7 = 10**7
SECONDS_PER_YEAR = 31_536_000
MODIFIER_DECIMALS = {"v1": 9, "v2": 7}
BORROW_PERIODS = 365
SUPPLY_PERIODS = 52

_STEEP_UTILIZATION = 9_500_000  # where the third slope starts; a constant of the contract, not max_util

ACCRUING = ("b_rate", "d_rate", "ir_mod", "backstop_credit")
"""The fields of a reserve's state that an accrual changes."""

_KNOWN_CODE = {digest.hex() for digest in GENERATIONS}
_BORROWING = ("admin_active", "active")
_SUPPLYING = (*_BORROWING, "admin_on_ice", "on_ice")


def project(pool: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a reserve at its close time, as `ProtocolModule.project` gives them. Raises `ExactError`."""
    stored = rates_of(pool)
    accrued = {**pool, **accrue(pool, stored)}
    now = rates_of(accrued)
    generation = pool["generation"]
    return {
        "total_supplied": now.supplied,
        "total_borrowed": now.borrowed,
        "total_collateral": 0,  # in Blend collateral is supplied, and is in that total
        "utilization_bps": exact.utilization_bps(now.borrowed, now.supplied),
        "supply_apy_bps": exact.annual_yield_bps(stored.supply_apr, SUPPLY_PERIODS, S7),
        "borrow_apy_bps": exact.annual_yield_bps(stored.borrow_apr, BORROW_PERIODS, S7),
        "last_accrual_time": pool["last_time"],
        "supply_index": accrued["b_rate"],
        "borrow_index": accrued["d_rate"],
        "index_decimals": RATE_DECIMALS[generation],
        "stored_supply_apr": stored.supply_apr,
        "stored_borrow_apr": stored.borrow_apr,
        "accrued_supply_apr": now.supply_apr,
        "accrued_borrow_apr": now.borrow_apr,
        "apr_decimals": 7,
        "stored_utilization": stored.utilization,
        "accrued_utilization": now.utilization,
        "utilization_decimals": 7,
        "rate_modifier": accrued["ir_mod"],
        "rate_modifier_decimals": MODIFIER_DECIMALS[generation],
        "backstop_credit": accrued["backstop_credit"],
        **terms(accrued, now),
        **rewards(pool),
    }


class Rates(NamedTuple):
    """What a state amounts to: totals, their utilization, and the rates a year at it."""

    supplied: int
    borrowed: int
    utilization: int
    borrow_apr: int
    supply_apr: int


def rates_of(reserve: Mapping[str, Any]) -> Rates:
    """The totals and rates of a state."""
    generation = reserve["generation"]
    rate_scale, modifier_scale = 10 ** RATE_DECIMALS[generation], 10 ** MODIFIER_DECIMALS[generation]
    with exact.naming("total supply"):
        supplied = exact.multiply_divide_floor(reserve["b_supply"], reserve["b_rate"], rate_scale)
    borrowed = total_liabilities(reserve["d_supply"], reserve["d_rate"], rate_scale)
    used = utilization(borrowed, supplied, reserve["b_supply"], generation)
    slopes = (reserve[name] for name in RATE_MODEL.parameters)
    borrow_apr = borrow_rate(used, reserve["ir_mod"], modifier_scale, *slopes)
    return Rates(supplied, borrowed, used, borrow_apr, supply_rate(borrow_apr, used, reserve["bstop_rate"]))


@exact.naming("total liabilities")
def total_liabilities(d_supply: int, d_rate: int, rate_scale: int) -> int:
    """The debt of all borrowers, in token base units: ceil(d_supply × d_rate / R)."""
    return exact.multiply_divide_ceil(d_supply, d_rate, rate_scale)


@exact.naming("utilization")
def utilization(liabilities: int, supply: int, b_supply: int, generation: str) -> int:
    """The share of the supply that is lent, 7 decimals, rounded up; 0 without liabilities.

    v2 caps it at S7. In v1 shares that are worth nothing divide by zero; without shares it is 0, as in Blend's SDK.
    """
    if liabilities == 0 or (generation == "v1" and b_supply == 0):
        return 0
    if generation == "v2" and liabilities >= supply:
        return S7
    return exact.multiply_divide_ceil(liabilities, S7, supply)


@exact.naming("borrow rate")
def borrow_rate(
    utilization: int, ir_mod: int, modifier_scale: int, target: int, r_base: int, r_one: int, r_two: int, r_three: int
) -> int:
    """The rate a year that borrowers pay, 7 decimals: three slopes; both knots belong to the lower one.

    With a utilization of 0 the part of the slope is 0, also for a target of 0 (the contract never asks for that rate;
    the SDK 3.3.0 does). Beyond 95 % the contract adds rates as u32 (interest.rs, calc_accrual): `ExactOverflowError`.
    """
    if utilization <= target:
        part = exact.multiply_divide_ceil(utilization, S7, target) if utilization else 0
        rate = exact.add(r_base, exact.multiply_divide_ceil(part, r_one, S7))
        return exact.multiply_divide_ceil(rate, ir_mod, modifier_scale)
    if utilization <= _STEEP_UTILIZATION:
        part = exact.multiply_divide_ceil(utilization - target, S7, _STEEP_UTILIZATION - target)
        rate = exact.add(r_base + r_one, exact.multiply_divide_ceil(part, r_two, S7))
        return exact.multiply_divide_ceil(rate, ir_mod, modifier_scale)
    if r_base + r_one + r_two >= 2**32:
        raise ExactOverflowError("the sum of the three rates has more than 32 bits")
    part = exact.multiply_divide_ceil(utilization - _STEEP_UTILIZATION, S7, S7 - _STEEP_UTILIZATION)
    modified = exact.multiply_divide_ceil(r_base + r_one + r_two, ir_mod, modifier_scale)
    return exact.add(modified, exact.multiply_divide_ceil(part, r_three, S7))


RATE_MODEL = RateModel(
    ("util", "r_base", "r_one", "r_two", "r_three"),
    S7,
    lambda own: (own["util"], _STEEP_UTILIZATION),
    borrow_rate,
    lambda row: (row["rate_modifier"], 10 ** row["rate_modifier_decimals"]),
)


def supply_rate(borrow_rate: int, utilization: int, bstop_rate: int) -> int:
    """The rate a year that suppliers earn, 7 decimals; only published, so of any size. Blend's SDK defines it."""
    return borrow_rate * ((S7 - bstop_rate) * utilization // S7) // S7


def accrue(reserve: Mapping[str, Any], stored: Rates) -> dict[str, int]:
    """`ACCRUING` after the interest of the time since `last_time`, at the one simple rate of the stored state."""
    state = {name: reserve[name] for name in ACCRUING}
    seconds = reserve["close_time"] - reserve["last_time"]
    if seconds <= 0 or reserve["b_supply"] == 0 or stored.utilization == 0:
        return state
    rate_scale = 10 ** RATE_DECIMALS[reserve["generation"]]
    modifier_scale = 10 ** MODIFIER_DECIMALS[reserve["generation"]]
    state["ir_mod"] = next_modifier(
        state["ir_mod"], seconds, stored.utilization, reserve["util"], reserve["reactivity"], modifier_scale
    )
    accrual = loan_accrual(stored.borrow_apr, seconds, rate_scale)
    with exact.naming("accrued d_rate"):
        state["d_rate"] = exact.multiply_divide_ceil(accrual, state["d_rate"], rate_scale)
    borrowed = total_liabilities(reserve["d_supply"], state["d_rate"], rate_scale)
    with exact.naming("gain"):
        gain = exact.subtract(borrowed, stored.borrowed)
    if gain > 0:  # else b_rate stays: it may be off the formula
        with exact.naming("accrued backstop credit"):
            credit = exact.multiply_divide_floor(gain, reserve["bstop_rate"], S7)
            state["backstop_credit"] = exact.add(state["backstop_credit"], credit)
        with exact.naming("accrued b_rate"):
            supplied = exact.add(stored.supplied, gain - credit)
            state["b_rate"] = exact.multiply_divide_floor(supplied, rate_scale, reserve["b_supply"])
    return state


@exact.naming("rate modifier")
def next_modifier(
    ir_mod: int, seconds: int, utilization: int, target: int, reactivity: int, modifier_scale: int
) -> int:
    """The modifier after `seconds` at a utilization off its target, kept within a tenth and ten times of 1."""
    weight = exact.multiply(seconds * reactivity, modifier_scale // S7)
    step = exact.multiply_divide_truncate(utilization - target, weight, S7)
    return exact.clamp(exact.add(ir_mod, step), modifier_scale // 10, modifier_scale * 10)


@exact.naming("loan accrual")
def loan_accrual(borrow_rate: int, seconds: int, rate_scale: int) -> int:
    """The factor by which debt grows, scaled by R; the share of the year is truncated before it meets the rate."""
    time_weight = exact.multiply_divide_floor(seconds, rate_scale, SECONDS_PER_YEAR)
    return exact.add(rate_scale, exact.multiply_divide_ceil(time_weight, borrow_rate, S7))


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a change of a reserve's state in a ledger shows."""
    config = step.before(key.replace(encode_scval(symbol("ResData")), encode_scval(symbol("ResConfig")), 1))
    instance_entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    if config is None or instance_entry is None:
        was, is_now = (Fields.of(entry.value, "ResData").u64("last_time") for entry in changed(key, step))
        if was < is_now == step.time:
            raise UntriedError
        return
    instance = decode_instance(instance_entry)
    old, new = (decode_reserve(config, entry) for entry in changed(key, step))
    if not old["last_time"] < new["last_time"] == step.time or not old["b_supply"] or not old["d_supply"]:
        return
    own = {"bstop_rate": instance.backstop_rate, "generation": instance.generation, "close_time": step.time}
    yield Transition(old | own, {name: new[name] for name in ACCRUING})


ACCRUAL = AccrualRule(is_variant("ResData"), _read, lambda before: accrue(before, rates_of(before)))


def terms(reserve: Mapping[str, Any], now: Rates) -> dict[str, Any]:
    """Operations, amounts and risk of an accrued reserve (docs/protocols/blend.md, "Terms")."""
    enabled, is_known = bool(reserve["enabled"]), reserve["wasm_hash"] in _KNOWN_CODE
    borrowable = enabled and reserve["l_factor"] > 0
    status = ("enabled" if enabled else "disabled") if reserve["generation"] == "v2" else None
    gates = {
        "can_supply": enabled and reserve["market_status"] in _SUPPLYING,
        "can_withdraw": True,
        "can_borrow": borrowable and reserve["market_status"] in _BORROWING,
        "can_repay": True,
        "can_liquidate": True,
    }
    return {
        **(gates if is_known else {"can_reason": "the market runs code whose rules are not known"}),
        "pool_status": status,
        **amounts(reserve, now),
        "risk_scope": "reserve",
        "collateral_factor_bps": reserve["c_factor"] // 1000,
        "liquidation_threshold_bps": reserve["c_factor"] // 1000,
        "liability_factor_bps": exact.ceil_divide(10**11, reserve["l_factor"]) if reserve["l_factor"] else None,
        "liquidation_kind": "auction",
        "supply_cap": reserve["supply_cap"] if reserve["supply_cap"] < NO_CAP else None,
        "max_utilization_bps": reserve["max_util"] // 1000,
        "reserve_factor_bps": reserve["bstop_rate"] // 1000,
        "can_be_collateral": reserve["c_factor"] > 0,
        "can_be_borrowed": borrowable,
    }


def amounts(reserve: Mapping[str, Any], now: Rates) -> dict[str, int | None]:
    """What can be withdrawn, borrowed and supplied at the most, of any size.

    Each is the largest that passes the contract's own test, with its own rounding, of one operation by one user who has
    all the shares or collateral that it takes.
    """
    is_v2, one = reserve["generation"] == "v2", 10 ** RATE_DECIMALS[reserve["generation"]]
    b_rate, d_rate = reserve["b_rate"], reserve["d_rate"]
    if is_v2:  # ceil(borrowed × S7 / supply) must stay below S7 when the shares are gone
        kept = exact.ceil_divide(exact.ceil_divide(now.borrowed * S7, S7 - 1) * one, b_rate or 1)
        withdrawn = max(reserve["b_supply"] - kept, 0) * b_rate // one
    else:  # v1 tests nothing, and pays from whatever tokens it holds: this is what is the suppliers' and not lent
        withdrawn = max(now.supplied - now.borrowed, 0)

    # Borrowing: ceil(debt × S7 / supply) must not be above max_util, in v2 also below S7.
    most_util = min(reserve["max_util"], S7 - 1 if is_v2 else S7)
    d_tokens = most_util * now.supplied // S7 * one // (d_rate or 1) - reserve["d_supply"]
    lent = max(d_tokens, 0) * d_rate // one

    # Supplying: floor(shares × b_rate / R) must not be above the cap.
    cap, taken = reserve["supply_cap"], None
    if cap < NO_CAP:
        b_tokens = exact.ceil_divide((cap + 1) * one, b_rate or 1) - 1 - reserve["b_supply"]
        taken = exact.ceil_divide((b_tokens + 1) * b_rate, one) - 1 if b_rate and b_tokens > 0 else 0
    return {"available_to_withdraw": withdrawn, "available_to_borrow": lent, "available_to_supply": taken}


def rewards(pool: Mapping[str, Any]) -> dict[str, Any]:
    """What each side of a reserve is paid in BLND at its close time."""
    time = pool["close_time"]
    found = {
        "reward_token": pool["reward_token"],
        "reward_decimals": REWARD_DECIMALS[pool["generation"]],
        "supply_reward_index": pool["supply_emission"].index_at(time, pool["b_supply"], pool["decimals"]),
    }
    for side in SIDES:
        emission = pool[f"{side}_emission"].at(time)
        found |= {
            f"{side}_reward_per_second": emission.eps,
            f"{side}_reward_expiration": emission.expiration,
            f"{side}_reward_reason": emission.reason,
        }
    return found
