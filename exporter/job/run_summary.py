"""Writes the summary of a run for the page of a scheduled workflow.

``python -m exporter.job.run_summary REPORT EXIT_CODE`` prints it as Markdown. Texts that contracts and RPCs give are
shown as code, so that they cannot become links, images or mentions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from exporter.errors import ExitCode
from exporter.render.template_files import environment_of
from exporter.user_files import user_path

MAX_REPORT_BYTES = 64 * 2**20
MAX_NAMED_ITEMS = 20
"""The summary names at most this many items of a kind, because a page of GitHub takes at most 1 MiB."""

MAX_TEXT_CHARACTERS = 200
_FIELDS_OF_EVERY_STEP = ("step", "complete", "seconds", "processor_seconds")


def render_summary(report: dict[str, Any] | None, exit_code: int) -> str:
    """The summary of a run. ``report`` is None if the run left no report, or none that can be read."""
    outcome = next((code.meaning for code in ExitCode if code == exit_code), "of no known meaning")
    if report is not None and report.get("nothing_to_do") is True:
        outcome = "nothing to do, its ledger is published already"
    template = _environment().get_template("run_summary.md.j2")
    values = {"report": report, "exit_code": exit_code, "outcome": outcome, "shown": MAX_NAMED_ITEMS}
    return template.render(values, code=_code, named=_named, facts=_facts)


@cache
def _environment() -> jinja2.Environment:
    return environment_of(jinja2.Environment)


def _facts(step: dict[str, Any]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in step.items() if key not in _FIELDS_OF_EVERY_STEP
    )


def _named(item: object) -> object:
    if not isinstance(item, dict):
        return item
    names = ("market", "pool", "field", "bound", "reason", "detail")
    return " ".join(str(item[key]) for key in names if item.get(key) is not None)


def _code(value: object) -> str:
    """A text as code inside a table cell, in which nothing acts as Markdown or HTML."""
    text = " ".join("".join(c if c.isprintable() and c not in "`|" else " " for c in str(value)).split())
    if not text:
        return ""
    if len(text) > MAX_TEXT_CHARACTERS:
        text = text[: MAX_TEXT_CHARACTERS - 1] + "…"
    return f"`{text}`"


def _read(path: Path) -> dict[str, Any] | None:
    """The report; None if there is none that can be read. One that went into a pipe is gone: nobody waits for it."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MAX_REPORT_BYTES + 1)
        report = json.loads(data) if len(data) <= MAX_REPORT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def main(arguments: Sequence[str]) -> int:
    """Print the summary. Returns the exit code, which is 2 if the arguments are wrong."""
    match arguments:
        case [report, code] if code.isdecimal():
            print(render_summary(_read(user_path(report)), int(code)))
        case _:
            print("usage: python -m exporter.job.run_summary REPORT EXIT_CODE", file=sys.stderr)
            return ExitCode.CONFIG
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
