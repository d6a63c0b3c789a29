"""Durations: what is accepted, and the errors of what is not."""

from __future__ import annotations

from datetime import timedelta

import hypothesis
import pytest
from hypothesis import strategies as st

from exporter.durations import DurationRange, duration_text, parse_duration


@pytest.mark.parametrize(
    ("written", "duration"),
    [
        ("0s", timedelta(0)),
        ("200ms", timedelta(milliseconds=200)),
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("999999999d", timedelta(days=999_999_999)),
    ],
)
def test_what_is_written(written: str, duration: timedelta) -> None:
    """A whole number and a unit are that many of the unit."""
    assert duration == parse_duration(written)


@pytest.mark.parametrize(
    "written", ["", "h", "1.5h", "-1h", "+1h", "1 h", "1H", "1h30m", "1w", "٣h", "1h\n", "9" * 10 + "s"]
)
def test_what_is_no_duration(written: str) -> None:
    """Anything else is refused, with examples."""
    with pytest.raises(ValueError, match="is not a duration; write a whole number and a unit: 90s, 15m, 2h, 7d"):
        parse_duration(written)


@pytest.mark.parametrize(
    "written", [None, True, -1, 1.5, float("nan"), float("inf"), pytest.param(10**5000, id="huge"), [], {}]
)
def test_values_that_are_no_text(written: object) -> None:
    """A value of another type is refused by its type, whatever its size."""
    with pytest.raises(ValueError, match=f"a value of type {type(written).__name__} is not a duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("120", "120 has no unit; write 120s, 120m, 120h or 120d"),
        ("120.0", "120 has no unit; write 120s, 120m, 120h or 120d"),
        (120, '120 has no unit; write "120s", "120m", "120h" or "120d"'),
        (120.0, '120 has no unit; write "120s", "120m", "120h" or "120d"'),
    ],
)
def test_a_bare_number(written: object, said: str) -> None:
    """A number without a unit is refused with the same number in each unit, in quotes if TOML needs them."""
    with pytest.raises(ValueError, match=f"^{said}$"):
        parse_duration(written)


@hypothesis.given(st.integers(0, 999_999_999), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_texts_are_read_again(number: int, unit: str) -> None:
    """The written form of a duration is the same duration."""
    duration = parse_duration(f"{number}{unit}")

    assert duration == parse_duration(duration_text(duration))


def test_the_longest_unit_is_written() -> None:
    """A duration is written in the longest unit in which it is a whole number."""
    texts = ["60m", "90m", "48h", "1000ms", "1500ms", "0d"]

    assert ["1h", "90m", "2d", "1s", "1500ms", "0s"] == [duration_text(parse_duration(text)) for text in texts]


def test_a_range_takes_its_limits_and_nothing_beyond() -> None:
    """The lowest and the highest are accepted; what is beyond, or no whole number of the unit, is not."""
    accepted = DurationRange("1h", "2d", unit="h")

    assert [1, 48] == [accepted.parse(text) // timedelta(hours=1) for text in ("60m", "2d")]
    assert "a duration of whole hours from 1h to 2d" == str(accepted)
    for text in ("59m", "90m", "49h", "0s"):
        with pytest.raises(ValueError, match=f"{text} is not accepted"):
            accepted.parse(text)
