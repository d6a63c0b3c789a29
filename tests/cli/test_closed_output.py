"""A command whose standard output or log is closed, or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from exporter.console import Console
from tests.examples import sampled

FULL = Path("/dev/full")
"""A device that refuses every write, as a full disk does."""

on_linux = pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")


class Closed(StringIO):
    """A stream whose reader has gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("arguments", sampled([["--help"], ["plan", "--help"], ["edge", "nginx"]], 3))
def test_a_closed_pipe_ends_a_command_in_silence(arguments: list[str], tmp_path: Path) -> None:
    """The command ends with the code that a shell gives to a program that SIGPIPE ended, and reports no bug."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(  # our own Python
        [sys.executable, "-m", "exporter", *arguments], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(write)
    assert (141, b"") == (ended.returncode, ended.stderr)


def test_a_closed_log_stops_no_work() -> None:
    """If the log is closed, only messages of progress are lost."""
    console = Console("text", Closed())
    with console.step("read", "reading") as facts:
        facts.update(ledger=1)
    console.error("something", 3)


def test_closed_standard_output_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a command is what it is for, so a command ends without its reader."""
    monkeypatch.setattr(sys, "stdout", closed := Closed())
    with pytest.raises(BrokenPipeError):
        Console("text", closed).event("answer", "1")


@on_linux
@pytest.mark.parametrize("arguments", sampled([["--version"], ["plan", "--help"], ["edge", "nginx"]], 3))
def test_standard_output_that_refuses_is_named(arguments: list[str], tmp_path: Path) -> None:
    """A full disk behind standard output is the user's to mend, so the message says that, and no bug is reported."""
    command = [sys.executable, "-m", "exporter", *arguments]
    with FULL.open("wb") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (2, b"error: cannot write to standard output: No space left on device\n") == (ended.returncode, ended.stderr)


@on_linux
def test_a_log_that_refuses_changes_no_exit_code(tmp_path: Path) -> None:
    """A full disk behind standard error loses the messages, and nothing else."""
    command = [sys.executable, "-m", "exporter", "status", "nothing"]
    with FULL.open("wb") as full:
        assert 3 == subprocess.run(command, cwd=tmp_path, stderr=full, check=False).returncode
