"""Tests of exporter.render.site.charts: axes that can be read, gaps that are gaps, text that says the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.history.buckets import observations_of
from exporter.render.site.charts import MONEY, RATE, ChartColumn, Line, chart, charts_of, curve, table
from exporter.render.site.text import NOTHING, TIMES
from exporter.render.site.trends import MAX_POINTS, RECENT_SECONDS, Trend, Trends, protocol_charts, thinned
from tests.render.rendering import contract
from tests.render.site.made import CLOSE_TIME, LEDGER, big_tables, pool_row, series_of, site_of, tables_of, unpriced

HOUR = 3_600
START = 1_794_996_000  # 2026-11-18 10:00:00 UTC


def drawn(values: Sequence[int | None], step: int = HOUR) -> str:
    starts = [START + step * number for number in range(len(values))]
    return str(chart("x", "Rates", starts, [ChartColumn("Supply", RATE, values)], [Line("Supply", 1, 0)], area=True))


def labels(text: str, axis: str) -> list[str]:
    [group] = re.findall(rf'<g class="ticks {axis}".*?</g>', text)
    return [label.replace("\N{NARROW NO-BREAK SPACE}", " ") for label in re.findall(r">([^<>]+)</text>", group)]


def test_axes_have_round_ticks() -> None:
    """Values end at a round number above the greatest, times at round hours or days."""
    text = drawn([100, 730, 512, 0])

    assert ["0 %", "2 %", "4 %", "6 %", "8 %"] == labels(text, "y")
    assert ["10:00", "11:00", "12:00", "13:00"] == labels(text, "x")
    assert ["19 Nov", "26 Nov", "3 Dec"] == labels(drawn([1] * 21, step=86_400), "x")


@pytest.mark.parametrize(
    ("greatest", "ticks"),
    [
        (1_250_000, ["$0", "$5K", "$10K", "$15K"]),
        (180_000, ["$0", "$500", "$1K", "$1.5K", "$2K"]),
        (9_659, ["$0", "$50", "$100"]),
    ],
)
def test_sums_at_an_axis_have_one_form(greatest: int, ticks: list[str]) -> None:
    """From a thousand dollars on a tick is in thousands, so that no axis has `$10K` above `$5,000`."""
    columns = [ChartColumn("TVL", MONEY, [greatest, greatest, greatest])]
    text = str(chart("x", "Value", [START, START + HOUR, START + 2 * HOUR], columns, [Line("TVL", 4, 0)]))

    assert ticks == labels(text, "y")


@pytest.mark.parametrize(
    ("greatest", "ticks"),
    [
        (1_800, ["0 %", "5 %", "10 %", "15 %", "20 %"]),
        (40, ["0 %", "0.1 %", "0.2 %", "0.3 %", "0.4 %"]),
        (9_900_000, ["0 %", "50,000 %", "100K %"]),
        (999_999_999, ["0 %", "5,000K %", f"1{TIMES}10⁷ %"]),
        (30 * 10**12, ["0 %", *(f"{n}{TIMES}10¹¹ %" for n in (1, 2, 3))]),
    ],
)
def test_rates_at_an_axis_stay_short(greatest: int, ticks: list[str]) -> None:
    """A rate at an axis is short, whatever its size: thousands from 100,000 % on, as a power from 10^7 % on."""
    assert ticks == labels(drawn([greatest] * 3), "y")


def test_ticks_are_at_their_times() -> None:
    """A round hour is marked if its time lies between the first and the last value."""
    [marks] = re.findall(r'<path class="marks" d="([^"]*)"', drawn([1, 1, 1, 1]))

    assert ["92", "296", "500", "704"] == re.findall(r"M(\d+) ", marks)


def test_points_lie_where_their_values_are() -> None:
    """Zero lies on the axis, the top of the axis at the top, and times are spread evenly."""
    [path] = re.findall(r'<path class="line k1" d="M([^"]*)"', drawn([0, 400, 800]))

    assert ["92 296", "398 160", "704 24"] == re.findall(r"\d+ \d+", path)
    assert f'd="M{path} 704 296 92 296Z"/>' in drawn([0, 400, 800])


def test_what_is_not_known_is_a_gap() -> None:
    """A gap breaks the line; if no value is known, or the history has just begun, a sentence says so."""
    [path] = re.findall(r'<path class="line k1" d="([^"]*)"', drawn([100, None, 100, 100]))

    assert 2 == path.count("M")
    assert path.startswith("M92 24h0M")
    for values in ([5], [5, 6]):
        assert "The history begins here." in drawn(values)
        assert "<svg" not in drawn(values)
    assert "no value is known" in drawn([None, None])
    assert "<svg" not in drawn([None, None])


def test_a_page_says_once_that_its_history_begins() -> None:
    """As long as no chart has lines, a page has no empty charts: one sentence, and the numbers as a table."""
    tables = tables_of([pool_row(0, 0)])
    for length, is_drawn in ((1, False), (4, True)):
        pages = site_of(tables, series_of(tables, length, 86_400))
        for key in (key for key in pages if re.match("(pools|markets|tokens)/C", key)):
            assert is_drawn is ('class="plot"' in pages[key].partition('id="over-time"')[2]), key
            assert (0 if is_drawn else 1) == pages[key].count("The history begins here"), key
            assert 1 == pages[key].count("The same numbers as a table"), key


def test_the_drawing_is_described() -> None:
    """Title and description say what is drawn, from when to when, and from what to what."""
    text = drawn([100, 730, 512])
    [description] = re.findall(r"<desc[^>]*>([^<]*)<", text)

    assert 'role="img" aria-labelledby="x-t x-d"' in text
    assert (
        "18 Nov 2026, 10:00 UTC to 18 Nov 2026, 12:00 UTC. Supply: from 1.00 % to 7.30 %, last 5.12 %."
        == description.replace("\N{NARROW NO-BREAK SPACE}", " ")
    )


def test_outliers_do_not_stretch_the_axis() -> None:
    """A value far above the usual ones and the last is drawn at the top, and the legend says so."""
    text = drawn([300, 4 * 10**10, *[400] * 18])

    assert ["0 %", "1 %", "2 %", "3 %", "4 %"] == labels(text, "y")
    assert ">Clipped: values up to 4.00\N{MULTIPLICATION SIGN}10⁸\N{NARROW NO-BREAK SPACE}%</li>" in text
    assert "Clipped: values up to" in re.findall(r"<desc[^>]*>([^<]*)<", text)[0]
    for usual in ([300] * 19 + [10**6], [300] * 3 + [10**6] * 17, [10_000, *[300] * 19], [0, 0]):
        assert "Clipped" not in drawn(usual)
    columns = [ChartColumn("", RATE, [value, value]) for value in (300, 20, 10**9, 500)]
    lines = [Line(str(number), number, number - 1) for number in range(1, 5)]
    assert "Clipped" in chart("x", "Rates", [START, START + HOUR], columns, lines)


def test_a_legend_says_what_its_numbers_are() -> None:
    """The last value stands alone. The least and the greatest have a word each, and are left out if all are equal."""
    moving, still = (drawn(values).replace("\N{NARROW NO-BREAK SPACE}", " ") for values in ([300, 500, 400], [400] * 3))

    assert '4.00 %</b> <span class="range">(low 3.00 %, high 5.00 %)</span>' in moving
    assert "4.00 %</b></li>" in still


@given(st.lists(st.none() | st.integers(min_value=0, max_value=10**38), min_size=1, max_size=100))
def test_any_values_can_be_drawn(values: list[int | None]) -> None:
    """Whatever the values, the drawing is well-formed, and every coordinate lies in it."""
    starts = [START + HOUR * number for number in range(len(values))]
    text = str(chart("x", "Value", starts, [ChartColumn("TVL", MONEY, values)], [Line("TVL", 4, 0)], area=True))

    ElementTree.fromstring(text)
    for path in re.findall(r'<path class="(?:line|area) k4" d="([^"]*)"', text):
        numbers = [int(number) for number in re.findall(r"\d+", path.replace("h0", ""))]
        assert all(92 <= x <= 704 for x in numbers[::2])
        assert all(24 <= y <= 296 for y in numbers[1::2])


def test_lines_of_very_different_size_have_charts_of_their_own() -> None:
    """A line that another one, twenty times as high, would press to its axis is drawn on an axis of its own."""
    starts = [START + HOUR * number for number in range(4)]

    def titles(*tops: int | None) -> list[tuple[str, list[str]]]:
        columns = [ChartColumn(f"ChartColumn {number}", MONEY, [top] * 4) for number, top in enumerate(tops)]
        lines = [Line(f"Line {number}", number + 1, number) for number in range(len(tops))]
        found = [str(one) for one in charts_of("x", "Together", starts, columns, lines)]
        return [
            (re.findall("<figcaption>(.*?)</figcaption>", text)[0], re.findall('class="line (k.)"', text))
            for text in found
        ]

    apart = [("Line 0", ["k1"]), ("Line 1", ["k2"])]
    assert [("Together", ["k1", "k2"])] == titles(100, 1_999)
    assert apart == titles(100, 2_000)
    assert apart == titles(2_000, 100)
    assert [("Together", ["k1", "k2"])] == titles(0, 2_000)
    assert [("Together", ["k1"])] == titles(2_000, None)


def test_the_rate_curve_reaches_100_percent() -> None:
    """The axis ends at 100 %, and so does the curve, or it leaves the chart at its top between its last two points."""
    flat, steep = (str(curve([(0, 0), (8_000, 400), (10_000, last)], (4_000, 200))) for last in (1_600, 1_601))
    paths = [re.findall(r'<path class="line k3" d="M([^"]*)"', text)[0].split("L") for text in (flat, steep)]
    ends = [[int(number) for number in path[-1].split()] for path in paths]

    for text in (flat, steep):
        assert ["0 %", "25 %", "50 %", "75 %", "100 %"] == labels(text, "x")
    assert 704 == ends[0][0]
    assert 24 <= ends[0][1] < 296
    before = int(paths[1][-2].split()[0])
    assert (3, 24) == (len(paths[1]), ends[1][1])
    assert before < ends[1][0] < 704
    shown = steep.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "At 100 % <b>16.0 %</b>" in shown
    assert "At 100" not in flat


def test_the_table_has_the_newest_first() -> None:
    """The table has every value in full, the newest first, and a dash for what is not known."""
    text = str(table([START, START + HOUR], [ChartColumn("TVL", MONEY, [123_456, None])], "Value"))

    assert [("18 Nov 2026, 11:00", NOTHING), ("18 Nov 2026, 10:00", "$1,234.56")] == re.findall(
        r'<tr><th scope="row">([^<]*)</th><td class="number">([^<]*)</td>', text
    )


# The histories that charts are of: the bucket suits the history, and sums are exact.


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
    """The shortest bucket is taken that the series has since the first observation; the last point is now."""
    tables = tables_of([pool_row(0, 0)])
    [trend] = Trends(series_of(tables, runs, seconds), tables.pools).of_pools()

    assert (bucket, points) == (trend.bucket, len(trend.starts))
    assert list(trend.starts) == sorted(trend.starts)
    assert CLOSE_TIME == trend.starts[-1]
    assert len(trend.starts) <= MAX_POINTS
    assert trend.values["comparable_supply_apy_bps"][-1] == tables.pools["comparable_supply_apy_bps"][0]


@pytest.mark.parametrize("days", [MAX_POINTS, MAX_POINTS + 1, 432])
def test_long_histories_of_many_pools_are_thinned(days: int) -> None:
    """Beyond a number of days the recent ones and each Monday before them stay, and the page says so."""
    monday = 4 * 86_400
    starts = [monday + day * 86_400 for day in range(days)]
    trend = thinned(Trend("1d", starts, {"tvl_usd_cents": [*range(days)]}))

    if days <= MAX_POINTS:
        assert (starts, "day") == (trend.starts, trend.every)
        return
    recent = starts[-1] - RECENT_SECONDS
    assert [start for start in starts if start >= recent or (start - monday) % 604_800 == 0] == trend.starts
    assert [(start - monday) // 86_400 for start in trend.starts] == trend.values["tvl_usd_cents"]
    assert "every Monday" in trend.every
    assert len(trend.starts) <= MAX_POINTS


def test_values_are_those_of_the_series() -> None:
    """A pool's trend has the very numbers of its observations, in the order of the pools frame."""
    tables = big_tables(3, 9)
    trends = list(Trends(series_of(tables, 3), tables.pools).of_pools())

    assert [[bps + 14, bps + 7, bps] for bps in tables.pools["comparable_supply_apy_bps"]] == [
        list(t.values["comparable_supply_apy_bps"]) for t in trends
    ]
    assert tables.pools["utilization_bps"].to_list() == [trend.values["utilization_bps"][-1] for trend in trends]


def test_groups_are_summed_exactly() -> None:
    """The totals of a market are exact sums over its pools, beyond 128 bits too; pools without a price add nothing."""
    huge = 10**38 - 1
    rows = [pool_row(0, number, tvl_usd_cents=huge) for number in range(5)]
    tables = tables_of([*rows, pool_row(0, 5, **unpriced()), pool_row(1, 6, **unpriced())], tvl_usd_cents=None)
    groups = Trends(series_of(tables, 1), tables.pools).of_groups("market")

    one, other = groups[contract(100)], groups[contract(101)]
    names = ("tvl_usd_cents", "supplied_usd_cents", "pool_count", "priced_count")
    assert ([5 * huge], [5 * 10**8], [6], [5]) == tuple(one.values[name] for name in names)
    assert ([None], [None], [1], [0]) == tuple(other.values[name] for name in names)


def test_groups_show_the_pools_of_the_greatest_value() -> None:
    """A chart of a market or token shows four pools, the largest first, unpriced ones last."""
    rows = [pool_row(0, number, tvl_usd_cents=value) for number, value in enumerate((5, 9, 1, 7, 3))]
    tables = tables_of([*rows, pool_row(0, 5, **unpriced()), pool_row(1, 6, **unpriced())])
    groups = Trends(series_of(tables, 1), tables.pools).of_groups("market")

    for market, numbers in ((100, (1, 3, 0, 4)), (101, (6,))):
        places = [(contract(market), contract(10_000 + number)) for number in numbers]
        assert places == [place for place, _ in groups[contract(market)].greatest]


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
        assert ["1d", "1d", "1d"] == [group.bucket, *(trend.bucket for _, trend in group.greatest)]


@pytest.mark.parametrize(
    ("values", "titles"),
    [
        ([105, 105, None], ["Supplied and borrowed"]),
        ([105, 106, 105], ["Total value", "Supplied and borrowed"]),
        ([None, None, None], ["Supplied and borrowed"]),
    ],
)
def test_the_total_value_has_a_chart_if_it_differs_from_what_is_supplied(
    values: list[int | None], titles: list[str]
) -> None:
    """A chart of the value that looks like that of the supply is left out; the supply is in the next one."""
    names = [f"{kind}_comparable_{side}_apy_bps" for kind in ("mean", "best") for side in ("supply", "borrow")]
    names += ["supplied_usd_cents", "borrowed_usd_cents", "pool_count", "priced_count"]
    own = dict.fromkeys(names, (100, 100, 100))
    trend = Trend("1d", [0, 86_400, 172_800], {"tvl_usd_cents": values, **own})
    drawn = [re.findall("<figcaption>(.*?)</figcaption>", str(chart)) for chart in protocol_charts(trend, "blend")]

    assert [*titles, "Mean rates, compounded daily, weighted by value"] == [title for [title] in drawn]
