"""Tests of exporter/history/parquet.py: files that every reader understands to the last digit."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

import exporter
import exporter.history.parquet
from exporter.errors import CheckError
from exporter.history.manifest import HistoryPart
from exporter.history.parquet import REPEATED_NUMBERS, history_key, render_history
from exporter.tables import COLUMNS, MAX_DECIMAL
from exporter.tree.documents import HistoryFile
from exporter.tree.files import FileKind
from exporter.tree.values import ParquetType
from tests.history.frames import CLOSE_TIME, LEDGER, pools_frame

EXTREMES = [0, 1, -1, 2**63, -(2**64), MAX_DECIMAL, -MAX_DECIMAL, 12_345_678_901_234_567_890_123_456_789_012_345_678]
DECIMALS = [column.name for column in COLUMNS if column.type is ParquetType.DECIMAL]


def render(pools: pl.DataFrame) -> HistoryPart:
    return render_history(
        pools, observed_ledger=LEDGER, ledger_close_time=CLOSE_TIME, network="Test SDF Network ; September 2015"
    )


def query(sql: str) -> list[tuple[object, ...]]:
    """The answer of DuckDB."""
    answer = duckdb.sql(sql)
    assert answer is not None
    return answer.fetchall()


@pytest.fixture(scope="module")
def extreme_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in its place, with the largest numbers in every decimal column, and nulls."""
    rows: list[dict[str, object]] = [dict.fromkeys(DECIMALS, value) for value in EXTREMES]
    rows.append({column.name: None for column in COLUMNS if column.nullable})
    part = render(pools_frame(rows))
    path = tmp_path_factory.mktemp("tree") / part.file.key
    path.parent.mkdir(parents=True)
    path.write_bytes(part.file.data)
    return path


def test_the_entry_describes_the_file() -> None:
    """The manifest's entry has rows, size, digest and ledger; the file's folder is the date on which it closed, UTC."""
    part = render(pools_frame([{}, {}]))
    key = "history/pools/date=2025-03-17/55261759.parquet"
    digest = hashlib.sha256(part.file.data).hexdigest()

    assert (FileKind.HISTORY, key) == (part.file.kind, part.file.key)
    assert HistoryFile(key, f"../{key}", 2, len(part.file.data), digest, LEDGER, LEDGER) == part.entry
    midnight = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp())
    assert "history/pools/date=2026-11-20/1.parquet" == history_key(1, midnight - 1)


def test_same_frame_same_bytes() -> None:
    """The same rows give the same bytes, whatever the order of the frame's columns; other rows give others."""
    frame = pools_frame([{"symbol": f"T{number}"} for number in range(20)])
    again = pools_frame([{"symbol": f"T{number}"} for number in range(20)]).select(reversed(frame.columns))

    assert render(frame).file.data == render(again).file.data
    assert render(frame).file.data != render(frame.with_columns(decimals=pl.col("decimals") + 1)).file.data


def test_readers_see_every_digit(extreme_file: Path) -> None:
    """DuckDB sees decimal(38,0) with all 38 digits and compares exactly; pyarrow the documented types, and nulls."""
    found = query(f"SELECT {', '.join(DECIMALS)} FROM '{extreme_file}' WHERE symbol = 'text'")
    columns = query(f"DESCRIBE SELECT * FROM '{extreme_file}'")
    table = pq.read_table(extreme_file, partitioning=None)
    arrow = {
        ParquetType.UTF8: "large_string",
        ParquetType.INT64: "int64",
        ParquetType.DECIMAL: "decimal128(38, 0)",
        ParquetType.TIMESTAMP: "timestamp[us, tz=UTC]",
        ParquetType.BOOLEAN: "bool",
    }

    assert [(Decimal(value),) * len(DECIMALS) for value in EXTREMES] == found[: len(EXTREMES)]
    assert {"DECIMAL(38,0)"} == {kind for name, kind, *_ in columns if name in DECIMALS}
    assert [(1,)] == query(f"SELECT count(*) FROM '{extreme_file}' WHERE total_supplied = {MAX_DECIMAL}")
    assert [(column.name, arrow[column.type]) for column in COLUMNS] == [
        (field.name, str(field.type)) for field in table.schema
    ]
    assert [None] == [table["oracle_price"].to_pylist()[-1]]
    assert datetime.fromtimestamp(CLOSE_TIME, UTC) == table["ledger_close_time"][0].as_py().astimezone(UTC)


def test_no_type_that_readers_disagree_on(extreme_file: Path) -> None:
    """Physically, decimals are 16-byte decimals; there is no float, unsigned or bare 16-byte column.

    Only what distinguishes files has statistics, only what many rows share has dictionaries; a file says what it is.
    """
    metadata = pq.read_metadata(extreme_file)
    physical = {metadata.schema.column(position).physical_type for position in range(metadata.num_columns)}
    group = metadata.row_group(0)
    columns = {(column := group.column(position)).path_in_schema: column for position in range(group.num_columns)}
    texts = {column.name for column in COLUMNS if column.type is ParquetType.UTF8}

    assert {"BYTE_ARRAY", "INT64", "FIXED_LEN_BYTE_ARRAY", "BOOLEAN"} == physical
    assert {"observed_ledger", "ledger_close_time"} == {
        name for name in columns if columns[name].statistics is not None
    }
    assert texts | {*REPEATED_NUMBERS} == {name for name in columns if columns[name].has_dictionary_page}
    assert "ZSTD" == columns["total_supplied"].compression
    assert {
        b"table": b"pools",
        b"network": b"Test SDF Network ; September 2015",
        b"observed_ledger": str(LEDGER).encode(),
        b"ledger_close_time": str(CLOSE_TIME).encode(),
        b"exporter_version": exporter.__version__.encode(),
    } == {name: value for name, value in metadata.metadata.items() if name != b"ARROW:schema"}


@pytest.mark.parametrize(
    "corruption",
    [
        lambda frame: frame.with_columns(total_borrowed=pl.col("total_borrowed") + 1),
        lambda frame: frame.with_columns(oracle_price=pl.lit(None, pl.Decimal(38, 0))),
        lambda frame: frame.with_columns(symbol=pl.col("symbol") + "x"),
        lambda frame: frame.with_columns(pl.col("ledger_close_time").dt.offset_by("1s")),
        lambda frame: frame.with_columns(pl.col("decimals").cast(pl.Int32)),
        lambda frame: frame[:-1],
        lambda frame: frame.drop("wasm_hash"),
    ],
)
def test_a_writer_that_errs_is_noticed(monkeypatch: pytest.MonkeyPatch, corruption: object) -> None:
    """A file that does not read back as the frame is refused, whatever the writer did."""
    faithful = exporter.history.parquet.to_file_types
    monkeypatch.setattr(exporter.history.parquet, "to_file_types", lambda pools: corruption(faithful(pools)))  # type: ignore[operator]
    with pytest.raises(CheckError, match=r"55261759\.parquet: "):
        render(pools_frame([{}, {}]))


def test_a_writer_that_breaks_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without its end is not accepted."""
    monkeypatch.setattr(pq.ParquetWriter, "close", lambda _: None)
    with pytest.raises(CheckError, match=r"55261759\.parquet: Polars cannot read"):
        render(pools_frame([{}]))
