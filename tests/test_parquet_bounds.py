"""A Parquet file is opened only if what it has, and not what it says, fits."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter import parquet_bounds
from exporter.errors import DecodeError, SourceError
from exporter.history import export
from exporter.parquet_bounds import frame_of, open_parquet
from exporter.tree.documents import HistoryFile

TABLE = pa.table(
    {
        "ledger": pa.array(range(3000)),
        "market": pa.array([f"M{number % 7}" for number in range(3000)]),
        "amount": pa.array([None, 10**30] * 1500, pa.decimal128(38, 0)),
        "paused": pa.array([True, None, False] * 1000),
    }
)


def written(table: pa.Table, **options: Any) -> bytes:
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "write_page_checksum": True},
        {"compression": "none", "row_group_size": 100},
        {"compression": "snappy", "data_page_version": "2.0", "data_page_size": 100},
        {"compression": "gzip", "use_dictionary": False},
    ],
)
def test_files_of_every_writer_are_read(options: dict[str, Any]) -> None:
    """A file is read whatever its compression, pages and row groups; so is one without rows, and one of Polars."""
    assert TABLE.equals(open_parquet(written(TABLE, **options)).read())
    assert 0 == open_parquet(written(TABLE.slice(0, 0), **options)).read().num_rows
    target = io.BytesIO()
    pl.DataFrame(pl.from_arrow(TABLE)).write_parquet(target, row_group_size=1000)
    assert 3000 == open_parquet(target.getvalue()).metadata.num_rows


def many_rows() -> bytes:
    """Five million equal values, in a few kilobytes."""
    return written(pa.table({"zero": pa.array([0]).take(pa.array([0] * 5_000_000))}), row_group_size=10**7)


def long_values() -> bytes:
    """A hundred thousand times the same mebibyte, in a kilobyte."""
    indices = pa.array([0] * 100_000, pa.int32())
    return written(
        pa.table({"text": pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 2**20]))}), compression="zstd"
    )


BOMBS: dict[str, tuple[Any, str]] = {
    "rows": (many_rows, "says that it has 5,000,000 rows, more than can be read"),
    "dictionary": (long_values, "more than 2,147,483,648 bytes"),
    "prefixes": (
        lambda: written(
            pa.table({"text": ["x" * 1000] * 9}), use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}
        ),
        "has the encoding 7",
    ),
    "nested": (lambda: written(pa.table({"list": [[1, 2], [3]]})), "nested"),
    "compression": (lambda: written(TABLE, compression="brotli"), "has a compression that no history has"),
    "footer": (lambda: b"PAR1" + bytes(20) + (2**31 - 1).to_bytes(4, "little") + b"PAR1", "footer would have"),
    "cut": (lambda: written(TABLE)[:-9], "is not a Parquet file"),
    "empty": (bytes, "is not a Parquet file"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_is_larger_than_it_looks_is_refused(bomb: str) -> None:
    """Rows, values, prefixes and footers that unpack to more than is accepted are refused before they are read."""
    make, reason = BOMBS[bomb]
    data = make()
    before = pa.total_allocated_bytes()

    assert len(data) < 2**20
    with pytest.raises(DecodeError, match=reason):
        open_parquet(data)
    assert pa.total_allocated_bytes() - before < 2**22


def test_pages_are_counted_and_not_what_the_footer_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes in page headers count, of the columns alone that are to be read."""
    data = written(TABLE, compression="zstd", use_dictionary=False)
    monkeypatch.setattr(parquet_bounds, "PARQUET_BYTES", 3000 * 8 + 200)

    assert ["ledger"] == open_parquet(data, ["ledger"]).read(["ledger"]).column_names
    with pytest.raises(DecodeError, match="24,200 bytes"):
        open_parquet(data)


def test_metadata_that_is_no_text_does_not_make_polars_panic() -> None:
    """Strangers choose a file's metadata, of the table and of its columns. The rows are read all the same."""
    fields = [field.with_metadata({b"\xff": b"\xfe"}) for field in TABLE.schema]
    odd = TABLE.cast(pa.schema(fields, {b"network": b"\xff"}))

    assert frame_of(TABLE).equals(frame_of(open_parquet(written(odd)).read()))


def test_a_column_whose_name_is_no_text_is_refused() -> None:
    """The name of a column is text, and a file that says otherwise is damaged."""
    data = written(TABLE.slice(0, 5), store_schema=False).replace(b"paused", b"pau\xffed")
    with pytest.raises(DecodeError, match="invalid start byte"):
        open_parquet(data)


def test_a_panic_of_polars_is_an_error_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars panics for some damaged files. That is no ``Exception``, and still ends nothing but the reading."""

    def panic(_: bytes) -> pl.LazyFrame:
        raise pl.exceptions.PanicException("assertion failed")

    monkeypatch.setattr(export, "scan_rows", panic)
    file = HistoryFile("history/pools/date=2026-11-29/5.parquet", "", 1, 1, "", 5, 5)
    with pytest.raises(SourceError, match=r"5\.parquet does not have the columns"):
        export.rows_of(b"", file)


def test_damage_is_refused_with_one_kind_of_error() -> None:
    """Whatever byte is changed, the file is opened or refused with `DecodeError`."""
    data = written(TABLE.slice(0, 50), compression="zstd")
    refused = 0
    for at in range(4, len(data), 3):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            open_parquet(damaged)
        except DecodeError:
            refused += 1

    assert refused > 100
