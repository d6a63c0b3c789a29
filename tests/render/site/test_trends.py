"""Tests of exporter.render.site.charts: the bucket suits the history, and sums are exact."""

from __future__ import annotations

import polars as pl
import pytest

from exporter.history.buckets import observations_of
from exporter.history.series import Series
from exporter.render.site.charts import MOST_POINTS, Trends
from tests.render.rendering import contract
from tests.render.site.made import CLOSE_TIME, LEDGER, big_tables, pool_row, series_of, tables_of, unpriced


@pytest.mark.parametrize(
    ("runs", "seconds", "bucket", "points"),
    [
        (1, 300, "5m", 1),
        (10, 300, "5m", 10),
        (200, 300, "1h", 18),
        (24 * 10, 3_600, "1d", 11),
        (40, 86_400, "1d", 40),
        pytest.param(400, 86_400, "1w", 58, marks=pytest.mark.slow),
    ],
)
def test_the_bucket_suits_the_history(runs: int, seconds: int, bucket: str, points: int) -> None:
    """The shortest bucket is taken of which every one since the first observation is at hand; the last point is now."""
    tables = tables_of([pool_row(0, 0)])
    [trend] = Trends(series_of(tables, runs, seconds), tables.pools).of_pools()

    assert (bucket, points) == (trend.bucket, len(trend.starts))
    assert list(trend.starts) == sorted(trend.starts)
    assert CLOSE_TIME == trend.starts[-1]
    assert len(trend.starts) <= MOST_POINTS
    assert trend.supply[-1] == tables.pools["supply_apy_bps"][0]


def test_values_are_those_of_the_series() -> None:
    """A pool's trend has the very numbers of its observations, in the order of the pools frame."""
    tables = big_tables(3, 9)
    trends = list(Trends(series_of(tables, 3), tables.pools).of_pools())

    assert [[bps + 14, bps + 7, bps] for bps in tables.pools["supply_apy_bps"]] == [list(t.supply) for t in trends]
    assert tables.pools["utilization_bps"].to_list() == [trend.utilization[-1] for trend in trends]


def test_groups_are_summed_exactly() -> None:
    """The totals of a market are exact sums over its pools, beyond 128 bits too; pools without a price add nothing."""
    huge = 10**38 - 1
    rows = [pool_row(0, number, tvl_usd_cents=huge) for number in range(5)]
    tables = tables_of([*rows, pool_row(0, 5, **unpriced()), pool_row(1, 6, **unpriced())], tvl_usd_cents=None)
    groups = Trends(_exactly(tables.pools), tables.pools).of_groups("market")

    one, other = groups[contract(100)], groups[contract(101)]
    assert ([5 * huge], [5 * 10**8], [6], [5]) == (one.value, one.supplied, one.pool_count, one.priced_count)
    assert ([None], [None], [1], [0]) == (other.value, other.supplied, other.pool_count, other.priced_count)


def test_groups_show_the_pools_of_the_greatest_value() -> None:
    """Of a market or token four pools are shown, the greatest first, unpriced ones last."""
    rows = [pool_row(0, number, tvl_usd_cents=value) for number, value in enumerate((5, 9, 1, 7, 3))]
    tables = tables_of([*rows, pool_row(0, 5, **unpriced()), pool_row(1, 6, **unpriced())])
    groups = Trends(_exactly(tables.pools), tables.pools).of_groups("market")

    assert [contract(10_000 + number) for number in (1, 3, 0, 4)] == [
        pool for (_, pool), _ in groups[contract(100)].pools
    ]
    assert [(contract(101), contract(10_006))] == [place for place, _ in groups[contract(101)].pools]


def test_groups_are_drawn_by_day() -> None:
    """The lines of a group are by day, as its totals are, whatever its pools' own charts show."""
    old, new = tables_of([pool_row(0, 0)]), tables_of([pool_row(0, 0), pool_row(0, 1)])
    series = series_of(old, 200, 300)
    rows = observations_of(new.pools).with_columns(
        pl.lit(LEDGER + 1, pl.Int64).alias("observed_ledger"),
        pl.lit(CLOSE_TIME + 300, pl.Int64).alias("ledger_close_time"),
    )
    for _ in series.extend(rows, LEDGER + 1, CLOSE_TIME + 300):
        pass
    trends = Trends(series, new.pools)

    assert ["1h", "5m"] == [trend.bucket for trend in trends.of_pools()]
    for key, name in (("market", contract(100)), ("network", "network")):
        group = trends.of_groups(key)[name]
        assert ["1d", "1d", "1d"] == [group.bucket, *(trend.bucket for _, trend in group.pools)]


def _exactly(pools: pl.DataFrame) -> Series:
    """A series of one run with the very numbers of the frame."""
    series = Series()
    for _ in series.extend(observations_of(pools), LEDGER, CLOSE_TIME):
        pass
    return series
