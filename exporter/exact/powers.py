"""Exact powers of fixed-point numbers, and the yearly yield of a rate that is compounded."""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from exporter.errors import ExactOverflowError
from exporter.exact.bounds import JSON_INTEGER_MAX, basis_points
from exporter.exact.failures import failure
from exporter.exact.operations import (
    Operand,
    add,
    floor_divide,
    multiply,
    multiply_divide_floor,
    select,
    subtract,
)

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
            base = base.scatter(list(error.rows), 0)
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
    """The same where each row has its own exponent: a row that is finished stands still, so that it cannot overflow."""
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
