"""XOXNO Lending's hub markets in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.shared_columns import raw_rows, shared_columns
from exporter.protocols.xoxno import math
from exporter.protocols.xoxno.layout import RAY_DECIMALS, VERSION


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a hub market, in the order given.

    Nothing modifies the rates here, so their modifier is 1. There is no backstop, and the protocol's own revenue is
    part of what is supplied, so nothing stands beside the totals. Raises `ExactError` with the positions of the hub
    markets for which the contract's math has no result.
    """
    raw = raw_rows(columns, math.POOL_COLUMNS)
    return shared_columns(
        math.project(raw, close_time),
        "xoxno",
        VERSION,
        total_collateral=0,  # what is supplied is the collateral
        last_accrual_time=pl.col("last_timestamp") // 1_000,
        supply_index="accrued_supply_index",
        borrow_index="accrued_borrow_index",
        index_decimals=RAY_DECIMALS,
        apr_decimals=RAY_DECIMALS,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
    )
