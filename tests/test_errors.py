"""Counts and times in words."""

from __future__ import annotations

import pytest

from exporter.errors import lasting, pluralize


def test_one_is_singular() -> None:
    """One thing is one thing, any other number is several, also none."""
    assert ["0 pools", "1 pool", "1,234 pools"] == [pluralize(number, "pool") for number in (0, 1, 1234)]
    assert ["1 entry", "2 entries"] == [pluralize(number, "entry", "entries") for number in (1, 2)]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (601, "10 minutes 1 second"),
        (3_600, "1 hour"),
        (3_601, "1 hour 1 second"),
        (57_600, "16 hours"),
        (86_401, "1 day 1 second"),
        (1_396_872, "16 days 4 hours"),
        (31_536_000_000, "365,000 days"),
    ],
)
def test_a_time_has_two_units_at_most(seconds: int, words: str) -> None:
    """A time is given in its two largest units, and one second above a limit is not the limit."""
    assert words == lasting(seconds)
