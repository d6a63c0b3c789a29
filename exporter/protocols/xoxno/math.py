"""XOXNO Lending's math over columns of hub markets, function by function as the contract has it.

Formulas: docs/protocols/xoxno.md. Scaled amounts, their values, indexes, utilization and rates, also that of a
millisecond, are RAY (27 decimals). `cash` and what is published of the totals are token base units, the reserve factor
is basis points, times are milliseconds. RAY × RAY needs up to 256 bits in between, as in the contract; every value
with a name must fit into signed 128 bits. Otherwise an ExactError carries the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import factorial
from typing import NamedTuple

import polars as pl

from exporter import exact_columns as exact
from exporter.protocols.curves import RateModel
from exporter.protocols.shared_columns import NO_REWARDS, numbers_of, raw_rows, shared_columns, utilization_bps
from exporter.protocols.xoxno.layout import BPS, HIGHEST_INDEX, PARAMETERS, RAY, RAY_DECIMALS, STATE, VERSION
from exporter.protocols.xoxno.terms import terms_of
from exporter.tables import SPOKES

YEAR_MILLISECONDS = 31_556_926_000
"""The contract's year, 365.2422 days, and the longest chunk in which it accrues."""

_SERIES_TERMS = 8
_ENOUGH = HIGHEST_INDEX // RAY

# The daily form of XOXNO's own API: a rate of a year is compounded 365 times with 86,400,000 ms of the contract's year
# each. 365 × 86,400,000 / 31,556,926,000 is this fraction in lowest terms.
_DAYS = 365
_DAYS_NUMERATOR, _DAYS_DENOMINATOR = 15_768_000, 15_778_463

POOL_COLUMNS = (*PARAMETERS, *STATE)
"""The raw columns that `project` takes."""


class Accrued(NamedTuple):
    """The state of hub markets brought to a time: scaled amounts and indexes, RAY."""

    borrow_index: pl.Series
    supply_index: pl.Series
    supplied: pl.Series
    revenue: pl.Series


def project(frame: pl.DataFrame) -> pl.DataFrame:
    """Bring every hub market to the close time of the ledger, and add what is published of it.

    ``frame`` has POOL_COLUMNS and `close_time` (unix seconds), none null or negative. Added are totals, in which the
    protocol's revenue is, the accrued state, and the rates of the stored and of the accrued state, Int128;
    `utilization_bps` and the yields of the stored rates, Int64. Raises `ExactError`, and `ValueError` for a null.
    """
    state = numbers_of(frame, (*POOL_COLUMNS, "close_time"))

    def rates(kind: str, borrowed: pl.Series, supplied: pl.Series) -> dict[str, pl.Series]:
        used = utilization(borrowed, supplied)
        borrow_apr = borrow_rate(used, *(state[name] for name in CURVE))
        supply_apr = supply_rate(used, borrow_apr, state["reserve_factor"])
        return {f"{kind}_utilization": used, f"{kind}_borrow_apr": borrow_apr, f"{kind}_supply_apr": supply_apr}

    stored = rates(
        "stored",
        value_of(state["borrowed"], state["borrow_index"]),
        value_of(state["supplied"], state["supply_index"]),
    )
    accrued = accrue(state, exact.multiply(state["close_time"], 1_000))
    supplied = value_of(accrued.supplied, accrued.supply_index)
    borrowed = value_of(state["borrowed"], accrued.borrow_index)
    total_supplied = base_units(supplied, state["asset_decimals"])
    total_borrowed = base_units(borrowed, state["asset_decimals"])
    return frame.with_columns(
        total_supplied=total_supplied,
        total_borrowed=total_borrowed,
        utilization_bps=utilization_bps(total_borrowed, total_supplied),
        **{f"accrued_{name}": column for name, column in accrued._asdict().items()},
        **stored,
        **rates("accrued", borrowed, supplied),
        borrow_apy_bps=apy_bps(stored["stored_borrow_apr"]),
        supply_apy_bps=apy_bps(stored["stored_supply_apr"]),
    )


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """`SPOKES` and columns of `PROTOCOL_COLUMNS` and `TERMS`, in the order of the hub markets. Raises `ExactError`."""
    projected = project(raw_rows(columns, POOL_COLUMNS))
    terms = terms_of(projected, columns)
    shared = shared_columns(
        projected,
        "xoxno",
        VERSION,
        total_collateral=0,  # what is supplied is the collateral
        last_accrual_time=pl.col("last_timestamp") // 1_000,
        supply_index="accrued_supply_index",
        borrow_index="accrued_borrow_index",
        index_decimals=RAY_DECIMALS,
        apr_decimals=RAY_DECIMALS,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        **{name: terms[name] for name in terms.columns if name != SPOKES},
        **NO_REWARDS,
        pool_label=pl.format("Hub {}", pl.col("pool").str.split("-").list.first()),
        liability_factor_bps=10_000,
        reserve_factor_bps="reserve_factor",
        max_utilization_bps=pl.when(pl.col("max_utilization") < RAY).then(pl.col("max_utilization") // (RAY // BPS)),
    )
    return shared.with_columns(terms[SPOKES])


CURVE = ("base_borrow_rate", "slope1", "slope2", "slope3", "mid_utilization", "optimal_utilization", "max_borrow_rate")
"""The parameters of the rate curve, all RAY; rates are of a year."""


@exact.naming("value of shares")
def value_of(scaled: pl.Series, index: exact.Operand) -> pl.Series:
    """The value of scaled amounts: half up of scaled × index / RAY, in RAY of the whole token."""
    return exact.multiply_divide_half_up(scaled, index, RAY)


@exact.naming("base units")
def base_units(value: pl.Series, decimals: pl.Series) -> pl.Series:
    """A value in RAY as token base units: half up of value / 10^(27 - decimals), the second of two roundings."""
    divisor = exact.column([10 ** (RAY_DECIMALS - places) for places in decimals.to_list()])
    return exact.multiply_divide_half_up(value, 1, divisor)


@exact.naming("utilization")
def utilization(borrowed: pl.Series, supplied: pl.Series) -> pl.Series:
    """The utilization that drives the rates: half up of borrowed × RAY / supplied, values both; it may be above RAY."""
    return exact.or_zero(exact.multiply_divide_half_up, borrowed, RAY, supplied)


@exact.naming("borrow rate")
def borrow_rate(
    utilization: pl.Series,
    base: pl.Series,
    slope1: pl.Series,
    slope2: pl.Series,
    slope3: pl.Series,
    mid: pl.Series,
    optimal: pl.Series,
    highest: pl.Series,
) -> pl.Series:
    """The rate a year that borrowers pay, RAY: three segments over the utilization; both knots belong to the upper one.

    Where optimal and the utilization are RAY the last segment divides by zero.
    """
    used = exact.clamp(utilization, 0, RAY)
    first = used < mid
    third = ~first & (used >= optimal)

    def of_segment(on_first: exact.Operand, on_second: exact.Operand, on_third: exact.Operand) -> pl.Series:
        return exact.select(first, on_first, exact.select(third, on_third, on_second))

    start = of_segment(0, mid, optimal)
    end = of_segment(mid, optimal, RAY)
    slope = of_segment(slope1, slope2, slope3)
    below = exact.add(of_segment(0, slope1, slope1), of_segment(0, 0, slope2))
    run = exact.multiply_divide_half_up(exact.subtract(used, start), slope, RAY)
    rise = exact.multiply_divide_half_up(run, RAY, exact.subtract(end, start))
    rate = exact.add(exact.add(base, below), rise)
    return exact.clamp(rate, exact.INT128_MIN, highest)


def _knots(own: Mapping[str, int]) -> Iterator[int]:
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


RATE_MODEL = RateModel(CURVE, RAY, _knots, exact.by_number(borrow_rate))


@exact.naming("supply rate")
def supply_rate(utilization: pl.Series, borrow_rate: pl.Series, reserve_factor: pl.Series) -> pl.Series:
    """The rate a year that suppliers earn, RAY: hu(hu(U, borrow rate, RAY), BPS - reserve factor, BPS)."""
    earned = exact.multiply_divide_half_up(utilization, borrow_rate, RAY)
    return exact.multiply_divide_half_up(earned, exact.subtract(BPS, reserve_factor), BPS)


def rate_of_a_millisecond(rate: pl.Series) -> pl.Series:
    """The interest of a millisecond at a rate a year, RAY: half up of rate / 31,556,926,000."""
    return exact.multiply_divide_half_up(rate, 1, YEAR_MILLISECONDS)


@exact.naming("growth")
def growth(per_millisecond: pl.Series, milliseconds: exact.Operand) -> pl.Series:
    """The factor by which a debt grows, RAY: eight terms of e^(rate × time), each step rounded half up."""
    x = exact.multiply(per_millisecond, milliseconds)
    power, result = x, exact.add(x, RAY)
    for k in range(2, _SERIES_TERMS + 1):
        power = exact.multiply_divide_half_up(power, x, RAY)
        result = exact.add(result, exact.multiply_divide_half_up(power, 1, factorial(k)))
    return result


def accrue(state: pl.DataFrame, now: exact.Operand) -> Accrued:
    """Bring hub markets to ``now`` (milliseconds), in chunks of at most a year; never back. Raises `ExactError`."""
    remaining = exact.clamp(exact.subtract(now, state["last_timestamp"]), 0, exact.INT128_MAX)
    accrued = Accrued(state["borrow_index"], state["supply_index"], state["supplied"], state["revenue"])
    while (remaining > 0).any():
        chunk = exact.clamp(remaining, 0, YEAR_MILLISECONDS)
        accrued = _accrue_chunk(state, accrued, chunk)
        remaining = exact.subtract(remaining, chunk)
    return accrued


def _accrue_chunk(state: pl.DataFrame, before: Accrued, chunk: pl.Series) -> Accrued:
    """One chunk of this many milliseconds (docs/protocols/xoxno.md, "Formulas"); a row of 0 stays as it is."""
    moves = chunk > 0
    borrowed, reserve_factor = state["borrowed"], state["reserve_factor"]
    debt = value_of(borrowed, before.borrow_index)
    supply = value_of(before.supplied, before.supply_index)
    rate = borrow_rate(utilization(debt, supply), *(state[name] for name in CURVE))
    with exact.naming("borrow index"):
        grown = exact.multiply_divide_half_up(before.borrow_index, growth(rate_of_a_millisecond(rate), chunk), RAY)
        borrow_index = exact.select(moves, exact.clamp(grown, 0, HIGHEST_INDEX), before.borrow_index)
    interest = exact.subtract(value_of(borrowed, borrow_index), debt)
    fee = exact.multiply_divide_half_up(interest, reserve_factor, BPS)
    rewards = exact.subtract(interest, fee)
    with exact.naming("supply index"):
        rises = moves & (rewards != 0) & (supply != 0)
        shares = exact.select(rises, before.supplied, 1)
        # More than HIGHEST_INDEX × shares / RAY changes nothing, and its quotient may need more than 128 bits.
        enough = exact.multiply(exact.clamp(shares, 0, exact.INT128_MAX // _ENOUGH), _ENOUGH)
        most = exact.select(shares > exact.INT128_MAX // _ENOUGH, exact.INT128_MAX, enough)
        owned = exact.clamp(exact.select(rises, exact.add(supply, rewards), 0), 0, most)
        raised = exact.multiply_divide_floor(owned, RAY, shares)
        bounded = exact.clamp(exact.clamp(raised, before.supply_index, exact.INT128_MAX), 0, HIGHEST_INDEX)
        supply_index = exact.select(rises, bounded, before.supply_index)
    with exact.naming("revenue"):
        shortfall = exact.subtract(rewards, exact.subtract(value_of(before.supplied, supply_index), supply))
        owed = exact.select(moves, exact.add(fee, shortfall), 0)
        room = exact.subtract(exact.INT128_MAX, before.supplied)
        # An index above RAY gives fewer shares than are owed, and they fit.
        filling = exact.multiply_divide_ceil(room, exact.clamp(supply_index, 0, RAY), RAY)
        full = (supply_index <= RAY) & (owed >= filling)
        shares = exact.multiply_divide_floor(exact.select(full, 0, owed), RAY, supply_index)
        added = exact.select(full, room, exact.clamp(shares, 0, room))
        return Accrued(borrow_index, supply_index, exact.add(before.supplied, added), exact.add(before.revenue, added))


@exact.basis_points
def apy_bps(rate: pl.Series) -> pl.Series:
    """The yield of a rate a year in whole basis points, Int64, compounded by the day as in XOXNO's own API."""
    return exact.annual_yield_bps_floor(exact.multiply(rate, _DAYS_NUMERATOR), _DAYS, RAY * _DAYS_DENOMINATOR)
