"""Alula's pools in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.alula import math
from exporter.protocols.alula.layout import VERSION

_TEXT = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", "last_accrual_timestamp", "total_collateral", *math.POOL_COLUMNS)
_BPS_DECIMALS = pl.lit(4).cast(pl.Int64)


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a pool, in the order given.

    Nothing accrues here, so the accrued rates are the stored ones: those that the contract's own view computes from
    the stored totals and modifier, not the snapshot of the last accrual that the Pool entry holds beside them.
    Indexes are the contract's share rates. Raises `ExactError` with the positions of the pools for which the
    contract's math has no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    return math.project(raw).select(
        "market",
        "pool",
        "token_address",
        pl.lit("alula").alias("protocol"),
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
        "total_collateral",
        pl.col("last_accrual_timestamp").cast(pl.Int64).alias("last_accrual_time"),
        pl.col("j_token_rate_bps").alias("supply_index"),
        pl.col("d_token_rate_bps").alias("borrow_index"),
        _BPS_DECIMALS.alias("index_decimals"),
        pl.col("supply_apr_bps").alias("stored_supply_apr"),
        pl.col("borrow_apr_bps").alias("stored_borrow_apr"),
        pl.col("supply_apr_bps").alias("accrued_supply_apr"),
        pl.col("borrow_apr_bps").alias("accrued_borrow_apr"),
        _BPS_DECIMALS.alias("apr_decimals"),
        pl.col("utilization_ceil_bps").alias("stored_utilization"),
        pl.col("utilization_ceil_bps").alias("accrued_utilization"),
        _BPS_DECIMALS.alias("utilization_decimals"),
        pl.col("interest_rate_modifier_bps").alias("rate_modifier"),
        _BPS_DECIMALS.alias("rate_modifier_decimals"),
        pl.col("take_rate_fees_sum").alias("backstop_credit"),
    )
