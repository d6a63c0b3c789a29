"""Alula's pools in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.alula import math
from exporter.protocols.alula.layout import VERSION
from exporter.protocols.shared_columns import raw_rows, shared_columns

BPS_DECIMALS = 4
"""Of rates, indexes and the modifier."""


def project_pools(columns: Mapping[str, list[object]]) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a pool, in the order given.

    Nothing accrues here, so the accrued rates are the stored ones: those that the contract's own view computes from
    the stored totals and modifier, not the snapshot of the last accrual that the Pool entry holds beside them.
    Indexes are the contract's share rates. Raises `ExactError` with the positions of the pools for which the
    contract's math has no result.
    """
    raw = raw_rows(columns, ("last_accrual_timestamp", "total_collateral", *math.POOL_COLUMNS))
    return shared_columns(
        math.project(raw),
        "alula",
        VERSION,
        last_accrual_time="last_accrual_timestamp",
        supply_index="j_token_rate_bps",
        borrow_index="d_token_rate_bps",
        index_decimals=BPS_DECIMALS,
        stored_supply_apr="supply_apr_bps",
        stored_borrow_apr="borrow_apr_bps",
        accrued_supply_apr="supply_apr_bps",
        accrued_borrow_apr="borrow_apr_bps",
        apr_decimals=BPS_DECIMALS,
        stored_utilization="utilization_ceil_bps",
        accrued_utilization="utilization_ceil_bps",
        utilization_decimals=BPS_DECIMALS,
        rate_modifier="interest_rate_modifier_bps",
        rate_modifier_decimals=BPS_DECIMALS,
        backstop_credit="take_rate_fees_sum",
    )
