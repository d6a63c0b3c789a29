"""The expressions of dates match the dates of the calendar, and nothing else."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

import msgspec
import pytest

from exporter.tree.dates import DAY, MONTH, TIME
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Day
from exporter.tree.families import parse_key
from exporter.tree.values import PriceTime, Timestamp

FIRST, LAST = date(1970, 1, 1), date.max
Decoded = TypeVar("Decoded")


def test_every_day_of_the_calendar_and_no_other() -> None:
    """In every year, 29 February is a day where the calendar has it; in two years, each number is compared."""
    pattern = re.compile(DAY)
    for year in range(1960, 10_000):
        leap = pattern.fullmatch(f"{year:04}-02-29") is not None
        assert (year >= 1970 and (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))) is leap, year
    for year in (2023, 2024):
        expected = {(date(year, 1, 1) + timedelta(days=number)).isoformat() for number in range(366)}
        numbers = (f"{year}-{month:02}-{day:02}" for month in range(100) for day in range(100))
        assert {text for text in expected if text.startswith(str(year))} == set(filter(pattern.fullmatch, numbers))
    assert all(pattern.fullmatch(day.isoformat()) for day in (FIRST, LAST))


def test_months_and_times() -> None:
    """Twelve months, 24 hours, 60 minutes and 60 seconds; a time is in UTC and says so."""
    twos = [f"{number:02}" for number in range(100)]

    assert twos[1:13] == [month for month in twos if re.fullmatch(MONTH, f"2026-{month}")]
    assert twos[:24] == [hour for hour in twos if re.fullmatch(TIME, f"2026-11-21T{hour}:59:59Z")]
    assert twos[:60] == [minute for minute in twos if re.fullmatch(TIME, f"2026-11-21T23:{minute}:00Z")]
    assert twos[:60] == [second for second in twos if re.fullmatch(TIME, f"2026-11-21T23:00:{second}Z")]
    assert re.fullmatch(TIME, "2026-11-21T23:00:00+00:00") is None


@pytest.mark.parametrize("kind", [Timestamp, PriceTime])
@pytest.mark.parametrize(
    "text", ["2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "0000-01-01T00:00:00Z", "2026-01-01T24:00:00Z"]
)
def test_an_impossible_time_is_not_decoded(kind: type[Decoded], text: str) -> None:
    """Every document with such a field refuses it as it refuses any other damage."""
    with pytest.raises(msgspec.DecodeError, match="Expected `str` matching regex"):
        decode_json(msgspec.json.encode(text), kind)
    assert "2024-02-29T23:59:59Z" == decode_json(b'"2024-02-29T23:59:59Z"', kind)
    assert 2024 == datetime.fromisoformat("2024-02-29T23:59:59Z").astimezone(UTC).year


@pytest.mark.parametrize("text", ["2026-02-29", "2026-11-31", "2026-11-18\n", "2026-11"])
def test_an_impossible_day_is_not_decoded(text: str) -> None:
    """A document with an impossible day is not decoded."""
    with pytest.raises(msgspec.DecodeError, match="Expected `str`"):
        decode_json(msgspec.json.encode(text), Day)


@pytest.mark.parametrize("day", ["2026-02-30", "2026-11-31", "9999-12-31", "0001-01-01"])
def test_a_key_of_an_impossible_day_is_none_of_ours(day: str) -> None:
    """A manifest cannot name such a file. Of the year 9999 there is none, because its last day has no end."""
    assert parse_key(f"history/pools/date={day}/5.parquet") is None
    assert parse_key("history/pools/date=2026-11-21/5.parquet") is not None


@pytest.mark.parametrize("month", ["2026-13", "2026-00", "9999-12", "0001-01"])
def test_a_key_of_an_impossible_month_is_none_of_ours(month: str) -> None:
    """A key with an impossible month belongs to no family."""
    assert parse_key(f"history/pools/month={month}/5-9-0123456789ab.parquet") is None
    assert parse_key("history/pools/month=2026-11/5-9-0123456789ab.parquet") is not None
