"""The tables for analysts: the newest run as CSV next to its Parquet file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl


def test_the_newest_run_as_csv(tree: Path) -> None:
    """`v1/latest.csv` has the rows of `v1/latest.parquet`, and its metadata says what each column is."""
    table = pl.read_parquet(tree / "v1/latest.parquet")
    rows = list(csv.DictReader((tree / "v1/latest.csv").read_text("utf-8").splitlines()))
    metadata = json.loads((tree / "v1/latest.metadata.json").read_bytes())

    assert table.columns == list(rows[0]) == list(metadata["columns"])
    assert table.height == len(rows) == metadata["rows"]
    assert [str(value) for value in table["total_supplied"]] == [row["total_supplied"] for row in rows]
    assert all(column["description"] for column in metadata["columns"].values())
    units = {name: column["unit"] for name, column in metadata["columns"].items()}
    expected = {"total_supplied": "base units", "supply_apy_bps": "basis points", "supply_apy": "fraction"}
    assert expected == {name: units[name] for name in expected}
