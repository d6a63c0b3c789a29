"""Columns made of plain integers, and asked for single numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, overload

import polars as pl

from exporter import exact_columns as exact
from exporter.protocols import PROTOCOLS
from tests.protocols.world import World


@overload
def at(rows: pl.DataFrame, time: int) -> pl.DataFrame: ...
@overload
def at(rows: Mapping[str, list[object]], time: int) -> dict[str, list[object]]: ...
def at(rows: pl.DataFrame | Mapping[str, list[object]], time: int) -> pl.DataFrame | dict[str, list[object]]:
    """Rows, or raw columns, with the same close time (unix seconds) in each."""
    if isinstance(rows, pl.DataFrame):
        return rows.with_columns(pl.lit(time, pl.Int128).alias("close_time"))
    return {**rows, "close_time": [time] * len(next(iter(rows.values()), []))}


def one(value: int) -> pl.Series:
    """A column of one number."""
    return exact.column([value])


def columnar(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function over columns, asked for single numbers."""

    def asked(*values: int) -> Any:
        found = function(*map(one, values))
        return tuple(column.item() for column in found) if isinstance(found, tuple) else found.item()

    return asked


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pl.DataFrame:
    """The raw columns of rows, numbers and texts."""
    series = []
    for name in columns:
        values = [row[name] for row in rows]
        texts = values and all(isinstance(value, str) for value in values)
        series.append(pl.Series(name, values, dtype=pl.String) if texts else exact.column(values, name))
    return pl.DataFrame(series)


def projected(
    project: Callable[[pl.DataFrame], pl.DataFrame], columns: Sequence[str]
) -> Callable[[Mapping[str, Any], int], dict[str, Any]]:
    """What is computed of one row at a time, without the columns that it is computed from."""

    def computed(row: Mapping[str, Any], time: int) -> dict[str, Any]:
        frame = project(at(frame_of([row], columns), time)).drop("close_time", *columns)
        return frame.row(0, named=True)

    return computed


@cache
def names_of(protocol: str) -> Mapping[str, Any]:
    """All that is read of a pool of a protocol, empty: numbers are 0."""
    pools = World(protocol).read().result.pools
    return {name: _empty(value) for name, value in pools[0].items()}


def _empty(value: object) -> object:
    match value:
        case str():
            return ""
        case tuple():
            return type(value)()
    return 0


def published(protocol: str, row: Mapping[str, Any], time: int) -> dict[str, Any]:
    """What is published of one pool; numbers that are not given are 0."""
    return PROTOCOLS[protocol].project({**names_of(protocol), **row, "close_time": time})


OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def closed(row: Mapping[str, Any]) -> str:
    """What cannot be done with a pool."""
    return " ".join(name for name in OPERATIONS if row[f"can_{name}"] is False)
