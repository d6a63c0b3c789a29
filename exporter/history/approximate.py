"""Approximate columns for plots: amounts in whole tokens, money in US dollars, yields as fractions.

The exact columns are integers that a plot cannot use as they are: ``total_supplied / 10**decimals`` gives whole tokens
in Polars and an error in pandas. So the files with a lasting URL also have these columns, of type DOUBLE. Each value
is the double nearest to the exact quotient, so the same rows give the same bytes everywhere. Nothing else follows
from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

_MAX_POWER = 400
"""A number of 128 bits divided by a higher power of ten is 0.0 as a double, so no higher power is computed."""

_DOLLARS = 2
_FRACTION = 4


@dataclass(frozen=True, slots=True)
class ApproximateColumn:
    """A column of doubles: the exact column ``source`` divided by 10^``decimals``.

    ``decimals`` names the column that has them, or is their number.
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
    return ApproximateColumn(name, source, _DOLLARS, meaning, "US dollars")


def _fraction(name: str, what: str, basis: str) -> ApproximateColumn:
    source = f"{name}_bps"
    meaning = f"approximate: {what} as a fraction (0.05 is 5 %), {source} / 10000; {basis}"
    return ApproximateColumn(name, source, _FRACTION, meaning, "fraction")


_OWN = "compounded as the protocol itself has it"
_DAILY = "compounded daily, to compare protocols"

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
    _fraction("supply_apy", "annual yield of suppliers", _OWN),
    _fraction("borrow_apy", "annual cost of borrowers", _OWN),
    _fraction("comparable_supply_apy", "annual yield of suppliers", _DAILY),
    _fraction("comparable_borrow_apy", "annual cost of borrowers", _DAILY),
    _fraction("total_supply_apy", "annual yield of suppliers, rewards included", _DAILY),
)
"""All approximate columns, in the order of the files that have all of them."""

APPROXIMATE_NAMES = tuple(column.name for column in APPROXIMATE)

APPROXIMATE_SOURCES = tuple(
    dict.fromkeys(name for column in APPROXIMATE for name in (column.source, column.decimals) if isinstance(name, str))
)
"""The exact columns that the approximate ones are made of."""


def nearest_double(value: int | None, decimals: int | None) -> float | None:
    """The double nearest to value / 10^decimals; null where either is. Python's division of integers rounds so."""
    if value is None or decimals is None:
        return None
    power: int = 10 ** min(decimals, _MAX_POWER)
    return value / power


def with_approximate(rows: pl.DataFrame, names: Iterable[str] = APPROXIMATE_NAMES) -> pl.DataFrame:
    """Rows in the types of a history file (`FILE_SCHEMA`) with the approximate columns of these names at the end."""
    wanted = frozenset(names)
    return rows.with_columns(_column(rows, column) for column in APPROXIMATE if column.name in wanted)


def _column(rows: pl.DataFrame, column: ApproximateColumn) -> pl.Series:
    values = rows[column.source].cast(pl.Int128).to_list()
    if isinstance(column.decimals, str):
        decimals: Iterable[int | None] = rows[column.decimals].to_list()
    else:
        decimals = [column.decimals] * rows.height
    doubles = [nearest_double(*pair) for pair in zip(values, decimals, strict=True)]
    return pl.Series(column.name, doubles, pl.Float64)


def arrow_fields(names: Iterable[str]) -> list[pa.Field]:
    """The fields of the approximate columns of these names in a Parquet file, each with its meaning."""
    wanted = frozenset(names)
    return [
        pa.field(column.name, pa.float64(), metadata={"description": column.meaning})
        for column in APPROXIMATE
        if column.name in wanted
    ]
