"""K2's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.k2 import math
from exporter.protocols.k2.layout import RAY_DECIMALS, VERSION
from exporter.protocols.shared_columns import raw_rows, shared_columns


def project_reserves(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    Totals, indexes and the accrued rates are those at the close time (unix seconds); the stored rates, and the yields
    from them, are what the reserve charges until its next action. K2 has no collateral apart from what is supplied,
    no modifier of its rates (a factor of 1), and sets nothing aside in its state: what the treasury may collect is
    what the aToken holds beyond its suppliers' claims. Raises `ExactError` with the positions of the reserves for
    which the contract's math has no result.
    """
    raw = raw_rows(columns, math.RESERVE_COLUMNS)
    return shared_columns(
        math.project(raw, close_time),
        "k2",
        VERSION,
        total_collateral=0,
        last_accrual_time="last_update_timestamp",
        supply_index="accrued_liquidity_index",
        borrow_index="accrued_variable_borrow_index",
        index_decimals=RAY_DECIMALS,
        stored_supply_apr="current_liquidity_rate",
        stored_borrow_apr="current_variable_borrow_rate",
        accrued_supply_apr="accrued_liquidity_rate",
        accrued_borrow_apr="accrued_variable_borrow_rate",
        apr_decimals=RAY_DECIMALS,
        utilization_decimals=RAY_DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
    )
