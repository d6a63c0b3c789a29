"""Peridot's vaults in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter import exact
from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import VERSION

_TEXT = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
_NUMBERS = ("decimals", *math.VAULT_COLUMNS)


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a vault, in the order given.

    There is no rate modifier and no plain collateral: the one is 1, the other 0. What is set aside for the protocol,
    reserves and admin fees, stands as the backstop's credit. Raises `ExactError` with the positions of the vaults for
    which the contract's math has no result.
    """
    raw = exact.frame(columns, dict.fromkeys(_TEXT, pl.String()) | dict.fromkeys(_NUMBERS, pl.Int128()))
    return math.project(raw, close_time).select(
        "market",
        "pool",
        "token_address",
        pl.lit("peridot").alias("protocol"),
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
        pl.lit(0).cast(pl.Int128).alias("total_collateral"),  # receipt tokens are the collateral, and supplied
        pl.col("last_update_time").cast(pl.Int64).alias("last_accrual_time"),
        "supply_index",
        pl.col("accrued_borrow_index").alias("borrow_index"),
        pl.lit(18).cast(pl.Int64).alias("index_decimals"),
        "stored_supply_apr",
        "stored_borrow_apr",
        "accrued_supply_apr",
        "accrued_borrow_apr",
        pl.lit(6).cast(pl.Int64).alias("apr_decimals"),
        "stored_utilization",
        "accrued_utilization",
        pl.lit(6).cast(pl.Int64).alias("utilization_decimals"),
        pl.lit(1).cast(pl.Int128).alias("rate_modifier"),
        pl.lit(0).cast(pl.Int64).alias("rate_modifier_decimals"),
        pl.col("set_aside").alias("backstop_credit"),
    )
