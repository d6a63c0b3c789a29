"""What a scheduled workflow asks around a run: the interval that it promises, and a summary for its page.

``python -m exporter.job.workflow interval WORKFLOW`` prints minutes, by its cron lines. ``summary REPORT EXIT_CODE``
prints Markdown. What contracts and RPCs say is shown as code, so that none becomes a link, an image or a mention.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exporter import errors
from exporter.render.site.templates import environment

DAY = 24 * 60
_CRON = re.compile(r"""^\s*-\s*cron:\s*["']?([^"'#\n]+)""", re.MULTILINE)

MAX_REPORT_BYTES = 64 * 2**20
SHOWN = 20
"""How many things of one kind are named; a page of GitHub takes 1 MiB."""
LONGEST = 200
_OF_EVERY_STEP = ("step", "complete", "seconds", "processor_seconds")

OUTCOMES = {
    errors.EXIT_DONE: "published",
    errors.EXIT_UNEXPECTED: "failed unexpectedly",
    errors.EXIT_CONFIG: "the configuration is not accepted",
    errors.EXIT_SOURCE: "the source failed, lags, or is older than what is published; the last run stays",
    errors.EXIT_CHECK: "the rendered tree failed its checks; the last run stays",
    errors.EXIT_LOST_RACE: "another run won; its result is published",
    errors.EXIT_PUBLISHED_CHECK: "published, but the check afterwards failed",
    errors.EXIT_UNREAD: "published, but not everything could be read or priced",
    errors.EXIT_REFUTED: "a published run is not what the network's validators signed",
    errors.EXIT_UNPROVEN: "not contradicted, but not all of it is proven",
    errors.EXIT_STORE: "the output refuses a write, or is damaged; the last run stays",
}


def render_summary(report: dict[str, Any] | None, exit_code: int) -> str:
    """The summary of a run. ``report`` None means that the run left none, or none that can be read."""
    outcome = OUTCOMES.get(exit_code, "of no known meaning")
    if report is not None and report.get("nothing_to_do") is True:
        outcome = "nothing to do, its ledger is published already"
    template = environment().get_template("run_summary.md.j2")
    given = {"report": report, "exit_code": exit_code, "outcome": outcome, "shown": SHOWN}
    return template.render(given, code=_code, named=_named, facts=_facts)


def _facts(step: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in step.items() if key not in _OF_EVERY_STEP)


def _named(item: object) -> object:
    if not isinstance(item, dict):
        return item
    names = ("market", "pool", "field", "bound", "reason", "detail")
    return " ".join(str(item[key]) for key in names if item.get(key) is not None)


def _code(value: object) -> str:
    """Text as code inside a cell: nothing in it is Markdown or HTML to the reader's browser."""
    text = " ".join("".join(c if c.isprintable() and c not in "`|" else " " for c in str(value)).split())
    if not text:
        return ""
    return f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_REPORT_BYTES + 1)
        report = json.loads(data) if len(data) <= MAX_REPORT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


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
        last = last or (first if first and not step else end - 1)
        found.update(range(int(first or 0), min(int(last) + 1, end), int(step or 1)))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for; 2 with a message where it cannot be known."""
    match arguments:
        case ["interval", workflow]:
            try:
                minutes = interval_minutes(Path(workflow).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                print(f"error: no interval: {error}", file=sys.stderr)
                return errors.EXIT_CONFIG
            if minutes is not None:
                print(minutes)
        case ["summary", report, code] if code.isdecimal():
            print(render_summary(_read(Path(report)), int(code)))
        case _:
            print("usage: python -m exporter.job.workflow interval FILE | summary REPORT EXIT_CODE", file=sys.stderr)
            return errors.EXIT_CONFIG
    return errors.EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
