"""docs/cli.md, generated from the commands' own help: ``python -m tests.cli_reference`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from exporter.cli import main

PATH = Path(__file__).parent.parent / "docs" / "cli.md"


def _commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from _commands(command.commands[name], *names, name)


def render() -> str:
    """The page: the help of the program, of each of its commands, and of the commands of these."""
    parts = ["# Command line\n\nMade by `scripts/docs` from the commands' own help.\n"]
    for names in _commands(main):
        result = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*names, "--help"], prog_name="exporter")
        assert result.exit_code == 0, result.output
        parts.append(f"## {' '.join(('exporter', *names))}\n\n```\n{result.output.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
