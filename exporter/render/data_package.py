"""Renders the tables for analysts: the newest run at a lasting URL, and a Data Package of it and of the history."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa

from exporter.history import changes_table, risk_table
from exporter.history.approximate import APPROXIMATE
from exporter.history.rollups import DAILY, HOURLY
from exporter.history.spreadsheet import csv_of
from exporter.tables import COLUMNS, Column, unit_by_ending
from exporter.tree import documents
from exporter.tree.families import CHANGES_TABLE, HISTORY_NOTES, LATEST_CSV, LATEST_PARQUET, RISK_TABLE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import CONTENT_TYPES
from exporter.tree.read_back import file_of
from exporter.tree.values import ParquetType

_TYPES = {
    ParquetType.UTF8: "string",
    ParquetType.INT64: "integer",
    ParquetType.DECIMAL: "number",  # as integers, frictionless would fail on more than 28 digits
    ParquetType.TIMESTAMP: "datetime",
    ParquetType.BOOLEAN: "boolean",
}


def _type(column: Column) -> str:
    """The type of a column in a Data Package. Integers that may be null are numbers, because pandas reads floats."""
    return "number" if column.nullable and column.type is ParquetType.INT64 else _TYPES[column.type]


PRIMARY_KEY = ("market", "pool", "observed_ledger")
"""The columns that identify a row."""

_NOTE = b"""\
This folder has rows more than once, in files of a run, of a day and of an hour: who reads all of it counts them twice.

Read one of history/daily.parquet and history/hourly*.parquet, or the files that v1/history.json names.
This file is here so that pandas and Polars refuse the folder.
"""


def render_tables(
    latest: bytes, history: documents.HistoryManifest, close_time: int, *, shows_risk: bool
) -> Iterator[RenderedFile]:
    """Render the newest run's table at its lasting URL, the Data Package, and notes for those who read files.

    ``history`` includes this run's file. ``close_time`` is that of this run's ledger, in unix seconds. ``shows_risk``
    says that the run shows a document of risk, so that there is a table of risk.
    """
    yield RenderedFile(LATEST_PARQUET.only_key, latest, FileKind.DOCUMENT)
    rows = pl.read_parquet(io.BytesIO(latest))
    yield RenderedFile(LATEST_CSV.only_key, csv_of(rows), FileKind.DOCUMENT)
    yield file_of(latest_metadata(rows.height, history.observed_ledger, close_time))
    yield file_of(data_package(history, close_time, shows_risk=shows_risk))
    yield from (RenderedFile(note.only_key, _NOTE, FileKind.DOCUMENT) for note in HISTORY_NOTES)


def latest_metadata(rows: int, ledger: int, close_time: int) -> documents.TableMetadata:
    """The description of ``v1/latest.csv``, for those who have only the file."""
    exact = {column.name: documents.TableColumn(_type(column), _unit(column), column.meaning) for column in COLUMNS}
    approximate = {column.name: documents.TableColumn("number", column.unit, column.meaning) for column in APPROXIMATE}
    return documents.TableMetadata(
        title="Lending markets of Soroban: every pool at the newest run",
        description="A row is one token's pool in one lending market. Numbers are exact, but for the columns that are "
        "said to be approximate, which are for plots. A text that a spreadsheet would run as a formula has ' in front.",
        csv="../v1/latest.csv",
        observed_ledger=ledger,
        ledger_close_time=documents.timestamp(close_time),
        rows=rows,
        columns=exact | approximate,
    )


def _unit(column: Column) -> str:
    is_amount = column.type is ParquetType.DECIMAL and "base units" in column.meaning
    unit_of_amounts = "base units" if is_amount or column.name.startswith("total_") else ""
    return unit_by_ending(column.name) or unit_of_amounts


_ARROW_TYPES = {pa.int64(): "integer", pa.large_string(): "string", pa.timestamp("us", "UTC"): "datetime"}
"""The Data Package's type for each Arrow type. Decimals, which are not here, are numbers."""


_FIELDS = {
    column.name: documents.DataField(column.name, _type(column), column.meaning, {"required": not column.nullable})
    for column in COLUMNS
} | {
    column.name: documents.DataField(column.name, "number", column.meaning, {"required": False})
    for column in APPROXIMATE
}
"""The description of each column in tables of pools: the exact ones, then the approximate ones."""


def _pools_resource(name: str, title: str, path: list[str], columns: Iterable[str]) -> documents.DataResource:
    """Describe a table of pools, which has these columns."""
    schema = documents.DataSchema([_FIELDS[column] for column in columns], primary_key=list(PRIMARY_KEY))
    return documents.DataResource(name, title, path, "parquet", CONTENT_TYPES["parquet"], schema)


def _resource_of(
    name: str, title: str, key: str, schema: pa.Schema, primary_key: list[str], optional: Iterable[str]
) -> documents.DataResource:
    """Describe a table by the descriptions in its schema. Columns in ``optional`` may be null."""
    fields = [
        documents.DataField(
            field.name,
            _ARROW_TYPES.get(field.type, "number"),
            field.metadata[b"description"].decode(),
            {"required": field.name not in optional},
        )
        for field in schema
    ]
    return documents.DataResource(
        name, title, [key], "parquet", CONTENT_TYPES["parquet"], documents.DataSchema(fields, primary_key=primary_key)
    )


def data_package(
    history: documents.HistoryManifest, close_time: int, *, shows_risk: bool = False
) -> documents.DataPackage:
    """The Data Package that describes the tables of a tree. The table of risk is among them if ``shows_risk``."""
    runs = [file.key for file in history.files]
    resources = [
        _pools_resource("latest", "Every pool at the newest run", [LATEST_PARQUET.only_key], _FIELDS),
        _pools_resource("daily", "Every pool at the last run of each closed day", [DAILY.key], DAILY.schema.names),
        _pools_resource(
            "hourly",
            "Every pool at the last run of each closed hour of the last 90 days, in some columns; v1/history.json "
            "names the files of earlier months",
            [HOURLY.key],
            HOURLY.schema.names,
        ),
        _pools_resource("history", "Every pool at every run", runs, [column.name for column in COLUMNS]),
        _resource_of(
            "changes",
            "Every change of a listed market since the first run",
            CHANGES_TABLE.only_key,
            changes_table.SCHEMA,
            ["id"],
            ("pool", "before", "after", "unit"),
        ),
    ]
    if shows_risk:
        amounts = (name for name in risk_table.SCHEMA.names if name.endswith("_usd_cents"))
        resources.append(
            _resource_of(
                "risk",
                "What falling prices would do to each listed market's debt, by checkpoint",
                RISK_TABLE.only_key,
                risk_table.SCHEMA,
                ["checkpoint", "market", "token_address", "fall_bps"],
                ("token_address", *amounts),
            )
        )
    return documents.DataPackage(
        schema="https://datapackage.org/profiles/2.0/datapackage.json",
        name="lending-markets",
        title="Lending markets of Soroban",
        description="Every pool of every lending market at one ledger a run, exact. A column x that has decimals is an "
        "integer in units of 10^-decimals. Columns of doubles are approximate, for plots.",
        created=documents.timestamp(close_time),
        observed_ledger=history.observed_ledger,
        resources=resources,
    )
