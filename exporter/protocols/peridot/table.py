"""Peridot's vaults in the columns that all protocols share."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import VERSION
from exporter.protocols.shared_columns import raw_rows, shared_columns


def project_pools(columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, a row a vault, in the order given.

    There is no rate modifier and no plain collateral: the one is 1, the other 0. What is set aside for the protocol,
    reserves and admin fees, stands as the backstop's credit. Raises `ExactError` with the positions of the vaults for
    which the contract's math has no result.
    """
    raw = raw_rows(columns, math.VAULT_COLUMNS)
    return shared_columns(
        math.project(raw, close_time),
        "peridot",
        VERSION,
        total_supplied="supplied",
        total_borrowed="borrowed",
        total_collateral=0,  # receipt tokens are the collateral, and supplied
        last_accrual_time="last_update_time",
        borrow_index="accrued_borrow_index",
        index_decimals=18,
        apr_decimals=6,
        utilization_decimals=6,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit="set_aside",
    )
