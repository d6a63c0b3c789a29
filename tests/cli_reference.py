"""docs/cli.md, generated from the commands' own help: ``python -m tests.cli_reference`` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from exporter.cli import main

PATH = Path(__file__).parent.parent / "docs" / "cli.md"
INTRODUCTION = """# Command line

After reading this page you can give each command its options. `scripts/docs` writes it from the commands' own help,
which also has the [exit codes](failures.md#exit-codes) of each.
These options are the same for each command that has them:

```
{common}
```
"""
NO_OPTIONS = "\n\nOptions:"
COMMON = ("-h, --help", "--log-format", "--config FILE", "--network TEXT")
"""What is shown once, at the top."""


def _commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from _commands(command.commands[name], *names, name)


def render() -> str:
    """The page: the help of the program, of each of its commands, and of the commands of these."""
    parts: list[str] = []
    common: dict[str, str] = {}
    for names in _commands(main):
        result = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*names, "--help"], prog_name="exporter")
        assert 0 == result.exit_code, result.output
        text = result.output.split("\n\nCommands:\n")[0].rstrip()  # each has its own heading
        text = re.sub(r"^  Exit codes?:? .*?\n\n", "", text, flags=re.MULTILINE | re.DOTALL)
        text = text.removeprefix(f"Usage: {' '.join(('exporter', *names))} [OPTIONS]\n\n")  # the heading says it
        lines = re.sub(r" RANGE( +|$)", r"\1      ", text, flags=re.MULTILINE).splitlines()
        shared = {line: line.strip() for line in lines if line.strip().startswith(COMMON)}
        for option, meaning in (text.split("  ", 1) for text in shared.values()):
            assert common.setdefault(option, meaning.strip()) == meaning.strip(), f"{names}: {option}"
        shown = "\n".join(line.rstrip() for line in lines if line not in shared)
        parts.append(f"## {' '.join(('exporter', *names))}\n\n```\n{shown.removesuffix(NO_OPTIONS)}\n```\n")
    listed = "\n".join(f"{option:32}{meaning}" for option, meaning in sorted(common.items()))
    return "\n".join([INTRODUCTION.format(common=listed), *parts])


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
