"""Pools frames for the tests of the history: small, typed as the pools frame is, every column filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from exporter.tables import COLUMNS, FRAME_DTYPES
from exporter.tree.values import ParquetType

LEDGER = 55_261_759
CLOSE_TIME = 1_742_200_000  # 2025-03-17T08:26:40Z

_DEFAULTS: Mapping[ParquetType, object] = {
    ParquetType.UTF8: "text",
    ParquetType.INT64: 7,
    ParquetType.DECIMAL: 126_430_667_051_058,
    ParquetType.TIMESTAMP: CLOSE_TIME,
    ParquetType.BOOLEAN: True,
}

_NAMED: Mapping[str, object] = {
    "risk_scope": "reserve",
    "liquidation_kind": "auction",
    "reward_token": "C" + 55 * "A",
    "supply_reward_reason": "valid",
    "borrow_reward_reason": "expired",
}


def pools_frame(
    rows: Sequence[Mapping[str, object]], ledger: int = LEDGER, close_time: int = CLOSE_TIME
) -> pl.DataFrame:
    """Make a pools frame of these rows; a column that a row does not give has a default of its type.

    Rows without a market and pool get ascending ones.
    """
    columns: dict[str, pl.Series] = {}
    run_wide = {"observed_ledger": ledger, "ledger_close_time": close_time}
    for column in COLUMNS:
        values = [
            row.get(column.name, run_wide.get(column.name, _default(column.name, column.type, position)))
            for position, row in enumerate(rows)
        ]
        columns[column.name] = pl.Series(column.name, values, dtype=FRAME_DTYPES[column.type])
    return pl.DataFrame(columns)


def _default(name: str, kind: ParquetType, position: int) -> object:
    if name in ("market", "pool"):
        return f"{name}-{position:06d}"
    return _NAMED.get(name, _DEFAULTS[kind])
