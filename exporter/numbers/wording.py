"""Counts and times in words, the same wherever people read them."""

from __future__ import annotations

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things: ``1 market``, ``1,234 markets``; ``many`` where it is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def lasting(seconds: int) -> str:
    """A time that is not negative, in its two largest units that are not 0: ``16 days 4 hours``, ``1 hour 1 second``.

    The rest is cut off. What is longer than a whole number of one unit is told apart from it.
    """
    words = []
    for length, unit in _UNITS:
        number, seconds = divmod(seconds, length)
        if number:
            words.append(counted(number, unit))
    return " ".join(words[:2]) or "0 seconds"
