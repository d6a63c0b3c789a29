"""What docs/history.md says of later versions: a new column breaks nobody, a new format stops everybody."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from exporter import FORMAT
from tests.readers.snippets import ask, template
from tests.readers.trees import COLUMNS, Row, assert_found, rewrite_newest


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
