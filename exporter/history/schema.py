"""The columns of a history file, in their order, with their types.

The types are those that every reader of Parquet agrees on: no 128-bit and no unsigned integers, which DuckDB reads as
bytes and pyarrow not at all, and no floats. docs/history.md shows this table to people.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from exporter.tables import COLUMNS
from exporter.tree.values import ParquetType

_TYPES: dict[ParquetType, tuple[pl.DataType, pa.DataType]] = {
    ParquetType.UTF8: (pl.String(), pa.large_string()),
    ParquetType.INT64: (pl.Int64(), pa.int64()),
    ParquetType.DECIMAL: (pl.Decimal(38, 0), pa.decimal128(38, 0)),
    ParquetType.TIMESTAMP: (pl.Datetime("us", "UTC"), pa.timestamp("us", "UTC")),
    ParquetType.BOOLEAN: (pl.Boolean(), pa.bool_()),
}
"""How each type is written, as Polars and as pyarrow have it."""


def column_names(kind: ParquetType) -> list[str]:
    """Name the columns of one type, in the order of the file."""
    return [column.name for column in COLUMNS if column.type is kind]


FILE_SCHEMA = pl.Schema({column.name: _TYPES[column.type][0] for column in COLUMNS})
"""The columns of a history file as Polars has them."""

ORDER = ("market", "pool", "observed_ledger")
"""How the rows of a file of several runs are sorted."""

# Not converted from a frame: that would start the threads of Polars, and a process that forks after it hangs.
ARROW_SCHEMA = pa.schema([(column.name, _TYPES[column.type][1]) for column in COLUMNS])
"""The same as pyarrow has them."""
