"""The frames of a run; everything that is published is made from them.

Amounts are token base units, prices are in units of 10^-``oracle_decimals`` US dollars, times are unix seconds,
``_bps`` are basis points rounded down. A rate or index of N decimals is an integer in units of 10^-N. Rows ascend by
market, then pool. The columns follow from the documents: those of pools from `exporter.tree.pools`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args

import polars as pl
from msgspec import Meta, Struct
from msgspec.structs import fields

from exporter.tree.documents import MarketBackstop, MarketEntry
from exporter.tree.pools import AssetDetail, Source, column_note
from exporter.tree.values import ParquetType

MAX_DECIMAL = 10**38 - 1
"""The largest amount in a history file, whose type is ``decimal(38,0)``. An Int128 reaches 1.7e38."""

YEAR = 31_536_000
"""Seconds, of 365 days: what rewards and yearly rates are given for."""

MAX_TIMESTAMP_SECONDS = 253_402_300_799
"""The last second of the year 9999; later times cannot be shown by most readers of Parquet."""

FRAME_DTYPES: Mapping[ParquetType, pl.DataType] = {
    ParquetType.UTF8: pl.String(),
    ParquetType.INT64: pl.Int64(),
    ParquetType.DECIMAL: pl.Int128(),
    ParquetType.TIMESTAMP: pl.Int64(),  # unix seconds
    ParquetType.BOOLEAN: pl.Boolean(),
}

_PLAIN = {str: ParquetType.UTF8, int: ParquetType.INT64, bool: ParquetType.BOOLEAN}


_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the pools frame, from its field in `exporter.tree.pools`.

    Attributes:
        document_type: the annotated type of the field, whose values documents have.
        source, position, meaning: as in `exporter.tree.pools.ColumnNote`.
    """

    name: str
    document_type: Any
    source: Source
    position: int
    meaning: str

    @property
    def type(self) -> ParquetType:
        return column_type(self.document_type)

    @property
    def nullable(self) -> bool:
        return self.source == "optional" or NoneType in _parts(self.document_type)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind):
        yield from _parts(part)


def column_type(kind: Any) -> ParquetType:
    """The type of a column for a kind of value of documents."""
    extras = [part.extra or {} for part in _parts(kind) if isinstance(part, Meta)]
    return next(
        (extra["column"] for extra in extras if "column" in extra),
        next(_PLAIN[part] for part in _parts(kind) if part in _PLAIN),
    )


def columns_of(model: type[Struct]) -> dict[str, pl.DataType]:
    """The columns of a frame that has a document's fields."""
    return {found.name: FRAME_DTYPES[column_type(found.type)] for found in fields(model)}


def bucket_columns(model: type[Struct], *place: str) -> dict[str, pl.DataType]:
    """The columns of a frame of buckets: whose they are, and in place of their two times the start (unix seconds)."""
    _, _, *rest = columns_of(model).items()
    return {**dict.fromkeys(place, pl.String()), "start": pl.Int64(), **dict(rest)}


def rows_as(kind: type[_Row], frame: pl.DataFrame) -> list[_Row]:
    """The rows of a frame as dicts, typed: ``kind`` is a TypedDict that has the columns to take, under their names.

    mypy finds a misspelt column where a row is used. Raises `polars.exceptions.ColumnNotFoundError` if the frame does
    not have a column that ``kind`` has.
    """
    return cast(list[_Row], frame.select(*kind.__annotations__).rows(named=True))


def time_text(seconds: pl.Expr) -> pl.Expr:
    """Unix seconds as documents write a time; null where that cannot be written as a date."""
    known = pl.when(seconds.is_between(0, MAX_TIMESTAMP_SECONDS)).then(seconds)
    return pl.from_epoch(known, "s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")


def written(name: str, kind: Any) -> pl.Expr:
    """A column of a frame as documents have values of a kind: numbers of 128 bits are digits, times texts."""
    if str in _parts(kind):
        match FRAME_DTYPES[column_type(kind)]:
            case pl.Int128():
                return pl.col(name).cast(pl.String)
            case pl.Int64():
                return time_text(pl.col(name)).alias(name)
    return pl.col(name)


def document_fields(model: type[Struct]) -> list[pl.Expr]:
    """The fields of a document as it has them, each from the column of its name."""
    return [written(found.name, found.type) for found in fields(model)]


def _columns_in(model: type[Struct]) -> Iterator[Column]:
    """The columns among the fields of a model and of the models inside it."""
    for field in fields(model):
        note = column_note(field)
        if note is not None:
            yield Column(field.name, field.type, note.source, note.position, note.meaning)
            continue
        for part in _parts(field.type):
            if isinstance(part, type) and issubclass(part, Struct):
                yield from _columns_in(part)


COLUMNS = sorted(_columns_in(AssetDetail), key=lambda column: column.position)
"""The columns of the pools frame, in the order of a Parquet file."""


def _frame(*sources: Source) -> dict[str, pl.DataType]:
    """The columns from some sources, with their types in a frame."""
    return {column.name: FRAME_DTYPES[column.type] for column in COLUMNS if column.source in sources}


POOLS_SCHEMA = _frame("required", "optional", "derived")
"""The pools frame: one row for each pool that was read."""

REQUIRED_COLUMNS = _frame("required")
"""The columns that every protocol's `project` gives, one row a pool."""

OPTIONAL_COLUMNS = _frame("optional")
"""The columns that a protocol's `project` may also give: what can be done, how much of it, at what risk, and its
rewards; the rest is null.

An amount is only given for what can be done: `exporter.protocols.compute` makes it 0 where its gate is closed, and null
where that is not known.
"""

MARKETS_SCHEMA: dict[str, pl.DataType] = {
    **columns_of(MarketEntry),
    **dict.fromkeys(("oracle", "config_hash", "wasm_hash"), pl.String()),
    "unread_count": pl.Int64(),  # of its pools, those that were not read
    "listed_source": pl.String(),  # null where it is not listed
}
"""The markets frame: one row for each market that was read."""

BACKSTOPS_SCHEMA: dict[str, pl.DataType] = {"market": pl.String(), **columns_of(MarketBackstop)}
"""The backstops frame: one row for each market that names one."""

SHARED = (
    *("market", "pool", "token_address", "decimals", "protocol", "version"),
    *("market_name", "market_status", "oracle", "wasm_hash"),
)
"""The columns of the pools frame that say which pool it is, of which market."""

Gate = Literal["can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate"]
"""A column that says whether an operation is possible."""

ALL_GATES: tuple[Gate, ...] = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")

GatedAmount = Literal["available_to_supply", "available_to_withdraw", "available_to_borrow"]

GATES: dict[Gate, GatedAmount] = {
    "can_withdraw": "available_to_withdraw",
    "can_borrow": "available_to_borrow",
    "can_supply": "available_to_supply",
}
"""The gate of each amount."""

VALID_PRICE = "valid"

ACTIVE = frozenset({"active", "admin_active", "partly_paused"})
"""Statuses of markets, in the protocols' own words, in which both lending and borrowing are open."""
