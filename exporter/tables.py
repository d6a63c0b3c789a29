"""The frames of a run, from which everything is made that is published.

Amounts are in base units of the token, prices in units of 10^-``oracle_decimals`` US dollars, times in unix seconds,
and ``_bps`` in basis points, rounded down. A rate or index with N decimals is an integer in units of 10^-N. Rows ascend
by market, then pool. The columns follow from the models of documents, and those of pools from `exporter.tree.pools`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import starmap
from types import NoneType
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, cast, get_args

import polars as pl
from msgspec import Meta, Struct
from msgspec.structs import fields

from exporter.exact import INT128_MAX
from exporter.tree.columns import Source, column_note
from exporter.tree.documents import MarketBackstop, MarketEntry
from exporter.tree.pools import AssetDetail
from exporter.tree.values import ParquetType

MAX_DECIMAL = 10**38 - 1
"""The largest amount in a history file, whose type is ``decimal(38,0)``. An Int128 reaches 1.7e38."""

YEAR = 31_536_000
"""The seconds of a year of 365 days, for which rewards are stated."""

MAX_TIMESTAMP_SECONDS = 253_402_300_799
"""The last second of the year 9999. Most readers of Parquet cannot show later times."""

FRAME_DTYPES: Mapping[ParquetType, pl.DataType] = {
    ParquetType.UTF8: pl.String(),
    ParquetType.INT64: pl.Int64(),
    ParquetType.DECIMAL: pl.Int128(),
    ParquetType.TIMESTAMP: pl.Int64(),  # unix seconds
    ParquetType.BOOLEAN: pl.Boolean(),
}

_PLAIN = {str: ParquetType.UTF8, int: ParquetType.INT64, bool: ParquetType.BOOLEAN}


_Row = TypeVar("_Row")
_Document = TypeVar("_Document", bound=Struct)


class _RowOfPool(TypedDict):
    """A row that has at least the columns of `PoolKey`."""

    market: str
    pool: str


class PoolKey(NamedTuple):
    """What identifies a pool, and a row of the pools frame: its market's address, and its id inside that market.

    It compares, sorts and unpacks like a row of these two columns.
    """

    market: str
    pool: str

    @classmethod
    def of(cls, row: _RowOfPool) -> PoolKey:
        """What identifies the pool of a row."""
        return cls(row["market"], row["pool"])


class Column(Struct, frozen=True, dict=True):
    """A column of the pools frame, as its field in `exporter.tree.pools` describes it.

    Attributes:
        name: the column's name, which is the field's.
        document_type: the annotated type of the field in documents.
        source: who gives the column (`exporter.tree.columns.ColumnNote`).
        position: the column's position in a Parquet file.
        meaning: what the column holds, with its unit.
    """

    name: str
    document_type: Any
    source: Source
    position: int
    meaning: str

    @cached_property
    def type(self) -> ParquetType:
        """The type of the column in a Parquet file."""
        return column_type(self.document_type)

    @cached_property
    def nullable(self) -> bool:
        """Whether the column can be null."""
        return self.source == "optional" or NoneType in _parts(self.document_type)


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind):
        yield from _parts(part)


def column_type(kind: Any) -> ParquetType:
    """The type of a column that has this kind of value in documents."""
    extras = [part.extra or {} for part in _parts(kind) if isinstance(part, Meta)]
    return next(
        (extra["column"] for extra in extras if "column" in extra),
        next(_PLAIN[part] for part in _parts(kind) if part in _PLAIN),
    )


def columns_of(model: type[Struct]) -> dict[str, pl.DataType]:
    """The columns of a frame that has the fields of a document."""
    return {item.name: FRAME_DTYPES[column_type(item.type)] for item in fields(model)}


def bucket_columns(model: type[Struct], *owner: str) -> dict[str, pl.DataType]:
    """The columns of a frame of time buckets, which begin with those that say whose the buckets are.

    The start in unix seconds replaces the two times that documents have.
    """
    _, _, *rest = columns_of(model).items()
    return {**dict.fromkeys(owner, pl.String()), "start": pl.Int64(), **dict(rest)}


def frame_of_rows(rows: Iterable[Mapping[str, object]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The frame of rows that have all columns of a schema. From columns, Polars takes three times as long.

    Raises `TypeError` if a value is not of its column's type, and `polars.exceptions.PolarsError` or `OverflowError` if
    an integer does not fit. From rows, Polars would convert the one, and make a null of some of the others.
    """
    records = [tuple(row[name] for name in schema) for row in rows]
    for (name, dtype), values in zip(schema.items(), zip(*records, strict=True), strict=bool(records)):
        accepted = (_python_type(dtype), NoneType)
        if wrong := next((kind for kind in set(map(type, values)) if not issubclass(kind, accepted)), None):
            raise TypeError(f"{name} would be a value of the type {wrong.__name__}")
        if dtype.is_integer() and any(value is not None and value > INT128_MAX for value in values):
            raise OverflowError(f"{name} would be a number above 128 bits")
    return pl.DataFrame(records, schema=schema, orient="row")


@cache
def _python_type(dtype: pl.DataType) -> type:
    return dtype.to_python()


def rows_as(kind: type[_Row], frame: pl.DataFrame) -> list[_Row]:
    """The rows of a frame as typed dicts. ``kind`` is a TypedDict that has the names of the columns to take.

    So mypy finds a misspelt column. Raises `polars.exceptions.ColumnNotFoundError` if the frame lacks a column.
    """
    return cast(list[_Row], frame.select(*kind.__annotations__).rows(named=True))


def unit_by_ending(name: str) -> str:
    """The unit that the ending of a column's name says; empty if it says none."""
    units = {"_bps": "basis points", "_usd_cents": "US cents"}
    return next((unit for ending, unit in units.items() if name.endswith(ending)), "")


def pool_keys(frame: pl.DataFrame) -> list[PoolKey]:
    """The pools of a frame, in the order of its rows."""
    return [PoolKey(market, pool) for market, pool in frame.select(*PoolKey._fields).iter_rows()]


def time_text(seconds: pl.Expr) -> pl.Expr:
    """Times (unix seconds) as documents write them. Null for a time that cannot be written as a date."""
    writable = pl.when(seconds.is_between(0, MAX_TIMESTAMP_SECONDS)).then(seconds)
    return pl.from_epoch(writable, "s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")


def written(name: str, kind: Any) -> pl.Expr:
    """A column of a frame in the form that documents have: numbers of 128 bits as digits, times as texts."""
    if str in _parts(kind):
        match FRAME_DTYPES[column_type(kind)]:
            case pl.Int128():
                return pl.col(name).cast(pl.String)
            case pl.Int64():
                return time_text(pl.col(name)).alias(name)
    return pl.col(name)


@cache
def document_fields(model: type[Struct]) -> Sequence[pl.Expr]:
    """The fields of a document in its form, each from the column with its name."""
    return [written(item.name, item.type) for item in fields(model)]


def documents_of(model: type[_Document], frame: pl.DataFrame) -> Iterator[_Document]:
    """The rows of a frame as documents, each field from the column with its name.

    Raises `polars.exceptions.ColumnNotFoundError` if the frame lacks a column.
    """
    return starmap(model, frame.select(document_fields(model)).iter_rows())


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
"""The columns of the pools frame, which has a row for each pool that was read."""

REQUIRED_COLUMNS = _frame("required")
"""The columns that every protocol's `project` gives for each pool."""

OPTIONAL_COLUMNS = _frame("optional")
"""The columns that a protocol's `project` may give: operations, amounts, risk and rewards. Otherwise they are null.

`exporter.protocols.compute` makes an amount 0 if its gate is closed, and null if the gate's state is not known.
"""

MARKETS_SCHEMA: dict[str, pl.DataType] = {
    **columns_of(MarketEntry),
    **dict.fromkeys(("oracle", "config_hash", "wasm_hash"), pl.String()),
    "unread_count": pl.Int64(),  # pools of the market that were not read
    "listed_source": pl.String(),  # null if the market is not listed
}
"""The columns of the markets frame, which has a row for each market that was read."""

BACKSTOPS_SCHEMA: dict[str, pl.DataType] = {"market": pl.String(), **columns_of(MarketBackstop)}
"""The columns of the backstops frame, which has a row for each market that names a backstop."""

SHARED = (
    *("market", "pool", "token_address", "decimals", "protocol", "version"),
    *("market_name", "market_status", "oracle", "wasm_hash"),
)
"""The columns of the pools frame that identify the pool and its market."""

Gate = Literal["can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate"]
"""A column that says whether an operation is possible."""

ALL_GATES: tuple[Gate, ...] = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")

GatedAmount = Literal["available_to_supply", "available_to_withdraw", "available_to_borrow"]

GATES: dict[Gate, GatedAmount] = {
    "can_withdraw": "available_to_withdraw",
    "can_borrow": "available_to_borrow",
    "can_supply": "available_to_supply",
}
"""The amount behind each gate."""

VALID_PRICE = "valid"

ACTIVE = frozenset({"active", "admin_active", "partly_paused"})
"""The statuses of markets, in the protocols' own words, in which both lending and borrowing are open."""
