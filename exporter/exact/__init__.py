"""Exact integer arithmetic over columns: every result is right, or the rows that have none are named.

A column is a Polars Series of Int128 (a Series of a smaller integer type is cast first); any operand, but not all
of one operation, may be a Python int instead. Series of one operation have the same length, and the result is named
after the first of them. For each row the result is the mathematical one: intermediates are unbounded, as with the
256 bit intermediates of a contract, and only the result must fit into signed 128 bits. A null operand makes the
result null. Floor is toward minus infinity, ceiling toward plus infinity, truncation toward zero, half up
to the nearest integer or the larger of two, for all signs of operands and divisors.

Where rows have no result, ExactOverflowError or ExactDivisionError carries the positions of all of them, so that a
caller can set those rows aside and compute the others: `set_aside_failures` does just that. `at_most` and
`basis_points` give such rows a bound instead, for numbers that are published beside others and no more.

Polars itself wraps `+ - *` silently. See `exporter.numbers.exact` for how that is avoided at little cost.
"""

from __future__ import annotations

from exporter.numbers.exact import (
    INT128_MAX,
    INT128_MIN,
    JSON_INTEGER_MAX,
    Operand,
    add,
    annual_yield_bps_floor,
    at_most,
    basis_points,
    ceil_divide,
    clamp,
    column,
    floor_divide,
    frame,
    group_totals,
    multiply,
    multiply_divide_ceil,
    multiply_divide_floor,
    multiply_divide_half_up,
    multiply_divide_truncate,
    naming,
    power_floor,
    select,
    set_aside_failures,
    subtract,
    total,
)

__all__ = [
    "INT128_MAX",
    "INT128_MIN",
    "JSON_INTEGER_MAX",
    "Operand",
    "add",
    "annual_yield_bps_floor",
    "at_most",
    "basis_points",
    "ceil_divide",
    "clamp",
    "column",
    "floor_divide",
    "frame",
    "group_totals",
    "multiply",
    "multiply_divide_ceil",
    "multiply_divide_floor",
    "multiply_divide_half_up",
    "multiply_divide_truncate",
    "naming",
    "power_floor",
    "select",
    "set_aside_failures",
    "subtract",
    "total",
]
