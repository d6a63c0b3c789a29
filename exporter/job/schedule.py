"""The interval that a scheduled workflow promises, from its own cron lines, so that it is written once.

``python -m exporter.job.schedule WORKFLOW`` prints whole minutes, or nothing for a workflow without a schedule.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

DAY = 24 * 60
_CRON = re.compile(r"""^\s*-\s*cron:\s*["']?([^"'#\n]+)""", re.MULTILINE)


def interval_minutes(workflow: str) -> int | None:
    """The longest time from a start to the next one, in minutes. Raises `ValueError` where that cannot be known."""
    starts: set[int] = set()
    for line in _CRON.findall(workflow):
        minutes, hours, *days = line.split()
        if days != ["*", "*", "*"]:
            raise ValueError(f"the cron line {line.strip()!r} does not run every day; state the interval")
        starts |= {60 * hour + minute for hour in _numbers(hours, 24) for minute in _numbers(minutes, 60)}
    if not starts:
        return None
    ordered = sorted(starts)
    return max(after - before for before, after in zip(ordered, [*ordered[1:], ordered[0] + DAY], strict=True))


def _numbers(field: str, end: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"{field!r} in a cron line is not understood; state the interval")
        first, last, step = match.groups()
        if first is None:
            chosen = range(0, end, int(step or 1))
        else:
            chosen = range(int(first), int(last or (end - 1 if step else first)) + 1, int(step or 1))
        found |= {number for number in chosen if number < end}
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the interval of one workflow; 2 with a message where it cannot be known."""
    try:
        minutes = interval_minutes(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"error: no interval: {error}", file=sys.stderr)
        return 2
    if minutes is not None:
        print(minutes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
