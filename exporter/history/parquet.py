"""The history: one immutable Parquet file a run, exact in every reader, the same bytes for the same frame.

A file is written by pyarrow and read back by Polars, another implementation, before it is accepted. Only columns whose
values come again have dictionaries, and only the two that distinguish files have statistics.

Types are those that every reader of Parquet agrees on: no 128-bit and no unsigned integers. The history has no floats;
the newest run's table under its lasting URL (`render_latest`) has some next to the exact columns, for plots.
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
from exporter.parquet_bounds import open_parquet
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
"""How each type is written, as Polars and as pyarrow have it."""


def column_names(kind: ParquetType) -> list[str]:
    """Name the columns of one type, in the order of the file."""
    return [column.name for column in COLUMNS if column.type is kind]


FILE_SCHEMA = pl.Schema({column.name: _TYPES[column.type][0] for column in COLUMNS})

ORDER = ("market", "pool", "observed_ledger")
"""How the rows of a file of several runs are sorted."""

# Not converted from a frame: that would start the threads of Polars, and a process that forks after it hangs.
ARROW_SCHEMA: pa.Schema = pa.schema([(column.name, _TYPES[column.type][1]) for column in COLUMNS])

DESCRIBED_SCHEMA: pa.Schema = pa.schema(
    [ARROW_SCHEMA.field(column.name).with_metadata({"description": column.meaning}) for column in COLUMNS]
)
"""The schema of a file with a lasting URL: each field's metadata says what the column holds.

The file of a run has no descriptions, which would be a third of it.
"""

ROW_GROUP_ROWS = 100_000

REPEATED = (
    "decimals",
    "oracle_price",
    "price_timestamp",
    "collateral_factor_bps",
    "liquidation_threshold_bps",
    "liability_factor_bps",
    "max_utilization_bps",
)
"""Numbers that many pools of a run share."""


def history_key(observed_ledger: int, ledger_close_time: int) -> str:
    """The key of a run's file: the folder is the UTC date on which the ledger closed (unix seconds)."""
    date = datetime.fromtimestamp(ledger_close_time, UTC).date()
    return RUN_PARQUET.key(day=f"{date:%Y-%m-%d}", ledger=observed_ledger)


def render_history(pools: pl.DataFrame, *, observed_ledger: int, ledger_close_time: int, network: str) -> HistoryPart:
    """The Parquet file of a run (time in unix seconds, ``network`` a passphrase), sorted by market and pool.

    Raises `CheckError` where it did not read back.
    """
    metadata = _metadata(observed_ledger, ledger_close_time, network)
    data = _written(to_file_types(pools).to_arrow(), metadata)
    key = history_key(observed_ledger, ledger_close_time)
    _check_written(key, data, pools, metadata)
    return HistoryPart(RenderedFile(key, data, FileKind.HISTORY), history_entry(key, data, pools.height))


def render_latest(pools: pl.DataFrame, *, observed_ledger: int, ledger_close_time: int, network: str) -> bytes:
    """The newest run's table under its lasting URL: the rows of the run's file, approximate columns, descriptions."""
    metadata = _metadata(observed_ledger, ledger_close_time, network)
    schema = pa.schema([*DESCRIBED_SCHEMA, *arrow_fields(APPROXIMATE_NAMES)])
    return _written(with_approximate(to_file_types(pools)).to_arrow().cast(schema), metadata)


def run_file_of_latest(latest: bytes) -> bytes:
    """The file of the run that a newest run's table was rendered with. Raises `DecodeError` for any other file."""
    try:
        said = open_parquet(latest).metadata.metadata or {}
        part = render_history(
            to_frame_types(scan_rows(latest).collect()),
            observed_ledger=int(said[b"observed_ledger"]),
            ledger_close_time=int(said[b"ledger_close_time"]),
            network=said[b"network"].decode(),
        )
    except (pl.exceptions.PolarsError, CheckError, LookupError, ValueError, ArithmeticError, OSError) as error:
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


def _written(table: pa.Table, metadata: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        table.schema,
        compression="zstd",
        compression_level=12,
        use_dictionary=[*column_names(ParquetType.UTF8), *REPEATED],
        write_statistics=["observed_ledger", "ledger_close_time"],
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata(metadata)
    return buffer.getvalue()


def to_file_types(pools: pl.DataFrame) -> pl.DataFrame:
    """Columns of the pools frame with the types that they have in a history file."""
    microseconds = [pl.col(name) * 1_000_000 for name in column_names(ParquetType.TIMESTAMP)]
    return pools.select(*FILE_SCHEMA).with_columns(microseconds).cast(FILE_SCHEMA)


def scan_rows(data: bytes) -> pl.LazyFrame:
    """A history file in the columns of this version, null where it has none. Collecting may raise `PolarsError`.

    Raises `DecodeError` for a file that cannot be read within `exporter.bounds`.
    No row is passed over because the file's own statistics say that it does not matter: they may hide it.
    """
    open_parquet(data)
    return pl.scan_parquet(
        data, schema=FILE_SCHEMA, missing_columns="insert", extra_columns="ignore", use_statistics=False
    )


def to_frame_types(rows: pl.DataFrame) -> pl.DataFrame:
    """Columns of a history file with the types that they have in the pools frame."""
    return rows.with_columns(cs.decimal().cast(pl.Int128), cs.datetime().dt.timestamp("us") // 1_000_000)


def _check_written(key: str, data: bytes, pools: pl.DataFrame, metadata: dict[str, str]) -> None:
    try:
        written = pl.read_parquet_metadata(io.BytesIO(data))
        schema = pl.read_parquet_schema(io.BytesIO(data))
        if {name: written.get(name) for name in metadata} != metadata:
            raise CheckError(f"{key}: the file's metadata did not read back as it was written")
        if dict(schema) != FILE_SCHEMA:
            raise CheckError(f"{key}: Polars reads other types than were written: {schema}")
        read = pl.read_parquet(io.BytesIO(data), hive_partitioning=False)
        if not to_frame_types(read).equals(pools.select(read.columns)):
            raise CheckError(f"{key}: the file did not read back as the frame it was written from")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CheckError(f"{key}: Polars cannot read the file back: {error}") from error
