"""The columns of a history file, in their order, with their types.

A history file holds the pools frame of one run (exporter/tables.py), column for column. The types are those that
every reader of Parquet agrees on: no 128-bit and no unsigned integers, which
DuckDB reads as bytes and pyarrow not at all, and no floats. docs/history.md shows this table to people.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from exporter.tables import COLUMNS
from exporter.tree.values import ParquetType

PARQUET_DTYPES: dict[ParquetType, pl.DataType] = {
    ParquetType.UTF8: pl.String(),
    ParquetType.INT64: pl.Int64(),
    ParquetType.DECIMAL: pl.Decimal(38, 0),
    ParquetType.TIMESTAMP: pl.Datetime("us", "UTC"),
    ParquetType.BOOLEAN: pl.Boolean(),
}
"""How each type is written."""

_ARROW_TYPES: dict[ParquetType, pa.DataType] = {
    ParquetType.UTF8: pa.large_string(),
    ParquetType.INT64: pa.int64(),
    ParquetType.DECIMAL: pa.decimal128(38, 0),
    ParquetType.TIMESTAMP: pa.timestamp("us", "UTC"),
    ParquetType.BOOLEAN: pa.bool_(),
}


def column_names(kind: ParquetType) -> list[str]:
    """Name the columns of one type, in the order of the file."""
    return [column.name for column in COLUMNS if column.type is kind]


FILE_SCHEMA = pl.Schema({column.name: PARQUET_DTYPES[column.type] for column in COLUMNS})
"""The columns of a history file as Polars has them."""

ORDER = ("market", "pool", "observed_ledger")
"""How the rows of a file of several runs are sorted."""

# Not converted from a frame: that would start the threads of Polars, and a process that forks after it hangs.
ARROW_SCHEMA = pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in COLUMNS])
"""The same as pyarrow has them."""
