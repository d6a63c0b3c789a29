"""Operations, amounts and risk of Blend's reserves (docs/protocols/blend.md, "Terms").

An amount is the largest that passes the contract's own test, with its own rounding, of one operation by one user who
has all the shares or collateral that it takes.
"""

from __future__ import annotations

import polars as pl

from exporter import exact
from exporter.protocols.blend.layout import NO_CAP, WASM_HASHES
from exporter.protocols.shared_columns import Given

TERM_COLUMNS = ("max_util", "c_factor", "l_factor", "enabled", "supply_cap")
"""The raw columns that only the terms need; ``enabled`` is 1 or 0."""

S7 = 10**7

POOL_STATUSES = {
    "enabled": "the reserve is open, as far as its market is",
    "disabled": "no borrowing or supplying of this reserve, by the admin",
}

_BORROWING = ("admin_active", "active")
_SUPPLYING = (*_BORROWING, "admin_on_ice", "on_ice")
_KNOWN = pl.col("wasm_hash").is_in([digest.hex() for digest in WASM_HASHES])


@exact.at_most(exact.INT128_MAX)
def _ceil(amount: pl.Series, factor: pl.Series, divisor: pl.Series) -> pl.Series:
    return exact.multiply_divide_ceil(amount, factor, exact.select(divisor == 0, 1, divisor))


@exact.at_most(exact.INT128_MAX)
def _floor(amount: pl.Series, factor: pl.Series, divisor: pl.Series) -> pl.Series:
    return exact.multiply_divide_floor(amount, factor, exact.select(divisor == 0, 1, divisor))


def terms(reserves: pl.DataFrame, one: pl.Series) -> dict[str, Given]:
    """The columns of `TERMS`, of reserves as `project` gives them; ``one`` is the scale of their rates."""
    enabled, v2 = pl.col("enabled") != 0, pl.col("generation") == "v2"
    borrowable = enabled & (pl.col("l_factor") > 0)

    def gate(is_open: pl.Expr) -> pl.Expr:
        return pl.when(_KNOWN).then(is_open)

    return {
        "can_supply": gate(enabled & pl.col("market_status").is_in(_SUPPLYING)),
        "can_withdraw": gate(pl.lit(True)),
        "can_borrow": gate(borrowable & pl.col("market_status").is_in(_BORROWING)),
        "can_repay": gate(pl.lit(True)),
        "can_liquidate": gate(pl.lit(True)),
        "can_reason": pl.when(~_KNOWN).then(pl.lit("the market runs code whose rules are not known")),
        "pool_status": pl.when(v2).then(pl.when(enabled).then(pl.lit("enabled")).otherwise(pl.lit("disabled"))),
        **_amounts(reserves, one),
        "risk_scope": pl.lit("reserve"),
        "collateral_factor_bps": pl.col("c_factor") // 1000,
        "liquidation_threshold_bps": pl.col("c_factor") // 1000,
        "liability_factor_bps": pl.when(pl.col("l_factor") > 0).then(
            (pl.col("l_factor") + (10**11 - 1)) // pl.col("l_factor")
        ),
        "liquidation_kind": pl.lit("auction"),
        "supply_cap": pl.when(pl.col("supply_cap") < NO_CAP).then(pl.col("supply_cap")),
        "max_utilization_bps": pl.col("max_util") // 1000,
        "reserve_factor_bps": pl.col("bstop_rate") // 1000,
        "can_be_collateral": pl.col("c_factor") > 0,
        "can_be_borrowed": borrowable,
    }


def _amounts(reserves: pl.DataFrame, one: pl.Series) -> dict[str, Given]:
    is_v2 = reserves["generation"] == "v2"
    b_rate, d_rate = reserves["accrued_b_rate"], reserves["accrued_d_rate"]
    b_supply, d_supply, cap = reserves["b_supply"], reserves["d_supply"], reserves["supply_cap"]
    supplied, borrowed = reserves["total_supplied"], reserves["total_borrowed"]

    # Withdrawing, v2: ceil(borrowed × S7 / supply) must stay below S7 when the shares are gone.
    ten_million = pl.Series([S7] * len(is_v2), dtype=pl.Int128)
    kept = _ceil(_ceil(borrowed, ten_million, exact.subtract(ten_million, 1)), one, b_rate)
    burnt = exact.clamp(exact.subtract(b_supply, exact.select(borrowed != 0, kept, 0)), 0, b_supply)
    # v1 tests nothing, and pays from whatever tokens it holds: this is what is the suppliers' and not lent.
    unlent = exact.clamp(exact.subtract(supplied, borrowed), 0, supplied)
    withdrawn = exact.select(is_v2, _floor(burnt, b_rate, one), unlent)

    # Borrowing: ceil(debt × S7 / supply) must not be above max_util, in v2 also below S7.
    most_util = exact.clamp(reserves["max_util"], 0, exact.select(is_v2, S7 - 1, S7))
    d_tokens = exact.subtract(_floor(_floor(most_util, supplied, ten_million), one, d_rate), d_supply)
    lent = _floor(exact.select((d_rate != 0) & (d_tokens > 0), d_tokens, 0), d_rate, one)

    # Supplying: floor(shares × b_rate / R) must not be above the cap.
    capped = cap < NO_CAP
    limit = exact.add(exact.select(capped, cap, 0), 1)
    b_tokens = exact.subtract(exact.subtract(_ceil(limit, one, b_rate), 1), b_supply)
    is_room = (b_rate != 0) & (b_tokens > 0)
    taken = exact.subtract(
        _ceil(exact.select(is_room, exact.add(b_tokens, 1), 0), b_rate, one), exact.select(is_room, 1, 0)
    )
    return {
        "available_to_withdraw": withdrawn,
        "available_to_borrow": lent,
        "available_to_supply": pl.select(pl.when(capped).then(taken)).to_series(),
    }
