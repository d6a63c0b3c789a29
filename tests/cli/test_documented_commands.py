"""Each command of the exporter in a code block of the README, of docs/ or of the templates is one that exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from exporter.cli import main

PAGES = ("README.md", "SECURITY.md", ".github/CONTRIBUTING.md", "docs/**/*.md", "templates/**/*.md")

PUNCTUATION = {"|", "&&", "||", ";", ">", "2>", "<", "&"}
"""What ends a command in a shell."""


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each call of the exporter in blocks of shell code, after the program's name."""
    for language, block in re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "bash", "sh"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if not re.search(r"(?:^|[ /])exporter ", line):
                continue
            words = shlex.split(line.removeprefix("$ "), comments=True)
            for place, word in enumerate(words):
                if word.rpartition("/")[2] == "exporter" and (not place or words[place - 1] in PUNCTUATION | {"nice"}):
                    rest = words[place + 1 :]
                    end = next((at for at, other in enumerate(rest) if other in PUNCTUATION), len(rest))
                    yield rest[:end]


def parse(arguments: list[str]) -> None:
    """Take apart the arguments as the command does, without running it. Raises `click.UsageError`."""
    command: click.Command = main  # which keeps what its help option is called by the first context that it sees
    context = click.Context(main, info_name="exporter", **main.context_settings)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no such command: {name}")
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.make_parser(context).parse_args(arguments)


def test_documented_commands_exist(project_root: Path) -> None:
    """Neither a command nor an option in the documentation is unknown, and none lacks its value."""
    seen, faults = 0, []
    for page in sorted(path for pattern in PAGES for path in project_root.glob(pattern)):
        for arguments in commands(page.read_text("utf-8")):
            seen += 1
            try:
                parse(list(arguments))
            except click.UsageError as error:
                faults.append(f"{page.relative_to(project_root)}: exporter {shlex.join(arguments)}: {error.message}")

    assert [] == faults
    assert seen >= 20


@pytest.mark.parametrize(
    "text", ["exporter nothing", "exporter run --nothing", "nice exporter run --out", "exporter history x"]
)
def test_an_unknown_command_is_found(text: str) -> None:
    """A command, an option or a value that is missing is a fault."""
    (arguments,) = commands(f"```bash\n{text}  # said so\n```\n")
    with pytest.raises(click.UsageError):
        parse(arguments)
