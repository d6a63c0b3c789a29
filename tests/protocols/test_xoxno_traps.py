"""What is easily got wrong about XOXNO's math (facts/other-protocols.md 5)."""

from __future__ import annotations

import polars as pl
import pytest

from exporter.protocols.xoxno import math
from tests import xoxno_judge as judge
from tests.xoxno_judge import RAY, YEAR
from tests.xoxno_pools import BUSY, EMPTY, NOW, P1, at, frame_of, one, permille


class TestTraps:
    """What is easily got wrong (facts/other-protocols.md 5)."""

    def test_the_clock_counts_milliseconds(self) -> None:
        """A pool last accrued half a second before the ledger accrues for that half second only."""
        half = at(BUSY | {"last_timestamp": NOW * 1_000 - 500})
        whole = at(BUSY | {"last_timestamp": NOW * 1_000 - 1_000})
        rate = judge.per_millisecond(half["stored_borrow_apr"])

        assert judge.hu(BUSY["borrow_index"], judge.growth(500 * rate), RAY) == half["accrued_borrow_index"]
        assert judge.hu(BUSY["borrow_index"], judge.growth(1_000 * rate), RAY) == whole["accrued_borrow_index"]

    def test_stored_rates_stand_still_and_totals_do_not(self) -> None:
        """A quiet year changes the totals, the indexes and the accrued rates, not the stored rates nor the yields."""
        before, after = at(BUSY), at(BUSY, NOW + 365 * 86_400)
        still = ("stored_borrow_apr", "stored_supply_apr", "stored_utilization", "borrow_apy_bps", "supply_apy_bps")
        moving = (
            "total_supplied",
            "total_borrowed",
            "accrued_borrow_index",
            "accrued_supply_index",
            "accrued_borrow_apr",
        )

        assert [before[name] for name in still] == [after[name] for name in still]
        assert all(before[name] < after[name] for name in moving)
        assert judge.apy_bps(after["accrued_borrow_apr"]) != after["borrow_apy_bps"]

    def test_revenue_is_inside_supplied(self) -> None:
        """The protocol's share changes nothing of what is supplied, and it grows by the same shares."""
        without = at(BUSY | {"revenue": 0}, NOW + 86_400)
        accrued = judge.accrue(BUSY, (NOW + 86_400) * 1_000)

        assert without["total_supplied"] == at(BUSY, NOW + 86_400)["total_supplied"]
        assert accrued["revenue"] - BUSY["revenue"] == accrued["supplied"] - BUSY["supplied"] > 0

    def test_interest_goes_to_suppliers_and_the_protocol(self) -> None:
        """What borrowers owe more is what is supplied more, to a base unit: nothing is lost or made."""
        before, after = at(BUSY), at(BUSY, NOW + 300 * 86_400)
        owed, earned = (after[name] - before[name] for name in ("total_borrowed", "total_supplied"))

        assert owed > 10**11
        assert abs(owed - earned) <= 1

    def test_a_low_supply_index(self) -> None:
        """After a bad debt the supply index is below where it began, and accrual goes on from there."""
        fallen = BUSY | {"supply_index": 10**24 + 7, "borrowed": 10**29}
        row = at(fallen, NOW + 86_400)

        assert 10**24 + 7 < row["accrued_supply_index"] < RAY
        assert judge.project(fallen, NOW + 86_400)["total_supplied"] == row["total_supplied"]

    def test_eighteen_decimals(self) -> None:
        """A base unit of such a token is a thousand million of RAY, and a half of it rounds up."""
        row = at(EMPTY | P1 | {"asset_decimals": 18, "supplied": 5 * 10**27 + 5 * 10**8, "borrowed": 5 * 10**8 - 1})

        assert (5 * 10**18 + 1, 0) == (row["total_supplied"], row["total_borrowed"])

    def test_two_roundings(self) -> None:
        """A value rounds at RAY first and at base units then, which one rounding would not give."""
        pool = EMPTY | P1 | {"asset_decimals": 26, "supplied": 9, "supply_index": RAY // 2}

        assert 1 == at(pool)["total_supplied"]  # 4.5 is 5 of RAY, which is 0.5 of a base unit, which is 1
        assert 0 == at(pool | {"supplied": 8})["total_supplied"]

    def test_years_accrue_in_chunks(self) -> None:
        """After three and a half years the curve was read four times, each at its own utilization."""
        quiet = BUSY | {"last_timestamp": NOW * 1_000 - 7 * YEAR // 2}
        chunks = dict(quiet)
        for milliseconds in (YEAR, YEAR, YEAR, YEAR // 2):
            chunks = judge.one_chunk(chunks, milliseconds)
        row = at(quiet)

        assert (chunks["borrow_index"], chunks["supply_index"]) == (
            row["accrued_borrow_index"],
            row["accrued_supply_index"],
        )
        rate = judge.per_millisecond(row["stored_borrow_apr"])
        assert judge.hu(BUSY["borrow_index"], judge.growth(rate * 7 * YEAR // 2), RAY) < row["accrued_borrow_index"]

    def test_slopes_by_name(self) -> None:
        """Each slope belongs to its own segment: swapping two of them changes the rates of those segments only."""
        first, second = permille(300), permille(700)
        swapped = P1 | {"slope1": P1["slope2"], "slope2": P1["slope1"]}
        rates = [
            math.borrow_rate(one(u), math.curve_of(frame_of([EMPTY | pool]))).item()
            for pool in (P1, swapped)
            for u in (first, second)
        ]

        assert [permille(20), permille(73), permille(52.5), permille(112)] == rates

    def test_nulls_are_refused(self) -> None:
        """A null is a mistake of the caller, not a pool without a result."""
        with pytest.raises(ValueError, match="supplied"):
            math.project(frame_of([BUSY]).with_columns(pl.lit(None).cast(pl.Int128).alias("supplied")), NOW)
