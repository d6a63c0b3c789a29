"""Slender's reserves in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.shared_columns import raw_rows, shared_columns
from exporter.protocols.slender import math
from exporter.protocols.slender.layout import VERSION

DECIMALS = 9
"""Of rates, coefficients and utilization."""


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a reserve, in the order given.

    There is no rate modifier and no plain collateral: the one is 1, the other 0. The protocol's collected fees stand
    as the backstop's credit. Raises `ExactError` with the positions of the reserves for which the contract's math has
    no result.
    """
    raw = raw_rows(columns, math.RESERVE_COLUMNS)
    return shared_columns(
        math.project(raw, close_time),
        "slender",
        VERSION,
        total_supplied="supplied",
        total_borrowed="borrowed",
        total_collateral=0,  # collateral is supplied, and stands in that total
        last_accrual_time="last_update_timestamp",
        supply_index="collat_coeff",
        borrow_index="debt_coeff",
        index_decimals=DECIMALS,
        stored_borrow_apr="borrower_ir",
        accrued_borrow_apr="borrower_ir",
        apr_decimals=DECIMALS,
        utilization_decimals=DECIMALS,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit="fees",
    )
