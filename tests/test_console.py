"""The messages of a command while it works."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys

import pytest

from exporter.console import Console, own_command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_elsewhere_than_on_a_terminal() -> None:
    """If output is no terminal, a step is one line when it is done, with its facts, and no running count is drawn."""
    stream = io.StringIO()
    console = Console("auto", stream)
    with console.step("read", "reading") as facts, console.progress("files") as progress:
        progress.advance(3)
        facts["keys"] = 7

    assert re.fullmatch(r"read +\d\.\d\d s  keys 7\n", stream.getvalue())


def test_a_step_on_a_terminal() -> None:
    """On a terminal a step is shown while it runs, with a count. A message takes its line, and the step moves down."""
    stream = Terminal()
    console = Console("auto", stream)
    with console.step("compute", "computing"):
        assert stream.getvalue().endswith("computing ...")
        console.warning("careful")
    console.warning("after it")
    with console.progress("files") as progress:
        progress.advance(3)

    seen = [line.rpartition("\x1b[2K")[2] for line in stream.getvalue().split("\n")]
    assert ["warning: careful", "compute    0.00 s  ", "warning: after it", ""] == seen
    assert "\n  computing ..." in stream.getvalue()
    assert "files 3" in stream.getvalue()


def test_every_event_is_one_json_object_on_one_line() -> None:
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
    """Each line of a log begins with the time, in UTC; a terminal shows no time."""
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
    ("started", "typed"),
    [
        ("/usr/bin/exporter", "/usr/bin/exporter"),
        ("other place/exporter", "'other place/exporter'"),
        ("exporter/__main__.py", f"{shlex.quote(sys.executable)} -m exporter"),
    ],
)
def test_own_command_can_be_typed(started: str, typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next command is printed as the program was started."""
    monkeypatch.setattr(sys, "argv", [started])

    assert f"{typed} serve --out 'my tree'" == own_command("serve", "--out", "my tree")


def test_nothing_in_a_message_is_obeyed() -> None:
    """What strangers wrote cannot steer a terminal or a workflow: controls are spaces, ``::`` and ``##[`` are cut."""
    stream = io.StringIO()
    console = Console("text", stream)

    console.warning("the key \x1b]0;title\x07x\r\u202e\udcff")
    console.error("unknown key\n ::set-output name=exit-code::0\n##[error]x", 2)

    assert "warning: the key  ]0;title x   \nerror: unknown key\n : :set-output name=exit-code::0\n## [error]x\n" == (
        stream.getvalue()
    )
    stream = io.StringIO()
    Console("json", stream).warning("##[error]x")
    assert "##[" not in stream.getvalue()
    assert "##[error]x" == json.loads(stream.getvalue())["message"]
