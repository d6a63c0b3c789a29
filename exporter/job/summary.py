"""A run report as a table of Markdown, for the page on which a scheduled run is looked at.

``python -m exporter.job.summary REPORT EXIT_CODE`` prints it. Names and messages come from contracts and from RPCs,
that is from anybody: they are shown as code, on one line and cut, so that none becomes a link, an image or a mention.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exporter import errors

MAX_REPORT_BYTES = 64 * 2**20
SHOWN = 20
"""How many things of one kind are named; a page of GitHub takes 1 MiB."""
LONGEST = 200
_OF_EVERY_STEP = ("step", "complete", "seconds", "processor_seconds")
LISTS = {"unread": "Unread", "unpriced": "Unpriced", "bounded": "At a bound", "notices": "Notices"}

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
    lines = [f"## Exit code {exit_code}: {outcome}", ""]
    if report is None:
        return "\n".join((*lines, "The run left no report that can be read.", ""))
    if report.get("complete") is not True:
        lines += ["The report is not complete: the run was stopped from outside.", ""]
    if message := report.get("message"):
        lines += [_code(message), ""]

    lists: dict[str, list[Any]] = {key: report[key] for key in LISTS if key in report}
    facts: dict[str, Any] = {
        "network": report.get("network"),
        "output": report.get("output"),
        "run": report.get("run_id"),
        "ledger": report.get("certificate", {}).get("ledger"),
        "seconds": report.get("seconds"),
        **{key: len(lists[key]) for key in ("unread", "unpriced") if key in lists},
        "exporter": report.get("exporter_version"),
    }
    lines += ["| | |", "|---|---|"]
    lines += [f"| {name} | {_code(value)} |" for name, value in facts.items() if value is not None]

    lines += ["", "| step | seconds | |", "|---|---:|---|"]
    for step in report.get("steps", ()):
        facts = {key: value for key, value in step.items() if key not in _OF_EVERY_STEP}
        shown = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
        state = "" if step.get("complete") else "**not complete** "
        lines.append(f"| {_code(step['step'])} | {_code(step.get('seconds', ''))} | {state}{_code(shown)} |")

    for key, items in lists.items():
        if items:
            lines += [
                "",
                f"### {LISTS[key]}: {len(items)}",
                "",
                *(f"- {_code(_named(item))}" for item in items[:SHOWN]),
            ]
        if len(items) > SHOWN:
            lines.append(f"- and {len(items) - SHOWN} more")
    return "\n".join((*lines, ""))


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


def main(arguments: Sequence[str]) -> int:
    """Print the summary of a report."""
    if len(arguments) != 2 or not arguments[1].isdecimal():
        print("usage: python -m exporter.job.summary REPORT EXIT_CODE", file=sys.stderr)
        return errors.EXIT_CONFIG
    print(render_summary(_read(Path(arguments[0])), int(arguments[1])))
    return errors.EXIT_DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
