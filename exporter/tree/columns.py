"""What the field of a document says about its column in the pools frame: who gives it, its position and its meaning."""

from __future__ import annotations

from typing import Literal

from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

Source = Literal["required", "optional", "derived"]
"""Who gives a column: every protocol, some protocols, or a computation from other columns."""


class ColumnNote(Struct, frozen=True):
    """What the annotation of a field says about its column in the pools frame.

    Attributes:
        source: who gives the column.
        position: the column's position in a Parquet file. It never changes, and a new column takes the next position.
        meaning: what the column holds, with its unit, and when it is null. It can be read alone.
    """

    source: Source
    position: int
    meaning: str


def _column(source: Source, position: int, meaning: str) -> Meta:
    return Meta(description=meaning, extra={"column_note": ColumnNote(source, position, meaning)})


def required(position: int, meaning: str) -> Meta:
    """A column that every protocol gives."""
    return _column("required", position, meaning)


def optional(position: int, meaning: str) -> Meta:
    """A column that a protocol may give. It is null when unknown, unless the meaning says what null is."""
    return _column("optional", position, meaning if "null" in meaning else f"{meaning}; null when unknown")


def derived(position: int, meaning: str) -> Meta:
    """A column that is computed from the columns that protocols give."""
    return _column("derived", position, meaning)


def column_note(field_info: FieldInfo) -> ColumnNote | None:
    """The note about a field's column. None if the field is not a column of the pools frame."""
    extras = [meta.extra or {} for meta in getattr(field_info.type, "__metadata__", ())]
    return next((extra["column_note"] for extra in extras if "column_note" in extra), None)
