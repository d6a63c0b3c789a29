"""XOXNO Lending's hub markets in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.xoxno import math
from exporter.protocols.xoxno.layout import RAY_DECIMALS, VERSION

_TEXT = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", *math.POOL_COLUMNS)
_RAY = pl.lit(RAY_DECIMALS).cast(pl.Int64)


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a hub market, in the order given.

    Nothing modifies the rates here, so their modifier is 1. There is no backstop, and the protocol's own revenue is
    part of what is supplied, so nothing stands beside the totals. Raises `ExactError` with the positions of the hub
    markets for which the contract's math has no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    nothing = pl.lit(0).cast(pl.Int128)
    return math.project(raw, close_time).select(
        "market",
        "pool",
        "token_address",
        pl.lit("xoxno").alias("protocol"),
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
        nothing.alias("total_collateral"),  # what is supplied is the collateral
        (pl.col("last_timestamp") // 1_000).cast(pl.Int64).alias("last_accrual_time"),
        pl.col("accrued_supply_index").alias("supply_index"),
        pl.col("accrued_borrow_index").alias("borrow_index"),
        _RAY.alias("index_decimals"),
        "stored_supply_apr",
        "stored_borrow_apr",
        "accrued_supply_apr",
        "accrued_borrow_apr",
        _RAY.alias("apr_decimals"),
        "stored_utilization",
        "accrued_utilization",
        _RAY.alias("utilization_decimals"),
        pl.lit(1).cast(pl.Int128).alias("rate_modifier"),
        pl.lit(0).cast(pl.Int64).alias("rate_modifier_decimals"),
        nothing.alias("backstop_credit"),
    )
