"""Exact integer arithmetic as a contract does it. A result is right, or an error says that there is none.

Operands are Python integers, so an intermediate value may have the 256 bits that it has in a contract. A result that
does not fit into signed 128 bits raises `ExactOverflowError`, and a division by zero raises `ExactDivisionError`. Floor
rounds toward minus infinity, ceiling toward plus infinity, and truncation toward zero. Half up rounds to the nearest
integer, or to the larger of two. Numbers that are only published have no bound here; `exporter.protocols.compute` has
one for each column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError

INT128_MIN = -(2**127)
INT128_MAX = 2**127 - 1
JSON_INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader reads exactly (RFC 8259, section 6)."""


@contextmanager
def naming(quantity: str) -> Iterator[None]:
    """Begin the message of an `ExactError` with the name of the quantity that is computed. It is a decorator, too."""
    try:
        yield
    except ExactError as error:
        raise type(error)(f"{quantity}: {error}") from error


def fit(value: int, operation: str) -> int:
    """The value itself. Raises `ExactOverflowError` if it does not fit into signed 128 bits."""
    if not INT128_MIN <= value <= INT128_MAX:
        raise ExactOverflowError(f"{operation}: the result does not fit")
    return value


def add(left: int, right: int) -> int:
    """The sum left + right."""
    return fit(left + right, "add")


def subtract(left: int, right: int) -> int:
    """The difference left - right."""
    return fit(left - right, "subtract")


def multiply(left: int, right: int) -> int:
    """The product left × right."""
    return fit(left * right, "multiply")


def multiply_divide_floor(left: int, right: int, divisor: int) -> int:
    """The floor of left × right / divisor."""
    quotient, _ = _divided(left * right, divisor, "multiply_divide_floor")
    return fit(quotient, "multiply_divide_floor")


def multiply_divide_ceil(left: int, right: int, divisor: int) -> int:
    """The ceiling of left × right / divisor."""
    quotient, remainder = _divided(left * right, divisor, "multiply_divide_ceil")
    return fit(quotient + (remainder != 0), "multiply_divide_ceil")


def multiply_divide_truncate(left: int, right: int, divisor: int) -> int:
    """The quotient left × right / divisor, rounded toward zero as in Rust."""
    quotient, remainder = _divided(left * right, divisor, "multiply_divide_truncate")
    return fit(quotient + (remainder != 0 and quotient < 0), "multiply_divide_truncate")


def multiply_divide_half_up(left: int, right: int, divisor: int) -> int:
    """The integer nearest to left × right / divisor, where a half is rounded up."""
    quotient, remainder = _divided(left * right, divisor, "multiply_divide_half_up")
    return fit(quotient + (abs(remainder) * 2 >= abs(divisor)), "multiply_divide_half_up")


def _divided(dividend: int, divisor: int, operation: str) -> tuple[int, int]:
    if divisor == 0:
        raise ExactDivisionError(f"{operation}: division by zero")
    return divmod(dividend, divisor)


def ceil_divide(dividend: int, divisor: int) -> int:
    """The ceiling of dividend / divisor, which may have any size."""
    return -(-dividend // divisor)


def clamp(value: int, low: int, high: int) -> int:
    """The value, but at least ``low`` and at most ``high``. If ``high`` is below ``low``, it is ``high``."""
    return min(max(value, low), high)


def within(amount: int, *bounds: int | None) -> int:
    """The amount, but at most each bound that is known, and at least 0."""
    return max(min([amount, *(bound for bound in bounds if bound is not None)]), 0)


def power_floor(base: int, exponent: int, scale: int) -> int:
    """The fixed-point ``base`` to the power ``exponent``, which is not negative.

    It multiplies by squares beginning with the lowest bit of the exponent, and rounds each product down.
    """
    result, square, remaining = scale, base, exponent
    while remaining > 0:
        if max(abs(square), abs(result)) > -INT128_MIN:  # neither gets smaller again
            raise ExactOverflowError("power_floor: the result does not fit")
        if remaining & 1:
            result = result * square // scale
        remaining >>= 1
        if remaining:
            square = square * square // scale
    return fit(result, "power_floor")


_GROWTH_BITS = 192


@lru_cache(maxsize=65_536)
def annual_yield_bps(rate: int, periods: int, rate_scale: int) -> int:
    """The yield of an annual rate that is compounded ``periods`` times, in basis points, rounded down.

    The rate is ``rate`` / ``rate_scale``. The result is exact. If a short fixed-point power decides it, the long exact
    power is not computed: with S = 2^192 and x = 1 + rate / (rate_scale × periods) >= 1, each product that is rounded
    down is at least the product times (1 - 1/S). So the value for x^m lies between x^m (1 - 1/S)^(2m - 1) and x^m. For
    n periods and the last value y / S, Bernoulli's inequality gives y / S <= x^n <= y / (S - (2n - 1)).
    """
    one = rate_scale * periods
    growth_bps = None
    if rate >= 0:
        growth, square, remaining = 1 << _GROWTH_BITS, ((one + rate) << _GROWTH_BITS) // one, periods
        while remaining:
            if remaining & 1:
                growth = growth * square >> _GROWTH_BITS
            square = square * square >> _GROWTH_BITS
            remaining >>= 1
        lower = growth * 10_000 >> _GROWTH_BITS
        upper = growth * 10_000 // ((1 << _GROWTH_BITS) - (2 * periods - 1))
        if lower == upper:
            growth_bps = lower
    if growth_bps is None:
        growth_bps = int((one + rate) ** periods) * 10_000 // int(one**periods)
    return max(-JSON_INTEGER_MAX, min(growth_bps - 10_000, JSON_INTEGER_MAX))


def utilization_bps(borrowed: int, supplied: int) -> int:
    """The utilization as it is published for every protocol, in basis points, rounded down; 0 without supply."""
    return borrowed * 10_000 // supplied if supplied else 0


def decimal_text(value: int, decimals: int) -> str:
    """An integer in units of 10^-``decimals``, with all decimals: 610 with 4 is ``0.0610``, -5 with 2 ``-0.05``."""
    digits = str(abs(value)).zfill(decimals + 1)
    text = f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
    return f"-{text}" if value < 0 else text


def short_decimal_text(value: int, decimals: int) -> str:
    """An integer in units of 10^-``decimals``, without zeros at its end: 610 with 4 is ``0.061``, 500 with 2 ``5``."""
    text = decimal_text(value, decimals)
    return text.rstrip("0").rstrip(".") if decimals else text
