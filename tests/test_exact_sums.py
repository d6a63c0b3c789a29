"""Sums over groups of a frame are those of plain integers."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from exporter.exact import JSON_INTEGER_MAX
from exporter.exact_sums import exact_sum, joined
from exporter.tables import MAX_DECIMAL

NUMBERS = st.none() | st.integers(-MAX_DECIMAL, MAX_DECIMAL) | st.sampled_from((0, MAX_DECIMAL, -MAX_DECIMAL))
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), NUMBERS, st.integers(-JSON_INTEGER_MAX, JSON_INTEGER_MAX)), max_size=30
)


@given(ROWS)
def test_sums_of_any_size_are_exact(rows: list[tuple[str, int | None, int]]) -> None:
    """A sum, and one of products, is that of plain integers for each group; null if no number is known."""
    schema = {"group": pl.String(), "number": pl.Int128(), "factor": pl.Int64()}
    frame = pl.DataFrame(rows, schema, orient="row")
    sums = frame.group_by("group").agg(
        exact_sum(pl.col("number")).alias("sum"), exact_sum(pl.col("number"), times=pl.col("factor")).alias("product")
    )
    expected = {}
    for group in {row[0] for row in rows}:
        known = [(number, factor) for name, number, factor in rows if name == group and number is not None]
        total, products = sum(number for number, _ in known), sum(number * factor for number, factor in known)
        expected[group] = (total, products) if known else (None, None)

    assert expected == {group: (joined(total), joined(products)) for group, total, products in sums.iter_rows()}


def test_a_sum_in_128_bits_would_wrap() -> None:
    """Polars' own sum of two such numbers is another number, which is why there are limbs."""
    frame = pl.DataFrame({"number": [MAX_DECIMAL, MAX_DECIMAL]}, {"number": pl.Int128()})

    assert 2 * MAX_DECIMAL != frame["number"].sum()
    assert 2 * MAX_DECIMAL == joined(frame.select(exact_sum(pl.col("number"))).item())
