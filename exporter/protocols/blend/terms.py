"""Operations, amounts and risk of Blend's reserves (docs/protocols/blend.md, "Terms").

An amount is the largest that passes the contract's own test, with its own rounding, of one operation by one user who
has all the shares or collateral that it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from exporter import exact_columns as exact
from exporter.protocols.blend.layout import NO_CAP, RATE_DECIMALS, WASM_HASHES
from exporter.protocols.shared_columns import Given

TERM_COLUMNS = ("max_util", "c_factor", "l_factor", "enabled", "supply_cap")
"""The raw columns that only the terms need; ``enabled`` is 1 or 0."""

AMOUNTS = ("available_to_withdraw", "available_to_borrow", "available_to_supply")

S7 = 10**7

POOL_STATUSES = {
    "enabled": "the reserve is open, as far as its market is",
    "disabled": "no borrowing or supplying of this reserve, by the admin",
}

_BORROWING = ("admin_active", "active")
_SUPPLYING = (*_BORROWING, "admin_on_ice", "on_ice")
_KNOWN = pl.col("wasm_hash").is_in([digest.hex() for digest in WASM_HASHES])


def terms(reserves: pl.DataFrame) -> dict[str, Given]:
    """The columns of `TERMS`, of reserves as `exporter.protocols.blend.math.project` gives them."""
    enabled, v2 = pl.col("enabled") != 0, pl.col("generation") == "v2"
    amounts = [_amounts(reserve) for reserve in reserves.iter_rows(named=True)]
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
        **{name: exact.column([row[name] for row in amounts]) for name in AMOUNTS},
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


def _amounts(reserve: Mapping[str, Any]) -> dict[str, int | None]:
    """What can be withdrawn, borrowed and supplied at the most. These integers have no bound."""
    is_v2, one = reserve["generation"] == "v2", 10 ** RATE_DECIMALS[reserve["generation"]]
    b_rate, d_rate = reserve["accrued_b_rate"], reserve["accrued_d_rate"]
    supplied, borrowed = reserve["total_supplied"], reserve["total_borrowed"]
    if is_v2:  # ceil(borrowed × S7 / supply) must stay below S7 when the shares are gone
        kept = _ceil(_ceil(borrowed * S7, S7 - 1) * one, b_rate or 1)
        withdrawn = max(reserve["b_supply"] - kept, 0) * b_rate // one
    else:  # v1 tests nothing, and pays from whatever tokens it holds: this is what is the suppliers' and not lent
        withdrawn = max(supplied - borrowed, 0)

    # Borrowing: ceil(debt × S7 / supply) must not be above max_util, in v2 also below S7.
    most_util = min(reserve["max_util"], S7 - 1 if is_v2 else S7)
    d_tokens = most_util * supplied // S7 * one // (d_rate or 1) - reserve["d_supply"]
    lent = max(d_tokens, 0) * d_rate // one

    # Supplying: floor(shares × b_rate / R) must not be above the cap.
    cap, taken = reserve["supply_cap"], None
    if cap < NO_CAP:
        b_tokens = _ceil((cap + 1) * one, b_rate or 1) - 1 - reserve["b_supply"]
        taken = min(_ceil((b_tokens + 1) * b_rate, one) - 1, exact.INT128_MAX) if b_rate and b_tokens > 0 else 0
    return dict(zip(AMOUNTS, (withdrawn, lent, taken), strict=True))


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
