"""The rows that lists and pages take from frames, typed: what mypy takes them for is what they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

import polars as pl
import pytest

from exporter.best import with_ranks
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.protocols.numbers import MarketFrameRow, PoolFrameRow
from exporter.render.lists import ListedPool, with_list_columns
from exporter.render.site.rows import NamedPool, RankedPool, SiteMarket, market_rows, with_names
from exporter.tables import rows_as
from tests.protocols.world import World

KINDS: Mapping[type, frozenset[Any]] = {
    str: frozenset({pl.String}),
    int: frozenset({pl.Int64, pl.Int128, pl.UInt32}),
    bool: frozenset({pl.Boolean}),
    dict: frozenset({pl.Struct}),
}


@cache
def tables_of_every_protocol() -> list[Tables]:
    """The recorded markets of each protocol."""
    return [World(name).compute() for name in PROTOCOLS]


def pools() -> pl.DataFrame:
    """The recorded pools of all protocols."""
    return pl.concat(tables.pools for tables in tables_of_every_protocol()).sort("market", "pool")


def listed_pools() -> pl.DataFrame:
    """The made pools with the columns of lists."""
    frame = pools()
    return with_list_columns(frame, list(periods_of(Series().pools, 0, frame)), "mainnet")


def named_pools() -> pl.DataFrame:
    """The made pools with the columns of pages."""
    return with_names(listed_pools(), None)


def markets() -> pl.DataFrame:
    """The recorded markets of all protocols."""
    return pl.concat(tables.markets for tables in tables_of_every_protocol())


@pytest.mark.parametrize(
    ("kind", "frame"),
    [
        (PoolFrameRow, pools),
        (ListedPool, listed_pools),
        (NamedPool, named_pools),
        (RankedPool, lambda: with_ranks(named_pools())),
        (MarketFrameRow, markets),
    ],
    ids=["pools", "lists", "names", "ranks", "markets"],
)
def test_a_row_is_what_its_type_says(kind: Any, frame: Any) -> None:
    """A frame has the columns of its rows' type and no others, of these types, and null only if they allow it."""
    found: pl.DataFrame = frame()
    hints = get_type_hints(kind)
    assert set(hints) == set(found.columns)
    assert found.height
    for name, hint in hints.items():
        parts = set(get_args(hint)) - {NoneType} or {hint}
        (part,) = parts
        assert found.schema[name].base_type() in KINDS.get(part, KINDS[dict]), name
        if NoneType not in get_args(hint):
            assert 0 == found[name].null_count(), name


def test_rows_of_markets_say_whether_all_pools_are_closed() -> None:
    """A market of the site has its type's columns."""
    for tables in tables_of_every_protocol():
        for row in market_rows(tables, with_names(tables.pools, None)):
            assert set(SiteMarket.__annotations__) == set(row)
            assert row["closed"] in (True, False, None)


def test_a_column_that_is_missing_is_an_error() -> None:
    """Rows are never taken from a frame that lacks a column of their type."""
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="mean_supply_apy_bps_7d"):
        rows_as(ListedPool, pools())
