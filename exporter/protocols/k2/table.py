"""K2's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.k2 import math
from exporter.protocols.k2.layout import RAY_DECIMALS, VERSION

_TEXT = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", *math.RESERVE_COLUMNS)
_RAY = pl.lit(RAY_DECIMALS).cast(pl.Int64)


def project_reserves(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    Totals, indexes and the accrued rates are those at the close time (unix seconds); the stored rates, and the yields
    from them, are what the reserve charges until its next action. K2 has no collateral apart from what is supplied,
    no modifier of its rates (a factor of 1), and sets nothing aside in its state: what the treasury may collect is
    what the aToken holds beyond its suppliers' claims. Raises `ExactError` with the positions of the reserves for
    which the contract's math has no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    return math.project(raw, close_time).select(
        "market",
        "pool",
        "token_address",
        pl.lit("k2").alias("protocol"),
        pl.lit(VERSION).alias("version"),
        "market_name",
        "market_status",
        "wasm_hash",
        "oracle",
        pl.col("decimals").cast(pl.Int64),
        "supply_apy_bps",
        "borrow_apy_bps",
        "utilization_bps",
        "total_supplied",
        "total_borrowed",
        pl.lit(0).cast(pl.Int128).alias("total_collateral"),
        pl.col("last_update_timestamp").cast(pl.Int64).alias("last_accrual_time"),
        pl.col("accrued_liquidity_index").alias("supply_index"),
        pl.col("accrued_variable_borrow_index").alias("borrow_index"),
        _RAY.alias("index_decimals"),
        pl.col("current_liquidity_rate").alias("stored_supply_apr"),
        pl.col("current_variable_borrow_rate").alias("stored_borrow_apr"),
        pl.col("accrued_liquidity_rate").alias("accrued_supply_apr"),
        pl.col("accrued_variable_borrow_rate").alias("accrued_borrow_apr"),
        _RAY.alias("apr_decimals"),
        "stored_utilization",
        "accrued_utilization",
        _RAY.alias("utilization_decimals"),
        pl.lit(1).cast(pl.Int128).alias("rate_modifier"),
        pl.lit(0).cast(pl.Int64).alias("rate_modifier_decimals"),
        pl.lit(0).cast(pl.Int128).alias("backstop_credit"),
    )
