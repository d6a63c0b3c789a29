"""Exact integers: results and roundings at the ends of 128 bits, powers and yields."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import exact
from exporter.errors import ExactDivisionError, ExactOverflowError
from exporter.exact import INT128_MAX, INT128_MIN, JSON_INTEGER_MAX, decimal_text, short_decimal_text

Integer: TypeAlias = Callable[..., int]


def truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


OPERATIONS: dict[str, tuple[Integer, int]] = {
    "add": (operator.add, 2),
    "subtract": (operator.sub, 2),
    "multiply": (operator.mul, 2),
    "multiply_divide_floor": (lambda a, b, d: a * b // d, 3),
    "multiply_divide_ceil": (lambda a, b, d: -(-a * b // d), 3),
    "multiply_divide_truncate": (lambda a, b, d: truncated(a * b, d), 3),
    "multiply_divide_half_up": (lambda a, b, d: (2 * a * b + d) // (2 * d), 3),
}


def int128() -> st.SearchStrategy[int]:
    """Integers of all sizes within 128 bits, of both signs, and next to powers of two."""
    magnitudes = st.integers(0, 127).flatmap(lambda bits: st.integers(0, 2**bits - 1))
    edges = st.builds(lambda bits, step: 2**bits + step, st.integers(0, 126), st.integers(-1, 1))
    either = magnitudes | edges | st.sampled_from([10**7, 10**12, 10**18, INT128_MAX])
    return either | either.map(operator.neg) | st.just(INT128_MIN)


def agree(name: str, operation: Integer, *operands: int) -> None:
    """Assert that an operation gives what plain integers give, or the error that names it."""
    ours = getattr(exact, name)
    try:
        result = operation(*operands)
    except ZeroDivisionError:
        with pytest.raises(ExactDivisionError, match=f"^{name}: division by zero$"):
            ours(*operands)
        return
    if INT128_MIN <= result <= INT128_MAX:
        assert result == ours(*operands)
    else:
        with pytest.raises(ExactOverflowError, match=f"^{name}: the result does not fit$"):
            ours(*operands)


@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data())
def test_operations_equal_python_integers(name: str, data: st.DataObject) -> None:
    """Every operation gives what Python's integers give, or says that it has no result."""
    operation, arity = OPERATIONS[name]
    agree(name, operation, *data.draw(st.tuples(*[st.integers(-9, 9) | int128()] * arity)))


def test_errors_name_the_quantity() -> None:
    """An error has the names of the quantities that it comes from, from the outside in."""
    with pytest.raises(ExactDivisionError, match=r"^the share: the half: multiply_divide_floor: division by zero$"):
        exact.naming("the share")(exact.naming("the half")(exact.multiply_divide_floor))(1, 1, 0)


def test_the_least_known_bound_counts_and_nothing_is_negative() -> None:
    """The least bound counts, one that is not known does not, and nothing is below 0."""
    assert [3, 5, 0, 0] == [exact.within(5, 3, 4), exact.within(5, None), exact.within(5, -1), exact.within(-5)]


def power(base: int, exponent: int, scale: int) -> int:
    """alula.md, "Formulas": the bits from the lowest, floors after every product; no square beyond the last bit."""
    result, square = scale, base
    while exponent:
        if exponent & 1:
            result = result * square // scale
        exponent >>= 1
        square = square * square // scale if exponent else square
    return result


bases = st.one_of(st.integers(-(10**20), 10**20), st.integers(10**18, 10**18 + 10**15), int128())


@given(bases, st.integers(0, 300), st.sampled_from([1, 10**6, 10**18]))
def test_power_equals_python_integers(base: int, exponent: int, scale: int) -> None:
    """A power has the floor after every multiplication, or does not fit."""
    agree("power_floor", power, base, exponent, scale)


@pytest.mark.parametrize(
    ("base", "exponent", "denominator", "expected"),
    [
        pytest.param(2000000, 3, 10**6, 8000000, id="28"),
        pytest.param(500000, 3, 10**6, 125000, id="29"),
        pytest.param(1500000, 3, 10**6, 3375000, id="30"),
        pytest.param(10000, 3, 10**6, 1, id="31"),
        pytest.param(1000000001, 10**9, 10**9, 2718221267, id="32"),
    ],
)
def test_powers_are_rounded_down_at_every_step(base: int, exponent: int, denominator: int, expected: int) -> None:
    """Powers are rounded down at every step, from the lowest bit (alula.md, vectors 28 to 32)."""
    assert expected == exact.power_floor(base, exponent, denominator)


def annual_yield_bps(rate: int, periods: int, scale: int) -> int:
    """The yield in unbounded integers, up to what every JSON reader keeps."""
    one = scale * periods
    found: int = (one + rate) ** periods * 10_000 // one**periods - 10_000
    return max(-JSON_INTEGER_MAX, min(found, JSON_INTEGER_MAX))


@given(
    st.integers(-(10**8), 10**10) | int128(),
    st.sampled_from([1, 12, 52, 365]),
    st.sampled_from([10**7, 10**18]),
)
def test_annual_yield_is_the_floor_of_the_exact_rational(rate: int, periods: int, scale: int) -> None:
    """The yield equals the formula in unbounded integers, up to what every JSON reader keeps."""
    assert annual_yield_bps(rate, periods, scale) == exact.annual_yield_bps(rate, periods, scale)


@pytest.mark.parametrize(("rate", "scale"), [(500, 4), (5 * 10**25, 27)])
def test_one_rate_is_one_yield_whatever_its_decimals(rate: int, scale: int) -> None:
    """5 % is 5.12 % compounded daily."""
    assert 512 == exact.annual_yield_bps(rate, 365, 10**scale)


@given(st.integers(1, 40_000), st.sampled_from([52, 365]))
def test_annual_yield_next_to_whole_basis_points(target: int, periods: int) -> None:
    """Rates whose yield is within a hair of a whole basis point, so that a float would err, are floored right."""
    low, high = 0, 10**19  # the smallest rate that reaches the yield, by bisection, and the one before it
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if annual_yield_bps(middle, periods, 10**18) >= target else (middle, high)

    assert [target - 1, target] == [exact.annual_yield_bps(rate, periods, 10**18) for rate in (low, high)]


@given(st.integers(-(10**40), 10**40), st.integers(0, 40))
def test_decimal_text_is_the_exact_number(value: int, decimals: int) -> None:
    """Read back, it is the number, with as many decimals as it has; the short one has no zero at its end."""
    text, short = decimal_text(value, decimals), short_decimal_text(value, decimals)

    assert Fraction(value, 10**decimals) == Fraction(text) == Fraction(short)
    assert decimals == len(text.partition(".")[2])
    assert not decimals or "." not in short or short[-1] not in "0."
