"""The exact column operations, each of which sends its rows down the cheapest road that is provably exact.

1. The narrow road, for whole columns: where the largest magnitudes of the operands show that no intermediate can
   leave 128 bits, Polars computes the column as it is. This is nearly always the case, and costs two scans more
   than the bare operation.
2. The middle road, for single rows of a multiply-divide: a Float64 guess of the quotient, corrected by the exact
   remainder, which is small enough to survive the wrapping of the product. See `_guess_and_correct`.
3. The wide road, for the few rows that remain: Python integers.

Which rows may leave the narrow road is decided by a Float64 estimate of the magnitude with a margin far above its
rounding error. No digit of a result ever depends on a float.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import polars as pl

from exporter.errors import ExactOverflowError
from exporter.exact.failures import failure

Operand: TypeAlias = pl.Series | int
Rounding: TypeAlias = Literal["floor", "ceil", "truncate", "half_up"]

INT128_MIN = -(2**127)
INT128_MAX = 2**127 - 1

# A Float64 estimate of a product of two Int128 is off by less than 2^-51 of it, so an estimate below this
# (2^127 is 1.7014e38) proves that the exact value is below 2^127.
_SAFE_ESTIMATE = 1.7e38
_MIDDLE_PRODUCT = 2.0**174
_MIDDLE_DIVISOR = 2.0**126
_MIDDLE_QUOTIENT = 2.0**125

# The bound of an operation's intermediates from two operands' magnitudes: ints, or Float64 estimates.
_Bound: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class _Column:
    """An operand made ready: `values` is Int128, of length 1 when the operand is constant."""

    values: pl.Series
    constant: int | None
    magnitude: int

    def estimate(self) -> pl.Series | float:
        """The magnitudes as Float64, each rounded to nearest."""
        if self.constant is not None:
            return float(abs(self.constant))
        return self.values.cast(pl.Float64).abs()

    def take(self, rows: pl.Series) -> _Column:
        return self if self.constant is not None else _Column(self.values.gather(rows), None, self.magnitude)

    def integers(self, count: int) -> list[int]:
        return [self.constant] * count if self.constant is not None else self.values.to_list()


def column(values: Iterable[int | None], name: str = "") -> pl.Series:
    """An Int128 column of Python ints and nulls.

    Raises:
        ExactOverflowError: with the positions of all values that do not fit into signed 128 bits.
        TypeError: when a value is neither an int nor None.
    """
    items = list(values)
    try:
        return pl.Series(name, items, dtype=pl.Int128)
    except (OverflowError, TypeError):
        for item in items:
            if not isinstance(item, int | None):
                raise TypeError(f"column {name!r} takes ints and None, not {type(item).__name__}") from None
        rows = [row for row, item in enumerate(items) if item is not None and not INT128_MIN <= item <= INT128_MAX]
        raise failure(f"column {name!r}", rows) from None


def frame(columns: Mapping[str, Iterable[Any]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns that `schema` names, in its order, from Python values; those of Int128 as `column` makes them.

    Raises:
        ExactOverflowError: with the positions of all values of a column that do not fit into signed 128 bits.
        TypeError: when a value is not of its column's type.
    """
    return pl.DataFrame(
        [
            column(columns[name], name) if dtype == pl.Int128 else pl.Series(name, list(columns[name]), dtype=dtype)
            for name, dtype in schema.items()
        ]
    )


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


def ceil_divide(dividend: Operand, divisor: Operand) -> pl.Series:
    """The ceiling of dividend / divisor."""
    return _multiply_divide("ceil_divide", dividend, 1, divisor, "ceil")


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
    """The integer nearest to left × right / divisor, a half going up; the product may need 256 bits.

    Contracts compute it as floor((left × right + floor(divisor / 2)) / divisor), for operands that are not negative.
    """
    return _multiply_divide("multiply_divide_half_up", left, right, divisor, "half_up")


def clamp(values: Operand, low: Operand, high: Operand) -> pl.Series:
    """The values, not below `low` and not above `high`; `high` wins where it is below `low`."""
    name, length, (value, bottom, top) = _aligned("clamp", (values, low, high))
    raised = _choose(value.values < bottom.values, bottom.values, value.values)
    lowered = _choose(raised > top.values, top.values, raised)
    nulls = value.values.is_null() | bottom.values.is_null() | top.values.is_null()
    return _finished(_choose(nulls, pl.Series([None], dtype=pl.Int128), lowered), name, length)


def select(mask: pl.Series, when_true: Operand, when_false: Operand) -> pl.Series:
    """`when_true` in the rows where the Boolean mask holds, else `when_false`; the value not taken may be null.

    A null in the mask gives null.
    """
    name, length, (chosen, other) = _aligned("select", (when_true, when_false), length=len(mask))
    result = _choose(mask, chosen.values, other.values)
    if mask.null_count():
        result = _choose(mask.is_null(), pl.Series([None], dtype=pl.Int128), result)
    return _finished(result, name, length)


def _choose(mask: pl.Series, when_true: pl.Series, when_false: pl.Series) -> pl.Series:
    return when_true.zip_with(mask, when_false)


def _aligned(
    operation: str, operands: tuple[Operand, ...], length: int | None = None
) -> tuple[str, int, list[_Column]]:
    """The operands as columns, with the result's name and length.

    A column of one value throughout becomes a constant: Polars divides by a constant twice as fast.
    """
    series = [operand for operand in operands if isinstance(operand, pl.Series)]
    if length is None:
        if not series:
            raise TypeError(f"{operation}: at least one operand must be a Series")
        length = len(series[0])
    if any(len(item) != length for item in series):
        raise ValueError(f"{operation}: the operands have different lengths")
    columns = [_column_of(operation, operand, length) for operand in operands]
    return series[0].name if series else "", length, columns


def _column_of(operation: str, operand: Operand, length: int) -> _Column:
    if isinstance(operand, int):
        if not INT128_MIN <= operand <= INT128_MAX:
            raise failure(f"{operation} (the operand {operand})", range(length))
        return _Column(pl.Series([operand], dtype=pl.Int128), operand, abs(operand))
    values = operand
    if values.dtype != pl.Int128:
        if not values.dtype.is_integer():
            raise TypeError(f"{operation}: column {operand.name!r} is {operand.dtype}, not an integer type")
        values = values.cast(pl.Int128)
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return _Column(values, None, 0)  # empty, or only nulls
    if low == high and not values.null_count():
        return _Column(values.head(1), low, abs(low))
    return _Column(values, None, max(-low, high))


def _finished(result: pl.Series, name: str, length: int) -> pl.Series:
    if len(result) != length:  # all operands were constant
        result = result.new_from_index(0, length)
    return result.alias(name)


def _evaluate(
    operation: str,
    operands: tuple[Operand, ...],
    bound: _Bound,
    narrow: Callable[..., pl.Series],
    wide: Callable[..., int],
    middle: Callable[..., tuple[pl.Series, pl.Series]] | None = None,
) -> pl.Series:
    """Compute all rows on the narrow road, then again those that may have left it.

    Args:
        operation: its name, for messages.
        operands: what the functions below take, in their order.
        bound: no intermediate is larger than this function of the first two operands' magnitudes.
        narrow: the operation on Series, wrong where an intermediate leaves 128 bits.
        wide: the operation on Python integers.
        middle: gives a mask of the rows that it can compute, and their results.
    """
    name, length, columns = _aligned(operation, operands)
    result = _finished(narrow(*(item.values for item in columns)), name, length)
    first, second = columns[:2]
    if bound(first.magnitude, second.magnitude) <= INT128_MAX:
        return result
    # All divisors are other than zero here, so a result is null only where an operand is.
    rows = (result.is_not_null() & (bound(first.estimate(), second.estimate()) >= _SAFE_ESTIMATE)).arg_true()
    if middle is not None and len(rows):
        computable, computed = middle(*(item.take(rows) for item in columns))
        result = result.scatter(rows.filter(computable), computed)
        rows = rows.filter(~computable)
    if not len(rows):
        return result
    remaining = [item.take(rows).integers(len(rows)) for item in columns]
    exact = [wide(*integers) for integers in zip(*remaining, strict=True)]
    overflowing = [row for row, value in zip(rows, exact, strict=True) if not INT128_MIN <= value <= INT128_MAX]
    if overflowing:
        raise failure(operation, overflowing)
    return result.scatter(rows, pl.Series(exact, dtype=pl.Int128))


def _multiply_divide(operation: str, left: Operand, right: Operand, divisor: Operand, rounding: Rounding) -> pl.Series:
    zero = _zero_divisors(left, right, divisor)
    if zero is not None:
        overflowing: tuple[int, ...] = ()
        try:  # the error names all rows that fail, so the others are tried as well
            _multiply_divide(operation, select(zero, 0, left), right, select(zero, 1, divisor), rounding)
        except ExactOverflowError as error:
            overflowing = error.rows
        raise failure(operation, overflowing, zero.arg_true().to_list())

    def narrow(a: pl.Series, b: pl.Series, d: pl.Series) -> pl.Series:
        product = a * b
        return _rounded(product // d, product, d, rounding)

    def wide(a: int, b: int, d: int) -> int:
        quotient, remainder = divmod(a * b, d)
        if rounding == "half_up":
            return quotient + (abs(remainder) * 2 >= abs(d))
        return quotient + (remainder != 0 and (rounding == "ceil" or (rounding == "truncate" and quotient < 0)))

    return _evaluate(
        operation,
        (left, right, divisor),
        operator.mul,
        narrow,
        wide,
        lambda a, b, d: _guess_and_correct(a, b, d, rounding),
    )


def _zero_divisors(left: Operand, right: Operand, divisor: Operand) -> pl.Series | None:
    """A mask of the rows that divide by zero, or None where there are none; a null operand comes first."""
    series = [operand for operand in (left, right, divisor) if isinstance(operand, pl.Series)]
    if isinstance(divisor, int):
        if divisor != 0 or not series:
            return None
        zero = pl.Series([True]).new_from_index(0, len(series[0]))
    else:
        zero = (divisor == 0).fill_null(False)
    if not zero.any():
        return None
    for operand in series:
        if len(operand) == len(zero):  # else the operation itself will complain
            zero &= operand.is_not_null()
    return zero if zero.any() else None


def _rounded(floor: pl.Series, product: pl.Series, divisor: pl.Series, rounding: Rounding) -> pl.Series:
    """The floor of product / divisor, rounded otherwise.

    The product and `floor * divisor` may both have wrapped: they differ by less than the divisor's magnitude,
    so they are equal exactly if they are equal modulo 2^128.
    """
    if rounding == "floor":
        return floor
    if rounding == "half_up":
        remainder, half = product - floor * divisor, divisor // 2  # the remainder has the divisor's sign, or is 0
        return floor + (((divisor > 0) & (remainder >= divisor - half)) | ((divisor < 0) & (remainder <= half)))
    inexact = floor * divisor != product
    if rounding == "ceil":
        return floor + inexact
    return floor + (inexact & (floor < 0))


def _guess_and_correct(
    left: _Column, right: _Column, divisor: _Column, rounding: Rounding
) -> tuple[pl.Series, pl.Series]:
    """The middle road of a multiply-divide whose product leaves 128 bits: which rows can take it, and their results.

    Let g be the Float64 value of left × right / divisor, cut to an integer. Three conversions, a multiplication and
    a division, each rounded to nearest, put it off by less than 2^-50 of the quotient, and the cut by less than 1, so

        |left × right - g × divisor|  <  |left × right| × 2^-50 + |divisor|  <  2^124 + 2^126  <  2^127

    under the bounds below (their own rounding is far smaller than what the sum leaves free). This remainder is hence
    what the wrapping 128 bit operations give for it, and for any integer g

        floor(left × right / divisor)  =  g + floor((left × right - g × divisor) / divisor).
    """
    product = left.values.cast(pl.Float64) * right.values.cast(pl.Float64)
    quotient = product / divisor.values.cast(pl.Float64)
    computable = (
        (product.abs() < _MIDDLE_PRODUCT)
        & (divisor.values.cast(pl.Float64).abs() < _MIDDLE_DIVISOR)
        & (quotient.abs() < _MIDDLE_QUOTIENT)
    )
    rows = computable.arg_true()
    a, b, d = (item.take(rows).values for item in (left, right, divisor))
    guess = quotient.filter(computable).cast(pl.Int128)
    wrapped = a * b
    floor = guess + (wrapped - guess * d) // d
    return computable, _rounded(floor, wrapped, d, rounding)
