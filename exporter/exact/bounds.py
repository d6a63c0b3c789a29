"""Published numbers that follow from others and from which nothing follows: beyond a bound they are the bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import polars as pl

from exporter.errors import ExactOverflowError
from exporter.exact.operations import Operand, clamp

JSON_INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader keeps as it is (RFC 8259, section 6)."""

Function = Callable[..., pl.Series]


def at_most(bound: int) -> Callable[[Function], Function]:
    """A decorator: a result beyond the bound, or one on the way to which a value leaves 128 bits, is the bound.

    So a field that nobody needs exactly at such a size does not cost its row. The function takes Int128 Series and
    ints, computes each row by itself, and has a result where all of its Series are 0. Nulls stay null, and a result
    below minus the bound is minus the bound.
    """

    def bounding(function: Function) -> Function:
        @wraps(function)
        def bounded(*operands: Operand) -> pl.Series:
            beyond: set[int] = set()
            while True:  # rows leave 128 bits at different steps; each turn but the last finds at least one more
                try:
                    result = clamp(function(*operands), -bound, bound)
                    break
                except ExactOverflowError as error:
                    rows = sorted(set(error.rows) - beyond)
                    if not rows:
                        raise
                    beyond.update(rows)
                    operands = tuple(
                        operand.scatter(rows, 0) if isinstance(operand, pl.Series) else operand for operand in operands
                    )
            return result.scatter(sorted(beyond), bound) if beyond else result

        return bounded

    return bounding


def basis_points(function: Function) -> Function:
    """A decorator: the result as Int64 basis points that JSON carries as integers, at most 2^53 - 1 (`at_most`)."""
    bounded = at_most(JSON_INTEGER_MAX)(function)

    @wraps(function)
    def published(*operands: Operand) -> pl.Series:
        return bounded(*operands).cast(pl.Int64)

    return published
