"""Peridot's math over columns of vaults (facts/other-protocols.md 3.2); tests/peridot_judge.py has it for one vault.

Scales: utilization, rates a year and factors have 6 decimals, the borrow index 18; amounts are token base units. The
contract computes in unsigned 128 bits; here every value that has a name must fit into signed 128, and a vault for
which one does not raises an ExactError that carries its row.
"""

from __future__ import annotations

import polars as pl

from exporter import exact
from exporter.exact.failures import failure
from exporter.protocols.published import utilization_bps

SCALE = 10**6
SECONDS_PER_YEAR = 31_536_000
MAX_YEARLY_RATE = 10_000_000
"""1000 percent: at a higher rate the contract itself refuses to go on."""

_SCALES_TO_INDEX = 10**12
"""From the 6 decimals of the exchange rate to the 18 of the borrow index, so that both have the same."""

VAULT_COLUMNS = (
    "net_cash",
    "total_borrowed",
    "total_reserves",
    "total_admin_fees",
    "borrow_index",
    "receipt_supply",
    "initial_exchange_rate",
    "reserve_factor",
    "admin_fee",
    "base_rate",
    "multiplier",
    "jump_multiplier",
    "kink",
    "last_update_time",
)
"""The raw columns that `project` reads. ``net_cash`` is cash less reserves and admin fees: it may be negative."""


def project(frame: pl.DataFrame, close_time: int) -> pl.DataFrame:
    """Add what is published of the vaults at a time in unix seconds.

    Args:
        frame: a row a vault, with VAULT_COLUMNS (Int128 or smaller integers) without nulls; all but ``net_cash`` are
            at least 0, and the two factors at most 10^6. Other columns are kept as they are.
        close_time: to which interest is accrued, as the contract would at its next operation.

    Returns:
        The frame with these columns added: `stored_utilization`, `stored_borrow_apr`, `stored_supply_apr`,
        `accrued_utilization`, `accrued_borrow_apr`, `accrued_supply_apr` (Int128, 6 decimals), `supplied`,
        `borrowed`, `set_aside` (Int128, base units, accrued; what is set aside are reserves and admin fees),
        `supply_index`, `accrued_borrow_index` (Int128, 18 decimals), `utilization_bps`, `supply_apy_bps` and
        `borrow_apy_bps` (Int64).

    Raises:
        ExactOverflowError: with the rows in which a value does not fit into 128 bits, or a rate is above 1000
            percent, where the contract refuses to accrue.
        ValueError: for a null.
    """
    with_nulls = [name for name in VAULT_COLUMNS if frame[name].null_count()]
    if with_nulls:
        raise ValueError(f"vaults must not be null in {', '.join(with_nulls)}")
    state = frame.select(pl.col(VAULT_COLUMNS).cast(pl.Int128))
    borrowed, index = state["total_borrowed"], state["borrow_index"]
    kept = exact.clamp(exact.add(state["reserve_factor"], state["admin_fee"]), 0, SCALE)

    def rates(lent: pl.Series, owned: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
        used = utilization(lent, owned)
        rate = borrow_rate(used, *(state[name] for name in ("base_rate", "multiplier", "jump_multiplier", "kink")))
        return used, rate, supply_rate(rate, used, kept)

    used, rate, earned = rates(borrowed, total_underlying(state["net_cash"], borrowed))
    interest = accrued_interest(borrowed, rate, elapsed_seconds(state["last_update_time"], close_time))
    to_reserves = exact.multiply_divide_floor(interest, state["reserve_factor"], SCALE)
    to_admin = exact.multiply_divide_floor(interest, state["admin_fee"], SCALE)
    set_aside = exact.add(to_reserves, to_admin)
    owed = exact.add(borrowed, interest)
    supplied = total_underlying(exact.subtract(state["net_cash"], set_aside), owed)
    accrued_used, accrued_rate, accrued_earned = rates(owed, supplied)
    exchange = exchange_rate(supplied, state["receipt_supply"], state["initial_exchange_rate"])
    return frame.with_columns(
        used.alias("stored_utilization"),
        rate.alias("stored_borrow_apr"),
        earned.alias("stored_supply_apr"),
        accrued_used.alias("accrued_utilization"),
        accrued_rate.alias("accrued_borrow_apr"),
        accrued_earned.alias("accrued_supply_apr"),
        supplied.alias("supplied"),
        owed.alias("borrowed"),
        exact.add(exact.add(state["total_reserves"], state["total_admin_fees"]), set_aside).alias("set_aside"),
        exact.multiply(exchange, _SCALES_TO_INDEX).alias("supply_index"),
        grown_index(index, interest, borrowed).alias("accrued_borrow_index"),
        utilization_bps(owed, supplied).alias("utilization_bps"),
        simple_yield_bps(earned).alias("supply_apy_bps"),
        simple_yield_bps(rate).alias("borrow_apy_bps"),
    )


@exact.naming("total underlying")
def total_underlying(net_cash: pl.Series, borrowed: pl.Series) -> pl.Series:
    """What the suppliers own: max(0, cash + borrowed - reserves - admin fees)."""
    return exact.clamp(exact.add(net_cash, borrowed), 0, exact.INT128_MAX)


@exact.naming("utilization")
def utilization(borrowed: pl.Series, owned: pl.Series) -> pl.Series:
    """The rate model's utilization: floor(borrowed × 10^6 / (cash + borrowed - reserves)), at most 10^6.

    The reserves that a vault tells its model are its reserves and admin fees together, so the divisor is what the
    suppliers own. 0 where nothing is borrowed or owned.
    """
    divided = owned != 0
    share = exact.multiply_divide_floor(exact.select(divided, borrowed, 0), SCALE, exact.select(divided, owned, 1))
    return exact.clamp(share, 0, SCALE)


@exact.naming("borrow rate")
def borrow_rate(
    used: pl.Series, base: pl.Series, multiplier: pl.Series, jump_multiplier: pl.Series, kink: pl.Series
) -> pl.Series:
    """The jump rate model; the kink belongs to the first slope.

    U <= kink: base + floor(U × multiplier / 10^6); above it: the rate at the kink + floor((U - kink) × jump / 10^6).
    """
    first = used <= kink
    below = exact.select(first, used, kink)
    above = exact.select(first, 0, exact.subtract(used, kink))
    slope = exact.add(base, exact.multiply_divide_floor(below, multiplier, SCALE))
    rate = exact.add(slope, exact.multiply_divide_floor(above, jump_multiplier, SCALE))
    if (rate > MAX_YEARLY_RATE).any():
        raise failure("a rate of at most 1000 percent a year", (rate > MAX_YEARLY_RATE).arg_true().to_list())
    return rate


@exact.naming("supply rate")
def supply_rate(rate: pl.Series, used: pl.Series, kept: pl.Series) -> pl.Series:
    """What suppliers earn a year of lending: floor(U × floor(rate × (10^6 - kept) / 10^6) / 10^6).

    ``kept`` is the reserve factor and the admin fee together: both are taken out of the interest.
    """
    passed_on = exact.multiply_divide_floor(rate, exact.subtract(SCALE, kept), SCALE)
    return exact.multiply_divide_floor(used, passed_on, SCALE)


def elapsed_seconds(last_update: pl.Series, close_time: int) -> pl.Series:
    """The seconds since the last accrual; 0 where that is later."""
    return exact.clamp(exact.subtract(close_time, last_update), 0, exact.INT128_MAX)


@exact.naming("interest")
def accrued_interest(borrowed: pl.Series, rate: pl.Series, seconds: pl.Series) -> pl.Series:
    """Simple interest since the last accrual: floor(borrowed × rate × seconds / (31,536,000 × 10^6))."""
    return exact.floor_divide(exact.multiply(exact.multiply(borrowed, rate), seconds), SECONDS_PER_YEAR * SCALE)


@exact.naming("borrow index")
def grown_index(index: pl.Series, interest: pl.Series, borrowed: pl.Series) -> pl.Series:
    """The index after interest: index + floor(index × interest / borrowed), the same where nothing is borrowed."""
    divided = borrowed != 0
    grown = exact.multiply_divide_floor(index, exact.select(divided, interest, 0), exact.select(divided, borrowed, 1))
    return exact.add(index, grown)


@exact.naming("exchange rate")
def exchange_rate(owned: pl.Series, receipt_supply: pl.Series, initial: pl.Series) -> pl.Series:
    """What a receipt token is worth, 6 decimals: floor(owned × 10^6 / supply); the initial one without either."""
    divided = (owned != 0) & (receipt_supply != 0)
    rate = exact.multiply_divide_floor(exact.select(divided, owned, 0), SCALE, exact.select(divided, receipt_supply, 1))
    return exact.select(divided, rate, initial)


@exact.basis_points
def simple_yield_bps(rate: pl.Series) -> pl.Series:
    """A rate a year as basis points, rounded down, Int64: interest is simple, so nothing is compounded."""
    return exact.floor_divide(rate, SCALE // 10_000)
