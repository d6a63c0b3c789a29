"""Blend's interest math over columns of reserves, function by function as the contract has it.

Formulas: docs/protocols/blend.md. Both contract generations are computed in one frame: they differ in the scale of the
rates (R), the scale of the rate modifier (M) and the cap of the utilization. Utilization, rates a year and every
configured factor have 7 decimals in both (S7); b_rate and d_rate have 9 (v1) or 12 (v2); ir_mod has 9 (v1) or 7 (v2);
supplies, credit and totals are token base units.

Every value that has a name in the contract must fit into signed 128 bits, as it must there; products before a
division may be wider. Otherwise an ExactError carries the rows. What a guard of the contract skips cannot raise here:
its inputs are replaced by harmless ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from exporter import exact_columns as exact
from exporter.errors import ExactOverflowError
from exporter.protocols.blend import layout
from exporter.protocols.blend.emissions import RATE_DECIMALS, SIDES
from exporter.protocols.blend.terms import TERM_COLUMNS, terms
from exporter.protocols.curves import RateModel
from exporter.protocols.shared_columns import numbers_of, raw_rows, shared_columns, utilization_bps
from exporter.tables import TERMS

S7 = 10**7
SECONDS_PER_YEAR = 31_536_000
_MODIFIER_DECIMALS = {"v1": 9, "v2": 7}
RATE_SCALES = {generation: 10**decimals for generation, decimals in layout.RATE_DECIMALS.items()}
MODIFIER_SCALES = {generation: 10**decimals for generation, decimals in _MODIFIER_DECIMALS.items()}
BORROW_PERIODS = 365
SUPPLY_PERIODS = 52

_STEEP_UTILIZATION = 9_500_000  # where the third slope starts; a constant of the contract, not max_util

RESERVE_COLUMNS = (*layout.STATE, "util", "r_base", "r_one", "r_two", "r_three", "reactivity", "bstop_rate")
"""The raw columns that `project` reads in addition to `generation`: ResData, ResConfig and the pool's bstop_rate."""


class Accrued(NamedTuple):
    """The state of reserves at a time, as the contract would store it, with the totals it amounts to."""

    b_rate: pl.Series
    d_rate: pl.Series
    ir_mod: pl.Series
    backstop_credit: pl.Series
    total_supplied: pl.Series
    total_borrowed: pl.Series


REWARD_COLUMNS = {
    f"{side}_reward_{part}": TERMS[f"{side}_reward_{part}"]
    for side in SIDES
    for part in ("per_second", "expiration", "reason")
} | {"supply_reward_index": TERMS["supply_reward_index"]}


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `PROTOCOL_COLUMNS` and `TERMS`, a row a reserve, in the order given. Raises `ExactError`."""
    reserves = project(raw_rows(columns, (*RESERVE_COLUMNS, *TERM_COLUMNS), "generation", "reward_token"))
    generation = pl.col("generation")
    return shared_columns(
        reserves.hstack(rewards(columns)),
        "blend",
        generation,
        total_collateral=0,  # in Blend collateral is supplied, and is in that total
        last_accrual_time="last_time",
        supply_index="accrued_b_rate",
        borrow_index="accrued_d_rate",
        index_decimals=generation.replace_strict(layout.RATE_DECIMALS, return_dtype=pl.Int64),
        apr_decimals=7,
        utilization_decimals=7,
        rate_modifier="accrued_ir_mod",
        rate_modifier_decimals=generation.replace_strict(_MODIFIER_DECIMALS, return_dtype=pl.Int64),
        backstop_credit="accrued_backstop_credit",
        reward_token="reward_token",
        reward_decimals=generation.replace_strict(RATE_DECIMALS, return_dtype=pl.Int64),
        **{name: name for name in REWARD_COLUMNS},
        **terms(reserves),
    )


def rewards(columns: Mapping[str, list[Any]]) -> pl.DataFrame:
    """The reward of each side of the reserves in BLND at its close time: `REWARD_COLUMNS`."""
    names = ("close_time", "b_supply", "decimals", *(f"{side}_emission" for side in SIDES))
    rows = []
    for time, shares, decimals, *emissions in zip(*(columns[name] for name in names), strict=True):
        by_side = dict(zip(SIDES, emissions, strict=True))
        row = {"supply_reward_index": by_side["supply"].index_at(time, shares, decimals)}
        for side, emission in by_side.items():
            paid = zip(("per_second", "expiration", "reason"), emission.at(time)[:3], strict=True)
            row |= {f"{side}_reward_{part}": value for part, value in paid}
        rows.append(row)
    return exact.frame({name: [row[name] for row in rows] for name in REWARD_COLUMNS}, REWARD_COLUMNS)


def project(frame: pl.DataFrame) -> pl.DataFrame:
    """Bring every reserve to the close time of the ledger, and add what is published of it.

    ``frame`` has `generation` ("v1" or "v2"), RESERVE_COLUMNS and `close_time` (unix seconds), none null. Added are the
    totals, the accrued state, and rates of the stored and of the accrued state, Int128; `utilization_bps` and the
    yields of the stored rates, Int64. Raises `ExactError`, and `ValueError` for a null or an unknown generation.
    """
    unknown = set(frame["generation"].unique().to_list()) - set(RATE_SCALES)
    if unknown:
        raise ValueError(f"unknown Blend generation {unknown.pop()!r}; known: {', '.join(RATE_SCALES)}")
    state = numbers_of(frame, (*RESERVE_COLUMNS, "close_time"))
    is_v2 = frame["generation"] == "v2"
    rate_scale = exact.select(is_v2, RATE_SCALES["v2"], RATE_SCALES["v1"])
    modifier_scale = exact.select(is_v2, MODIFIER_SCALES["v2"], MODIFIER_SCALES["v1"])

    def rates(kind: str, borrowed: pl.Series, supplied: pl.Series, ir_mod: pl.Series) -> dict[str, pl.Series]:
        used = utilization(borrowed, supplied, state["b_supply"], is_v2)
        borrow_apr = borrow_rate(used, ir_mod, modifier_scale, *(state[name] for name in RATE_MODEL.parameters))
        supply_apr = supply_rate(borrow_apr, used, state["bstop_rate"])
        return {f"{kind}_utilization": used, f"{kind}_borrow_apr": borrow_apr, f"{kind}_supply_apr": supply_apr}

    supplied = total_supply(state["b_supply"], state["b_rate"], rate_scale)
    borrowed = total_liabilities(state["d_supply"], state["d_rate"], rate_scale)
    stored = rates("stored", borrowed, supplied, state["ir_mod"])
    used, borrow_apr = stored["stored_utilization"], stored["stored_borrow_apr"]
    accrued = accrue(state, rate_scale, modifier_scale, supplied, borrowed, used, borrow_apr)
    return frame.with_columns(
        total_supplied=accrued.total_supplied,
        total_borrowed=accrued.total_borrowed,
        utilization_bps=utilization_bps(accrued.total_borrowed, accrued.total_supplied),
        **{f"accrued_{name}": getattr(accrued, name) for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")},
        **stored,
        **rates("accrued", accrued.total_borrowed, accrued.total_supplied, accrued.ir_mod),
        borrow_apy_bps=exact.annual_yield_bps_floor(stored["stored_borrow_apr"], BORROW_PERIODS, S7),
        supply_apy_bps=exact.annual_yield_bps_floor(stored["stored_supply_apr"], SUPPLY_PERIODS, S7),
    )


@exact.naming("total supply")
def total_supply(b_supply: pl.Series, b_rate: pl.Series, rate_scale: pl.Series) -> pl.Series:
    """The supply, in token base units: floor(b_supply × b_rate / R)."""
    return exact.multiply_divide_floor(b_supply, b_rate, rate_scale)


@exact.naming("total liabilities")
def total_liabilities(d_supply: pl.Series, d_rate: pl.Series, rate_scale: pl.Series) -> pl.Series:
    """The debt of all borrowers, in token base units: ceil(d_supply × d_rate / R)."""
    return exact.multiply_divide_ceil(d_supply, d_rate, rate_scale)


@exact.naming("utilization")
def utilization(liabilities: pl.Series, supply: pl.Series, b_supply: pl.Series, is_v2: pl.Series) -> pl.Series:
    """The share of the supply that is lent, 7 decimals, rounded up; 0 without liabilities.

    v2 caps it at S7. In v1 shares that are worth nothing divide by zero; without shares it is 0, as in Blend's SDK.
    """
    capped = is_v2 & (liabilities >= supply)
    divided = (liabilities != 0) & ~capped & (is_v2 | (b_supply != 0))
    quotient = exact.multiply_divide_ceil(exact.select(divided, liabilities, 0), S7, exact.select(divided, supply, 1))
    return exact.select(capped & (liabilities != 0), S7, quotient)


@exact.naming("borrow rate")
def borrow_rate(
    utilization: pl.Series,
    ir_mod: pl.Series,
    modifier_scale: pl.Series,
    target: pl.Series,
    r_base: pl.Series,
    r_one: pl.Series,
    r_two: pl.Series,
    r_three: pl.Series,
) -> pl.Series:
    """The rate a year that borrowers pay, 7 decimals: three slopes; both knots belong to the lower one.

    With a utilization of 0 the part of the slope is 0, also for a target of 0 (the contract never asks for that rate;
    the SDK 3.3.0 does). Beyond 95 % the contract adds rates as u32 (interest.rs, calc_accrual): `ExactOverflowError`.
    """
    first = utilization <= target
    third = ~first & (utilization > _STEEP_UTILIZATION)

    start = exact.select(first, 0, exact.select(third, _STEEP_UTILIZATION, target))
    span = exact.select(third, S7 - _STEEP_UTILIZATION, exact.subtract(_STEEP_UTILIZATION, target))
    span = exact.select(first, target, span)
    span = exact.select(utilization == 0, 1, span)
    part = exact.multiply_divide_ceil(exact.subtract(utilization, start), S7, span)

    slope = exact.select(first, r_one, exact.select(third, r_three, r_two))
    sloped = exact.multiply_divide_ceil(part, slope, S7)

    reached = exact.select(first, r_base, exact.add(r_base, r_one))
    reached = exact.select(third, exact.add(reached, r_two), reached)
    beyond = (third & (reached >= 2**32)).arg_true()
    if beyond.len():
        raise ExactOverflowError("the sum of the three rates has more than 32 bits", beyond.to_list())
    modified = exact.add(reached, exact.select(third, 0, sloped))
    rate = exact.multiply_divide_ceil(modified, ir_mod, modifier_scale)
    return exact.add(rate, exact.select(third, sloped, 0))


RATE_MODEL = RateModel(
    ("util", "r_base", "r_one", "r_two", "r_three"),
    S7,
    lambda own: (own["util"], _STEEP_UTILIZATION),
    exact.by_number(borrow_rate),
    lambda row: (row["rate_modifier"], 10 ** row["rate_modifier_decimals"]),
)


@exact.naming("supply rate")
def supply_rate(borrow_rate: pl.Series, utilization: pl.Series, bstop_rate: pl.Series) -> pl.Series:
    """The rate a year that suppliers earn, 7 decimals: floor(ir × floor((S7 - bstop_rate) × u / S7) / S7).

    This is the definition of Blend's SDK. One beyond 128 bits is INT128_MAX, or minus that.
    """

    @exact.at_most(exact.INT128_MAX)
    def limited(ir: pl.Series, u: pl.Series, taken: pl.Series) -> pl.Series:
        # Of a rate of 0 nothing is kept, however large the rest.
        kept = exact.multiply_divide_floor(exact.subtract(S7, taken), exact.select(ir == 0, 0, u), S7)
        return exact.multiply_divide_floor(ir, kept, S7)

    rate = limited(borrow_rate, utilization, bstop_rate)
    negative = (borrow_rate < 0) ^ (utilization < 0) ^ (bstop_rate > S7)
    return exact.select(negative & (rate == exact.INT128_MAX), -exact.INT128_MAX, rate)


def accrue(
    state: pl.DataFrame,
    rate_scale: pl.Series,
    modifier_scale: pl.Series,
    supply: pl.Series,
    liabilities: pl.Series,
    utilization: pl.Series,
    borrow_rate: pl.Series,
) -> Accrued:
    """The state after the interest of the time since `last_time`, at the one simple rate of the stored state."""
    accrues = (state["last_time"] < state["close_time"]) & (state["b_supply"] != 0) & (utilization != 0)
    # With no seconds gone the formulas below leave everything as it is, whatever the rest; only the modifier would
    # still be clamped.
    seconds = exact.select(accrues, exact.subtract(state["close_time"], state["last_time"]), 0)

    target, reactivity = state["util"], state["reactivity"]
    ir_mod = next_modifier(state["ir_mod"], seconds, utilization, target, reactivity, modifier_scale)
    accrual = loan_accrual(borrow_rate, seconds, rate_scale)
    with exact.naming("accrued d_rate"):
        d_rate = exact.multiply_divide_ceil(accrual, state["d_rate"], rate_scale)
    borrowed = total_liabilities(state["d_supply"], d_rate, rate_scale)
    with exact.naming("gain"):
        gain = exact.subtract(borrowed, liabilities)
    b_rate, credit = distribute_gain(gain, supply, state["b_supply"], state["b_rate"], state["bstop_rate"], rate_scale)
    with exact.naming("accrued backstop credit"):
        backstop_credit = exact.add(state["backstop_credit"], credit)
    return Accrued(
        b_rate=b_rate,
        d_rate=d_rate,
        ir_mod=exact.select(accrues, ir_mod, state["ir_mod"]),
        backstop_credit=backstop_credit,
        total_supplied=total_supply(state["b_supply"], b_rate, rate_scale),
        total_borrowed=borrowed,
    )


@exact.naming("rate modifier")
def next_modifier(
    ir_mod: pl.Series,
    seconds: pl.Series,
    utilization: pl.Series,
    target: pl.Series,
    reactivity: pl.Series,
    modifier_scale: pl.Series,
) -> pl.Series:
    """The modifier after `seconds` at a utilization off its target, kept within a tenth and ten times of 1."""
    weight = exact.multiply(exact.multiply(seconds, reactivity), exact.floor_divide(modifier_scale, S7))
    step = exact.multiply_divide_truncate(exact.subtract(utilization, target), weight, S7)
    lowest, highest = exact.floor_divide(modifier_scale, 10), exact.multiply(modifier_scale, 10)
    return exact.clamp(exact.add(ir_mod, step), lowest, highest)


@exact.naming("loan accrual")
def loan_accrual(borrow_rate: pl.Series, seconds: pl.Series, rate_scale: pl.Series) -> pl.Series:
    """The factor by which debt grows, scaled by R; the share of the year is truncated before it meets the rate."""
    time_weight = exact.multiply_divide_floor(seconds, rate_scale, SECONDS_PER_YEAR)
    return exact.add(rate_scale, exact.multiply_divide_ceil(time_weight, borrow_rate, S7))


@exact.naming("accrued b_rate")
def distribute_gain(
    gain: pl.Series,
    supply: pl.Series,
    b_supply: pl.Series,
    b_rate: pl.Series,
    bstop_rate: pl.Series,
    rate_scale: pl.Series,
) -> tuple[pl.Series, pl.Series]:
    """The new b_rate, and what the backstop is credited. Without a gain b_rate stays: it may be off the formula."""
    gains = gain > 0
    gain = exact.select(gains, gain, 0)
    credit = exact.multiply_divide_floor(gain, bstop_rate, S7)
    new_supply = exact.add(supply, exact.subtract(gain, credit))
    risen = exact.multiply_divide_floor(
        exact.select(gains, new_supply, 0), rate_scale, exact.select(gains, b_supply, 1)
    )
    return exact.select(gains, risen, b_rate), credit
