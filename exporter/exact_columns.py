"""Exact integer arithmetic over columns: every result is right, or the rows that have none are named.

A column is a Polars Series of Int128 (a Series of a smaller integer type is cast first); any operand, but not all
of one operation, may be a Python int instead. Series of one operation have the same length, and the result is named
after the first of them. For each row the result is the mathematical one: intermediates are unbounded, as with the
256 bit intermediates of a contract, and only the result must fit into signed 128 bits. A null operand makes the
result null. Floor is toward minus infinity, ceiling toward plus infinity, truncation toward zero, half up
to the nearest integer or the larger of two, for all signs of operands and divisors.

Where rows have no result, ExactOverflowError or ExactDivisionError carries the positions of all of them, so that
`set_aside_failures` can compute the others. `at_most` and `basis_points` give such rows a bound instead, for numbers
that are published but not computed with.

Polars itself wraps `+ - *` silently. So a column goes through Polars only where the largest magnitudes of its operands
show that no intermediate can leave 128 bits, which is nearly always the case; else it is computed in Python integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Literal, TypeAlias

import polars as pl

from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError
from exporter.exact import INT128_MAX as INT128_MAX
from exporter.exact import INT128_MIN as INT128_MIN
from exporter.exact import JSON_INTEGER_MAX as JSON_INTEGER_MAX
from exporter.exact import annual_yield_bps as annual_yield_bps
from exporter.exact import column as column
from exporter.exact import frame as frame
from exporter.exact import naming as naming
from exporter.exact import printed_price as printed_price

_ROWS_IN_MESSAGE = 5


def failure(operation: str, overflowing: Sequence[int], dividing_by_zero: Sequence[int] = ()) -> ExactError:
    """The error for one operation: a division error if any row divides by zero, else an overflow."""
    rows = sorted({*overflowing, *dividing_by_zero})
    shown = ", ".join(str(row) for row in rows[:_ROWS_IN_MESSAGE]) + (", ..." if len(rows) > _ROWS_IN_MESSAGE else "")
    where = f"row {shown}" if len(rows) == 1 else f"{len(rows)} rows ({shown})"
    if not dividing_by_zero:
        return ExactOverflowError(f"{operation}: the result does not fit in {where}", rows)
    kinds = "division by zero or overflow" if overflowing else "division by zero"
    return ExactDivisionError(f"{operation}: {kinds} in {where}", rows)


def set_aside_failures(
    frame: pl.DataFrame, compute: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, dict[int, ExactError]]:
    """What is computed of the rows that have a result, and the errors of the others, by their positions in the frame.

    ``compute`` takes each row by itself, or raises an ExactError with positions. One that names no row is raised.
    """
    positions = list(range(frame.height))
    failures: dict[int, ExactError] = {}
    kept = frame
    while True:  # every turn but the last sets at least one row aside
        try:
            return compute(kept), failures
        except ExactError as error:
            if not error.rows:
                raise
            failures.update({positions[row]: error for row in error.rows})
            positions = [position for position in positions if position not in failures]
            kept = frame[positions]


Operand: TypeAlias = pl.Series | int
Rounding: TypeAlias = Literal["floor", "ceil", "truncate", "half_up"]


def add(left: Operand, right: Operand) -> pl.Series:
    """The sum left + right."""
    return _evaluate("add", (left, right), operator.add, operator.add, operator.add)


def subtract(left: Operand, right: Operand) -> pl.Series:
    """The difference left - right."""
    return _evaluate("subtract", (left, right), operator.add, operator.sub, operator.sub)


def multiply(left: Operand, right: Operand) -> pl.Series:
    """The product left × right."""
    return _evaluate("multiply", (left, right), operator.mul, operator.mul, operator.mul)


def floor_divide(dividend: Operand, divisor: Operand) -> pl.Series:
    """The floor of dividend / divisor."""
    return _multiply_divide("floor_divide", dividend, 1, divisor, "floor")


def multiply_divide_floor(left: Operand, right: Operand, divisor: Operand) -> pl.Series:
    """The floor of left × right / divisor; the product may need 256 bits."""
    return _multiply_divide("multiply_divide_floor", left, right, divisor, "floor")


def multiply_divide_ceil(left: Operand, right: Operand, divisor: Operand) -> pl.Series:
    """The ceiling of left × right / divisor; the product may need 256 bits."""
    return _multiply_divide("multiply_divide_ceil", left, right, divisor, "ceil")


def multiply_divide_truncate(left: Operand, right: Operand, divisor: Operand) -> pl.Series:
    """The quotient left × right / divisor rounded toward zero, as Rust rounds; the product may need 256 bits."""
    return _multiply_divide("multiply_divide_truncate", left, right, divisor, "truncate")


def multiply_divide_half_up(left: Operand, right: Operand, divisor: Operand) -> pl.Series:
    """The integer nearest to left × right / divisor, a half going up; the product may need 256 bits."""
    return _multiply_divide("multiply_divide_half_up", left, right, divisor, "half_up")


def or_zero(
    operation: Callable[[Operand, Operand, Operand], pl.Series], left: Operand, right: Operand, divisor: pl.Series
) -> pl.Series:
    """One of the multiply-divides above, and 0 in the rows whose divisor is 0."""
    divided = divisor != 0
    return operation(select(divided, left, 0), right, select(divided, divisor, 1))


def clamp(values: Operand, low: Operand, high: Operand) -> pl.Series:
    """The values, not below `low` and not above `high`; `high` wins where it is below `low`."""
    value, bottom, top = _aligned("clamp", (values, low, high))
    raised = bottom.zip_with(value < bottom, value)
    nulls = value.is_null() | bottom.is_null() | top.is_null()
    return top.zip_with(raised > top, raised).set(nulls, None).alias(value.name)


def select(mask: pl.Series, when_true: Operand, when_false: Operand) -> pl.Series:
    """`when_true` where the Boolean mask holds, else `when_false`; a null in the mask gives null."""
    chosen, other = _aligned("select", (when_true, when_false), len(mask))
    return chosen.zip_with(mask, other).set(mask.is_null(), None)


def _aligned(operation: str, operands: Sequence[Operand], length: int | None = None) -> list[pl.Series]:
    series = [operand for operand in operands if isinstance(operand, pl.Series)]
    if length is None:
        if not series:
            raise TypeError(f"{operation}: at least one operand must be a Series")
        length = len(series[0])
    if any(len(item) != length for item in series):
        raise ValueError(f"{operation}: the operands have different lengths")
    name = series[0].name if series else ""
    return [_column_of(operation, operand, length).alias(name) for operand in operands]


def _column_of(operation: str, operand: Operand, length: int) -> pl.Series:
    if isinstance(operand, int):
        if not INT128_MIN <= operand <= INT128_MAX:
            raise failure(f"{operation} (the operand {operand})", range(length))
        return pl.Series([operand], dtype=pl.Int128).new_from_index(0, length)
    if not operand.dtype.is_integer():
        raise TypeError(f"{operation}: column {operand.name!r} is {operand.dtype}, not an integer type")
    return operand.cast(pl.Int128)


def _magnitude(values: pl.Series) -> int:
    low, high = values.min(), values.max()
    return max(-low, high) if isinstance(low, int) and isinstance(high, int) else 0


def _evaluate(
    operation: str,
    operands: Sequence[Operand],
    bound: Callable[[int, int], int],
    narrow: Callable[..., pl.Series],
    wide: Callable[..., int],
) -> pl.Series:
    """Compute all rows with Polars, or with Python integers.

    No intermediate is larger than ``bound`` of the first two operands' magnitudes; a third operand is a divisor.
    ``narrow`` is wrong where an intermediate leaves 128 bits or a divisor is 0.
    """
    columns = _aligned(operation, operands)
    fits = bound(*map(_magnitude, columns[:2])) <= INT128_MAX
    if fits and not any((divisor == 0).any() for divisor in columns[2:]):
        return narrow(*columns)
    results: list[int | None] = []
    overflowing, dividing_by_zero = [], []
    for row, integers in enumerate(zip(*(item.to_list() for item in columns), strict=True)):
        result = None
        try:
            result = None if None in integers else wide(*integers)
        except ZeroDivisionError:
            dividing_by_zero.append(row)
        if result is not None and not INT128_MIN <= result <= INT128_MAX:
            overflowing.append(row)
        results.append(result)
    if overflowing or dividing_by_zero:
        raise failure(operation, overflowing, dividing_by_zero)
    return pl.Series(columns[0].name, results, dtype=pl.Int128)


def _multiply_divide(operation: str, left: Operand, right: Operand, divisor: Operand, rounding: Rounding) -> pl.Series:
    def narrow(a: pl.Series, b: pl.Series, d: pl.Series) -> pl.Series:
        product = a * b
        floor = product // d
        if rounding == "floor":
            return floor
        remainder = product - floor * d  # has the divisor's sign, or is 0
        if rounding == "half_up":
            half = d // 2
            return floor + (((d > 0) & (remainder >= d - half)) | ((d < 0) & (remainder <= half)))
        return floor + ((remainder != 0) & ((floor < 0) | (rounding == "ceil")))

    def wide(a: int, b: int, d: int) -> int:
        quotient, remainder = divmod(a * b, d)
        if rounding == "half_up":
            return quotient + (abs(remainder) * 2 >= abs(d))
        return quotient + (remainder != 0 and (rounding == "ceil" or (rounding == "truncate" and quotient < 0)))

    return _evaluate(operation, (left, right, divisor), operator.mul, narrow, wide)


Function = Callable[..., pl.Series]


def at_most(bound: int) -> Callable[[Function], Function]:
    """A decorator: a result beyond the bound, or a step beyond 128 bits, gives the bound. Rows must be independent."""

    def bounding(function: Function) -> Function:
        @wraps(function)
        def bounded(*operands: Operand) -> pl.Series:
            beyond: list[int] = []
            while True:  # rows leave 128 bits at different steps; each turn but the last finds at least one more
                try:
                    return clamp(function(*operands), -bound, bound).scatter(beyond, bound)
                except ExactOverflowError as error:
                    beyond += error.rows
                    # Into new Series: the operands are the caller's, who goes on with them.
                    operands = tuple(
                        operand.clone().scatter(error.rows, None) if isinstance(operand, pl.Series) else operand
                        for operand in operands
                    )

        return bounded

    return bounding


def basis_points(function: Function) -> Function:
    """A decorator: the result as Int64 basis points that JSON carries as integers, at most 2^53 - 1 (`at_most`)."""
    bounded = at_most(JSON_INTEGER_MAX)(function)

    @wraps(function)
    def published(*operands: Operand) -> pl.Series:
        return bounded(*operands).cast(pl.Int64)

    return published


def power_floor(base: pl.Series, exponent: Operand, scale: int) -> pl.Series:
    """The fixed-point `base` to the power `exponent` (not negative), lowest bit first, each product rounded down."""

    @cache
    def power(square: int, remaining: int) -> int:
        result = scale
        while remaining > 0 and max(abs(square), abs(result)) <= -INT128_MIN:  # beyond it neither comes back
            if remaining & 1:
                result = result * square // scale
            remaining >>= 1
            if remaining:
                square = square * square // scale
        return INT128_MAX + 1 if remaining else result

    return _evaluate("power_floor", (base, exponent), lambda *_: INT128_MAX + 1, operator.pow, power)


def annual_yield_bps_floor(rate: pl.Series, periods: int, rate_scale: int) -> pl.Series:
    """The yearly yield of a yearly rate compounded `periods` times, rounded down; Int64, at most 2^53 - 1."""
    yields = [None if each is None else annual_yield_bps(each, periods, rate_scale) for each in rate.to_list()]
    return pl.Series(rate.name, yields, dtype=pl.Int64)


def by_pool(project_pools: Callable[[Mapping[str, list[object]]], pl.DataFrame]) -> Callable[..., dict[str, Any]]:
    """The math of columns as that of one pool, until the protocol has it so."""

    def project(pool: Mapping[str, Any]) -> dict[str, Any]:
        return _alone(lambda: project_pools({name: [value] for name, value in pool.items()}))

    return project


def by_step(compute: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[..., dict[str, Any]]:
    """The check of accruals in a frame as that of one accrual, until the protocol has it so."""

    def one(before: Mapping[str, Any]) -> dict[str, Any]:
        types = {name: pl.String() if isinstance(value, str) else pl.Int128() for name, value in before.items()}
        return _alone(lambda: compute(frame({name: [value] for name, value in before.items()}, types)))

    return one


def by_number(rate: Callable[..., pl.Series]) -> Callable[..., int]:
    """A rate curve over columns as one of integers, until the protocol has it so."""
    return lambda *numbers: int(
        _alone(lambda: rate(*(column([number]) for number in numbers)).to_frame("rate"))["rate"]
    )


def _alone(compute: Callable[[], pl.DataFrame]) -> dict[str, Any]:
    try:
        return compute().row(0, named=True)
    except ExactError as error:
        raise type(error)(str(error).rsplit(" in ", 1)[0]) from error
