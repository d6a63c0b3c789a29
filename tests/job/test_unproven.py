"""What is not proven: its counts, its names, its exit code, and the option that allows some of it."""

from __future__ import annotations

import json
import sys

import click
from click.testing import CliRunner

from exporter.cli.prove import allow_option, report_unproven
from exporter.console import Console
from exporter.errors import EXIT_CONFIG, EXIT_DONE, EXIT_UNPROVEN
from exporter.job.unproven import MAX_NAME, SHOWN, Reason, Unproven


def test_names_are_bounded_and_counts_are_not() -> None:
    """Of a million names the first are kept, each in one short line; the number of all comes with them."""
    unproven, more = Unproven(), Unproven()
    unproven.add(Reason.CHANGED, (f"entry {at}" for at in range(1_000_000)))
    more.add(Reason.CHANGED, ["x\n" * 1000])
    more.add(Reason.CALLS, ["y\n" * 1000])
    unproven.update(more)
    lines = dict(unproven.lines())

    assert 1_000_001 == unproven.counts[Reason.CHANGED]
    assert [f"entry {at}" for at in range(SHOWN)] == unproven.names[Reason.CHANGED]
    assert lines[Reason.CHANGED].endswith("entry 19 and 999,981 more")
    assert ["y " * (MAX_NAME // 2)] == unproven.names[Reason.CALLS]
    assert [True, True] == ["\n" not in line for line in lines.values()]


def test_what_is_allowed_is_repeated() -> None:
    """The option takes names of reasons alone; what it allowed is in the output, as is what it covers."""

    @click.command()
    @allow_option
    def command(allowed: frozenset[Reason]) -> None:
        unproven = Unproven()
        unproven.add(Reason.CALLS, ["C.price"])
        assert EXIT_DONE == Unproven().exit_code()
        raise SystemExit(report_unproven(Console("json", sys.stdout), unproven, allowed))

    none, some = CliRunner().invoke(command), CliRunner().invoke(command, ["--allow-unproven", "calls, changed"])
    unknown = CliRunner().invoke(command, ["--allow-unproven", "calls,everything"])
    answers = [json.loads(line) for line in some.stdout.splitlines()]

    assert [EXIT_UNPROVEN, EXIT_DONE, EXIT_CONFIG] == [none.exit_code, some.exit_code, unknown.exit_code]
    assert ["calls", "changed"] == answers[0]["allowed"]
    assert ("calls", 1, ["C.price"], True) == tuple(
        answers[1][name] for name in ("reason", "count", "names", "allowed")
    )
    assert "unknown reason 'everything'; expected some of calls, changed, not_looked_up" in unknown.stderr
