"""Renders a run as a Parquet file: exact in every reader, and with the same bytes for the same frame.

A file is written by pyarrow. Before it is accepted, Polars, which is another implementation, reads it back. Only
columns whose values repeat have dictionaries, and only the two columns that tell files apart have statistics.

The types are those that all readers of Parquet agree on, so there are no 128-bit integers, no unsigned integers and no
floats. Only the newest run's table at its lasting URL (`render_latest`) has floats: for plots, next to exact columns.
"""

from __future__ import annotations

import io
from datetime import UTC, datetime

import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import CheckError, DecodeError
from exporter.history.approximate import APPROXIMATE_NAMES, arrow_fields, with_approximate
from exporter.history.manifest import HistoryPart, history_entry
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.tables import COLUMNS
from exporter.tree.documents import EXPORTER_VERSION
from exporter.tree.families import RUN_PARQUET
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import ParquetType

_TYPES: dict[ParquetType, tuple[pl.DataType, pa.DataType]] = {
    ParquetType.UTF8: (pl.String(), pa.large_string()),
    ParquetType.INT64: (pl.Int64(), pa.int64()),
    ParquetType.DECIMAL: (pl.Decimal(38, 0), pa.decimal128(38, 0)),
    ParquetType.TIMESTAMP: (pl.Datetime("us", "UTC"), pa.timestamp("us", "UTC")),
    ParquetType.BOOLEAN: (pl.Boolean(), pa.bool_()),
}
"""The types of Polars and pyarrow with which each type of column is written."""


def column_names(kind: ParquetType) -> list[str]:
    """The names of the columns of one type, in the order of the file."""
    return [column.name for column in COLUMNS if column.type is kind]


FILE_SCHEMA = pl.Schema({column.name: _TYPES[column.type][0] for column in COLUMNS})

ORDER = ("market", "pool", "observed_ledger")
"""The columns by which the rows of a file with several runs are sorted."""

# Converting it from a Polars frame would start Polars' threads, and a process that forks later would hang.
ARROW_SCHEMA: pa.Schema = pa.schema([(column.name, _TYPES[column.type][1]) for column in COLUMNS])

DESCRIBED_SCHEMA: pa.Schema = pa.schema(
    [ARROW_SCHEMA.field(column.name).with_metadata({"description": column.meaning}) for column in COLUMNS]
)
"""The schema of a file with a lasting URL, in which the metadata of each field says what the column means.

The file of a run has no descriptions, because they would take a third of it.
"""

ROW_GROUP_ROWS = 100_000

REPEATED_NUMBERS = (
    "decimals",
    "oracle_price",
    "price_timestamp",
    "collateral_factor_bps",
    "liquidation_threshold_bps",
    "liability_factor_bps",
    "max_utilization_bps",
)
"""Columns of numbers that many pools of a run share, so that a dictionary saves space."""


def history_key(observed_ledger: int, ledger_close_time: int) -> str:
    """The key of a run's file, whose folder is the UTC day of the close time (unix seconds)."""
    date = datetime.fromtimestamp(ledger_close_time, UTC).date()
    return RUN_PARQUET.key(day=f"{date:%Y-%m-%d}", ledger=observed_ledger)


def render_history(pools: pl.DataFrame, *, observed_ledger: int, ledger_close_time: int, network: str) -> HistoryPart:
    """Render the Parquet file of a run, whose rows are those of the pools frame.

    ``ledger_close_time`` is in unix seconds, ``network`` is a passphrase. Raises `CheckError` if the file does not read
    back as the frame.
    """
    metadata = _metadata(observed_ledger, ledger_close_time, network)
    data = _encode(to_file_types(pools).to_arrow(), metadata)
    key = history_key(observed_ledger, ledger_close_time)
    _check_written(key, data, pools, metadata)
    return HistoryPart(RenderedFile(key, data, FileKind.HISTORY), history_entry(key, data, pools.height))


def render_latest(pools: pl.DataFrame, *, observed_ledger: int, ledger_close_time: int, network: str) -> bytes:
    """Render the newest run's table: the rows of the run's file, with approximate columns and descriptions."""
    metadata = _metadata(observed_ledger, ledger_close_time, network)
    schema = pa.schema([*DESCRIBED_SCHEMA, *arrow_fields(APPROXIMATE_NAMES)])
    return _encode(with_approximate(to_file_types(pools)).to_arrow().cast(schema), metadata)


def run_file_of_latest(latest: bytes) -> bytes:
    """The run's Parquet file, out of the newest run's table, which has the same rows.

    Raises `DecodeError` for any other file.
    """
    try:
        metadata = open_parquet(latest).metadata.metadata or {}
        part = render_history(
            to_frame_types(scan_rows(latest).collect()),
            observed_ledger=int(metadata[b"observed_ledger"]),
            ledger_close_time=int(metadata[b"ledger_close_time"]),
            network=metadata[b"network"].decode(),
        )
    except (*POLARS_ERRORS, CheckError, LookupError, ValueError, ArithmeticError, OSError) as error:
        raise DecodeError(f"it is not the table of a run: {error}") from error
    return part.file.data


def _metadata(observed_ledger: int, ledger_close_time: int, network: str) -> dict[str, str]:
    return {
        "table": "pools",
        "network": network,
        "observed_ledger": str(observed_ledger),
        "ledger_close_time": str(ledger_close_time),
        "exporter_version": EXPORTER_VERSION,
    }


def _encode(table: pa.Table, metadata: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        compression_level=12,
        use_dictionary=[*column_names(ParquetType.UTF8), *REPEATED_NUMBERS],
        write_statistics=["observed_ledger", "ledger_close_time"],
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata(metadata)
    return buffer.getvalue()


def to_file_types(pools: pl.DataFrame) -> pl.DataFrame:
    """The pools frame with the columns and the types of a history file."""
    microseconds = [pl.col(name) * 1_000_000 for name in column_names(ParquetType.TIMESTAMP)]
    return pools.select(*FILE_SCHEMA).with_columns(microseconds).cast(FILE_SCHEMA)


def stated_network(parquet: pq.ParquetFile) -> str:
    """The network that a file of the history states; empty if it states none."""
    metadata = parquet.metadata.metadata or {}
    return str(metadata.get(b"network", b""), errors="replace")


def scan_rows(data: bytes) -> pl.LazyFrame:
    """The rows of a history file in the columns of this version. A column that the file lacks is null.

    The statistics in the file are not used, because wrong ones could hide rows. Raises `DecodeError` for a file that
    cannot be read within `exporter.bounds`. Collecting the frame may raise `PolarsError`.
    """
    open_parquet(data)
    return pl.scan_parquet(
        data, schema=FILE_SCHEMA, missing_columns="insert", extra_columns="ignore", use_statistics=False
    )


def to_frame_types(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a history file with the types of the pools frame."""
    return rows.with_columns(cs.decimal().cast(pl.Int128), cs.datetime().dt.timestamp("us") // 1_000_000)


def _check_written(key: str, data: bytes, pools: pl.DataFrame, metadata: dict[str, str]) -> None:
    """Raise `CheckError` unless Polars reads a file back with this metadata and the rows of the frame."""
    try:
        read_metadata = pl.read_parquet_metadata(io.BytesIO(data))
        schema = pl.read_parquet_schema(io.BytesIO(data))
        if {name: read_metadata.get(name) for name in metadata} != metadata:
            raise CheckError(f"{key}: the file's metadata did not read back as it was written")
        if dict(schema) != FILE_SCHEMA:
            raise CheckError(f"{key}: Polars reads other types than were written: {schema}")
        read = pl.read_parquet(io.BytesIO(data), hive_partitioning=False)
        if not to_frame_types(read).equals(pools.select(read.columns)):
            raise CheckError(f"{key}: the file did not read back as the frame it was written from")
    except (*POLARS_ERRORS, OSError) as error:
        raise CheckError(f"{key}: Polars cannot read the file back: {error}") from error
