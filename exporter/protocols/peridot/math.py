"""Peridot's math over columns of vaults (docs/protocols/peridot.md, "Formulas").

Scales: utilization, rates a year and factors have 6 decimals, the borrow index 18; amounts are token base units. The
contract computes in unsigned 128 bits; here every value that has a name must fit into signed 128, and a vault for
which one does not raises an ExactError that carries its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from exporter import exact_columns as exact
from exporter.exact_columns import failure
from exporter.protocols.curves import RateModel
from exporter.protocols.peridot.layout import CURVE, NUMBERS, PAUSES, SCALE, SPEEDS, VERSION, BoostRule
from exporter.protocols.shared_columns import (
    Given,
    numbers_of,
    raw_rows,
    shared_columns,
    simple_yield_bps,
    utilization_bps,
    within,
)
from exporter.tables import PROTOCOL_COLUMNS
from exporter.tree.values import RewardReason

SECONDS_PER_YEAR = 31_536_000
MAX_YEARLY_RATE = 10_000_000
BOOST_CACHE_SECONDS = 3_600
BOOST_TOLERANCE_BPS = 500

_BPS = SCALE // 10_000

TERM_COLUMNS = (
    *(f"{what}_paused_until" for what in PAUSES),
    "governed",
    "rates_ready",
    "supply_cap",
    "borrow_cap",
    "collateral_factor",
    "incentive",
)
VAULT_COLUMNS = (
    "net_cash",
    "receipt_supply",
    *CURVE,
    "live_cash",
    "managed_cash",
    "boost_rule",
    "boost_quoted",
    *(name for name in NUMBERS if name not in TERM_COLUMNS),
)
"""The raw columns that the numbers follow from; all but ``net_cash`` and ``fixed_rate`` are at least 0.

``net_cash`` is what the vault counts as its cash, with what is boosted, less reserves and admin fees. The rate takes
other cash: ``live_cash``, what the vault has of the token, and what counts of the boosted. Of that, ``boost_quoted`` is
worth now, ``boost_cached`` was at ``boost_cached_at``, and ``boost_rule`` is a `BoostRule`. ``fixed_rate`` counts where
the model refuses to answer, -1 where there is none.
"""

UNSURE_COLUMNS = ("listed", "borrow_principal", "payable", *(f"{side}_speed" for side in SPEEDS))
"""The raw columns of terms that may be null: where the debt is held against the borrow cap, or else where not known.

``payable`` is what the vault has of its token, with what is boosted; speeds are rewards a second.
"""


class Accrued(NamedTuple):
    """The utilization and the rate before an accrual, and after it the debt, its index, and what is set aside."""

    used: pl.Series
    rate: pl.Series
    borrowed: pl.Series
    borrow_index: pl.Series
    reserves: pl.Series
    admin_fees: pl.Series
    boost_cached: pl.Series


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `PROTOCOL_COLUMNS`, a row a vault, in the order given, at the close time.

    Rows that the contract refuses have no result: without a rate, or with one above 1000 percent; of
    `BoostRule.UNKNOWN` where its two rules differ; with only one of receipt tokens and what is owned.
    """
    raw = raw_rows(columns, (*VAULT_COLUMNS, *TERM_COLUMNS, *UNSURE_COLUMNS), "reward_token")
    unknown = raw["boost_rule"] == BoostRule.UNKNOWN
    quoted, cached = (
        _projected(raw.with_columns(boost_rule=exact.select(unknown, int(rule), raw["boost_rule"])))
        for rule in (BoostRule.QUOTED, BoostRule.CACHED)
    )
    rows = sorted({row for name in PROTOCOL_COLUMNS for row in quoted[name].ne_missing(cached[name]).arg_true()})
    if rows:
        raise failure("one rate: its code is not known, and may count boosted cash in two ways that differ", rows)
    return quoted


def _projected(raw: pl.DataFrame) -> pl.DataFrame:
    state = numbers_of(raw, (*VAULT_COLUMNS, "close_time"))
    accrued = accrue(state)
    kept = exact.clamp(exact.add(state["reserve_factor"], state["admin_fee"]), 0, SCALE)
    aside = exact.add(accrued.reserves, accrued.admin_fees)
    owned = total_underlying(state["net_cash"], state["total_borrowed"])
    supplied = total_underlying(
        exact.subtract(state["net_cash"], exact.subtract(aside, _set_aside(state))), accrued.borrowed
    )
    accrued_used, accrued_rate, _ = _rate(state, accrued.borrowed, aside, accrued.boost_cached)
    earned = supply_rate(accrued.rate, state["total_borrowed"], owned, kept)
    exchange = exchange_rate(supplied, state["receipt_supply"], state["initial_exchange_rate"])
    supply_cap, borrow_cap = (raw.select(cap).to_series() for cap in _capped.values())
    free = exact.subtract(supplied, accrued.borrowed)
    principal = exact.select(raw["borrow_principal"].is_null(), accrued.borrowed, raw["borrow_principal"])
    return shared_columns(
        raw,
        "peridot",
        VERSION,
        total_supplied=supplied,
        total_borrowed=accrued.borrowed,
        total_collateral=0,  # receipt tokens are the collateral, and supplied
        last_accrual_time="last_update_time",
        utilization_bps=utilization_bps(accrued.borrowed, supplied),
        supply_apy_bps=simple_yield_bps(earned, SCALE),
        borrow_apy_bps=simple_yield_bps(accrued.rate, SCALE),
        supply_index=exact.multiply(exchange, 10**12),
        borrow_index=accrued.borrow_index,
        index_decimals=18,
        stored_supply_apr=earned,
        stored_borrow_apr=accrued.rate,
        accrued_supply_apr=supply_rate(accrued_rate, accrued.borrowed, supplied, kept),
        accrued_borrow_apr=accrued_rate,
        apr_decimals=6,
        stored_utilization=accrued.used,
        accrued_utilization=accrued_used,
        utilization_decimals=6,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=aside,
        share_token="pool",  # the vault itself
        share_supply="receipt_supply",
        available_to_withdraw=within(raw["payable"], free),
        available_to_borrow=within(raw["payable"], free, exact.subtract(borrow_cap, principal)),
        available_to_supply=within(exact.subtract(supply_cap, supplied)),
        **_TERMS,
    )


_open = {what: pl.col("close_time") > pl.col(f"{what}_paused_until") for what in PAUSES}
_governed, _ready, _listed = (pl.col(name) != 0 for name in ("governed", "rates_ready", "listed"))
_capped = {name: pl.when(pl.col(name) > 0).then(pl.col(name)) for name in ("supply_cap", "borrow_cap")}
_factor = pl.col("collateral_factor") // _BPS
_paid = {
    side: pl.when((pl.col(f"{side}_speed") == 0) | pl.col("reward_token").is_not_null()).then(pl.col(f"{side}_speed"))
    for side in SPEEDS
}
_TERMS: dict[str, Given] = {
    "can_supply": _open["deposits"],
    "can_withdraw": _open["redemptions"],
    "can_borrow": pl.when(~_open["borrowing"] | ~_ready)
    .then(pl.lit(False))
    .when(_listed | ~_governed)
    .then(pl.lit(True)),
    "can_repay": pl.lit(True),
    "can_liquidate": pl.when(~_open["liquidations"] | ~_governed).then(pl.lit(False)).otherwise(_listed),
    "can_reason": pl.when(_listed.is_null() & _governed)
    .then(pl.lit("the controller has no list of the vaults it supports"))
    .when(~_listed & _governed)
    .then(pl.lit("the controller does not list the vault: nothing says whether it still lets anybody borrow")),
    "pool_status": pl.when(~_open["deposits"] & ~_open["borrowing"])
    .then(pl.lit("paused"))
    .when(pl.all_horizontal(*_open.values()))
    .then(pl.lit("active"))
    .otherwise(pl.lit("partly_paused")),
    "risk_scope": pl.lit("reserve"),
    "collateral_factor_bps": _factor,
    "liquidation_threshold_bps": _factor,
    "liability_factor_bps": 10_000,
    "liquidation_bonus_bps": (pl.col("incentive") // _BPS - 10_000).clip(0),
    "liquidation_kind": pl.lit("fixed"),
    **_capped,
    "reserve_factor_bps": (pl.col("reserve_factor") + pl.col("admin_fee")).clip(0, SCALE) // _BPS,
    "can_be_collateral": _factor > 0,
    "can_be_borrowed": _ready,
    "reward_token": "reward_token",
    "reward_decimals": 0,
    **{f"{side}_reward_per_second": paid for side, paid in _paid.items()},
    **{
        f"{side}_reward_reason": pl.when(paid.is_null())
        .then(pl.lit(RewardReason.UNREAD))
        .when(paid == 0)
        .then(pl.lit(RewardReason.NO_EMISSIONS))
        .otherwise(pl.lit(RewardReason.VALID))
        for side, paid in _paid.items()
    },
}
"""Who may do what, and at what risk (docs/protocols/peridot.md, "Statuses" and "Risk")."""


def accrue(state: pl.DataFrame) -> Accrued:
    """Bring vaults to their `close_time`, as their next operation would; the state is of `VAULT_COLUMNS`."""
    borrowed = state["total_borrowed"]
    used, rate, cached = _rate(state, borrowed, _set_aside(state), state["boost_cached"])
    seconds = elapsed_seconds(state["last_update_time"], state["close_time"])
    with exact.naming("interest"):
        product = exact.multiply(exact.multiply(borrowed, rate), seconds)
        interest = exact.floor_divide(product, SECONDS_PER_YEAR * SCALE)
    with exact.naming("borrow index"):
        growth = exact.or_zero(exact.multiply_divide_floor, interest, state["borrow_index"], borrowed)
        index = exact.add(state["borrow_index"], growth)
    return Accrued(
        used,
        rate,
        exact.add(borrowed, interest),
        index,
        exact.add(state["total_reserves"], exact.multiply_divide_floor(interest, state["reserve_factor"], SCALE)),
        exact.add(state["total_admin_fees"], exact.multiply_divide_floor(interest, state["admin_fee"], SCALE)),
        cached,
    )


def _set_aside(state: pl.DataFrame) -> pl.Series:
    return exact.add(state["total_reserves"], state["total_admin_fees"])


def _rate(
    state: pl.DataFrame, borrowed: pl.Series, aside: pl.Series, cached: pl.Series
) -> tuple[pl.Series, pl.Series, pl.Series]:
    """The utilization, the rate a year, and the cached boosted cash. No rate, or above 1000 percent, is refused."""
    boosted, cached = boosted_cash(state, borrowed, aside, cached)
    used, refused = utilization(borrowed, exact.add(state["live_cash"], boosted), aside)
    rate = borrow_rate(exact.select(refused, 0, used), *(state[name] for name in CURVE))
    rate = exact.select(refused, state["fixed_rate"], rate)
    nothing = "a rate: its model refuses to answer, because more is set aside than there is, and there is no other"
    for bad, what in (
        (rate < 0, nothing),
        (rate > MAX_YEARLY_RATE, "a rate of at most 1000 percent a year"),
    ):
        if bad.any():
            raise failure(what, bad.arg_true().to_list())
    return used, rate, cached


@exact.naming("boosted cash")
def boosted_cash(
    state: pl.DataFrame, borrowed: pl.Series, aside: pl.Series, cached: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """The boosted cash that counts for the rate where anything is borrowed, and the cached value after that."""
    quotes = state["boost_rule"] == BoostRule.QUOTED
    deposited = exact.add(state["total_deposited"], aside)
    implied = exact.subtract(exact.subtract(deposited, borrowed), state["managed_cash"])
    implied = exact.clamp(implied, 0, exact.INT128_MAX)
    age = elapsed_seconds(state["boost_cached_at"], state["close_time"])
    reported = exact.select(age <= BOOST_CACHE_SECONDS, cached, implied)
    reported = exact.select(quotes, state["boost_quoted"], reported)
    known = exact.select(cached > implied, cached, implied)
    most = exact.add(known, exact.multiply_divide_floor(known, BOOST_TOLERANCE_BPS, 10_000))
    return exact.select(reported < most, reported, most), exact.select(quotes, reported, cached)


@exact.naming("total underlying")
def total_underlying(net_cash: pl.Series, borrowed: pl.Series) -> pl.Series:
    """What suppliers own, not below 0."""
    return exact.clamp(exact.add(net_cash, borrowed), 0, exact.INT128_MAX)


@exact.naming("utilization")
def utilization(borrowed: pl.Series, cash: pl.Series, aside: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The rate model's utilization, and whether it refuses to answer because more is set aside than there is.

    Where the model refuses, everything counts as lent.
    """
    divisor = exact.subtract(exact.add(cash, borrowed), aside)
    refused = (divisor < 0) & (borrowed != 0)
    divided = divisor > 0
    share = exact.multiply_divide_floor(exact.select(divided, borrowed, 0), SCALE, exact.select(divided, divisor, 1))
    return exact.select(refused, SCALE, exact.clamp(share, 0, SCALE)), refused


@exact.naming("borrow rate")
def borrow_rate(
    used: pl.Series, base: pl.Series, multiplier: pl.Series, jump_multiplier: pl.Series, kink: pl.Series
) -> pl.Series:
    """The jump rate model: another slope above the kink."""
    below = exact.clamp(used, 0, kink)
    slope = exact.add(base, exact.multiply_divide_floor(below, multiplier, SCALE))
    return exact.add(slope, exact.multiply_divide_floor(exact.subtract(used, below), jump_multiplier, SCALE))


RATE_MODEL = RateModel(tuple(CURVE), SCALE, lambda own: (own["kink"],), exact.by_number(borrow_rate))


@exact.naming("supply rate")
def supply_rate(rate: pl.Series, borrowed: pl.Series, owned: pl.Series, kept: pl.Series) -> pl.Series:
    """The suppliers' annual rate; ``kept`` is the reserve factor and the admin fee together."""
    lent = exact.clamp(exact.or_zero(exact.multiply_divide_floor, borrowed, SCALE, owned), 0, SCALE)
    passed_on = exact.multiply_divide_floor(rate, exact.subtract(SCALE, kept), SCALE)
    return exact.multiply_divide_floor(lent, passed_on, SCALE)


def elapsed_seconds(last_update: pl.Series, close_time: pl.Series) -> pl.Series:
    """The seconds since the last accrual; 0 where that is later."""
    return exact.clamp(exact.subtract(close_time, last_update), 0, exact.INT128_MAX)


@exact.naming("exchange rate")
def exchange_rate(owned: pl.Series, receipt_supply: pl.Series, initial: pl.Series) -> pl.Series:
    """The value of a receipt token, 6 decimals; the initial one where there are none and nothing is owned.

    Raises `ExactDivisionError` for the rows that have only one of them.
    """
    divided = (owned != 0) & (receipt_supply != 0)
    one_sided = ~divided & ((owned != 0) | (receipt_supply != 0))
    if one_sided.any():
        what = "the contract refuses receipt tokens without anything that is owned, and the other way round"
        raise failure(what, (), one_sided.arg_true().to_list())
    rate = exact.multiply_divide_floor(exact.select(divided, owned, 0), SCALE, exact.select(divided, receipt_supply, 1))
    return exact.select(divided, rate, initial)
