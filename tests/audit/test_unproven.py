"""Tests of what is not proven: its counts, its names, its exit code, and the option that allows some of it."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from exporter.audit.unproven import MAX_NAME_CHARACTERS, MAX_NAMES, Unproven, UnprovenReason
from exporter.cli import main
from exporter.cli.prove import report_unproven
from exporter.console import Console
from exporter.errors import ExitCode


def test_names_are_bounded_and_counts_are_not() -> None:
    """Only the first of a million names are kept, each in one short line, with the number of all names."""
    unproven, more = Unproven(), Unproven()
    unproven.add(UnprovenReason.CHANGED, (f"entry {at}" for at in range(1_000_000)))
    more.add(UnprovenReason.CHANGED, ["x\n" * 1000])
    more.add(UnprovenReason.CALLS, ["y\n" * 1000])
    unproven.update(more)
    lines = dict(unproven.lines())

    assert 1_000_001 == unproven.counts[UnprovenReason.CHANGED]
    assert [f"entry {at}" for at in range(MAX_NAMES)] == unproven.names[UnprovenReason.CHANGED]
    assert lines[UnprovenReason.CHANGED].endswith("entry 19 and 999,981 more")
    assert ["y " * (MAX_NAME_CHARACTERS // 2)] == unproven.names[UnprovenReason.CALLS]
    assert [True, True] == ["\n" not in line for line in lines.values()]


def test_what_is_allowed_is_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the allowed reasons and what they cover; the option takes only names of reasons."""
    unproven, allowed = Unproven(), frozenset({UnprovenReason.CALLS, UnprovenReason.CHANGED})
    unproven.add(UnprovenReason.CALLS, ["C.price"])
    codes = [each.exit_code() for each in (Unproven(), unproven)]
    codes.append(report_unproven(Console("json", sys.stdout), unproven, allowed))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    unknown = CliRunner().invoke(main, ["verify", "tree", "--allow-unproven", "calls,everything"])

    assert [ExitCode.DONE, ExitCode.UNPROVEN, ExitCode.DONE] == codes
    assert ["calls", "changed"] == answers[0]["allowed"]
    assert ("calls", 1, ["C.price"], True) == tuple(
        answers[1][name] for name in ("reason", "count", "names", "allowed")
    )
    assert ExitCode.CONFIG == unknown.exit_code
    assert "unknown reason 'everything'; expected some of calls, changed, not_looked_up" in unknown.stderr
