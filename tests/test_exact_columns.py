"""The exact column operations against Python integers, with edge rows mixed into common ones."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter import exact_columns as exact
from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError
from exporter.exact_columns import INT128_MAX, INT128_MIN, JSON_INTEGER_MAX

Row: TypeAlias = tuple[int | None, ...]
Columnar: TypeAlias = Callable[..., pl.Series]
Integer: TypeAlias = Callable[..., int]


def fits(value: int) -> bool:
    return INT128_MIN <= value <= INT128_MAX


def ceil_of(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


OPERATIONS: dict[str, tuple[Columnar, Integer, int]] = {
    "add": (exact.add, operator.add, 2),
    "subtract": (exact.subtract, operator.sub, 2),
    "multiply": (exact.multiply, operator.mul, 2),
    "floor_divide": (exact.floor_divide, operator.floordiv, 2),
    "multiply_divide_floor": (exact.multiply_divide_floor, lambda a, b, d: a * b // d, 3),
    "multiply_divide_ceil": (exact.multiply_divide_ceil, lambda a, b, d: ceil_of(a * b, d), 3),
    "multiply_divide_truncate": (exact.multiply_divide_truncate, lambda a, b, d: truncated(a * b, d), 3),
    "multiply_divide_half_up": (exact.multiply_divide_half_up, lambda a, b, d: (2 * a * b + d) // (2 * d), 3),
    "clamp": (exact.clamp, lambda value, low, high: min(max(value, low), high), 3),
}


def int128() -> st.SearchStrategy[int]:
    """Integers of all sizes up to the ends of 128 bits, of both signs, and next to powers of two."""
    magnitudes = st.integers(0, 127).flatmap(lambda bits: st.integers(0, 2**bits - 1))
    edges = st.builds(lambda bits, step: 2**bits + step, st.integers(0, 126), st.integers(-1, 1))
    either = magnitudes | edges | st.sampled_from([10**7, 10**12, 10**18, INT128_MAX])
    return either | either.map(operator.neg) | st.just(INT128_MIN)


def rows_of(arity: int) -> st.SearchStrategy[list[Row]]:
    """A narrow column, into which wide rows and nulls may be mixed."""
    common = st.tuples(*[st.integers(-(10**9), 10**9)] * arity)
    wide = st.tuples(*[int128()] * arity)
    with_nulls = st.tuples(*[st.none() | int128()] * arity)
    return st.lists(common | wide | with_nulls, max_size=12) | st.lists(common, max_size=12)


def agree(columnar: Columnar, operation: Integer, rows: Sequence[Row], arity: int, fixed: int | None = None) -> None:
    """Assert that a column operation names all failing rows, and computes the others once these are removed.

    At the position ``fixed`` all rows have one value, which is given as a Python integer.
    """

    def computed(kept: Sequence[Row]) -> pl.Series:
        columns = [exact.column([row[index] for row in kept], f"operand {index}") for index in range(arity)]
        return columnar(*(rows[0][fixed] if index == fixed else column for index, column in enumerate(columns)))

    results: dict[int, int | None] = {}
    for position, row in enumerate(rows):
        integers = [value for value in row if value is not None]
        try:
            result = operation(*integers) if len(integers) == len(row) else None
        except ZeroDivisionError:
            continue
        if result is None or fits(result):
            results[position] = result
    if len(results) < len(rows):
        with pytest.raises(ExactError) as raised:
            computed(rows)

        assert sorted(set(range(len(rows))) - results.keys()) == list(raised.value.rows)
    actual = computed([rows[position] for position in results])

    assert list(results.values()) == actual.to_list()
    assert actual.dtype == pl.Int128
    assert fixed == 0 or actual.name == "operand 0"


@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data())
def test_operations_equal_python_integers(name: str, data: st.DataObject) -> None:
    """Every operation gives what Python's integers give, or names exactly the rows whose result does not fit.

    A Python integer in place of a column means a column of that value.
    """
    columnar, operation, arity = OPERATIONS[name]
    rows = data.draw(rows_of(arity))
    fixed = data.draw(st.none() | st.integers(0, arity - 1), label="position of the integer") if rows else None
    if fixed is not None:
        constant = data.draw(int128(), label="the integer")
        rows = [(*row[:fixed], constant, *row[fixed + 1 :]) for row in rows]
    agree(columnar, operation, rows, arity, fixed)


ROUNDINGS = ("multiply_divide_floor", "multiply_divide_ceil", "multiply_divide_truncate", "multiply_divide_half_up")


@given(st.lists(st.tuples(int128(), int128(), st.integers(-1, 1)), max_size=8))
@example([(1, 2, 1), (1, 3, -1)])
@example([(1, 2, 1), (1, 3, -1), (INT128_MAX, INT128_MAX, 0)])
def test_multiply_divide_at_exact_multiples(drawn: list[tuple[int, int, int]]) -> None:
    """Products at, just below and just above a multiple of the divisor round as they should, however wide."""
    rows = [  # factor × (divisor + step) / divisor is the factor and a fraction of either sign
        (factor, max(min(divisor + step, INT128_MAX), INT128_MIN), divisor)
        for factor, divisor, step in drawn
        if divisor != 0
    ]
    for name in ROUNDINGS:
        columnar, operation, _ = OPERATIONS[name]
        agree(columnar, operation, rows, 3)


def test_polars_pitfalls() -> None:
    """What Polars wraps in silence is right, or refused."""
    lowest = exact.column([INT128_MIN, 5])

    assert [2**126, -3] == exact.floor_divide(lowest, -2).to_list()
    assert [1, -1] == exact.floor_divide(lowest, INT128_MIN).to_list()
    assert [0, 1] == exact.multiply_divide_truncate(exact.column([INT128_MAX, INT128_MIN]), 1, INT128_MIN).to_list()
    assert [2**64, 0] == exact.multiply(pl.Series([2**62, 0]), pl.Series([4, 0])).to_list()
    with pytest.raises(ExactOverflowError, match="floor_divide") as raised:
        exact.floor_divide(lowest, -1)

    assert (0,) == raised.value.rows


def test_division_by_zero_names_every_failing_row() -> None:
    """Rows that divide by zero and rows that overflow are named together, as a division error."""
    dividend = exact.column([1, INT128_MAX, 7, None, 0])
    divisor = exact.column([0, 1, 1, 0, 0])

    with pytest.raises(ExactDivisionError) as raised:
        exact.multiply_divide_floor(dividend, 3, divisor)

    assert (0, 1, 4) == raised.value.rows
    with pytest.raises(ExactDivisionError) as raised:
        exact.floor_divide(dividend, 0)

    assert (0, 1, 2, 4) == raised.value.rows


def test_column_names_the_values_that_do_not_fit() -> None:
    """A column of Python integers beyond 128 bits is refused with the positions of all such values."""
    values = [0, INT128_MAX, INT128_MAX + 1, None, INT128_MIN, INT128_MIN - 1, 2**300]

    with pytest.raises(ExactOverflowError, match="'price'") as raised:
        exact.column(values, "price")

    assert (2, 5, 6) == raised.value.rows
    assert [INT128_MAX, None, INT128_MIN] == exact.column([INT128_MAX, None, INT128_MIN]).to_list()


def test_only_integers_are_taken() -> None:
    """Floats are refused, in columns and as operands, as are operands of different lengths or beyond 128 bits."""
    with pytest.raises(TypeError, match="float"):
        exact.column([1, 1.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="Float64"):
        exact.add(pl.Series("rate", [1.0]), 1)
    with pytest.raises(TypeError, match="at least one operand"):
        exact.add(1, 1)
    with pytest.raises(ExactOverflowError) as raised:
        exact.subtract(exact.column([1, 2]), 2**127)
    assert (0, 1) == raised.value.rows
    with pytest.raises(ValueError, match="different lengths"):
        exact.multiply_divide_floor(exact.column([1, 2]), exact.column([1]), exact.column([0, 1]))


def test_select_ignores_the_value_not_taken() -> None:
    """Selecting keeps nulls of the taken value and of the mask, and drops those of the other value."""
    mask = pl.Series([True, False, True, None])
    chosen = exact.column([1, None, None, 4])

    assert [1, 7, None, None] == exact.select(mask, chosen, 7).to_list()
    assert [3, 7, 3, None] == exact.select(mask, 3, 7).to_list()


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


@given(
    st.lists(st.tuples(st.none() | bases, st.none() | st.integers(0, 300)), max_size=8),
    st.sampled_from([1, 10**6, 10**18]),
)
def test_power_equals_python_integers(rows: list[Row], scale: int) -> None:
    """A power has the floor after every multiplication, and all rows whose power does not fit are named."""
    agree(lambda base, by: exact.power_floor(base, by, scale), lambda base, by: power(base, by, scale), rows, 2)


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
def test_power_vectors(base: int, exponent: int, denominator: int, expected: int) -> None:
    """Powers are rounded down at every step, from the lowest bit (alula.md, vectors 28 to 32)."""
    assert [expected] == exact.power_floor(exact.column([base]), exponent, denominator).to_list()


def annual_yield_bps(rate: int, periods: int, scale: int) -> int:
    """The yield in unbounded integers, up to what every JSON reader keeps."""
    one = scale * periods
    found: int = (one + rate) ** periods * 10_000 // one**periods - 10_000
    return max(-JSON_INTEGER_MAX, min(found, JSON_INTEGER_MAX))


@given(
    st.lists(st.none() | st.integers(-(10**8), 10**10) | int128(), max_size=6),
    st.sampled_from([1, 12, 52, 365]),
    st.sampled_from([10**7, 10**18]),
)
def test_annual_yield_is_the_floor_of_the_exact_rational(rates: list[int | None], periods: int, scale: int) -> None:
    """The yield equals the formula in unbounded integers, up to what every JSON reader keeps."""
    results = [None if rate is None else annual_yield_bps(rate, periods, scale) for rate in rates]

    actual = exact.annual_yield_bps_floor(exact.column(rates), periods, scale)

    assert results == actual.to_list()
    assert actual.dtype == pl.Int64


@pytest.mark.parametrize(("rate", "scale"), [(500, 4), (5 * 10**25, 27)])
def test_one_rate_is_one_yield_whatever_its_decimals(rate: int, scale: int) -> None:
    """5 % is 5.12 % compounded daily."""
    assert 512 == exact.annual_yield_bps(rate, 365, 10**scale)


@given(st.lists(st.integers(1, 40_000), min_size=1, max_size=5), st.sampled_from([52, 365]))
def test_annual_yield_next_to_whole_basis_points(yields: list[int], periods: int) -> None:
    """Rates whose yield is within a hair of a whole basis point, where a float would err, are floored right."""
    rates = []
    for target in yields:  # the smallest rate that reaches the yield, by bisection, and the one before it
        low, high = 0, 10**19
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if annual_yield_bps(middle, periods, 10**18) >= target else (middle, high)
        rates += [low, high]

    actual = exact.annual_yield_bps_floor(exact.column(rates), periods, 10**18)

    assert [bps for target in yields for bps in (target - 1, target)] == actual.to_list()


def test_basis_points_end_at_53_bits() -> None:
    """Basis points become Int64; what is beyond 2^53 - 1, or leaves 128 bits on the way at whatever step, is that."""

    @exact.basis_points
    def steps(value: pl.Series, factor: pl.Series) -> pl.Series:
        return exact.multiply(exact.multiply(value, factor), 3)

    values = exact.column([7, 2**52, 2**126, 2**100, -(2**60), None])

    found = steps(values, exact.column([2, 2, 1, 2**60, 1, 1]))

    assert [42, JSON_INTEGER_MAX, JSON_INTEGER_MAX, JSON_INTEGER_MAX, -JSON_INTEGER_MAX, None] == found.to_list()
    assert pl.Int64() == found.dtype
    assert [7, 2**52, 2**126, 2**100, -(2**60), None] == values.to_list()  # the caller goes on with his columns


def test_at_most_lets_other_errors_through() -> None:
    """Rows that divide by zero are no large numbers: they are named as ever."""

    @exact.at_most(100)
    def share(value: pl.Series, divisor: pl.Series) -> pl.Series:
        return exact.multiply_divide_floor(value, 10, divisor)

    assert [100, 30] == share(exact.column([11, 3]), exact.column([1, 1])).to_list()
    with pytest.raises(ExactDivisionError) as raised:
        share(exact.column([1, 2]), exact.column([1, 0]))

    assert (1,) == raised.value.rows


def test_failing_rows_are_set_aside_one_cause_after_another() -> None:
    """Rows that fail for different reasons are all set aside with their own error, and the others are computed."""
    frame = pl.DataFrame({"name": list("abcde"), "value": exact.column([1, INT128_MAX, 2, 0, 2**126])})

    def compute(kept: pl.DataFrame) -> pl.DataFrame:
        with exact.naming("the double"):
            doubled = exact.multiply(kept["value"], 2)
        with exact.naming("the share"):
            return kept.with_columns(share=exact.floor_divide(100, doubled))

    computed, failures = exact.set_aside_failures(frame, compute)

    assert [("a", 50), ("c", 25)] == computed.select("name", "share").rows()
    assert {
        1: (ExactOverflowError, "the double"),
        3: (ExactDivisionError, "the share"),
        4: (ExactOverflowError, "the double"),
    } == {row: (type(error), str(error).split(":")[0]) for row, error in failures.items()}


def test_an_error_without_rows_is_not_set_aside() -> None:
    """An error that names no row ends the computation instead of repeating it for ever."""

    def compute(kept: pl.DataFrame) -> pl.DataFrame:
        raise ExactError(f"no row of {kept.height} is to blame")

    with pytest.raises(ExactError, match="no row of 1"):
        exact.set_aside_failures(pl.DataFrame({"value": [1]}), compute)


def test_frame_is_exact_in_its_wide_columns() -> None:
    """A frame takes the columns its schema names, in that order, and names the rows whose value does not fit."""
    schema = {"name": pl.String(), "amount": pl.Int128()}
    columns: dict[str, list[Any]] = {"amount": [2**127 - 1, None], "other": [1, 2], "name": ["a", None]}

    made = exact.frame(columns, schema)

    assert [("a", 2**127 - 1), (None, None)] == made.rows()
    assert schema == dict(made.schema)
    with pytest.raises(ExactOverflowError) as caught:
        exact.frame({"name": ["a", "b"], "amount": [1, 2**127]}, schema)
    assert (1,) == caught.value.rows
