"""The schemas of the two frames, against everything that is made from them."""

from __future__ import annotations

import polars as pl

from exporter.tables import BACKSTOPS, MARKETS, POOLS, VALID_PRICE


def test_no_floats() -> None:
    """No column of either frame can hold a float, nor a number that wraps or rounds by its type."""
    allowed = {pl.String(), pl.Int64(), pl.Int128(), pl.Boolean()}

    assert allowed == set(POOLS.values()) | set(MARKETS.values()) | set(BACKSTOPS.values())


def test_valid_is_one_word() -> None:
    """The reason of a price that is valid is the word of the column's description."""
    assert "valid" == VALID_PRICE
