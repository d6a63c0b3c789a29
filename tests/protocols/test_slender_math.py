"""Slender's math against vectors made by hand, and against the judge for reserves of any kind.

The facts have no vectors, so those here are calculated by hand in plain integers.
"""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import exact
from exporter.errors import ExactOverflowError
from exporter.protocols.slender import math
from tests import slender_judge as judge

Reserve = dict[str, int]
NOW = 1_800_000_000
ONE = 10**9

# 1000 tokens supplied for 1000 shares, half of them lent; 10 % for borrowers and 9 % for lenders since a year ago
PLAIN: Reserve = {
    "lender_ar": ONE, "lender_ir": 90_000_000, "borrower_ar": ONE, "borrower_ir": 100_000_000,
    "last_update_timestamp": NOW - 31_557_600, "window": 20, "s_supply": 1000 * 10**7, "debt_supply": 500 * 10**7,
    "balance": 500 * 10**7, "fees": 3,
}  # fmt: skip


def frame_of(reserves: list[Reserve]) -> pl.DataFrame:
    """The raw columns of some reserves."""
    return pl.DataFrame([exact.column([item[name] for item in reserves], name) for name in math.RESERVE_COLUMNS])


def projected(reserve: Reserve, now: int = NOW) -> dict[str, int]:
    """What is computed of one reserve."""
    row: dict[str, int] = math.project(frame_of([reserve]), now).row(0, named=True)
    return row


def test_a_whole_year() -> None:
    """After a year the debt has grown by its rate, and what suppliers own by theirs on what is lent [calc]."""
    expected = {
        "debt_coeff": 1_100_000_000,
        "borrowed": 550 * 10**7,
        "collat_coeff": 1_045_000_000,
        "supplied": 1045 * 10**7,
        "utilization_bps": 5_263,
        "stored_utilization": 500_000_000,
        "accrued_utilization": 521_531_100,  # floor(545 / 1045)
        "stored_supply_apr": 45_000_000,
        "accrued_supply_apr": 46_937_799,  # floor(0.09 × 545 / 1045)
        "supply_apy_bps": 450,
        "borrow_apy_bps": 1_000,
    }
    row = projected(PLAIN)

    assert expected == {name: row[name] for name in expected}


@pytest.mark.parametrize(
    ("since", "window", "seconds"), [(19, 20, 0), (20, 20, 20), (59, 20, 40), (-1, 20, 0), (7, 1, 7), (7, 0, 0)]
)
def test_whole_windows(since: int, window: int, seconds: int) -> None:
    """Interest is added in whole windows of time; none before the last update, nor where windows have no length."""
    found = math.elapsed_seconds(exact.column([NOW - since]), exact.column([window]), NOW)

    assert [seconds] == found.to_list()


def test_every_step_is_rounded_down() -> None:
    """A month at 7 %: the years are floored to 9 decimals, then the growth, then the rate [calc]."""
    month = exact.column([2_592_000])
    found = math.accrued_rate(exact.column([1_234_567_890]), exact.column([70_000_000]), month)

    # 82135523 of 10^9 years; 5749486 of growth; floor(1234567890 × 1.005749486)
    assert [1_241_666_020] == found.to_list()


def test_empty_reserve() -> None:
    """A reserve without shares has coefficients of 1, and no utilization."""
    row = projected(PLAIN | {"s_supply": 0, "debt_supply": 0, "balance": 0, "borrower_ir": 0, "lender_ir": 0})

    assert (ONE, ONE, 0, 0, 0) == tuple(
        row[name] for name in ("collat_coeff", "debt_coeff", "supplied", "borrowed", "utilization_bps")
    )


def test_nulls_are_refused() -> None:
    """A null in what is computed with is an error, not a number."""
    frame = frame_of([PLAIN]).with_columns(pl.lit(None).cast(pl.Int128).alias("window"))
    with pytest.raises(ValueError, match="null in window"):
        math.project(frame, NOW)


AMOUNTS = st.integers(0, 10**18)


def common_reserves() -> st.SearchStrategy[Reserve]:
    """Reserves as the chain may have them."""
    coefficients, rates = st.integers(ONE, 5 * ONE), st.integers(0, 5 * ONE)
    return st.fixed_dictionaries(
        {
            "lender_ar": coefficients, "lender_ir": rates, "borrower_ar": coefficients, "borrower_ir": rates,
            "last_update_timestamp": st.integers(NOW - 10**8, NOW + 100), "window": st.integers(0, 10**4),
            "s_supply": AMOUNTS, "debt_supply": AMOUNTS, "balance": AMOUNTS, "fees": AMOUNTS,
        }
    )  # fmt: skip


def hostile_reserves() -> st.SearchStrategy[Reserve]:
    """Reserves with any numbers that the decoder lets through."""
    anything = st.integers(0, 2**127 - 1)
    return st.fixed_dictionaries(
        dict.fromkeys(math.RESERVE_COLUMNS, anything)
        | {"last_update_timestamp": st.integers(0, 2**62 - 1), "window": st.integers(0, 2**64 - 1)}
    )


def agree(reserves: list[Reserve]) -> None:
    """What is computed is what the judge says, and exactly those are set aside that the judge refuses."""
    judged: dict[int, Reserve] = {}
    for row, reserve in enumerate(reserves):
        try:
            judged[row] = judge.project(reserve, NOW)
        except OverflowError:
            continue
    found, failures = exact.set_aside_failures(frame_of(reserves), lambda kept: math.project(kept, NOW))

    assert set(range(len(reserves))) - set(judged) == set(failures)
    assert all(isinstance(error, ExactOverflowError) for error in failures.values())
    names = list(next(iter(judged.values()), {}))
    assert list(judged.values()) == (found.select(names).rows(named=True) if names else [])


@given(st.lists(common_reserves(), min_size=1, max_size=6))
def test_common_reserves_equal_the_judge(reserves: list[Reserve]) -> None:
    """Reserves as the chain may have them come out as the judge says."""
    agree(reserves)


@given(st.lists(common_reserves() | hostile_reserves(), min_size=1, max_size=4))
def test_hostile_reserves_equal_the_judge(reserves: list[Reserve]) -> None:
    """Beside values of any size the others stay right, and exactly those the judge refuses are set aside."""
    agree(reserves)
