"""Approximate columns for plots: amounts in whole tokens, money in US dollars, yields as fractions.

The exact columns are integers, which a plot cannot use as they are: ``total_supplied / 10**decimals`` gives whole
tokens in Polars, but an error in pandas. So files with a lasting URL have these columns as well, of type DOUBLE. Each
value is the double that is nearest to the exact quotient. So the same rows give the same bytes on every machine. No
other number is computed from them.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pyarrow as pa
from msgspec import Struct

_MAX_POWER = 400
"""Largest power of ten that is computed. A number of 128 bits divided by a higher one is 0.0 as a double."""

_CENT_DECIMALS = 2
_BPS_DECIMALS = 4


class ApproximateColumn(Struct, frozen=True):
    """A column of doubles, which is an exact column divided by a power of ten.

    Attributes:
        source: the name of the exact column.
        decimals: the power of ten, or the name of the column that has it.
        meaning: what the column says, for people.
    """

    name: str
    source: str
    decimals: str | int
    meaning: str
    unit: str


def _tokens(name: str, source: str, what: str) -> ApproximateColumn:
    return ApproximateColumn(
        name, source, "decimals", f"approximate: {what} in whole tokens, {source} / 10^decimals", "tokens"
    )


def _dollars(name: str, source: str, what: str) -> ApproximateColumn:
    meaning = f"approximate: {what} in US dollars, {source} / 100; null without a valid price"
    return ApproximateColumn(name, source, _CENT_DECIMALS, meaning, "US dollars")


def _fraction(name: str, what: str, basis: str) -> ApproximateColumn:
    source = f"{name}_bps"
    meaning = f"approximate: {what} as a fraction (0.05 is 5 %), {source} / 10000; {basis}"
    return ApproximateColumn(name, source, _BPS_DECIMALS, meaning, "fraction")


_OWN_BASIS = "compounded as the protocol itself has it"
_DAILY_BASIS = "compounded daily, to compare protocols"

APPROXIMATE = (
    _tokens("supplied", "total_supplied", "what is lent into the pool"),
    _tokens("borrowed", "total_borrowed", "what is owed to the pool"),
    _tokens("available", "available_to_withdraw", "what the pool can pay out to its suppliers"),
    _dollars("supplied_usd", "supplied_usd_cents", "what is lent into the pool"),
    _dollars("borrowed_usd", "borrowed_usd_cents", "what is owed to the pool"),
    _dollars("tvl_usd", "tvl_usd_cents", "what the pool holds"),
    ApproximateColumn(
        "price_usd",
        "oracle_price",
        "oracle_decimals",
        "approximate: price of one token in US dollars, oracle_price / 10^oracle_decimals; null without a valid price",
        "US dollars",
    ),
    _fraction("supply_apy", "annual yield of suppliers", _OWN_BASIS),
    _fraction("borrow_apy", "annual cost of borrowers", _OWN_BASIS),
    _fraction("comparable_supply_apy", "annual yield of suppliers", _DAILY_BASIS),
    _fraction("comparable_borrow_apy", "annual cost of borrowers", _DAILY_BASIS),
    _fraction("total_supply_apy", "annual yield of suppliers, rewards included", _DAILY_BASIS),
)
"""All approximate columns, in the order in which files have them."""

APPROXIMATE_NAMES = tuple(column.name for column in APPROXIMATE)

APPROXIMATE_SOURCES = tuple(
    dict.fromkeys(name for column in APPROXIMATE for name in (column.source, column.decimals) if isinstance(name, str))
)
"""The exact columns from which the approximate ones are computed."""


def nearest_double(value: int | None, decimals: int | None) -> float | None:
    """The double that is nearest to value / 10^decimals; None if the value or the decimals are None.

    Python's division of two integers is rounded to the nearest double.
    """
    if value is None or decimals is None:
        return None
    power: int = 10 ** min(decimals, _MAX_POWER)
    return value / power


def with_approximate(rows: pl.DataFrame, names: Iterable[str] = APPROXIMATE_NAMES) -> pl.DataFrame:
    """The rows with the approximate columns of these names at the end. The rows have the types of `FILE_SCHEMA`."""
    chosen = frozenset(names)
    return rows.with_columns(_column(rows, column) for column in APPROXIMATE if column.name in chosen)


def _column(rows: pl.DataFrame, column: ApproximateColumn) -> pl.Series:
    values = rows[column.source].cast(pl.Int128).to_list()
    if isinstance(column.decimals, str):
        decimals: Iterable[int | None] = rows[column.decimals].to_list()
    else:
        decimals = [column.decimals] * rows.height
    doubles = [nearest_double(*pair) for pair in zip(values, decimals, strict=True)]
    return pl.Series(column.name, doubles, pl.Float64)


def arrow_fields(names: Iterable[str]) -> list[pa.Field]:
    """The Parquet fields of the approximate columns of these names, each with its meaning as description."""
    chosen = frozenset(names)
    return [
        pa.field(column.name, pa.float64(), metadata={"description": column.meaning})
        for column in APPROXIMATE
        if column.name in chosen
    ]
