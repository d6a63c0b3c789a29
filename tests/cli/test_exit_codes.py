"""Exit codes: each command's help, the scripts and the pages have them from `exporter.errors.ExitCode`."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.cli.common import RUN_CODES
from exporter.errors import ExitCode
from tests.cli.test_durations import commands

LEAVES = {" ".join(names): command for names, command in commands(main) if not isinstance(command, click.Group)}
WITHOUT_TREE = {"serve", "edge", "localnet"}
"""Commands that read no tree but a folder's files, or none."""


def listed(*names: str) -> dict[int, str]:
    """The exit codes in the help of a command, each with its words."""
    text = CliRunner().invoke(main, [*names, "--help"]).output.partition("\n  Exit codes:\n")[2]
    lines = re.findall(r"^ +(\d+)  (.*(?:\n        \S.*)*)", text, re.MULTILINE)
    return {int(code): " ".join(words.split()) for code, words in lines}


def test_the_help_of_the_program_lists_all() -> None:
    """Every exit code is in the help of the program, with its meaning."""
    assert {int(code): code.meaning for code in ExitCode} == listed()


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_says_how_it_ends(name: str) -> None:
    """The help of each command lists its exit codes: 0, 1 and 2, and 10 if it has a tree."""
    codes = listed(*name.split())

    always = {ExitCode.DONE, ExitCode.UNEXPECTED, ExitCode.CONFIG}
    assert always | (set() if name in WITHOUT_TREE else {ExitCode.STORE}) <= codes.keys() <= set(ExitCode)
    assert codes[ExitCode.UNEXPECTED] == ExitCode.UNEXPECTED.meaning
    assert "exit code" not in (LEAVES[name].help or "").lower()


@pytest.mark.parametrize("name", ["run", "demo"])
def test_a_run_says_what_the_table_says(name: str) -> None:
    """A run has all codes except those of proofs, in the words of the table."""
    proofs = {ExitCode.REFUTED, ExitCode.UNPROVEN}

    assert {int(code): code.meaning for code in ExitCode if code not in proofs} == listed(name)


def words(codes: set[ExitCode]) -> str:
    """Codes as a sentence has them: ``0, 6 and 7``."""
    *first, last = (str(int(code)) for code in sorted(codes))
    return f"{', '.join(first)} and {last}"


def test_sentences_about_published_runs(project_root: Path) -> None:
    """The page of failures, and the script of the action, name the codes of runs that published."""
    published = {code for code in RUN_CODES if code.is_published}
    page = " ".join((project_root / "docs" / "failures.md").read_text().split())
    script = (project_root / "scripts" / "export").read_text()

    assert f"any code except {words(published)}, readers keep the last published run" in page
    assert f"ends green with {words(published | {ExitCode.LOST_RACE})}," in page
    green = " | ".join(str(int(code)) for code in sorted(published | {ExitCode.LOST_RACE}) if code)
    assert f"{green}) exit 0 ;;" in script
