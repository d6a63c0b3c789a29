"""XOXNO Lending's math, function by function as the contract has it (docs/protocols/xoxno.md, "Formulas").

Scaled amounts, their values, indexes, utilizations and rates have 27 decimals (RAY). ``cash`` and the published totals
are in base units of the token, the reserve factor is in basis points, and times are in milliseconds. A product of two
numbers in RAY may need 256 bits, as in the contract, but every value that has a name must fit into signed 128 bits.
Otherwise an `ExactError` is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import factorial
from typing import NamedTuple

from msgspec.structs import replace

from exporter import exact
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, changed, is_variant
from exporter.protocols.base import NO_REWARDS, PoolReading
from exporter.protocols.numbers import PoolNumbers
from exporter.protocols.protocol import RateModel, RateRow
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.layout import BPS, HIGHEST_INDEX, RAY, RAY_DECIMALS, HubMarket, Parameters, State
from exporter.protocols.xoxno.terms import terms_of

YEAR_MILLISECONDS = 31_556_926_000
"""The contract's year, which has 365.2422 days. It is also the longest chunk of time in which interest is added."""

_SERIES_TERMS = 8

# XOXNO's own API compounds an annual rate 365 times, each time with 86,400,000 ms of the contract's year. The fraction
# is 365 × 86,400,000 / 31,556,926,000 in lowest terms.
_DAYS = 365
_DAYS_NUMERATOR, _DAYS_DENOMINATOR = 15_768_000, 15_778_463


def project(pool: PoolReading[HubMarket], close_time: int) -> PoolNumbers:
    """The numbers of a hub market at the ledger's close time. Raises `ExactError`."""
    market, parameters = pool.state, pool.state.parameters
    accrued = accrue(market.state, parameters, close_time * 1_000)
    stored, now = rates(market.state, parameters), rates(accrued, parameters)
    supplied, borrowed = (base_units(value, parameters.asset_decimals) for value in values(accrued))
    terms = terms_of(replace(market, state=accrued))
    return PoolNumbers(
        total_supplied=supplied,
        total_borrowed=borrowed,
        total_collateral=0,
        utilization_bps=exact.utilization_bps(borrowed, supplied),
        last_accrual_time=market.state.last_timestamp // 1_000,
        supply_index=accrued.supply_index,
        borrow_index=accrued.borrow_index,
        index_decimals=RAY_DECIMALS,
        stored_supply_apr=stored.supply_apr,
        stored_borrow_apr=stored.borrow_apr,
        accrued_supply_apr=now.supply_apr,
        accrued_borrow_apr=now.borrow_apr,
        apr_decimals=RAY_DECIMALS,
        supply_apy_bps=apy_bps(stored.supply_apr),
        borrow_apy_bps=apy_bps(stored.borrow_apr),
        stored_utilization=stored.utilization,
        accrued_utilization=now.utilization,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        pool_label=f"Hub {pool.pool.split('-')[0]}",
        operations=terms.operations,
        amounts=terms.amounts,
        risk=terms.risk,
        rewards=NO_REWARDS,
        spokes=terms.spokes,
    )


CURVE = ("base_borrow_rate", "slope1", "slope2", "slope3", "mid_utilization", "optimal_utilization", "max_borrow_rate")
"""The parameters of the rate curve. All have 27 decimals, and rates are annual."""


class Rates(NamedTuple):
    """The utilization of a state, and its annual rates of debt and of supply, all in RAY."""

    utilization: int
    borrow_apr: int
    supply_apr: int


def values(state: State) -> tuple[int, int]:
    """The value of the supply and the value of the debt, in RAY of the whole token."""
    supplied = value_of(state.supplied, state.supply_index)
    return supplied, value_of(state.borrowed, state.borrow_index)


def rates(state: State, parameters: Parameters) -> Rates:
    """The utilization of a state, and its annual rates. Raises `ExactError`."""
    supplied, borrowed = values(state)
    used = utilization(borrowed, supplied)
    borrow_apr = rate_at(used, parameters)
    return Rates(used, borrow_apr, supply_rate(used, borrow_apr, parameters.reserve_factor))


def rate_at(utilization: int, parameters: Parameters) -> int:
    """The annual rate that borrowers pay at a utilization, in RAY."""
    return borrow_rate(
        utilization,
        parameters.base_borrow_rate,
        parameters.slope1,
        parameters.slope2,
        parameters.slope3,
        parameters.mid_utilization,
        parameters.optimal_utilization,
        parameters.max_borrow_rate,
    )


@exact.naming("value of shares")
def value_of(scaled: int, index: int) -> int:
    """The value of a scaled amount, in RAY of the whole token: scaled × index / RAY, rounded half up."""
    return exact.multiply_divide_half_up(scaled, index, RAY)


@exact.naming("base units")
def base_units(value: int, decimals: int) -> int:
    """A value in base units of the token: value / 10^(27 - decimals), rounded half up. The value was rounded, too."""
    return exact.multiply_divide_half_up(value, 1, 10 ** (RAY_DECIMALS - decimals))


@exact.naming("utilization")
def utilization(borrowed: int, supplied: int) -> int:
    """The utilization from which the rates follow: borrowed × RAY / supplied, rounded half up, of the two values.

    It may be above RAY.
    """
    return exact.multiply_divide_half_up(borrowed, RAY, supplied) if supplied else 0


@exact.naming("borrow rate")
def borrow_rate(
    utilization: int, base: int, slope1: int, slope2: int, slope3: int, mid: int, optimal: int, highest: int
) -> int:
    """The annual rate that borrowers pay, in RAY. It has three segments; each kink belongs to the upper one.

    Raises `ExactError` if both the optimal and the given utilization are RAY, because the last segment then divides by
    zero.
    """
    used = exact.clamp(utilization, 0, RAY)
    if used < mid:
        start, end, slope, lower_slopes = 0, mid, slope1, 0
    elif used < optimal:
        start, end, slope, lower_slopes = mid, optimal, slope2, slope1
    else:
        start, end, slope, lower_slopes = optimal, RAY, slope3, exact.add(slope1, slope2)
    product = exact.multiply_divide_half_up(used - start, slope, RAY)
    rise = exact.multiply_divide_half_up(product, RAY, exact.subtract(end, start))
    return min(exact.add(exact.add(base, lower_slopes), rise), highest)


def _knots(own: Mapping[str, int]) -> Iterator[int]:
    """The utilizations at which a segment ends, or at which the rate reaches its maximum."""
    start, rate, highest = 0, own["base_borrow_rate"], own["max_borrow_rate"]
    for end, slope in (
        (own["mid_utilization"], own["slope1"]),
        (own["optimal_utilization"], own["slope2"]),
        (RAY, own["slope3"]),
    ):
        if rate < highest < rate + slope:
            yield start + (highest - rate) * (end - start) // slope
        yield end
        start, rate = end, rate + slope


def _rate_at(utilization: int, own: Mapping[str, int], row: RateRow) -> int:  # noqa: ARG001
    slopes = own["slope1"], own["slope2"], own["slope3"]
    kinks = own["mid_utilization"], own["optimal_utilization"]
    return borrow_rate(utilization, own["base_borrow_rate"], *slopes, *kinks, own["max_borrow_rate"])


RATE_MODEL = RateModel(CURVE, RAY, _knots, _rate_at)


@exact.naming("supply rate")
def supply_rate(utilization: int, borrow_rate: int, reserve_factor: int) -> int:
    """The annual rate that suppliers earn, in RAY: U × borrow rate / RAY × (BPS - reserve factor) / BPS.

    Each of the two divisions is rounded half up.
    """
    earned = exact.multiply_divide_half_up(utilization, borrow_rate, RAY)
    return exact.multiply_divide_half_up(earned, BPS - reserve_factor, BPS)


@exact.naming("growth")
def growth(rate: int, milliseconds: int) -> int:
    """The factor by which a debt grows, in RAY: eight terms of e^(rate × time). Each step is rounded half up."""
    x = exact.multiply(exact.multiply_divide_half_up(rate, 1, YEAR_MILLISECONDS), milliseconds)
    power, result = x, exact.add(x, RAY)
    for k in range(2, _SERIES_TERMS + 1):
        power = exact.multiply_divide_half_up(power, x, RAY)
        result = exact.add(result, exact.multiply_divide_half_up(power, 1, factorial(k)))
    return result


def accrue(state: State, parameters: Parameters, now: int) -> State:
    """The state with interest up to ``now`` (unix milliseconds), added in chunks of at most a year.

    A state that is newer than ``now`` is not changed. Raises `ExactError`.
    """
    remaining = now - state.last_timestamp
    while remaining > 0:
        chunk = min(remaining, YEAR_MILLISECONDS)
        state = _accrue_chunk(state, parameters, chunk)
        remaining -= chunk
    return state


def _accrue_chunk(before: State, parameters: Parameters, chunk: int) -> State:
    """The state with the interest of one chunk, in milliseconds (docs/protocols/xoxno.md, "Formulas")."""
    supply, debt = values(before)
    rate = rate_at(utilization(debt, supply), parameters)
    with exact.naming("borrow index"):
        factor = growth(rate, chunk)
        borrow_index = min(exact.multiply_divide_half_up(before.borrow_index, factor, RAY), HIGHEST_INDEX)
    interest = exact.subtract(value_of(before.borrowed, borrow_index), debt)
    fee = exact.multiply_divide_half_up(interest, parameters.reserve_factor, BPS)
    rewards = exact.subtract(interest, fee)
    supply_index = before.supply_index
    if rewards and supply:
        with exact.naming("supply index"):
            raised = exact.add(supply, rewards) * RAY // before.supplied
            supply_index = min(max(raised, supply_index), HIGHEST_INDEX)
    with exact.naming("revenue"):
        # What the index did not give to suppliers, because it is rounded down or at its bound, goes to the protocol.
        suppliers_gain = exact.subtract(value_of(before.supplied, supply_index), supply)
        protocols_gain = exact.add(fee, exact.subtract(rewards, suppliers_gain))
        new_shares = exact.clamp(protocols_gain * RAY // supply_index, 0, exact.INT128_MAX - before.supplied)
        return replace(
            before,
            borrow_index=borrow_index,
            supply_index=supply_index,
            supplied=before.supplied + new_shares,
            revenue=exact.add(before.revenue, new_shares),
        )


def apy_bps(rate: int) -> int:
    """The yield of an annual rate in whole basis points, compounded daily as in XOXNO's own API."""
    return exact.annual_yield_bps(rate * _DAYS_NUMERATOR, _DAYS, RAY * _DAYS_DENOMINATOR)


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    """The accrual that a ledger's change of a hub market shows, if it shows one (docs/lake.md).

    Raises `UntriedError`.
    """
    entry = step.before(key.replace(encode_scval(symbol("State")), encode_scval(symbol("Params")), 1))
    old, new = (layout.decode_state(state) for state in changed(key, step))
    time = step.time * 1000
    if not old.last_timestamp < new.last_timestamp == time or not old.supplied or not old.borrowed:
        return
    if entry is None:
        raise UntriedError
    _, parameters, _ = layout.decode_parameters(entry)
    after = {"borrow_index": new.borrow_index}  # a fee of the same call may change the revenue, so it is not compared
    if new.supply_index >= old.supply_index:  # a lower index means that there was a loss
        after["supply_index"] = new.supply_index
    yield Transition(partial(_accrued_fields, old, parameters, time), after)


def _accrued_fields(state: State, parameters: Parameters, now: int) -> dict[str, int]:
    accrued = accrue(state, parameters, now)
    return {
        "borrow_index": accrued.borrow_index,
        "supply_index": accrued.supply_index,
        "revenue": accrued.revenue,
    }


ACCRUAL = AccrualRule(is_variant("State"), _read)
