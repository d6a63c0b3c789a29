"""Means and changes of a day, a week and 30 days, against plain Python and by hand."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from random import Random
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.history.buckets import observations_of
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.tree.documents import timestamp
from exporter.tree.pool_periods import AssetPeriod
from tests.history.bucket_judge import LENGTHS, Observation, buckets_of, mean, realized, start_of
from tests.history.runs import MONDAY, frame_of, observe, places

LEDGER = 65_000_000
DAY = 86_400
FIELDS = ("supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
COMPARABLE = ("comparable_supply_apy_bps", "comparable_borrow_apy_bps")
WINDOWS = (("24h", DAY, "1h"), ("7d", 7 * DAY, "1h"), ("30d", 30 * DAY, "1d"))
SAMPLE = observe(Random(1), places(1, 1), LEDGER, MONDAY)[0]


def made(observed: list[Observation]) -> dict[tuple[str, str], list[AssetPeriod]]:
    """The periods at the last of some observations, which is the run's own."""
    now = max(item.time for item in observed)
    last = [item for item in observed if item.time == now]
    frames = [
        frame_of([item for item in observed if item.time == time], ledger, time)
        for ledger, time in sorted({(item.ledger, item.time) for item in observed})
    ]
    series = Series()
    for _ in series.extend(observations_of(pl.concat(frames)), last[0].ledger, now):
        pass
    own = frame_of(last, last[0].ledger, now)
    return dict(zip(own.select("market", "pool").iter_rows(), periods_of(series.pools, now, own), strict=True))


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def judged(observed: list[Observation], place: tuple[str, str]) -> list[dict[str, Any]]:
    """The periods, computed in plain Python."""
    now = max(item.time for item in observed)
    [own] = [item for item in observed if item.time == now and item.place == place]
    result = []
    for name, length, bucket in WINDOWS:
        end = start_of(now, LENGTHS[bucket])
        rows = [row for row in buckets_of(observed, LENGTHS[bucket])[place] if seconds(row["end_time"]) <= end]
        inside = [row for row in rows if seconds(row["start_time"]) >= end - length]
        before = [row for row in rows if end - length - length // 4 <= seconds(row["end_time"]) <= end - length]
        known = bool(inside and before)
        expected: dict[str, Any] = {"period": name, "observed_count": len(inside) if known else 0}
        for field in FIELDS:
            values = [int(row[field]) for row in inside if row[field] is not None]
            old, new = before[-1][field] if before else None, getattr(own, field)
            average = mean(values) if known and values else None
            change = None if not known or old is None or new is None else new - int(old)
            money = field == "tvl_usd_cents"
            expected[f"mean_{field}"] = str(average) if money and average is not None else average
            expected[f"{field}_change"] = str(change) if money and change is not None else change
        for field in COMPARABLE:
            known_values = [row[field] for row in inside if row[field] is not None]
            expected[f"mean_{field}"] = mean(known_values) if known and known_values else None
        at = {item.ledger: item for item in observed if item.place == place}
        ends = [at[rows[-1]["last_ledger"]] for rows in (before, inside)] if known else []
        for side in ("supply", "borrow"):
            growth = realized(ends, attrgetter(f"{side}_index")) if known else None
            expected[f"realized_{side}_apy_bps"] = growth
        times = [timestamp(item.time) for item in ends] if known else [None, None]
        expected["realized_from"], expected["realized_to"] = times
        result.append(expected)
    return result


@pytest.mark.parametrize("hours", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_periods_equal_a_plain_recomputation(hours: int) -> None:
    """Means and changes of every pool over 39 days with gaps are what plain Python computes."""
    random = Random(hours)
    observed = [
        item
        for number in range(39 * 24 // hours)
        if random.random() < 0.9 or number == 39 * 24 // hours - 1
        for item in observe(
            random, places(1, 2), LEDGER + number, MONDAY + number * hours * 3600 + random.randrange(3600)
        )
    ]
    found = made(observed)

    assert 2 == len(found)
    for place, periods in found.items():
        expected = judged(observed, place)
        assert expected == [{name: getattr(period, name) for name in expected[0]} for period in periods]
        assert all(period.observed_count for period in periods)


def test_a_history_that_does_not_reach_says_null() -> None:
    """A pool that was first seen within the period, or not for a quarter of it before, has no numbers of it."""
    hours = {"new": range(23, 26), "long ago": [*range(-20, -7), *range(1, 26)], "just": [-1, *range(1, 26)]}
    for name, known in hours.items():
        observed = [replace(SAMPLE, ledger=LEDGER + hour, time=MONDAY + hour * 3600) for hour in known]
        [[day, *_]] = made(observed).values()

        assert (name == "just") == (day.observed_count > 0) == (day.mean_supply_apy_bps is not None)


@pytest.mark.parametrize(("before", "known"), [(7, True), (8, False)])
def test_the_oldest_bucket_that_a_change_may_go_by(before: int, known: bool) -> None:
    """A day's change goes by a bucket that ended six hours before the day began, and not by an older one."""
    observed = [replace(SAMPLE, ledger=LEDGER + hour, time=MONDAY + hour * 3600) for hour in (-before, *range(25))]
    [[day, *_]] = made(observed).values()

    assert known == (day.supply_apy_bps_change is not None)
