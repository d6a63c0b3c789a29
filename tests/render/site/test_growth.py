"""What a deposit between two dates gave: a pool's page computes it from the same rows as its history.csv."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from exporter.history.buckets import observations_of
from exporter.history.series import Series
from exporter.render.site.growth import yield_rounding_bps
from exporter.render.site.templates import environment
from exporter.render.site.text import TIMES
from tests.render.site.made import CLOSE_TIME, LEDGER, Page, pool_row, site_of, tables_of

ROW = pool_row(0, 0, symbol="AAA")
PAGE = f"pools/{ROW['market']}/{ROW['pool']}.html"
CSV = f"v1/assets/{ROW['market']}/{ROW['pool']}/history.csv"

Day = tuple[int, int, int]
"""The decimals of a day's indexes, and the indexes of supply and debt."""


def page_and_days(days: Sequence[Day]) -> tuple[str, list[dict[str, str]]]:
    """The page of a pool that had these indexes, the last of them today, and its closed days as CSV."""
    tables = tables_of([ROW])
    observed = observations_of(tables.pools)
    series = Series()
    for back, (decimals, supply, debt) in zip(range(len(days) - 1, -1, -1), days, strict=True):
        ledger, time = LEDGER - back, CLOSE_TIME - back * 86_400
        row = observed.with_columns(
            pl.lit(ledger, pl.Int64).alias("observed_ledger"),
            pl.lit(time, pl.Int64).alias("ledger_close_time"),
            pl.lit(decimals, pl.Int64).alias("index_decimals"),
            pl.lit(supply, pl.Int128).alias("supply_index"),
            pl.lit(debt, pl.Int128).alias("borrow_index"),
        )
        list(series.extend(row, ledger, time))
    [data] = [file.data for file in series.newest_documents() if file.key == CSV]
    return site_of(tables, series)[PAGE], list(csv.DictReader(data.decode().splitlines()))


def table_of(page: str) -> list[list[str]]:
    """The cells of the table, row by row; none if there is none."""
    section = page[page.index('id="between"') : page.index('id="over-time"')]
    rows = re.findall("<tr>(.*?)</tr>", section)
    return [[Page(cell).text for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in rows]


def test_what_a_deposit_became_follows_from_the_file() -> None:
    """The first and the last closed day of the file give the table, by the line that the page has."""
    page, days = page_and_days([(9, 10**9 + 7 * number, 10**9 + 12_345_678 * number) for number in range(5)])
    first, last = days[0], days[-1]

    def became(index: str) -> str:
        tokens = 100 * 10**4 * int(last[index]) // int(first[index])
        return f"{tokens // 10**4}.{tokens % 10**4:04}"

    assert 4 == len(days)
    assert [
        ["", "14 Nov 2026", "17 Nov 2026"],
        ["Lent", "100 AAA", f"{became('supply_index')} AAA"],
        ["Owed", "100 AAA", f"{became('borrow_index')} AAA"],
    ] == table_of(page)
    assert ("100.0000", "103.7037") == (became("supply_index"), became("borrow_index"))
    assert f"100 {TIMES} {last['supply_index']} ÷ {first['supply_index']}" in page
    assert f'href="../../{CSV}"' in page


@pytest.mark.parametrize(
    "days",
    [
        [(9, 10**9, 10**9)],
        [(9, 10**9, 10**9), (9, 2 * 10**9, 10**9)],
        [(9, 10**9, 10**9), (12, 10**12, 10**12), (9, 10**9, 10**9)],
        [(9, 0, 0), (9, 10**9, 10**9), (9, 10**9, 10**9)],
    ],
    ids=["no closed day", "one closed day", "other decimals", "index of zero"],
)
def test_what_cannot_be_compared_is_not_computed(days: Sequence[Day]) -> None:
    """With fewer than two closed days that can be compared there is no table, and the page says so."""
    page, _ = page_and_days(days)

    assert [] == table_of(page)
    assert "There is nothing to compare yet" in page
    assert "history.csv</a>" in page


def test_days_before_the_decimals_changed_are_left_out() -> None:
    """The table begins with the first day whose indexes have the decimals of the last one; a loss is shown as one."""
    days = [(12, 10**12, 10**12), (9, 2 * 10**9, 0), (9, 10**9, 10**9), (9, 5 * 10**8, 10**9), (9, 10**9, 10**9)]
    page, _ = page_and_days(days)

    assert [["", "15 Nov 2026", "17 Nov 2026"], ["Lent", "100 AAA", "25.0000 AAA"]] == table_of(page)


def test_an_index_of_few_digits_says_how_far_off_it_may_be() -> None:
    """With a share worth 0.1019 to 0.1022, the rounding is a tenth of a percent; with nine digits it is nothing."""
    for decimals, index, is_said in ((4, 1_019, True), (9, 101_900_000, False)):
        page, _ = page_and_days([(decimals, index + 3 * (number > 1), 10**decimals) for number in range(4)])
        assert is_said is ("It may be off by 0.1966 AAA, because the contract rounds" in Page(page).text)


def test_a_realized_yield_says_how_far_off_it_may_be() -> None:
    """One unit of an index of 1,022 is 5.1 % a year in a week and 1.2 % in 30 days; of a larger index it is nothing."""
    week, month = "2026-11-24T12:00:00Z", "2026-11-01T12:00:00Z"

    assert 511 == yield_rounding_bps(0, 1_022, week, "2026-12-01T12:00:00Z")
    assert 122 == yield_rounding_bps(241, 1_022, month, "2026-12-01T12:00:00Z")
    assert 1 == yield_rounding_bps(241, 10**9, month, "2026-12-01T12:00:00Z")
    macros: Any = environment().get_template("macros.j2").module
    for index, said in ((1_022, "2.41 %± 1.22 %"), (10**9, "2.41 %")):
        pool = {"realized_supply_apy_bps_30d": 241, "supply_index": index}
        times = {"realized_from_30d": month, "realized_to_30d": "2026-12-01T12:00:00Z"}
        shown = Page(macros.realized(pool | times, "supply", "30d")).text
        assert said == shown.replace("\N{NARROW NO-BREAK SPACE}", " ")
