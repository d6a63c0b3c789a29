"""Exact integer arithmetic over columns: every result is right, or the rows that have none are named.

A column is a Polars Series of Int128 (a Series of a smaller integer type is cast first); any operand, but not all
of one operation, may be a Python int instead. Series of one operation have the same length, and the result is named
after the first of them. For each row the result is the mathematical one: intermediates are unbounded, as with the
256 bit intermediates of a contract, and only the result must fit into signed 128 bits. A null operand makes the
result null. Floor is toward minus infinity, ceiling toward plus infinity, truncation toward zero, half up
to the nearest integer or the larger of two, for all signs of operands and divisors.

Where rows have no result, ExactOverflowError or ExactDivisionError carries the positions of all of them, so that a
caller can set those rows aside and compute the others: `set_aside_failures` does just that. `at_most` and
`basis_points` give such rows a bound instead, for numbers that are published but not computed with.

Polars itself wraps `+ - *` silently. See `exporter.exact` for how that is avoided at little cost.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Literal, TypeAlias

import polars as pl

from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError

_ROWS_IN_MESSAGE = 5


def failure(operation: str, overflowing: Sequence[int], dividing_by_zero: Sequence[int] = ()) -> ExactError:
    """The error for one operation: a division error if any row divides by zero, else an overflow.

    Its rows are the rows of both kinds, ascending.
    """
    rows = sorted({*overflowing, *dividing_by_zero})
    shown = ", ".join(str(row) for row in rows[:_ROWS_IN_MESSAGE]) + (", ..." if len(rows) > _ROWS_IN_MESSAGE else "")
    where = f"row {shown}" if len(rows) == 1 else f"{len(rows)} rows ({shown})"
    if not dividing_by_zero:
        return ExactOverflowError(f"{operation}: the result does not fit in {where}", rows)
    kinds = "division by zero or overflow" if overflowing else "division by zero"
    return ExactDivisionError(f"{operation}: {kinds} in {where}", rows)


@contextmanager
def naming(quantity: str) -> Iterator[None]:
    """Put the name of the quantity that is being computed before the message of an ExactError; also a decorator."""
    try:
        yield
    except ExactError as error:
        raise type(error)(f"{quantity}: {error}", error.rows) from error


def set_aside_failures(
    frame: pl.DataFrame, compute: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, dict[int, ExactError]]:
    """Compute the rows of a frame that can be computed.

    Args:
        frame: the input rows.
        compute: gives a result for a frame, or raises an ExactError with positions in the frame it was given. Each
            row's result must not depend on the other rows.

    Returns:
        What `compute` gives for the rows that have a result, in the frame's order, and for each of the other rows
        its position in `frame` with the error it raised.

    Raises:
        ExactError: when `compute` raises one that names no row.
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


# The exact column operations, each of which sends its rows down the cheapest road that is provably exact.
#
# 1. The narrow road, for whole columns: where the largest magnitudes of the operands show that no intermediate can
#    leave 128 bits, Polars computes the column as it is. This is nearly always the case, and costs two scans more
#    than the bare operation.
# 2. The middle road, for single rows of a multiply-divide: a Float64 guess of the quotient, corrected by the exact
#    remainder, which is small enough to survive the wrapping of the product. See `_guess_and_correct`.
# 3. The wide road, for the few rows that remain: Python integers.
#
# Which rows may leave the narrow road is decided by a Float64 estimate of the magnitude with a margin far above its
# rounding error. No digit of a result ever depends on a float.

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


def or_zero(
    operation: Callable[[Operand, Operand, Operand], pl.Series], left: Operand, right: Operand, divisor: pl.Series
) -> pl.Series:
    """One of the multiply-divides above, and 0 in the rows whose divisor is 0."""
    divided = divisor != 0
    return operation(select(divided, left, 0), right, select(divided, divisor, 1))


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
    """A mask of the rows that divide by zero, or None without any; a null operand comes first."""
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


# Published numbers that follow from others and from which nothing follows: beyond a bound they are the bound.

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
                    # Into new Series: the operands are the caller's, who goes on with them.
                    operands = tuple(
                        select(_among(rows, operand.len()), 0, operand) if isinstance(operand, pl.Series) else operand
                        for operand in operands
                    )
            return select(_among(beyond, result.len()), bound, result) if beyond else result

        return bounded

    return bounding


def _among(rows: Collection[int], count: int) -> pl.Series:
    """Whether each position below a height is among the rows."""
    return pl.Series(range(count), dtype=pl.Int64).is_in(list(rows))


def basis_points(function: Function) -> Function:
    """A decorator: the result as Int64 basis points that JSON carries as integers, at most 2^53 - 1 (`at_most`)."""
    bounded = at_most(JSON_INTEGER_MAX)(function)

    @wraps(function)
    def published(*operands: Operand) -> pl.Series:
        return bounded(*operands).cast(pl.Int64)

    return published


# Exact powers of fixed-point numbers, and the yearly yield of a rate that is compounded.

_BPS = 10_000

# The scale of the fixed-point growth in annual_yield_bps_floor: a power of two, since Polars divides by one twice as
# fast as by others. Up to a rate of 11 (1100 percent) the growth is below e^11 < 2^15.9, so that no product of the
# chain is above (2^(15.9 + 46))^2 < 2^124: the whole chain stays on the narrow road.
_GROWTH_SCALE = 2**46
_FAST_RATE_LIMIT = 11
_MAX_PERIODS = 10_000


def power_floor(base: pl.Series, exponent: Operand, scale: int) -> pl.Series:
    """The fixed-point number `base` to the power `exponent`, by squaring, with a floor after every multiplication.

    The bits of the exponent are taken from the lowest to the highest: where one is set,
    result = floor(result × square / scale); then square = floor(square × square / scale). The order matters for the
    last digit. An exponent of 0 gives `scale`.

    Args:
        base: Int128, scaled by `scale`.
        exponent: not negative.
        scale: positive.

    Returns:
        Int128, scaled by `scale`.

    Raises:
        ExactOverflowError: with all rows whose power, at this scale, does not fit into 128 bits.
        ValueError: for a negative exponent or a scale that is not positive.
    """
    lowest = exponent if isinstance(exponent, int) else exponent.min()
    if isinstance(lowest, int) and lowest < 0:
        raise ValueError("power_floor: an exponent is negative")
    if scale <= 0:
        raise ValueError("power_floor: the scale must be positive")
    overflowing: set[int] = set()
    while True:  # rows overflow at different steps; each turn but the last finds at least one more
        try:
            result = _power(base, exponent, scale)
        except ExactOverflowError as error:
            overflowing.update(error.rows)
            base = select(_among(error.rows, base.len()), 0, base)  # a new Series: the old one is the caller's
        else:
            break
    if overflowing:
        raise failure("power_floor", sorted(overflowing))
    return result


def _power(base: pl.Series, exponent: Operand, scale: int) -> pl.Series:
    if isinstance(exponent, pl.Series):
        return _power_by_row(base, exponent, scale)
    square = floor_divide(base, 1)
    result = add(multiply(square, 0), scale)  # keeps nulls
    remaining = exponent
    while remaining:
        if remaining & 1:
            result = multiply_divide_floor(result, square, scale)
        remaining >>= 1
        if remaining:
            square = multiply_divide_floor(square, square, scale)
    return result


def _power_by_row(base: pl.Series, exponent: pl.Series, scale: int) -> pl.Series:
    """The same where each row has its own exponent: a finished row no longer changes and cannot overflow."""
    remaining = add(multiply(base, 0), exponent)  # a null base or exponent is finished, and stays null
    result = add(multiply(remaining, 0), scale)
    square = floor_divide(base, 1)
    while (remaining > 0).any():
        halved = floor_divide(remaining, 2)
        odd = subtract(remaining, multiply(halved, 2)) == 1
        result = multiply_divide_floor(result, select(odd, square, scale), scale)
        square = select(halved > 0, square, scale)
        square = multiply_divide_floor(square, square, scale)
        remaining = halved
    return result


@basis_points
def annual_yield_bps_floor(rate: pl.Series, periods: int, rate_scale: int) -> pl.Series:
    """The yearly yield of a yearly rate compounded `periods` times, in whole basis points, rounded down.

    floor(((1 + rate / (rate_scale × periods))^periods - 1) × 10000), the floor of the exact rational number.

    Args:
        rate: the rate a year, scaled by `rate_scale`.
        periods: how often interest is added in a year, 1 to 10000.
        rate_scale: positive.

    Returns:
        Int64 basis points, at most 2^53 - 1 (`exporter.exact.basis_points`).

    Raises:
        ValueError: for periods or a scale out of range.
    """
    if not 1 <= periods <= _MAX_PERIODS:
        raise ValueError(f"annual_yield_bps_floor: periods must be 1 to {_MAX_PERIODS}")
    if rate_scale <= 0:
        raise ValueError("annual_yield_bps_floor: the rate scale must be positive")
    rate = floor_divide(rate, 1)
    fast = ((rate >= 0) & (rate <= min(_FAST_RATE_LIMIT * rate_scale, 2**127 - 1))).fill_null(False)
    lower, upper = _yield_bounds(select(fast, rate, 0), periods, rate_scale)
    settled = ((lower == upper) & fast) | rate.is_null()
    bps = select(rate.is_null(), rate, lower)
    rows = (~settled).arg_true()
    if len(rows):
        exact = (_exact_yield(value, periods, rate_scale) for value in rate.gather(rows).to_list())
        bounded = [max(-JSON_INTEGER_MAX, min(value, JSON_INTEGER_MAX)) for value in exact]
        bps = bps.scatter(rows, pl.Series(bounded, dtype=pl.Int128))
    return bps


def _yield_bounds(rate: pl.Series, periods: int, rate_scale: int) -> tuple[pl.Series, pl.Series]:
    """Proven lower and upper bounds of the yield in basis points, for rates from 0 to the limit.

    Let S be the scale of the growth and x = 1 + rate / (rate_scale × periods) >= 1. In units of 1/S the chain starts
    with the floor of x, which is at least x - 1/S >= x (1 - 1/S), and no value in it is below 1, so a floored product
    is at least the product times (1 - 1/S). By induction the chain's value for x^m is at most x^m and at least
    x^m (1 - 1/S)^(2m - 1): for x^i × x^j the exponents add up to (2i - 1) + (2j - 1) + 1 = 2 (i + j) - 1.
    With Bernoulli's inequality, for n periods and the chain's last value y / S,

        y / S  <=  x^n  <=  (y / S) / (1 - (2n - 1) / S)  =  y / (S - (2n - 1)).

    Where the floors of both sides in basis points agree, they are the floor of the exact yield.
    """
    one = rate_scale * periods
    start = add(multiply_divide_floor(rate, _GROWTH_SCALE, one), _GROWTH_SCALE)
    growth = power_floor(start, periods, _GROWTH_SCALE)
    lower = multiply_divide_floor(growth, _BPS, _GROWTH_SCALE)
    upper = multiply_divide_floor(growth, _BPS, _GROWTH_SCALE - (2 * periods - 1))
    return subtract(lower, _BPS), subtract(upper, _BPS)


def _exact_yield(rate: int, periods: int, rate_scale: int) -> int:
    one = rate_scale * periods
    return int((one + rate) ** periods) * _BPS // _denominator(one, periods) - _BPS


@lru_cache(maxsize=16)
def _denominator(one: int, periods: int) -> int:
    return int(one**periods)


# Exact sums of columns.

_HALF = 2**63


def total(values: pl.Series) -> int | None:
    """The sum of a column, nulls left out; None when it holds no value.

    Raises:
        ExactOverflowError: when the sum does not fit into 128 bits; it names all rows that hold a value.
    """
    values = floor_divide(values, 1)
    known = values.drop_nulls()
    if known.is_empty():
        return None
    if _sums_fit(known):
        return int(known.sum())
    exact: int = sum(known.to_list())
    if not INT128_MIN <= exact <= INT128_MAX:
        raise failure("total", values.is_not_null().arg_true().to_list())
    return exact


def group_totals(keys: pl.Series, values: pl.Series) -> pl.DataFrame:
    """The sum of the values of each key, nulls left out; null for a key without any value.

    Returns:
        A frame of two columns, named as `keys` and `values` are, with one row a key in the order in which the keys
        first appear; the sums are Int128.

    Raises:
        ExactOverflowError: with the positions of all rows of every key whose sum does not fit into 128 bits.
        ValueError: when the two Series differ in length or have the same name.
    """
    if len(keys) != len(values) or keys.name == values.name:
        raise ValueError("group_totals: keys and values must be of one length and of different names")
    values = floor_divide(values, 1)
    rows = pl.DataFrame([keys, values])
    if _sums_fit(values):
        sums = pl.col(values.name).sum()
        return _grouped(rows, keys.name, pl.when(pl.col(values.name).count() > 0).then(sums).alias(values.name))
    # Sums of halves of 64 bits cannot wrap; the low halves are from 0 to 2^63 - 1, also for a negative value.
    high = floor_divide(values, _HALF)
    low = subtract(values, multiply(high, _HALF))
    halves = pl.DataFrame({"key": keys, "value": values, "high": high, "low": low})
    groups = _grouped(
        halves, "key", pl.col("high").sum(), pl.col("low").sum(), (pl.col("value").count() > 0).alias("known")
    )
    carry = floor_divide(groups["low"], _HALF)
    high = add(groups["high"], carry)
    low = subtract(groups["low"], multiply(carry, _HALF))
    overflowing = (high >= _HALF * 2) | (high < -_HALF * 2)
    if overflowing.any():
        bad_keys = groups["key"].filter(overflowing)
        raise failure("group_totals", keys.is_in(bad_keys.implode(), nulls_equal=True).arg_true().to_list())
    sums_exact = add(multiply(high, _HALF), low)
    known = sums_exact.set(~groups["known"], None)
    return pl.DataFrame([groups["key"].alias(keys.name), known.alias(values.name)])


def _grouped(rows: pl.DataFrame, key: str, *aggregations: pl.Expr) -> pl.DataFrame:
    return rows.group_by(key, maintain_order=True).agg(*aggregations)


def _sums_fit(values: pl.Series) -> bool:
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return True
    return len(values) * max(-low, high) <= INT128_MAX


def printed_price(price: int, decimals: int) -> str:
    """A price above zero with all of its oracle's decimals: 1 at 14 decimals is ``0.00000000000001``."""
    digits = str(price).zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
