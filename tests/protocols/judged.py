"""Columns beside the plain integers of a judge: one answer for both, and a judge's word on rows of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from exporter.errors import ExactError
from exporter.numbers import exact
from tests.protocols.at_time import at


def one(value: int) -> pl.Series:
    """A column of one number."""
    return exact.column([value])


def columnar(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function over columns, asked for single numbers."""

    def asked(*values: int) -> Any:
        found = function(*map(one, values))
        return tuple(column.item() for column in found) if isinstance(found, tuple) else found.item()

    return asked


def asked_of_both(judged: Callable[..., Any], computed: Callable[..., Any]) -> pytest.MarkDecorator:
    """A test whose vectors are asked of the judge and of the columns, so that the judge is known to be right, too."""
    return pytest.mark.parametrize("asked", [judged, computed], ids=["judge", "columnar"])


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


def agree(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    project: Callable[[pl.DataFrame], pl.DataFrame],
    judged: Callable[[Any, int], Mapping[str, Any]],
    time: int,
) -> None:
    """Every row has the judge's numbers, and exactly those are set aside, by their error, for which it has none."""
    expected: list[Mapping[str, Any]] = []
    refused: set[int] = set()
    for position, row in enumerate(rows):
        try:
            expected.append(judged(row, time))
        except (OverflowError, ZeroDivisionError):
            refused.add(position)
    found, failures = exact.set_aside_failures(frame_of(rows, columns), lambda kept: project(at(kept, time)))

    assert refused == set(failures)
    assert all(isinstance(error, ExactError) for error in failures.values())
    names = list(expected[0]) if expected else []
    assert expected == (found.select(names).rows(named=True) if names else [])
