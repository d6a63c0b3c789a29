"""The annual yield that the growth of an index makes."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exact import INT128_MAX, JSON_INTEGER_MAX
from exporter.history import realized
from exporter.history.realized import IndexAt, realized_apy_bps

DAY = 86_400
YEAR = 365 * DAY

indexes = st.integers(1, INT128_MAX)
seconds = st.integers(1, 10 * YEAR)


def yield_of(first: int, last: int, elapsed: int) -> int | None:
    """The realized yield of an index that went from ``first`` to ``last`` in some seconds."""
    return realized_apy_bps(IndexAt(1_700_000_000, 12, first), IndexAt(1_700_000_000 + elapsed, 12, last))


def test_thirty_days_are_no_more_than_their_growth_makes() -> None:
    """Growth of 0.7173 % in 30 days is 9.08 % a year, for such growth twelve and a sixth times over."""
    assert 908 == yield_of(1_000_000, 1_007_173, 30 * DAY)


@given(st.integers(1, 40), st.integers(0, 60), st.integers(1, 30))
def test_equal_days_have_the_yield_of_one_day(old: int, new: int, days: int) -> None:
    """A gain that is the same on each of some days gives exactly what one such day gives, compounded daily."""
    expected = min(floor(Fraction(new, old) ** 365 * 10_000) - 10_000, JSON_INTEGER_MAX)

    assert expected == yield_of(old, new, DAY) == yield_of(old**days, new**days, days * DAY)


@given(indexes, indexes, seconds, st.integers(2, 10**9))
def test_the_scale_of_an_index_does_not_matter(old: int, new: int, elapsed: int, scale: int) -> None:
    """Only the factor by which an index grew counts."""
    assert yield_of(old, new, elapsed) == yield_of(old * scale, new * scale, elapsed)


@given(indexes, indexes, indexes, seconds)
def test_more_growth_is_no_lower_yield(old: int, one: int, other: int, elapsed: int) -> None:
    """A higher index at the same time never has a lower yield."""
    low, high = yield_of(old, min(one, other), elapsed), yield_of(old, max(one, other), elapsed)

    assert low is not None
    assert high is not None
    assert -10_000 <= low <= high <= JSON_INTEGER_MAX


@given(st.integers(-9_999, 100_000), st.sampled_from([1, 2, 3, 5, 9]))
def test_a_yield_of_whole_basis_points_is_not_rounded_away(bps: int, years: int) -> None:
    """If growth makes whole basis points a year, that is the yield; a little less growth rounds down."""
    scale = 10 ** (38 - 4 * years)
    old, new = 10_000**years * scale, (10_000 + bps) ** years * scale

    assert bps == yield_of(old, new, years * YEAR)
    assert bps - 1 == yield_of(old, new - 1, years * YEAR)


@given(st.integers(10**11, 10**14), st.integers(10**11, 10**14), st.sampled_from([7 * DAY, 30 * DAY, 30 * DAY + 1_234]))
def test_a_year_of_the_yield_is_the_growth_in_bounds(old: int, new: int, elapsed: int) -> None:
    """The published yield y has (1 + y)^(s / year) <= G < (1 + y + one basis point)^(s / year), in plain logarithms."""
    bps = yield_of(old, new, elapsed)
    assert bps is not None
    growth = (Decimal(new).ln() - Decimal(old).ln()) * YEAR / elapsed
    if -1 < growth < 20:
        assert Decimal(10_000 + bps).ln() - Decimal(10_000).ln() <= growth + Decimal("1e-20")
        assert growth < Decimal(10_001 + bps).ln() - Decimal(10_000).ln() + Decimal("1e-20")


@pytest.mark.parametrize(
    ("first", "last", "elapsed", "expected"),
    [
        pytest.param(10**12, 10**12, 60, 0, id="no growth"),
        pytest.param(INT128_MAX, INT128_MAX, 1, 0, id="no growth of the largest index"),
        pytest.param(1, INT128_MAX, 1, JSON_INTEGER_MAX, id="the most growth in the shortest time"),
        pytest.param(INT128_MAX, 1, 1, -10_000, id="the most loss in the shortest time"),
        pytest.param(INT128_MAX, INT128_MAX - 1, 10 * YEAR, -1, id="the least loss in a long time"),
        pytest.param(INT128_MAX - 1, INT128_MAX, 10 * YEAR, 0, id="the least growth in a long time"),
        pytest.param(10**12, 0, DAY, -10_000, id="all lost"),
        pytest.param(10**4000, 10**4000 + 1, DAY, 0, id="far more digits than an index has"),
        pytest.param(0, 10**12, DAY, None, id="nothing at first"),
        pytest.param(0, 0, DAY, None, id="nothing at all"),
        pytest.param(-1, 1, DAY, None, id="below zero at first"),
        pytest.param(1, -1, DAY, None, id="below zero at last"),
        pytest.param(1, 2, 0, None, id="at one time"),
        pytest.param(1, 2, -1, None, id="back in time"),
    ],
)
def test_the_ends_of_the_range(first: int, last: int, elapsed: int, expected: int | None) -> None:
    """No index that a contract can claim makes the yield fail, or leave -100 % to the largest integer of JSON."""
    assert expected == yield_of(first, last, elapsed)


@pytest.mark.parametrize("missing", ["time", "index", "decimals"])
def test_what_is_not_known_has_no_yield(missing: str) -> None:
    """There is no yield without a time or an index, or if decimals changed."""
    known = {"time": DAY, "decimals": 12, "index": 10**12}
    first = IndexAt(time=0, decimals=12, index=10**12)

    assert 0 == realized_apy_bps(first, IndexAt(**known))
    assert realized_apy_bps(first, IndexAt(**known | {missing: None})) is None


def test_the_digits_do_not_depend_on_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decimal module that is written in Python gives the same yields as the one written in C."""
    cases = [(10**12, 10**12 + 10**n + n, 30 * DAY + 977 * n) for n in range(0, 13, 3)]
    spec = spec_from_file_location("plain_realized", realized.__file__)
    assert spec is not None
    assert spec.loader is not None
    plain = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plain_realized", plain)
    monkeypatch.setitem(sys.modules, "decimal", import_module("_pydecimal"))
    spec.loader.exec_module(plain)

    assert plain.Decimal is not Decimal
    for old, new, elapsed in cases:
        assert yield_of(old, new, elapsed) == plain.realized_apy_bps(
            plain.IndexAt(0, 12, old), plain.IndexAt(elapsed, 12, new)
        )
