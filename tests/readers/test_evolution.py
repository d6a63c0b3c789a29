"""What docs/history.md says of later versions: a new column breaks nobody, a new format stops everybody."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl

from exporter import FORMAT
from tests.readers.snippets import ask, template
from tests.readers.trees import COLUMNS, Row, assert_found, manifest_of, rewrite_newest


def with_a_column(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that adds a column; it may be null."""
    return frame.with_columns(pl.Series("later", [7, None] * (frame.height // 2), dtype=pl.Int64))


def renamed(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that renames a column and gives another meaning to one."""
    return frame.rename({"total_collateral": "collateral"}).with_columns(pl.col("supply_apy_bps") * 100)


def test_every_digit_with_a_new_column(reader: str, extremes: tuple[Path, list[Row]]) -> None:
    """Numbers of 38 digits, nulls, times and sums are in each reader what they were in Python.

    A column that only the newest file has changes nothing in that.
    """
    folder, rows = extremes
    for change in (pl.DataFrame.clone, with_a_column):
        rewrite_newest(folder, change)
        found = ask(reader, template(reader, folder), COLUMNS)

        assert_found(found, rows)
        assert found["rows"]
        assert any(str(10**38 - 1) == total for *_, total in found["totals"])


def test_a_new_version_stops_the_reader(reader: str, extremes: tuple[Path, list[Row]]) -> None:
    """A file whose columns mean something else is not read as if they did not: the snippet says so and ends."""
    folder, _ = extremes
    rewrite_newest(folder, renamed, number=FORMAT + 1)

    assert "a newer format: see Evolution in docs/history.md" in ask(reader, template(reader, folder))["refused"]


def test_a_new_column_is_null_before(extremes: tuple[Path, list[Row]]) -> None:
    """Who wants the new column gets it, as the documentation says: with nulls in the rows of earlier files."""
    folder, rows = extremes
    rewrite_newest(folder, with_a_column)
    files = [str(folder / file.key) for file in manifest_of(folder).files]
    newest = pl.read_parquet_schema(files[-1])
    scanned = pl.scan_parquet(files, schema=newest, missing_columns="insert", hive_partitioning=False)
    query = f"SELECT later FROM read_parquet({files!r}, union_by_name = true, hive_partitioning = false)"

    expected = [None] * (len(rows) - 3) + [7] * 3
    assert expected == scanned.collect()["later"].sort(nulls_last=False).to_list()
    with duckdb.connect() as connection:
        by_duckdb = connection.execute(f"{query} ORDER BY later NULLS FIRST").fetchall()
    assert expected == [later for (later,) in by_duckdb]
