"""Dates as people say them, such as "yesterday" or "last week", resolved to times in UTC.

They are counted from the close time of the published ledger, not from the clock: a tree may be old, and an answer
about it must not depend on when somebody asks.
"""

from __future__ import annotations

import re
from calendar import day_abbr, day_name, month_abbr, month_name
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from exporter.errors import ConfigError

ACCEPTED: Final = (
    "a day such as 2026-11-24 or 24 November, a time such as 2026-11-24T06:00:00Z, a month such as 2026-11 or "
    "November, or words: today, yesterday, this week, last month, last 7 days, 3 days ago, Monday. All are in UTC"
)
"""What is understood, for error messages."""

MOST_CHARACTERS: Final = 60
_MOST_UNITS: Final = 10_000

_MONTHS: Final = {
    name.lower(): number for names in (month_name, month_abbr) for number, name in enumerate(names) if name
}
_WEEKDAYS: Final = {name.lower(): number for names in (day_name, day_abbr) for number, name in enumerate(names)}
_MONTH: Final = "|".join(sorted([*_MONTHS, "sept"], key=len, reverse=True))
_NUMBER_WORDS: Final = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_WORDS_FOR_NUMBERS: Final = {"a": 1, "an": 1} | {word: number for number, word in enumerate(_NUMBER_WORDS, start=1)}
_COUNT: Final = rf"(?P<count>[0-9]{{1,5}}|{'|'.join(_WORDS_FOR_NUMBERS)})"
_UNIT: Final = r"(?P<unit>minute|hour|day|week|month|year)s?"
_DAY: Final = r"(?P<day>[0-9]{1,2})(st|nd|rd|th)?"
_YEAR: Final = r"(,? (?P<year>[0-9]{4}))?"


class Period(NamedTuple):
    """A time from ``start`` (inclusive) to ``end`` (exclusive), in UTC. For one moment the two are equal."""

    start: datetime
    end: datetime


def is_in(period: Period | None, written: str) -> bool:
    """Whether a time as documents have it is in a period; everything is, if there is none."""
    return period is None or period.start <= datetime.fromisoformat(written) < period.end


def period_of(text: str, now: datetime) -> Period:
    """The period that a text names, counted from ``now``. Raises `ConfigError`, which says what is accepted.

        >>> period_of("last week", datetime(2026, 11, 18, 20, tzinfo=UTC))[0].isoformat()
        '2026-11-09T00:00:00+00:00'

    A day, week or month is whole and begins at midnight; weeks begin on Monday. "last 7 days" ends now. A day or month
    without a year is the newest that has begun.
    """
    said = re.sub(r"\s+", " ", text.strip().lower()) if len(text) <= MOST_CHARACTERS else ""
    said = re.sub(r"^((since|on|in|from|during|until|before) )?(the )?(beginning of )?", "", said)
    for pattern, meaning in _MEANINGS:
        matched = re.fullmatch(pattern, said, re.ASCII)
        if matched is not None:
            try:
                return meaning(matched, now)
            except (ValueError, OverflowError):  # 30 February, the year 0
                raise ConfigError(f"the calendar has no {said!r}; give {ACCEPTED}") from None
    shown = f"{text[:MOST_CHARACTERS]!r}" if len(text) <= MOST_CHARACTERS else f"a text of {len(text)} characters"
    raise ConfigError(f"{shown} is not understood as a date; give {ACCEPTED}")


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _whole(unit: str, moment: datetime, count: int = 0) -> Period:
    """The whole day, week, month or year around a moment, ``count`` of them earlier; the moment, for shorter units."""
    if unit in ("minute", "hour"):
        at = moment - count * timedelta(**{f"{unit}s": 1})
        return Period(at, at)
    today = _midnight(moment)
    if unit in ("day", "week"):
        start = today - timedelta(days=today.weekday()) if unit == "week" else today
        length = timedelta(days=7 if unit == "week" else 1)
        return Period(start - count * length, start - (count - 1) * length)
    months = today.year * 12 + today.month - 1
    if unit == "year":
        return Period(_month(12 * (today.year - count)), _month(12 * (today.year - count + 1)))
    return Period(_month(months - count), _month(months - count + 1))


def _month(months: int) -> datetime:
    """The beginning of a month, counted from the year 0."""
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)


def _number(text: str) -> int:
    count = _WORDS_FOR_NUMBERS.get(text) or int(text)
    if count > _MOST_UNITS:
        raise OverflowError
    return count


def _ago(count: int, unit: str, now: datetime) -> Period:
    """The day that is a number of days, weeks, months or years ago."""
    if unit in ("minute", "hour", "day"):
        return _whole(unit, now, count)
    if unit == "week":
        return _whole("day", now, 7 * count)
    months = now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1)
    last = _whole("month", _month(months)).end - timedelta(days=1)
    return _whole("day", last.replace(day=min(now.day, last.day)))


def _past(count: int, unit: str, now: datetime) -> Period:
    """The last hours, days, weeks, months or years of a given number, up to now."""
    if unit in ("month", "year"):
        return Period(_ago(count, unit, now).start, now)
    return Period(now - count * timedelta(**{f"{unit}s": 1}), now)


def _named_month(found: re.Match[str], now: datetime) -> Period:
    number = _MONTHS[found["month"][:3]]
    year = int(found["year"]) if found["year"] else now.year - (number > now.month)
    return _whole("month", datetime(year, number, 1, tzinfo=UTC))


def _named_day(found: re.Match[str], now: datetime) -> Period:
    number, day = _MONTHS[found["month"][:3]], int(found["day"])
    year = int(found["year"]) if found["year"] else now.year - ((number, day) > (now.month, now.day))
    return _whole("day", datetime(year, number, day, tzinfo=UTC))


def _weekday(found: re.Match[str], now: datetime) -> Period:
    """The newest day of this name; with "last" before it, not today."""
    back = (now.weekday() - _WEEKDAYS[found["weekday"][:3]]) % 7
    return _whole("day", now, 7 if found["last"] and back == 0 else back)


def _iso_time(found: re.Match[str], _: datetime) -> Period:
    at = datetime.fromisoformat(f"{found['date']}T{found['time']}{(found['zone'] or 'z').upper()}").astimezone(UTC)
    return Period(at, at)


_MEANINGS: Final[tuple[tuple[str, Callable[[re.Match[str], datetime], Period]], ...]] = (
    ("now", lambda _, now: Period(now, now)),
    ("today", lambda _, now: _whole("day", now)),
    ("yesterday", lambda _, now: _whole("day", now, 1)),
    ("day before yesterday", lambda _, now: _whole("day", now, 2)),
    (rf"(this|current) {_UNIT}", lambda found, now: _whole(found["unit"], now)),
    ("(last|past) hour", lambda _, now: _past(1, "hour", now)),
    ("past (?P<unit>day|week|month|year)", lambda found, now: _past(1, found["unit"], now)),
    ("(last|previous) (?P<unit>day|week|month|year)", lambda found, now: _whole(found["unit"], now, 1)),
    (
        rf"(last|past|previous) {_COUNT} {_UNIT}",
        lambda found, now: _past(_number(found["count"]), found["unit"], now),
    ),
    (rf"{_COUNT} {_UNIT} ago", lambda found, now: _ago(_number(found["count"]), found["unit"], now)),
    (rf"(?P<last>last |past |previous )?(?P<weekday>{'|'.join(_WEEKDAYS)})", _weekday),
    (rf"(last )?(?P<month>{_MONTH})\.?{_YEAR}", _named_month),
    (rf"{_DAY}( of)? (?P<month>{_MONTH})\.?{_YEAR}", _named_day),
    (rf"(?P<month>{_MONTH})\.? {_DAY}{_YEAR}", _named_day),
    (r"(?P<year>[0-9]{4})", lambda found, _: _whole("year", datetime(int(found["year"]), 1, 1, tzinfo=UTC))),
    (
        r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})",
        lambda found, _: _whole("month", datetime(int(found["year"]), int(found["month"]), 1, tzinfo=UTC)),
    ),
    (
        r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})",
        lambda found, _: _whole("day", datetime.fromisoformat(found["date"]).replace(tzinfo=UTC)),
    ),
    (
        r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[t ](?P<time>[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)"
        r" ?(?P<zone>z|[+-][0-9]{2}:[0-9]{2})?( ?utc)?",
        _iso_time,
    ),
)
