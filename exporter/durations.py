"""Durations as people write them: a whole number and a unit, such as ``90s``, ``15m``, ``2h`` or ``7d``.

Options and configuration keys take only this form. A number without a unit is refused, because it was seconds for one
key, minutes for another and hours for a third.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, NamedTuple

_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
"""The units, beginning with the longest. ``d`` is 24 hours."""

_NAMES: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
_WRITTEN: Final = re.compile(r"([0-9]{1,9})(ms|[smhd])", re.ASCII)
_BARE_NUMBER: Final = re.compile(r"([0-9]{1,9})(?:\.0*)?", re.ASCII)


def parse_duration(written: object) -> timedelta:
    """The duration in a text.

        >>> parse_duration("90s")
        datetime.timedelta(seconds=90)

    Raises:
        ValueError: the text is not a duration. The message says how to write one.
    """
    if isinstance(written, timedelta):
        return written
    match = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
    if match is not None:
        return int(match[1]) * _UNITS[match[2]]
    if (number := bare_number(written)) is not None:
        quote = "" if isinstance(written, str) else '"'  # a number comes from TOML, where a duration needs quotes
        seconds, minutes, hours, days = (f"{quote}{number}{unit}{quote}" for unit in "smhd")
        raise ValueError(f"{number} has no unit; write {seconds}, {minutes}, {hours} or {days}")
    shown = repr(written[:40]) if isinstance(written, str) else f"a value of type {type(written).__name__}"
    raise ValueError(f"{shown} is not a duration; write a whole number and a unit: 90s, 15m, 2h, 7d")


def bare_number(written: object) -> int | None:
    """A whole number below 10^9 that was written without a unit, as text or as a number. None for anything else."""
    if isinstance(written, str):
        match = _BARE_NUMBER.fullmatch(written)
        return None if match is None else int(match[1])
    if isinstance(written, int | float) and not isinstance(written, bool) and 0 <= written < 10**9:
        return int(written) if written == int(written) else None
    return None


def duration_text(duration: timedelta) -> str:
    """A duration in the form that `parse_duration` takes, in the longest unit that divides it."""
    unit = next((name for name, length in _UNITS.items() if duration and not duration % length), "s")
    return f"{duration // _UNITS[unit]}{unit}"


class DurationRange(NamedTuple):
    """The durations that an option or a key accepts, from the lowest to the highest."""

    lowest: str
    highest: str
    unit: str = "ms"
    """The unit in which a duration must be a whole number."""

    def parse(self, written: object) -> timedelta:
        """The duration in a text. Raises `ValueError`, also if it is out of range."""
        duration = parse_duration(written)
        if not parse_duration(self.lowest) <= duration <= parse_duration(self.highest) or duration % _UNITS[self.unit]:
            raise ValueError(f"{duration_text(duration)} is not accepted")
        return duration

    def __str__(self) -> str:
        unit = "" if self.unit == "ms" else f" of whole {_NAMES[self.unit]}"
        return f"a duration{unit} from {self.lowest} to {self.highest}"
