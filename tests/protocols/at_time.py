"""The close time to which rows are projected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

import polars as pl


@overload
def at(rows: pl.DataFrame, time: int) -> pl.DataFrame: ...
@overload
def at(rows: Mapping[str, list[object]], time: int) -> dict[str, list[object]]: ...
def at(rows: pl.DataFrame | Mapping[str, list[object]], time: int) -> pl.DataFrame | dict[str, list[object]]:
    """Rows, or raw columns, with the same close time (unix seconds) in each."""
    if isinstance(rows, pl.DataFrame):
        return rows.with_columns(pl.lit(time, pl.Int128).alias("close_time"))
    return {**rows, "close_time": [time] * len(next(iter(rows.values()), []))}
