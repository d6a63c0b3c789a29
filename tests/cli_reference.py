"""docs/cli.md, generated from the commands' own help: ``python -m tests.cli_reference`` writes it."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from exporter.cli import main

PATH = Path(__file__).parent.parent / "docs" / "cli.md"


def render() -> str:
    """The page: the help of the program and of each of its commands."""
    parts = ["# Command line\n\nMade by `scripts/docs` from the commands' own help.\n"]
    context = click.Context(main)
    for name in [None, *main.list_commands(context)]:
        arguments = [] if name is None else [name]
        result = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*arguments, "--help"], prog_name="exporter")
        assert result.exit_code == 0, result.output
        parts.append(f"## {'exporter' if name is None else f'exporter {name}'}\n\n```\n{result.output.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
