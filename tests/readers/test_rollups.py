"""The rollups by one URL: DuckDB, Polars and pandas read what docs/history.md says, from a folder and over HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import floor
from pathlib import Path

import polars as pl
import pytest

from exporter.history.realized import IndexAt, realized_apy_bps
from tests.readers.snippets import DOCS, ask
from tests.readers.trees import Row

EXAMPLE = "https://markets.example.org"
CIRCLES_USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
GLOB = "hourly*.parquet"
DAY = 86_400
READERS = ["duckdb", "polars", pytest.param("pandas", marks=pytest.mark.slow)]


@pytest.mark.parametrize("reader", READERS)
def test_all_hours_by_a_pattern(published: Path, published_rows: list[Row], reader: str) -> None:
    """The pattern that the page names finds each hour once, also while there are no earlier months."""
    assert GLOB in DOCS.read_text()
    newest = max(row["ledger_close_time"] // 3_600 for row in published_rows)
    hours = {(row["ledger_close_time"] // 3_600, row["market"], row["pool"]) for row in published_rows}
    closed = sum(hour < newest for hour, _, _ in hours)

    assert {"rows": closed, "different": closed} == ask(reader, published / "history" / GLOB, what="count")
    assert closed


@pytest.mark.parametrize("reader", READERS[1:])
@pytest.mark.parametrize("folder", ["history", "history/pools"])
def test_a_whole_folder_is_refused(published: Path, reader: str, folder: str) -> None:
    """Who reads a folder whose rows are there more than once gets an error, and no number; a note there says why."""
    assert "README.txt" in ask(reader, published / folder, what="count")["refused"]
    assert "v1/history.json" in (published / folder / "README.txt").read_text()


def first_plot(reader: str, base: str, rows: list[Row]) -> str:
    """The page's lines for the first plot, for a reader, against a tree and the token that is called USDC there."""
    section = DOCS.read_text().split("\n## The first plot\n")[1].split("\n## ")[0]
    snippets = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    code: dict[str, str] = dict(zip(("duckdb", "polars", "pandas", "r"), snippets, strict=True))
    assert len([line for line in code[reader].splitlines() if line]) <= 5
    (token,) = {row["token_address"] for row in rows if row["symbol"] == "USDC"}
    return code[reader].replace(EXAMPLE, base).replace(CIRCLES_USDC, token)


def expected_rates_of_usdc(rows: list[Row]) -> list[list[object]]:
    """The day and the borrow rate, in percent, of each pool of USDC at the last run of each closed day."""
    newest = max(row["ledger_close_time"] // 86_400 for row in rows)
    last: dict[int, int] = {}
    for row in rows:
        day = row["ledger_close_time"] // 86_400
        last[day] = max(last.get(day, 0), row["observed_ledger"])
    chosen = [row for row in rows if row["observed_ledger"] in last.values() and row["symbol"] == "USDC"]
    days = [(row["ledger_close_time"] // 86_400, row["comparable_borrow_apy_bps"] / 100) for row in chosen]
    found = [[str(datetime.fromtimestamp(day * 86_400, UTC).date()), rate] for day, rate in days if day < newest]
    assert found
    return sorted(found)


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_rates_of_usdc(published: Path, url: str, published_rows: list[Row], reader: str, over_http: bool) -> None:
    """Five lines of the page plot the borrow rates of all pools of USDC, in percent, from a folder and a server."""
    found = ask(reader, first_plot(reader, url if over_http else str(published), published_rows), what="rates")

    assert {"rates": expected_rates_of_usdc(published_rows)} == found


def test_a_day_is_one_of_utc_in_every_session(published: Path, published_rows: list[Row]) -> None:
    """A session of DuckDB in Tokyo gets the same days, which are cast from a time with a zone."""
    found = ask(
        "duckdb", "SET TimeZone = 'Asia/Tokyo';" + first_plot("duckdb", str(published), published_rows), what="rates"
    )

    assert {"rates": expected_rates_of_usdc(published_rows)} == found


def test_what_a_deposit_gave(published: Path, tmp_path: Path) -> None:
    """The page's lines give what a deposit and a loan gained between two dates, exactly, and what that is in a year."""
    section = DOCS.read_text().split("\n## What a deposit earned, what a loan cost\n")[1]
    code = "".join(re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL))
    day = pl.read_parquet(published / "history/daily.parquet")
    growing = pl.col("supply_index", "borrow_index").cast(pl.Int128)
    later = [
        day.with_columns(
            (growing * (10_000 + 3 * days) // 10_000).cast(pl.Decimal(38, 0)),
            pl.col("ledger_close_time") + timedelta(days=days, seconds=days),
        )
        for days in range(40)
    ]
    (tmp_path / "history").mkdir()
    pl.concat(later).write_parquet(tmp_path / "history/daily.parquet")
    began: datetime = day["ledger_close_time"][0]
    names = {
        **dict(zip(("MARKET", "POOL"), day.select("market", "pool").row(0), strict=True)),
        "AMOUNT": 10**12,
        "FIRST_DAY": began.date() + timedelta(days=2),
        "LAST_DAY": began.date() + timedelta(days=32),
    }
    exec(compile(code.replace(EXAMPLE, str(tmp_path)), "page", "exec"), names)

    for name, a_year, index in (("gain", "earned", "supply_index"), ("cost", "paid", "borrow_index")):
        first, last = (int(later[days][index][0]) for days in (2, 32))
        ends = IndexAt(0, 7, first), IndexAt(30 * (DAY + 1), 7, last)
        assert 10**12 * (last - first) // first == names[name] > 10**9
        assert realized_apy_bps(*ends) == floor(10_000 * names[a_year])
