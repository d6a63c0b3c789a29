"""The tables for analysts: the newest run under a name that stays, and a Data Package of it and of the history."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.history.manifest import HistoryPart
from exporter.tables import COLUMNS, Column
from exporter.tree import documents
from exporter.tree.families import HISTORY_NOTES, LATEST_PARQUET
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import CONTENT_TYPES
from exporter.tree.read_back import file_of
from exporter.tree.values import ParquetType

_TYPES = {
    ParquetType.UTF8: "string",
    ParquetType.INT64: "integer",
    ParquetType.DECIMAL: "number",  # frictionless fails on integers of more than 28 digits
    ParquetType.TIMESTAMP: "datetime",
    ParquetType.BOOLEAN: "boolean",
}


def _type(column: Column) -> str:
    """The type of a Data Package. Its readers go through pandas, which has an integer that may be null as a float."""
    return "number" if column.nullable and column.type is ParquetType.INT64 else _TYPES[column.type]


_NOTE = b"""\
This folder has rows more than once, in files of a run, of a day and of an hour: who reads all of it counts them twice.

Read one of history/daily.parquet and history/hourly*.parquet, or the files that v1/history.json names.
This file is here so that pandas and Polars refuse the folder.
"""


def render_tables(part: HistoryPart, history: documents.HistoryManifest, close_time: int) -> Iterator[RenderedFile]:
    """Render the newest run's table under its lasting name, the package, and notes on what not to read.

    ``history`` has this run's file; its ledger closed at ``close_time`` (unix seconds).
    """
    yield RenderedFile(LATEST_PARQUET.template, part.file.data, FileKind.DOCUMENT)
    yield file_of(data_package(history, close_time))
    yield from (RenderedFile(note.template, _NOTE, FileKind.DOCUMENT) for note in HISTORY_NOTES)


def data_package(history: documents.HistoryManifest, close_time: int) -> documents.DataPackage:
    """Describe the tables of a tree."""
    schema = documents.DataSchema(
        fields=[
            documents.DataField(column.name, _type(column), column.meaning, {"required": not column.nullable})
            for column in COLUMNS
        ],
        primary_key=["market", "pool", "observed_ledger"],
    )

    def resource(name: str, title: str, path: list[str]) -> documents.DataResource:
        return documents.DataResource(name, title, path, "parquet", CONTENT_TYPES["parquet"], schema)

    return documents.DataPackage(
        schema="https://datapackage.org/profiles/2.0/datapackage.json",
        name="lending-markets",
        title="Lending markets of Soroban",
        description="Every pool of every lending market at one ledger a run, exact. A column x that has decimals is an "
        "integer in units of 10^-decimals.",
        created=documents.timestamp(close_time),
        observed_ledger=history.observed_ledger,
        resources=[
            resource("latest", "Every pool at the newest run", [LATEST_PARQUET.template]),
            resource("history", "Every pool at every run", [file.key for file in history.files]),
        ],
    )
