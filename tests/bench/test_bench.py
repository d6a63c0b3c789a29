"""The benchmarks themselves: each runs at a tiny size, and its own comparison of results holds."""

from __future__ import annotations

import math

import pytest

from tests.bench import __main__ as bench
from tests.bench.table import Row, table


@pytest.mark.slow
@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_benchmark_runs(name: str) -> None:
    """At a tiny size a benchmark gives finite ratios."""
    try:
        rows = bench.BENCHMARKS[name](True)
    except RuntimeError as error:
        if "is not installed" in str(error):
            pytest.skip(str(error))
        raise

    assert [] == [row.what for row in rows if not all(map(math.isfinite, row.ratios))]
    assert any(row.ratios for row in rows)


def test_table() -> None:
    """A row has the median of its ratios, and the lowest and the highest where there are several."""
    rows = [
        Row("one", "3 s"),
        Row("two", "4 s", "bare", [2.0], "times as much"),
        Row("three", "5 s", "bare", [1.0, 4.0, 2.0]),
    ]

    assert [
        "| one | 3 s |  |  |",
        "| two | 4 s | bare | **2** times as much |",
        "| three | 5 s | bare | **2** times as fast (1 to 4 in 3) |",
    ] == table(rows).splitlines()[2:]
