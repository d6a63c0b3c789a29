"""Descriptions of the columns of files with tables: the metadata of CSV files, and the data package."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from exporter.tree.documents.kinds import ObservedLedger
from exporter.tree.values import Count, FileReference, ObjectKey, Timestamp, Words, doc


class TableColumn(Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a CSV file."""

    type: Annotated[Words, doc("Type of the column in a Table Schema.")]
    unit: Annotated[Words, doc("Unit of its numbers, such as basis points; empty if there is none.")]
    description: Annotated[Words, doc("What the column holds; an empty cell is null.")]


class TableMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """What a CSV file holds: its source, its time, and each of its columns."""

    title: Annotated[Words, doc("The table in a few words.")]
    description: Annotated[Words, doc("What a row is.")]
    csv: Annotated[FileReference, doc("Where the CSV file is, relative to this document.")]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    rows: Annotated[Count, doc("Rows in the file, without its head.")]
    columns: Annotated[dict[str, TableColumn], doc("The columns by name, in the order of the file.")]


class DaysMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """What each pool's `history.csv` holds: each of its columns by name."""

    title: Annotated[Words, doc("The tables in a few words.")]
    description: Annotated[Words, doc("What a row is, and which days the file has.")]
    csv: Annotated[Words, doc("Where the CSV file of a pool is, relative to this document, with its market and pool.")]
    columns: Annotated[dict[str, TableColumn], doc("The columns by name, in the order of the files.")]


class DataField(Struct, frozen=True, forbid_unknown_fields=True):
    """A column, as a data package describes it."""

    name: Annotated[Words, doc("Name of the column.")]
    type: Annotated[Words, doc("Type of the column in a Table Schema.")]
    description: Annotated[Words, doc("What the column holds, with its unit.")]
    constraints: Annotated[dict[str, bool], doc("`required`: whether it is never null.")]


class DataSchema(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The columns of a table, and which of them identify a row."""

    fields: Annotated[list[DataField], doc("The columns.")]
    primary_key: Annotated[list[Words], doc("Names of the columns that identify a row.")]


class DataResource(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a data package: one file, or several with the same columns and no row twice.

    `path` is relative to the root of the tree. Columns that an older file lacks are null in its rows.
    """

    name: Annotated[Words, doc("Name of the table.")]
    title: Annotated[Words, doc("The table in a few words.")]
    path: Annotated[list[ObjectKey], doc("Keys of the files, relative to the root of the tree.")]
    format: Annotated[Words, doc("The format of the files.")]
    mediatype: Annotated[Words, doc("The media type of the files.")]
    schema: Annotated[DataSchema, doc("The columns and the key of the table.")]


class DataPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """The Parquet files in the form of a Data Package 2.0, for tools that read such packages.

    The table `latest` has only the newest run; `history` has every run up to it.
    """

    schema: Annotated[Words, doc("URL of the profile that this document follows.")] = field(name="$schema")
    name: Annotated[Words, doc("Name of the package.")]
    title: Annotated[Words, doc("The package in a few words.")]
    description: Annotated[Words, doc("What the package holds.")]
    created: Annotated[Timestamp, doc("When the package was written.")]
    observed_ledger: ObservedLedger
    resources: Annotated[list[DataResource], doc("The tables.")]
