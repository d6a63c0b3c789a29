"""CSV: what a spreadsheet shows is what the table has, and nothing in it runs."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import polars as pl
import pytest

from exporter.history.spreadsheet import csv_of


@pytest.mark.parametrize("text", ["=1+1", " =1", "+1", "-1", "@SUM(A1)", "\t=1", "\r1", "\n1", "\uff1d1"])
def test_a_symbol_that_looks_like_a_formula_is_text(text: str) -> None:
    """A token whose symbol begins as a formula does is shown as text."""
    (row,) = csv.DictReader(io.StringIO(csv_of(pl.DataFrame({"symbol": [text]})).decode(), newline=""))

    assert {"symbol": f"'{text}"} == row


def test_a_formula_inside_a_text_is_text_in_every_spreadsheet() -> None:
    """Where a semicolon begins a cell, or a line inside a text begins a row, a formula does not run."""
    text = "a;=1;b;\n @SUM(A1)\r-1; c=1"
    (row,) = csv.DictReader(io.StringIO(csv_of(pl.DataFrame({"name": [text]})).decode(), newline=""))

    assert {"name": "a;'=1;b;\n' @SUM(A1)\r'-1; c=1"} == row


def test_values_are_written_plainly() -> None:
    """Times are RFC 3339, null is nothing, a minus of a number stays one, and large integers have all digits."""
    time = datetime(2026, 11, 23, tzinfo=UTC)
    rows = pl.DataFrame(
        {"time": [time], "none": [None], "less": [-5], "large": pl.Series([2**100], dtype=pl.Int128), "name": ["a,b"]}
    )

    assert f'time,none,less,large,name\n2026-11-23T00:00:00Z,,-5,{2**100},"a,b"\n' == csv_of(rows).decode()
