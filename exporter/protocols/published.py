"""Numbers that the API defines alike for every protocol, whatever its own contract computes."""

from __future__ import annotations

import polars as pl

from exporter.numbers import exact

_BPS = 10_000


@exact.basis_points
def utilization_bps(borrowed: pl.Series, supplied: pl.Series) -> pl.Series:
    """The published utilization, Int64: floor(borrowed × 10000 / supplied), 0 where nothing is supplied."""
    divided = supplied != 0
    return exact.multiply_divide_floor(exact.select(divided, borrowed, 0), _BPS, exact.select(divided, supplied, 1))
