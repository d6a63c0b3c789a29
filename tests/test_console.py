"""What is said while a command works."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from exporter.console import Console, own_command


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_one_line_a_step_elsewhere_than_on_a_terminal() -> None:
    """Without a terminal a step is one line when it is done, with its facts."""
    stream = io.StringIO()

    with Console("auto", stream).step("read", "reading") as facts:
        facts["keys"] = 7

    assert 1 == stream.getvalue().count("\n")
    assert "read" in stream.getvalue()
    assert "keys 7" in stream.getvalue()


def test_progress_on_a_terminal() -> None:
    """On a terminal a step is shown while it runs, and its line is replaced."""
    stream = Terminal()

    with Console("auto", stream).step("read", "reading"):
        assert stream.getvalue().endswith("reading ...")

    assert "\r\x1b[2K" in stream.getvalue()


def test_a_warning_inside_a_step_has_a_line_of_its_own() -> None:
    """What is said while a step is shown takes the place of its line, which is shown again below."""
    stream = Terminal()

    console = Console("auto", stream)
    with console.step("compute", "computing"):
        console.warning("careful")
    console.warning("after it")

    seen = [line.rpartition("\x1b[2K")[2] for line in stream.getvalue().split("\n")]
    assert ["warning: careful", "compute    0.00 s  ", "warning: after it", ""] == seen
    assert "\n  computing ..." in stream.getvalue()


def test_count_on_a_terminal_only() -> None:
    """A running count is drawn on a terminal and nowhere else."""
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        with Console("auto", stream).progress("files") as progress:
            progress.advance(3)

    assert "files 3" in terminal.getvalue()
    assert "" == pipe.getvalue()


def test_json_lines() -> None:
    """With JSON every event is one object on one line, also on a terminal."""
    stream = Terminal()
    console = Console("json", stream)

    with console.step("read", "reading") as facts:
        facts["keys"] = 7
    console.warning("careful", market="M")
    console.error("broken\nreally", 3)

    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert ["step", "warning", "error"] == [event["event"] for event in events]
    assert (7, "M", 3) == (events[0]["keys"], events[1]["market"], events[2]["exit_code"])


def test_text_that_is_not_on_a_terminal_can_have_the_time() -> None:
    """Where a log is kept each line begins with the time, in UTC; a terminal shows none."""
    kept, terminal = io.StringIO(), Terminal()
    for stream in (kept, terminal):
        Console("text", stream, stamped=True).warning("careful")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ warning: careful\n", kept.getvalue())
    assert "warning: careful\n" == terminal.getvalue()


def test_quiet_says_what_is_wrong_and_no_more() -> None:
    """A quiet console prints warnings and errors, and neither steps nor events nor progress."""
    stream = Terminal()
    console = Console("auto", stream, quiet=True)
    with console.step("read", "reading"), console.progress("files"):
        console.event("discovered", "found something")
    console.warning("careful")
    console.error("broken", 3)

    assert "warning: careful\nerror: broken\n" == stream.getvalue()


@pytest.mark.parametrize(
    ("started", "path", "typed"),
    [
        (".venv/bin/exporter", "", ".venv/bin/exporter"),
        ("exporter", "", "./exporter"),
        (".venv/bin/exporter", ".venv/bin", "exporter"),
        ("other place/exporter", ".venv/bin", "'other place/exporter'"),
        ("exporter/__main__.py", ".venv/bin", f"{shlex.quote(sys.executable)} -m exporter"),
    ],
)
def test_own_command_can_be_typed(
    started: str, path: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next command is printed as the program was started, and by its bare name only where the PATH leads to it."""
    for name in (".venv/bin", "other place", "."):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "exporter").write_text("#!/bin/sh\n")
        (tmp_path / name / "exporter").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "")
    monkeypatch.setattr(sys, "argv", [started])

    assert f"{typed} serve --out 'my tree'" == own_command("serve", "--out", "my tree")
