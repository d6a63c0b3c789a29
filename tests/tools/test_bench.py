"""The benchmarks themselves: each runs at a tiny size, and its own comparison of results holds."""

from __future__ import annotations

import math

import pytest

from tools.bench import __main__ as bench


@pytest.mark.slow
@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_a_tiny_benchmark_gives_finite_ratios(name: str) -> None:
    """At a tiny size a benchmark gives finite ratios."""
    try:
        rows = bench.BENCHMARKS[name](True)
    except RuntimeError as error:
        if "is not installed" in str(error):
            pytest.skip(str(error))
        raise

    assert [] == [row.what for row in rows if not all(map(math.isfinite, row.ratios))]
    assert any(row.ratios for row in rows)
