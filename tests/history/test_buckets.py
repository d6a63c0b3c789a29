"""Buckets: where they begin, and means and medians against plain Python integers."""

from __future__ import annotations

import json
from fractions import Fraction
from math import floor
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.history.buckets import BUCKETS_FRAME, aggregate, observations_of
from exporter.history.realized import with_interest
from exporter.history.time_buckets import BUCKETS, WEEK
from tests.history.bucket_judge import LENGTHS, PAGE_BUCKETS, SPANS, buckets_of, span_of, start_of
from tests.history.frames import pools_frame
from tests.history.runs import MONDAY, frame_of, observe, places

BY_NAME = {bucket.name: bucket for bucket in BUCKETS}
AMOUNTS = st.integers(0, 10**38 - 1)
PRICES = st.none() | st.tuples(st.integers(1, 10**20), st.sampled_from([0, 7, 14, 18]))


def test_lengths_are_those_of_the_api() -> None:
    """The buckets are those that the API names, and newest documents hold a week of hours and eight months of days."""
    assert LENGTHS == {bucket.name: bucket.seconds for bucket in BUCKETS}
    assert PAGE_BUCKETS == {bucket.name: bucket.page_buckets for bucket in BUCKETS}
    assert SPANS == {bucket.name: bucket.pages for bucket in BUCKETS}
    assert all(SPANS[name] * PAGE_BUCKETS[name] >= wanted for name, wanted in (("1h", 168), ("1d", 192)))
    assert "1w" == WEEK.name


@given(st.sampled_from(BUCKETS), st.integers(0, 253_402_300_799))
def test_starts_and_pages_of_any_time(bucket: object, time: int) -> None:
    """The column and the number of any time agree with the calendar, and a page begins with one of its buckets."""
    one = next(item for item in BUCKETS if item is bucket)
    frame = pl.DataFrame({"time": [time]}).select(
        one.start(pl.col("time")).alias("start"), one.page_starts(pl.col("time")).alias("page")
    )
    ((start, page),) = frame.rows()

    assert start_of(time, one.seconds) == start == one.start(time)
    assert page == one.start(page)
    assert span_of(page, one.name) == span_of(start, one.name)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, st.integers(0, 10_000), PRICES), min_size=1, max_size=9))
def test_one_bucket_of_any_numbers(rows: list[tuple[int, int, int, tuple[int, int] | None]]) -> None:
    """Means and medians are exact for numbers of 38 digits, for odd and even counts, and for prices of any decimals."""
    [sample] = observe(Random(1), places(1, 1), 1, MONDAY)
    observed = [
        replace(
            sample,
            ledger=number,
            time=MONDAY + number,
            total_supplied=supplied,
            total_borrowed=borrowed,
            price=price,
            supply_apy_bps=bps,
            borrow_apy_bps=bps,
            utilization_bps=bps,
            tvl_usd_cents=None if price is None else borrowed,
        )
        for number, (supplied, borrowed, bps, price) in enumerate(rows, 1)
    ]
    frames = [frame_of([item], item.ledger, item.time) for item in observed]
    observations = observations_of(pl.concat(frames))
    observed_rows = with_interest(observations, observations.clear())
    row = aggregate(observed_rows, BY_NAME["5m"]).row(0, named=True)
    [expected] = buckets_of(observed, LENGTHS["5m"])[sample.place]

    for name in set(expected) - {"start_time", "end_time"}:
        found = str(row[name]) if BUCKETS_FRAME[name] == pl.Int128 and row[name] is not None else row[name]
        assert expected[name] == found, name


def test_yields_of_real_accruals(real_data: Path) -> None:
    """What suppliers of a real market earned between two states that its contract wrote."""
    path = real_data / "archive-testnet-blend.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    accruals = [item for item in json.loads(path.read_bytes())["transitions"] if item["interest_accrued"]]
    found = []
    for item in accruals:
        states = [item["before"], item["after"]]
        rows = [{"market": "C", "pool": "C", "supply_index": state["b_rate"], "index_decimals": 12} for state in states]
        frames = [
            pools_frame([row], number, state["last_time"])
            for number, (row, state) in enumerate(zip(rows, states, strict=True), 1)
        ]
        [bps] = aggregate(observations_of(pl.concat(frames)), WEEK)["realized_supply_apy_bps"]
        earned = Fraction(states[1]["b_rate"], states[0]["b_rate"]) - 1
        daily = earned * 86_400 / item["seconds"]
        assert floor((1 + daily) ** 365 * 10_000) - 10_000 == bps
        found.append(bps)

    assert 3 == len(found)
    assert all(bps > 0 for bps in found)
