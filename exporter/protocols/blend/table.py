"""Blend's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.blend import math

_TEXT = ("market", "pool", "token_address", "oracle", "generation", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", *math.RESERVE_COLUMNS)
_RATE_DECIMALS = {"v1": 9, "v2": 12}
_MODIFIER_DECIMALS = {"v1": 9, "v2": 7}


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    Raises `ExactError` with the positions of the reserves for which the contract's math has no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    generation = pl.col("generation")
    return math.project(raw, close_time).select(
        "market",
        "pool",
        "token_address",
        pl.lit("blend").alias("protocol"),
        generation.alias("version"),
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
        pl.lit(0)
        .cast(pl.Int128)
        .alias("total_collateral"),  # in Blend collateral is supplied, and stands in that total
        pl.col("last_time").cast(pl.Int64).alias("last_accrual_time"),
        pl.col("accrued_b_rate").alias("supply_index"),
        pl.col("accrued_d_rate").alias("borrow_index"),
        generation.replace_strict(_RATE_DECIMALS, return_dtype=pl.Int64).alias("index_decimals"),
        "stored_supply_apr",
        "stored_borrow_apr",
        "accrued_supply_apr",
        "accrued_borrow_apr",
        pl.lit(7).cast(pl.Int64).alias("apr_decimals"),
        "stored_utilization",
        "accrued_utilization",
        pl.lit(7).cast(pl.Int64).alias("utilization_decimals"),
        pl.col("accrued_ir_mod").alias("rate_modifier"),
        generation.replace_strict(_MODIFIER_DECIMALS, return_dtype=pl.Int64).alias("rate_modifier_decimals"),
        pl.col("accrued_backstop_credit").alias("backstop_credit"),
    )
