"""Exact integers as a contract computes with them: a result is right, or an error says that there is none.

Operands are Python integers, so that an intermediate may be as wide as the 256 bits of a contract; a result must fit
into signed 128 bits, or it is an `ExactOverflowError`. A division by zero is an `ExactDivisionError`. Floor is toward
minus infinity, ceiling toward plus infinity, truncation toward zero, half up to the nearest integer or the larger of
two, for all signs. Numbers that are only published have no bound of their own: `exporter.protocols.compute` has one for
each column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError

INT128_MIN = -(2**127)
INT128_MAX = 2**127 - 1
JSON_INTEGER_MAX = 2**53 - 1
"""The largest integer that every JSON reader keeps as it is (RFC 8259, section 6)."""


@contextmanager
def naming(quantity: str) -> Iterator[None]:
    """Put the name of the quantity that is being computed before the message of an ExactError; also a decorator."""
    try:
        yield
    except ExactError as error:
        raise type(error)(f"{quantity}: {error}") from error


def fit(value: int, operation: str) -> int:
    """The value, which must have at most 128 bits."""
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
    """The quotient left × right / divisor rounded toward zero, as Rust rounds."""
    quotient, remainder = _divided(left * right, divisor, "multiply_divide_truncate")
    return fit(quotient + (remainder != 0 and quotient < 0), "multiply_divide_truncate")


def multiply_divide_half_up(left: int, right: int, divisor: int) -> int:
    """The integer nearest to left × right / divisor, a half going up."""
    quotient, remainder = _divided(left * right, divisor, "multiply_divide_half_up")
    return fit(quotient + (abs(remainder) * 2 >= abs(divisor)), "multiply_divide_half_up")


def _divided(dividend: int, divisor: int, operation: str) -> tuple[int, int]:
    if divisor == 0:
        raise ExactDivisionError(f"{operation}: division by zero")
    return divmod(dividend, divisor)


def ceil_divide(dividend: int, divisor: int) -> int:
    """The ceiling of dividend / divisor, of any size."""
    return -(-dividend // divisor)


def clamp(value: int, low: int, high: int) -> int:
    """The value, not below `low` and not above `high`; `high` wins where it is below `low`."""
    return min(max(value, low), high)


def within(amount: int, *bounds: int | None) -> int:
    """An amount that can be had: at most each of the bounds that is known, and not below 0."""
    return max(min([amount, *(bound for bound in bounds if bound is not None)]), 0)


def power_floor(base: int, exponent: int, scale: int) -> int:
    """The fixed-point `base` to the power `exponent` (not negative), lowest bit first, each product rounded down."""
    result, square, remaining = scale, base, exponent
    while remaining > 0:
        if max(abs(square), abs(result)) > -INT128_MIN:  # beyond it neither comes back
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
    """The yield of one rate, from a fixed-point power that is far shorter than the exact one, where that decides it.

    With S = 2^192 and x = 1 + rate / (rate_scale × periods) >= 1, each floored product is at least the product times
    (1 - 1/S), so that the chain's value for x^m lies between x^m (1 - 1/S)^(2m - 1) and x^m. For n periods and its last
    value y / S, by Bernoulli's inequality, y / S <= x^n <= y / (S - (2n - 1)).
    """
    one = rate_scale * periods
    found = None
    if rate >= 0:
        growth, square, remaining = 1 << _GROWTH_BITS, ((one + rate) << _GROWTH_BITS) // one, periods
        while remaining:
            if remaining & 1:
                growth = growth * square >> _GROWTH_BITS
            square = square * square >> _GROWTH_BITS
            remaining >>= 1
        lower = growth * 10_000 >> _GROWTH_BITS
        if lower == growth * 10_000 // ((1 << _GROWTH_BITS) - (2 * periods - 1)):
            found = lower
    if found is None:
        found = int((one + rate) ** periods) * 10_000 // int(one**periods)
    return max(-JSON_INTEGER_MAX, min(found - 10_000, JSON_INTEGER_MAX))


def utilization_bps(borrowed: int, supplied: int) -> int:
    """The published utilization of every protocol, rounded down; 0 without supply."""
    return borrowed * 10_000 // supplied if supplied else 0


def printed_price(price: int, decimals: int) -> str:
    """A price above zero with all of its oracle's decimals: 1 at 14 decimals is ``0.00000000000001``."""
    digits = str(price).zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits
