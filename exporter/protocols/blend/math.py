"""Blend's interest math of one reserve, function by function as the contract has it, and the numbers that follow.

docs/protocols/blend.md has the formulas. The two contract generations differ in the scale of the rates (R), in the
scale of the rate modifier (M), and in the cap of the utilization. In both, the utilization, annual rates and all
configured factors have 7 decimals (S7), and supplies, credit and totals are in base units of the token. ``b_rate`` and
``d_rate`` have 9 decimals in v1 and 12 in v2. ``ir_mod`` has 9 in v1 and 7 in v2. A value that has a name in the
contract must fit into signed 128 bits here, as it must there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, changed, is_variant
from exporter.protocols.base import Market, PoolReading
from exporter.protocols.blend.emissions import RATE_DECIMALS as REWARD_DECIMALS
from exporter.protocols.blend.layout import (
    GENERATIONS,
    NO_CAP,
    RATE_DECIMALS,
    Reserve,
    ReserveConfig,
    ReserveData,
    decode_instance,
    decode_reserve,
)
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Rewards, Risk
from exporter.protocols.protocol import RateModel, RateRow

S7 = 10**7
SECONDS_PER_YEAR = 31_536_000
MODIFIER_DECIMALS = {"v1": 9, "v2": 7}
BORROW_PERIODS = 365
SUPPLY_PERIODS = 52

_STEEP_UTILIZATION = 9_500_000  # the third slope begins here; a constant of the contract, and not max_util

_KNOWN_CODE = {digest.hex() for digest in GENERATIONS}
_BORROWING = ("admin_active", "active")
_SUPPLYING = (*_BORROWING, "admin_on_ice", "on_ice")


def project(pool: PoolReading[Reserve], close_time: int) -> PoolNumbers:
    """The numbers of a reserve at the ledger's close time. Raises `ExactError`."""
    reserve = pool.state
    stored = rates_of(reserve)
    accrued = replace(reserve, data=accrue(reserve, stored, close_time))
    now = rates_of(accrued)
    generation = reserve.config.generation
    return PoolNumbers(
        total_supplied=now.supplied,
        total_borrowed=now.borrowed,
        total_collateral=0,  # collateral is supplied in Blend, so total_supplied has it
        utilization_bps=exact.utilization_bps(now.borrowed, now.supplied),
        supply_apy_bps=exact.annual_yield_bps(stored.supply_apr, SUPPLY_PERIODS, S7),
        borrow_apy_bps=exact.annual_yield_bps(stored.borrow_apr, BORROW_PERIODS, S7),
        last_accrual_time=reserve.data.last_time,
        supply_index=accrued.data.b_rate,
        borrow_index=accrued.data.d_rate,
        index_decimals=RATE_DECIMALS[generation],
        stored_supply_apr=stored.supply_apr,
        stored_borrow_apr=stored.borrow_apr,
        accrued_supply_apr=now.supply_apr,
        accrued_borrow_apr=now.borrow_apr,
        apr_decimals=7,
        stored_utilization=stored.utilization,
        accrued_utilization=now.utilization,
        utilization_decimals=7,
        rate_modifier=accrued.data.ir_mod,
        rate_modifier_decimals=MODIFIER_DECIMALS[generation],
        backstop_credit=accrued.data.backstop_credit,
        operations=operations_of(pool.market, reserve.config),
        amounts=amounts_of(accrued, now),
        risk=risk_of(reserve),
        rewards=rewards_at(reserve, pool.decimals, close_time),
    )


class Rates(NamedTuple):
    """The totals of a state in base units, their utilization, and the annual rates at it, both with 7 decimals."""

    supplied: int
    borrowed: int
    utilization: int
    borrow_apr: int
    supply_apr: int


def rates_of(reserve: Reserve) -> Rates:
    """The totals and rates of a state. Raises `ExactError`."""
    config, data = reserve.config, reserve.data
    rate_scale, modifier_scale = 10 ** RATE_DECIMALS[config.generation], 10 ** MODIFIER_DECIMALS[config.generation]
    with exact.naming("total supply"):
        supplied = exact.multiply_divide_floor(data.b_supply, data.b_rate, rate_scale)
    borrowed = total_liabilities(data.d_supply, data.d_rate, rate_scale)
    used = utilization(borrowed, supplied, data.b_supply, config.generation)
    borrow_apr = borrow_rate(
        used, data.ir_mod, modifier_scale, config.util, config.r_base, config.r_one, config.r_two, config.r_three
    )
    return Rates(supplied, borrowed, used, borrow_apr, supply_rate(borrow_apr, used, reserve.bstop_rate))


@exact.naming("total liabilities")
def total_liabilities(d_supply: int, d_rate: int, rate_scale: int) -> int:
    """The debt of all borrowers in base units of the token: ceil(d_supply × d_rate / R)."""
    return exact.multiply_divide_ceil(d_supply, d_rate, rate_scale)


@exact.naming("utilization")
def utilization(liabilities: int, supply: int, b_supply: int, generation: str) -> int:
    """The share of the supply that is lent, with 7 decimals, rounded up.

    It is 0 without liabilities, and in v1 without shares, as in Blend's SDK. v2 caps it at S7. Raises `ExactError` in
    v1 if the shares are worth nothing, because the contract then divides by zero.
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
    """The annual rate that borrowers pay, with 7 decimals. It has three slopes; each kink belongs to the lower one.

    At a utilization of 0 the rate is ``r_base`` times the modifier, also if the target is 0. The contract never
    computes that rate, but its SDK 3.3.0 does. Beyond 95 % the contract adds the rates as u32 (interest.rs,
    calc_accrual), so `ExactOverflowError` is raised if they do not fit.
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


def _rate_at(utilization: int, own: Mapping[str, int], row: RateRow) -> int:
    modifier, modifier_scale = row["rate_modifier"], 10 ** row["rate_modifier_decimals"]
    curve = own["util"], own["r_base"], own["r_one"], own["r_two"], own["r_three"]
    return borrow_rate(utilization, modifier, modifier_scale, *curve)


RATE_MODEL = RateModel(
    ("util", "r_base", "r_one", "r_two", "r_three"),
    S7,
    lambda own: (own["util"], _STEEP_UTILIZATION),
    _rate_at,
)


def supply_rate(borrow_rate: int, utilization: int, bstop_rate: int) -> int:
    """The annual rate that suppliers earn, with 7 decimals, as Blend's SDK defines it.

    The contract does not compute it, so it may have any size.
    """
    return borrow_rate * ((S7 - bstop_rate) * utilization // S7) // S7


def accrue(reserve: Reserve, stored: Rates, close_time: int) -> ReserveData:
    """The state with the interest from ``last_time`` to the close time, at the simple rate of the stored state.

    ``last_time`` itself is not changed. Raises `ExactError`.
    """
    config, data = reserve.config, reserve.data
    seconds = close_time - data.last_time
    if seconds <= 0 or data.b_supply == 0 or stored.utilization == 0:
        return data
    rate_scale, modifier_scale = 10 ** RATE_DECIMALS[config.generation], 10 ** MODIFIER_DECIMALS[config.generation]
    ir_mod = next_modifier(data.ir_mod, seconds, stored.utilization, config.util, config.reactivity, modifier_scale)
    accrual = loan_accrual(stored.borrow_apr, seconds, rate_scale)
    with exact.naming("accrued d_rate"):
        d_rate = exact.multiply_divide_ceil(accrual, data.d_rate, rate_scale)
    accrued = replace(data, ir_mod=ir_mod, d_rate=d_rate)
    borrowed = total_liabilities(data.d_supply, d_rate, rate_scale)
    with exact.naming("gain"):
        gain = exact.subtract(borrowed, stored.borrowed)
    if gain <= 0:  # the contract then does not compute b_rate again, which may differ from the formula
        return accrued
    with exact.naming("accrued backstop credit"):
        credit = exact.multiply_divide_floor(gain, reserve.bstop_rate, S7)
        backstop_credit = exact.add(data.backstop_credit, credit)
    with exact.naming("accrued b_rate"):
        supplied = exact.add(stored.supplied, gain - credit)
        b_rate = exact.multiply_divide_floor(supplied, rate_scale, data.b_supply)
    return replace(accrued, backstop_credit=backstop_credit, b_rate=b_rate)


@exact.naming("rate modifier")
def next_modifier(
    ir_mod: int, seconds: int, utilization: int, target: int, reactivity: int, modifier_scale: int
) -> int:
    """The rate modifier after ``seconds`` at a utilization that may be off its target.

    It stays between 0.1 and 10.
    """
    weight = exact.multiply(seconds * reactivity, modifier_scale // S7)
    step = exact.multiply_divide_truncate(utilization - target, weight, S7)
    return exact.clamp(exact.add(ir_mod, step), modifier_scale // 10, modifier_scale * 10)


@exact.naming("loan accrual")
def loan_accrual(borrow_rate: int, seconds: int, rate_scale: int) -> int:
    """The factor by which debt grows in ``seconds``, scaled by R.

    The share of the year is rounded down before it is multiplied by the rate.
    """
    time_weight = exact.multiply_divide_floor(seconds, rate_scale, SECONDS_PER_YEAR)
    return exact.add(rate_scale, exact.multiply_divide_ceil(time_weight, borrow_rate, S7))


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a ledger's change of a reserve's state shows, if it shows one. Raises `UntriedError`."""
    config = step.before(key.replace(encode_scval(symbol("ResData")), encode_scval(symbol("ResConfig")), 1))
    instance_entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    if config is None or instance_entry is None:
        was, is_now = (Fields.of(entry.value, "ResData").u64("last_time") for entry in changed(key, step))
        if was < is_now == step.time:
            raise UntriedError
        return
    instance = decode_instance(instance_entry)
    old, new = (decode_reserve(config, entry, instance.backstop_rate) for entry in changed(key, step))
    if not old.data.last_time < new.data.last_time == step.time or not old.data.b_supply or not old.data.d_supply:
        return
    yield Transition(partial(_accrued_fields, old, step.time), _fields_that_accrue(new.data))


def _accrued_fields(reserve: Reserve, close_time: int) -> dict[str, int]:
    return _fields_that_accrue(accrue(reserve, rates_of(reserve), close_time))


def _fields_that_accrue(data: ReserveData) -> dict[str, int]:
    return {
        "b_rate": data.b_rate,
        "d_rate": data.d_rate,
        "ir_mod": data.ir_mod,
        "backstop_credit": data.backstop_credit,
    }


ACCRUAL = AccrualRule(is_variant("ResData"), _read)


def operations_of(market: Market, config: ReserveConfig) -> Operations:
    """The operations that the status of the market and of the reserve allows (docs/protocols/blend.md, "Terms")."""
    status = ("enabled" if config.enabled else "disabled") if config.generation == "v2" else None
    if market.wasm_hash not in _KNOWN_CODE:
        return Operations(can_reason="the market runs code whose rules are not known", pool_status=status)
    return Operations(
        can_supply=config.enabled and market.status in _SUPPLYING,
        can_withdraw=True,
        can_borrow=is_borrowable(config) and market.status in _BORROWING,
        can_repay=True,
        can_liquidate=True,
        pool_status=status,
    )


def is_borrowable(config: ReserveConfig) -> bool:
    """Whether the configuration lets a reserve be borrowed."""
    return config.enabled and config.l_factor > 0


def risk_of(reserve: Reserve) -> Risk:
    """The terms of collateral, debt and limits in a reserve's configuration."""
    config = reserve.config
    return Risk(
        risk_scope="reserve",
        collateral_factor_bps=config.c_factor // 1000,
        liquidation_threshold_bps=config.c_factor // 1000,
        liability_factor_bps=exact.ceil_divide(10**11, config.l_factor) if config.l_factor else None,
        liquidation_kind="auction",
        supply_cap=config.supply_cap if config.supply_cap < NO_CAP else None,
        max_utilization_bps=config.max_util // 1000,
        reserve_factor_bps=reserve.bstop_rate // 1000,
        can_be_collateral=config.c_factor > 0,
        can_be_borrowed=is_borrowable(config),
    )


def amounts_of(reserve: Reserve, now: Rates) -> Amounts:
    """The most that can be withdrawn from, borrowed from and supplied to an accrued reserve.

    Each is the largest amount for which the contract's own test, with its own rounding, lets a single operation pass.
    The user is assumed to have all the shares or collateral that it takes.
    """
    config, data = reserve.config, reserve.data
    is_v2, one = config.generation == "v2", 10 ** RATE_DECIMALS[config.generation]

    if is_v2:
        # Withdrawing: ceil(borrowed × S7 / supply) must still be below S7 without the withdrawn shares.
        shares_left = exact.ceil_divide(exact.ceil_divide(now.borrowed * S7, S7 - 1) * one, data.b_rate or 1)
        to_withdraw = max(data.b_supply - shares_left, 0) * data.b_rate // one
    else:
        # v1 has no test, and pays from all the tokens that it holds. This is the suppliers' part that is not lent.
        to_withdraw = max(now.supplied - now.borrowed, 0)

    # Borrowing: ceil(debt × S7 / supply) must not be above max_util, and in v2 it must be below S7.
    highest_utilization = min(config.max_util, S7 - 1 if is_v2 else S7)
    d_tokens = highest_utilization * now.supplied // S7 * one // (data.d_rate or 1) - data.d_supply
    to_borrow = max(d_tokens, 0) * data.d_rate // one

    # Supplying: floor(shares × b_rate / R) must not be above the cap.
    cap, to_supply = config.supply_cap, None
    if cap < NO_CAP:
        b_tokens = exact.ceil_divide((cap + 1) * one, data.b_rate or 1) - 1 - data.b_supply
        to_supply = exact.ceil_divide((b_tokens + 1) * data.b_rate, one) - 1 if data.b_rate and b_tokens > 0 else 0
    return Amounts(available_to_withdraw=to_withdraw, available_to_borrow=to_borrow, available_to_supply=to_supply)


def rewards_at(reserve: Reserve, decimals: int, time: int) -> Rewards:
    """The BLND that each side of a reserve is paid at a time (unix seconds). ``decimals`` are the token's."""
    supply, borrow = reserve.supply_emission.at(time), reserve.borrow_emission.at(time)
    return Rewards(
        reward_token=reserve.reward_token,
        reward_decimals=REWARD_DECIMALS[reserve.config.generation],
        supply_reward_per_second=supply.eps,
        supply_reward_expiration=supply.expiration,
        supply_reward_reason=supply.reason,
        supply_reward_index=reserve.supply_emission.index_at(time, reserve.data.b_supply, decimals),
        borrow_reward_per_second=borrow.eps,
        borrow_reward_expiration=borrow.expiration,
        borrow_reward_reason=borrow.reason,
    )
