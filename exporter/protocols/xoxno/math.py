"""XOXNO Lending's math over columns of hub markets, function by function as the contract has it.

The formulas are those of docs/protocols/xoxno.md, on the exact operations of `exporter.exact`.

Scales: scaled amounts, their values, indexes, utilization and rates are RAY (27 decimals); the rate of a millisecond
is RAY as well. `cash` and what is published of the totals are token base units, the reserve factor is basis points,
times are milliseconds. RAY × RAY needs up to 256 bits in between, as in the contract; every value with a name must fit
into signed 128 bits. A hub market for which this fails, or that divides by zero, raises an ExactError that carries its
row: `exact.set_aside_failures` then computes the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import factorial
from typing import NamedTuple

import polars as pl

from exporter import exact
from exporter.protocols.curves import RateModel
from exporter.protocols.shared_columns import NO_REWARDS, numbers_of, raw_rows, shared_columns, utilization_bps
from exporter.protocols.xoxno.layout import BPS, HIGHEST_INDEX, PARAMETERS, RAY_DECIMALS, STATE, VERSION
from exporter.protocols.xoxno.spokes import AccruedPool, terms_of
from exporter.tables import SPOKES, TERMS

RAY = 10**RAY_DECIMALS
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


class Curve(NamedTuple):
    """The rate curve of three segments, all RAY; rates are of a year."""

    base: pl.Series
    slope1: pl.Series
    slope2: pl.Series
    slope3: pl.Series
    mid: pl.Series
    optimal: pl.Series
    highest: pl.Series


def project(frame: pl.DataFrame) -> pl.DataFrame:
    """Bring every hub market to the close time of the ledger, and add what is published of it.

    Args:
        frame: a row a hub market: POOL_COLUMNS and `close_time` (unix
            seconds; Int128 or smaller integers), without nulls and not negative, the
            reserve factor at most BPS and the decimals at most 27. Other columns are kept as they are.

    Returns:
        The frame with these columns added: `total_supplied`, `total_borrowed` (accrued, base units; the protocol's
        revenue is part of what is supplied) and `utilization_bps` (Int64, of these two); `accrued_supplied`,
        `accrued_revenue` (scaled), `accrued_supply_index`, `accrued_borrow_index`; `stored_utilization`,
        `stored_borrow_apr`, `stored_supply_apr` and the same three `accrued_` (27 decimals); `borrow_apy_bps`,
        `supply_apy_bps` (Int64, of the stored rates). All are Int128 unless said otherwise.

    Raises:
        ExactOverflowError: with the rows in which a value does not fit into 128 bits.
        ExactDivisionError: with the rows that divide by zero.
        ValueError: for a null.
    """
    state = numbers_of(frame, (*POOL_COLUMNS, "close_time"))
    curve = curve_of(state)

    stored_supplied = value_of(state["supplied"], state["supply_index"])
    stored_borrowed = value_of(state["borrowed"], state["borrow_index"])
    stored_utilization = utilization(stored_borrowed, stored_supplied)
    stored_borrow_apr = borrow_rate(stored_utilization, curve)
    stored_supply_apr = supply_rate(stored_utilization, stored_borrow_apr, state["reserve_factor"])

    accrued = accrue(state, exact.multiply(state["close_time"], 1_000))
    supplied = value_of(accrued.supplied, accrued.supply_index)
    borrowed = value_of(state["borrowed"], accrued.borrow_index)
    accrued_utilization = utilization(borrowed, supplied)
    accrued_borrow_apr = borrow_rate(accrued_utilization, curve)
    accrued_supply_apr = supply_rate(accrued_utilization, accrued_borrow_apr, state["reserve_factor"])

    total_supplied = base_units(supplied, state["asset_decimals"])
    total_borrowed = base_units(borrowed, state["asset_decimals"])
    return frame.with_columns(
        total_supplied.alias("total_supplied"),
        total_borrowed.alias("total_borrowed"),
        utilization_bps(total_borrowed, total_supplied).alias("utilization_bps"),
        accrued.supplied.alias("accrued_supplied"),
        accrued.revenue.alias("accrued_revenue"),
        accrued.supply_index.alias("accrued_supply_index"),
        accrued.borrow_index.alias("accrued_borrow_index"),
        stored_utilization.alias("stored_utilization"),
        stored_borrow_apr.alias("stored_borrow_apr"),
        stored_supply_apr.alias("stored_supply_apr"),
        accrued_utilization.alias("accrued_utilization"),
        accrued_borrow_apr.alias("accrued_borrow_apr"),
        accrued_supply_apr.alias("accrued_supply_apr"),
        apy_bps(stored_borrow_apr).alias("borrow_apy_bps"),
        apy_bps(stored_supply_apr).alias("supply_apy_bps"),
    )


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a hub market, in the order given, and `SPOKES`.

    Nothing modifies the rates here, so their modifier is 1. There is no backstop, and the protocol's own revenue is
    part of what is supplied, so nothing is apart from the totals. Raises `ExactError` with the positions of the hub
    markets for which the contract's math has no result.
    """
    projected = with_terms(with_available(project(raw_rows(columns, POOL_COLUMNS))), columns)
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
        **{name: name for name in (*_OF_SPOKES, *_OF_POOL)},
        **NO_REWARDS,
        pool_label=pl.format("Hub {}", pl.col("pool").str.split("-").list.first()),
        liability_factor_bps=10_000,
        reserve_factor_bps="reserve_factor",
        max_utilization_bps=pl.when(pl.col("max_utilization") < RAY).then(pl.col("max_utilization") // (RAY // BPS)),
    )
    return shared.with_columns(projected[SPOKES])


LIQUIDATION_BUFFER_BPS = 200
"""Of what is supplied, that a loan has to leave as cash."""

_OF_SPOKES: dict[str, pl.DataType] = {
    name: TERMS[name]
    for name in (
        "collateral_factor_bps",
        "liquidation_threshold_bps",
        "liquidation_bonus_bps",
        "supply_cap",
        "borrow_cap",
        "can_be_collateral",
        "can_be_borrowed",
    )
}
_OF_POOL: dict[str, pl.DataType] = {
    name: TERMS[name]
    for name in (
        "can_supply",
        "can_withdraw",
        "can_borrow",
        "can_repay",
        "can_liquidate",
        "can_reason",
        "pool_status",
        "risk_scope",
        "liquidation_kind",
        "available_to_withdraw",
        "available_to_borrow",
        "available_to_supply",
    )
}
_TERMS = _OF_SPOKES | _OF_POOL | {SPOKES: pl.String()}
UNKNOWN_SPOKES = "what its hub or its spokes allow could not be read"


def with_available(projected: pl.DataFrame) -> pl.DataFrame:
    """Add what can be withdrawn and borrowed at the most (Int128, base units) and whether the pool is backed.

    Whatever gates and spokes say (contracts/pool/src/guards.rs, ops/withdraw.rs, ops/borrow.rs): the cash bounds both.
    Neither may leave a utilization above the highest, nor a withdrawal debt without any supply; a loan has to leave
    `LIQUIDATION_BUFFER_BPS` of what is supplied. The protocol's revenue is not for suppliers to withdraw.
    """
    names = (
        "accrued_supplied",
        "accrued_revenue",
        "accrued_supply_index",
        "borrowed",
        "accrued_borrow_index",
        "cash",
        "max_utilization",
        "asset_decimals",
    )
    found = [available(AccruedState(*row)) for row in numbers_of(projected, names).iter_rows()]
    schema: dict[str, pl.DataType] = {
        "available_to_withdraw": pl.Int128(),
        "available_to_borrow": pl.Int128(),
        "backed": pl.Boolean(),
    }
    values = {name: [row[at] for row in found] for at, name in enumerate(schema)}
    return projected.hstack(exact.frame(values, schema))


class AccruedState(NamedTuple):
    """A hub market at the close time, as it is stored: scaled amounts and indexes in RAY, the cash in base units."""

    supplied: int
    revenue: int
    supply_index: int
    borrowed: int
    borrow_index: int
    cash: int
    max_utilization: int
    decimals: int


def available(pool: AccruedState) -> tuple[int, int, bool]:
    """The most that can be withdrawn from and borrowed in a hub market, and whether its supply is backed.

    Here the integers have no bound: what is compared on the way may need more than 128 bits where the result does not.
    """
    unit = 10 ** (RAY_DECIMALS - pool.decimals)
    burnt = min(pool.supplied - shares_to_keep(pool), pool.supplied - pool.revenue)
    claims = pool.supplied * pool.supply_index // RAY // unit
    buffer = (claims * LIQUIDATION_BUFFER_BPS + BPS // 2) // BPS
    lent = shares_to_lend(pool) - pool.borrowed
    owed = -(-pool.borrowed * pool.borrow_index // RAY) // unit
    return (
        max(min(pool.cash, burnt * pool.supply_index // RAY // unit), 0),
        max(min(pool.cash - buffer, lent * pool.borrow_index // RAY // unit), 0),
        claims - pool.cash <= owed,
    )


def _value(shares: int, index: int) -> int:
    value: int = (shares * index + RAY // 2) // RAY
    return value


def _fewest(value: int, index: int) -> int:
    """The fewest shares whose value, half up, is this one or more: shares × index >= (2 × value - 1) × RAY / 2."""
    shares: int = -(-(2 * value - 1) * (RAY // 2) // max(index, 1))
    return shares


def shares_to_keep(pool: AccruedState) -> int:
    """The fewest scaled amounts of supply with which a withdrawal passes.

    hu(debt, RAY, value) <= most where 2 × debt × RAY < (2 × most + 1) × value. A highest utilization of RAY or more is
    none, and debt needs a share.
    """
    if pool.borrowed == 0:
        return 0
    debt = _value(pool.borrowed, pool.borrow_index)
    if pool.max_utilization >= RAY or debt == 0:
        return 1
    return _fewest(2 * debt * RAY // (2 * pool.max_utilization + 1) + 1, pool.supply_index)


def shares_to_lend(pool: AccruedState) -> int:
    """The most scaled amounts of debt with which a loan passes: the converse; the value of the debt has 128 bits."""
    most, value = exact.INT128_MAX, _value(pool.supplied, pool.supply_index)
    if pool.max_utilization < RAY and value != 0:
        most = min(most, -(-(2 * pool.max_utilization + 1) * value // (2 * RAY)) - 1)
    return min(_fewest(most + 1, pool.borrow_index) - 1, exact.INT128_MAX)


def with_terms(projected: pl.DataFrame, columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """Add who may do what, and at what risk, by the spokes that list the pools; null where not known."""
    found: dict[str, list[object]] = {name: [] for name in _TERMS}
    own = (
        "accrued_supply_index",
        "accrued_borrow_index",
        "asset_decimals",
        "available_to_withdraw",
        "available_to_borrow",
        "backed",
    )
    rows = zip(
        projected.select(own).iter_rows(), columns["paused"], columns["hub_active"], columns["spokes"], strict=True
    )
    for (supply_index, borrow_index, places, withdrawable, borrowable, backed), paused, active, spokes in rows:
        row: dict[str, object] = {"available_to_withdraw": withdrawable, "available_to_borrow": borrowable}
        if isinstance(spokes, tuple) and isinstance(active, bool):
            enters = active and not paused
            pool = AccruedPool(supply_index, borrow_index, 10 ** (RAY_DECIMALS - places), borrowable, enters, backed)
            terms = terms_of(spokes, pool)
            status = "active" if spokes else "unlisted"
            row |= {name: terms.get(name) for name in (*_OF_SPOKES, SPOKES)}
            row |= {
                "can_supply": terms["can_supply"],
                "can_borrow": terms["can_borrow"],
                **dict.fromkeys(("can_withdraw", "can_repay", "can_liquidate"), terms["can_exit"]),
                "pool_status": "hub_inactive" if not active else status if backed else "insolvent",
                "risk_scope": "spoke",
                "liquidation_kind": "range",
                "available_to_borrow": min(borrowable, terms["room_to_borrow"]),
                "available_to_supply": terms["room_to_supply"],
            }
        else:
            row["can_reason"] = UNKNOWN_SPOKES
        for name, values in found.items():
            values.append(row.get(name))
    return projected.with_columns(exact.frame(found, _TERMS))


def curve_of(state: pl.DataFrame) -> Curve:
    """The rate curve from the columns that a ``Params`` entry fills, by their names."""
    return Curve(
        base=state["base_borrow_rate"],
        slope1=state["slope1"],
        slope2=state["slope2"],
        slope3=state["slope3"],
        mid=state["mid_utilization"],
        optimal=state["optimal_utilization"],
        highest=state["max_borrow_rate"],
    )


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
    """The utilization U that drives the rates: half up of borrowed × RAY / supplied, 0 where nothing is supplied.

    Both are values, not scaled amounts. It may be above RAY.
    """
    return exact.or_zero(exact.multiply_divide_half_up, borrowed, RAY, supplied)


@exact.naming("borrow rate")
def borrow_rate(utilization: pl.Series, curve: Curve) -> pl.Series:
    """The rate a year that borrowers pay, RAY: three segments over the utilization U, which counts as RAY above it.

    U < mid:              base + hu(hu(U, slope1, RAY), RAY, mid)
    mid <= U < optimal:   base + slope1 + hu(hu(U - mid, slope2, RAY), RAY, optimal - mid)
    optimal <= U:         base + slope1 + slope2 + hu(hu(U - optimal, slope3, RAY), RAY, RAY - optimal)

    with hu(x, y, d) the half up of x × y / d, and never above the highest rate. Both knots belong to the upper segment.
    With optimal = RAY = U the last divides by zero.
    """
    used = exact.clamp(utilization, 0, RAY)
    first = used < curve.mid
    third = ~first & (used >= curve.optimal)

    def of_segment(on_first: exact.Operand, on_second: exact.Operand, on_third: exact.Operand) -> pl.Series:
        return exact.select(first, on_first, exact.select(third, on_third, on_second))

    start = of_segment(0, curve.mid, curve.optimal)
    end = of_segment(curve.mid, curve.optimal, RAY)
    slope = of_segment(curve.slope1, curve.slope2, curve.slope3)
    below = exact.add(of_segment(0, curve.slope1, curve.slope1), of_segment(0, 0, curve.slope2))
    run = exact.multiply_divide_half_up(exact.subtract(used, start), slope, RAY)
    rise = exact.multiply_divide_half_up(run, RAY, exact.subtract(end, start))
    rate = exact.add(exact.add(curve.base, below), rise)
    return exact.clamp(rate, exact.INT128_MIN, curve.highest)


def _knots(own: Mapping[str, int]) -> Iterator[int]:
    """Both knots, and where the highest rate is reached on the way to one."""
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


RATE_MODEL = RateModel(
    (
        "base_borrow_rate",
        "slope1",
        "slope2",
        "slope3",
        "mid_utilization",
        "optimal_utilization",
        "max_borrow_rate",
    ),
    RAY,
    _knots,
    lambda used, *curve: borrow_rate(used, Curve(*curve)),
)


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
    """The factor by which a debt grows, RAY: eight terms of the series of e^x with x = rate × time.

    RAY + the sum for k = 1 to 8 of x^k / k!, where each power is the half up of the one before × x / RAY, and each
    division rounds half up.
    """
    x = exact.multiply(per_millisecond, milliseconds)
    power, result = x, exact.add(x, RAY)
    for k in range(2, _SERIES_TERMS + 1):
        power = exact.multiply_divide_half_up(power, x, RAY)
        result = exact.add(result, exact.multiply_divide_half_up(power, 1, factorial(k)))
    return result


def accrue(state: pl.DataFrame, now: exact.Operand) -> Accrued:
    """Bring hub markets to a time as the contract does, in chunks of at most a year, with the curve read in each.

    Args:
        state: POOL_COLUMNS, Int128.
        now: milliseconds since 1970. For a hub market whose last accrual is later no time has passed.

    Raises:
        ExactError: with the rows in which a value has no result.
    """
    remaining = exact.clamp(exact.subtract(now, state["last_timestamp"]), 0, exact.INT128_MAX)
    accrued = Accrued(state["borrow_index"], state["supply_index"], state["supplied"], state["revenue"])
    while (remaining > 0).any():
        chunk = exact.clamp(remaining, 0, YEAR_MILLISECONDS)
        accrued = _accrue_chunk(state, accrued, chunk)
        remaining = exact.subtract(remaining, chunk)
    return accrued


def _accrue_chunk(state: pl.DataFrame, before: Accrued, chunk: pl.Series) -> Accrued:
    """One chunk of this many milliseconds; a row of 0 stays as it is.

    The debt grows by its index. Of the interest the reserve factor is the fee; the rest, the rewards, raises the supply
    index, rounded down. Without rewards, or where what is supplied is worth nothing, that index stays as it is. The fee
    and what the rounding leaves become new shares of the protocol, in `supplied` and `revenue` alike.
    """
    moves = chunk > 0
    borrowed, reserve_factor = state["borrowed"], state["reserve_factor"]
    debt = value_of(borrowed, before.borrow_index)
    supply = value_of(before.supplied, before.supply_index)
    rate = borrow_rate(utilization(debt, supply), curve_of(state))
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
    """The yield of a rate a year in whole basis points, Int64, rounded down, in the form of XOXNO's own API.

    floor(((1 + rate × 86,400,000 / 31,556,926,000)^365 - 1) × 10000), exactly.
    """
    return exact.annual_yield_bps_floor(exact.multiply(rate, _DAYS_NUMERATOR), _DAYS, RAY * _DAYS_DENOMINATOR)
