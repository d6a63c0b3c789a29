"""Dates in words: what each comes to, and what is not one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.serve.assistant.dates import ACCEPTED, MOST_CHARACTERS, period_of

NOW = datetime(2026, 11, 18, 20, 30, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("now", "2026-11-18T20:30", "2026-11-18T20:30"),
        ("today", "2026-11-18", "2026-11-19"),
        ("Yesterday", "2026-11-17", "2026-11-18"),
        ("since  yesterday", "2026-11-17", "2026-11-18"),
        ("the day before yesterday", "2026-11-16", "2026-11-17"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last week", "2026-11-09", "2026-11-16"),
        ("past week", "2026-11-11T20:30", "2026-11-18T20:30"),
        ("last 7 days", "2026-11-11T20:30", "2026-11-18T20:30"),
        ("the past two hours", "2026-11-18T18:30", "2026-11-18T20:30"),
        ("last 3 months", "2026-08-18", "2026-11-18T20:30"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("3 days ago", "2026-11-15", "2026-11-16"),
        ("a week ago", "2026-11-11", "2026-11-12"),
        ("2 weeks ago", "2026-11-04", "2026-11-05"),
        ("nine months ago", "2026-02-18", "2026-02-19"),
        ("an hour ago", "2026-11-18T19:30", "2026-11-18T19:30"),
        ("Monday", "2026-11-16", "2026-11-17"),
        ("wednesday", "2026-11-18", "2026-11-19"),
        ("last Wednesday", "2026-11-11", "2026-11-12"),
        ("on Thu", "2026-11-12", "2026-11-13"),
        ("November", "2026-11-01", "2026-12-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("last October", "2026-10-01", "2026-11-01"),
        ("Sept 2024", "2024-09-01", "2024-10-01"),
        ("24 November", "2025-11-24", "2025-11-25"),
        ("18 Nov", "2026-11-18", "2026-11-19"),
        ("the 1st of November 2026", "2026-11-01", "2026-11-02"),
        ("November 1, 2026", "2026-11-01", "2026-11-02"),
        ("2026", "2026-01-01", "2027-01-01"),
        ("2026-11", "2026-11-01", "2026-12-01"),
        ("2026-11-01", "2026-11-01", "2026-11-02"),
        ("2026-11-01T06:00:00Z", "2026-11-01T06:00", "2026-11-01T06:00"),
        ("2026-11-01 06:00", "2026-11-01T06:00", "2026-11-01T06:00"),
        ("2026-11-01T06:00:00+02:00", "2026-11-01T04:00", "2026-11-01T04:00"),
    ],
)
def test_a_date_in_words_is_the_period_people_mean(text: str, start: str, end: str) -> None:
    """A date in words is the period that people mean, counted from the ledger's close time, in UTC."""
    expected = tuple(datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in (start, end))

    assert expected == period_of(text, NOW)


def test_a_day_that_the_month_lacks() -> None:
    """A month before 31 March is the last day of February."""
    now = datetime(2026, 3, 31, 12, tzinfo=UTC)

    assert "2026-02-28" == f"{period_of('1 month ago', now).start:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not understood"),
        ("soon", "'soon' is not understood"),
        ("11/01/2026", "'11/01/2026' is not understood"),
        ("2026-02-30", "the calendar has no '2026-02-30'"),
        ("31 June", "the calendar has no '31 june'"),
        ("99999 years ago", "the calendar has no"),
        ("9999 years ago", "the calendar has no"),
        ("2026-11-01T25:00", "the calendar has no"),
        ("0000", "the calendar has no"),
        ("x" * 10_000, "a text of 10000 characters is not understood"),
    ],
)
def test_a_text_that_is_no_date_shows_dates(text: str, said: str) -> None:
    """A text that is not a date is an error that shows dates."""
    with pytest.raises(ConfigError) as raised:
        period_of(text, NOW)

    assert said in str(raised.value)
    assert ACCEPTED in str(raised.value)


WORDS = (
    "last",
    "this",
    "ago",
    "3",
    "99999",
    "week",
    "days",
    "month",
    "year",
    "november",
    "29",
    "feb",
    "2025",
    "of",
    "a",
)


@given(
    st.one_of(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), st.text(max_size=MOST_CHARACTERS)),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
)
def test_any_text_gives_a_period_or_the_one_error(text: str, now: datetime) -> None:
    """Whatever is asked at whatever time, the answer is a period that ends after it begins, or the one error."""
    try:
        period = period_of(text, now)
    except ConfigError:
        return

    assert period.start <= period.end
    assert (UTC, UTC) == (period.start.tzinfo, period.end.tzinfo)
