"""What docs/history.md says of later versions: a new column breaks nobody, a new format stops everybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pytest

from exporter import FORMAT
from tests.readers.snippets import Worker, skip_without_java, template
from tests.readers.trees import (
    COLUMNS,
    Row,
    expected_rates,
    expected_rows,
    expected_totals,
    extreme_tree,
    manifest_of,
    rewrite_newest,
)
from tests.readers.worker import Answer, answer

Ask = Callable[..., Answer]


def with_a_column(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that adds a column; it may be null."""
    return frame.with_columns(pl.Series("later", [7, None] * (frame.height // 2), dtype=pl.Int64))


def renamed(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that renames a column and gives another meaning to one."""
    return frame.rename({"total_collateral": "collateral"}).with_columns(pl.col("supply_apy_bps") * 100)


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, list[Row]]:
    """A history of compacted files and single runs, and its rows."""
    return tmp_path / "public", extreme_tree(tmp_path / "public")


def assert_unharmed(ask: Ask, reader: str, tree: tuple[Path, list[Row]]) -> None:
    folder, rows = tree
    rewrite_newest(folder, with_a_column)
    found = ask(reader, template(reader, folder), COLUMNS)

    assert expected_rows(rows) == found["rows"]
    assert expected_rates(rows) == found["rates"]
    assert expected_totals(rows) == found["totals"]


def assert_stopped(ask: Ask, reader: str, folder: Path) -> None:
    rewrite_newest(folder, renamed, number=FORMAT + 1)

    assert "a newer format: see Evolution in docs/history.md" in ask(reader, template(reader, folder))["refused"]


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_a_new_column_breaks_nobody(reader: str, tree: tuple[Path, list[Row]]) -> None:
    """With a column that only the newest file has, every number that was there before is read as before."""
    assert_unharmed(answer, reader, tree)


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_a_new_version_stops_the_reader(reader: str, tree: tuple[Path, list[Row]]) -> None:
    """A file whose columns mean something else is not read as if they did not: the snippet says so and ends."""
    assert_stopped(answer, reader, tree[0])


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["pandas", "pyspark"])
def test_others_go_on_or_stop(reader: str, tree: tuple[Path, list[Row]], others: Worker) -> None:
    """Likewise pandas and PySpark go on with a new column and stop at a new version."""
    skip_without_java(reader)
    assert_unharmed(others.anything, reader, tree)
    assert_stopped(others.anything, reader, tree[0])


def test_a_new_column_is_null_before(tree: tuple[Path, list[Row]]) -> None:
    """Who wants the new column gets it, as the documentation says: with nulls in the rows of earlier files."""
    folder, rows = tree
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
