"""The tables for analysts: the newest run as CSV next to its Parquet file."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from exporter.history.risk_table import SCHEMA
from exporter.render.data_package import data_package
from exporter.tree.documents import HistoryManifest


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


def test_tables_that_describe_themselves(tree: Path) -> None:
    """The package lists the table of changes, with the columns and descriptions of the file."""
    package = json.loads((tree / "datapackage.json").read_bytes())
    (changes,) = (each for each in package["resources"] if each["name"] == "changes")
    schema = pq.read_schema(tree / changes["path"][0])

    assert [(each.name, each.metadata[b"description"].decode()) for each in schema] == [
        (each["name"], each["description"]) for each in changes["schema"]["fields"]
    ]
    assert "risk" not in {each["name"] for each in package["resources"]}


def test_the_table_of_risk_is_listed_where_it_is() -> None:
    """A run that shows a document of risk lists the table of risk, with types and meanings of its columns."""
    history = HistoryManifest(2, 100, [])
    names = [{each.name for each in data_package(history, 0, shows_risk=shown).resources} for shown in (False, True)]
    (table,) = (each for each in data_package(history, 0, shows_risk=True).resources if each.name == "risk")

    assert {"risk"} == names[1] - names[0]
    assert ["history/risk.parquet"] == table.path
    assert SCHEMA.names == [each.name for each in table.schema.fields]
    assert {"integer", "datetime", "string", "number"} == {each.type for each in table.schema.fields}
    assert not {each.name: each.constraints["required"] for each in table.schema.fields}["token_address"]
