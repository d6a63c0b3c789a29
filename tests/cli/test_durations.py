"""Options that take a duration: each with its unit, in every command alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.cli.common import Duration


def commands(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command of a group with the names that call it."""
    yield names, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, *names, name)


OPTIONS = {
    f"{' '.join(names)} {option.opts[0]}": option
    for names, command in commands(main)
    for option in command.params
    if isinstance(option, click.Option)
}
DURATIONS = [name for name, option in OPTIONS.items() if isinstance(option.type, Duration)]


def test_the_options_that_take_a_duration() -> None:
    """The listed options take a duration; no other option is in seconds, minutes, hours or days."""
    assert {
        "backfill --every",
        "demo --past",
        "localnet --advance-every",
        "localnet --latency",
        "prove --deadline",
        "status --grace",
        "status --max-age",
        "status --max-lag",
        "verify --deadline",
        "verify --max-age",
    } == set(DURATIONS)
    unit = re.compile(r"\b(ms|seconds|minutes|hours|days)\b", re.IGNORECASE)
    assert [] == [
        name
        for name, option in OPTIONS.items()
        if name not in DURATIONS and (unit.search(name) or unit.search(str(option.metavar)))
    ]


@pytest.mark.parametrize("name", DURATIONS)
def test_a_bare_number_is_refused(name: str) -> None:
    """A number without a unit ends the command with 2, and is shown as it can be written."""
    result = CliRunner().invoke(main, [*name.split(), "120"])

    assert (2, True) == (result.exit_code, "120 has no unit; write 120s, 120m, 120h or 120d" in flat(result.output))
    assert f"Invalid value for '{name.split()[-1]}'" in flat(result.output)


def test_another_value_is_refused() -> None:
    """A duration out of range is refused with the range; what is not a duration is refused with examples."""
    late, wrong = (CliRunner().invoke(main, ["status", "x", "--max-age", text]) for text in ("400d", "soon"))

    assert (2, True) == (
        late.exit_code,
        "400d is not accepted; accepted: a duration from 1s to 365d" in flat(late.output),
    )
    assert (2, True) == (wrong.exit_code, "'soon' is not a duration; write a whole number" in flat(wrong.output))


def flat(text: str) -> str:
    return " ".join(text.split())
