"""Blend's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.blend import math
from exporter.protocols.shared_columns import raw_rows, shared_columns

_RATE_DECIMALS = {"v1": 9, "v2": 12}
_MODIFIER_DECIMALS = {"v1": 9, "v2": 7}


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    Raises `ExactError` with the positions of the reserves for which the contract's math has no result.
    """
    raw = raw_rows(columns, math.RESERVE_COLUMNS, "generation")
    generation = pl.col("generation")
    return shared_columns(
        math.project(raw, close_time),
        "blend",
        generation,
        total_collateral=0,  # in Blend collateral is supplied, and stands in that total
        last_accrual_time="last_time",
        supply_index="accrued_b_rate",
        borrow_index="accrued_d_rate",
        index_decimals=generation.replace_strict(_RATE_DECIMALS, return_dtype=pl.Int64),
        apr_decimals=7,
        utilization_decimals=7,
        rate_modifier="accrued_ir_mod",
        rate_modifier_decimals=generation.replace_strict(_MODIFIER_DECIMALS, return_dtype=pl.Int64),
        backstop_credit="accrued_backstop_credit",
    )
