"""Slender's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.slender import math
from exporter.protocols.slender.layout import VERSION

_TEXT = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", *math.RESERVE_COLUMNS)
_DECIMALS = pl.lit(9).cast(pl.Int64)


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    There is no rate modifier and no plain collateral: the one is 1, the other 0. The protocol's collected fees stand
    as the backstop's credit. Raises `ExactError` with the positions of the reserves for which the contract's math has
    no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    return math.project(raw, close_time).select(
        "market",
        "pool",
        "token_address",
        pl.lit("slender").alias("protocol"),
        pl.lit(VERSION).alias("version"),
        "market_name",
        "market_status",
        "wasm_hash",
        "oracle",
        pl.col("decimals").cast(pl.Int64),
        "supply_apy_bps",
        "borrow_apy_bps",
        "utilization_bps",
        pl.col("supplied").alias("total_supplied"),
        pl.col("borrowed").alias("total_borrowed"),
        pl.lit(0).cast(pl.Int128).alias("total_collateral"),  # collateral is supplied, and stands in that total
        pl.col("last_update_timestamp").cast(pl.Int64).alias("last_accrual_time"),
        pl.col("collat_coeff").alias("supply_index"),
        pl.col("debt_coeff").alias("borrow_index"),
        _DECIMALS.alias("index_decimals"),
        "stored_supply_apr",
        pl.col("borrower_ir").alias("stored_borrow_apr"),
        "accrued_supply_apr",
        pl.col("borrower_ir").alias("accrued_borrow_apr"),
        _DECIMALS.alias("apr_decimals"),
        "stored_utilization",
        "accrued_utilization",
        _DECIMALS.alias("utilization_decimals"),
        pl.lit(1).cast(pl.Int128).alias("rate_modifier"),
        pl.lit(0).cast(pl.Int64).alias("rate_modifier_decimals"),
        pl.col("fees").alias("backstop_credit"),
    )
