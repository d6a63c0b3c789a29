"""The output of a command while it works: progress on a terminal, lines, or JSON lines. All goes to standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any, TextIO

import click

from exporter.errors import without_keys
from exporter.standard_output import writing_output

LOG_FORMATS = ("auto", "text", "json")


def own_command(*arguments: str) -> str:
    """A command of the exporter as a user can type it, with the path or the Python that started this process."""
    started = Path(sys.argv[0])
    program = [sys.argv[0]] if started.name == "exporter" else [sys.executable, "-m", "exporter"]
    return shlex.join([*program, *arguments])


def without_commands(text: str) -> str:
    """The text of a message, which may quote strangers, without what a terminal or a workflow would obey.

    Control, format and surrogate characters become spaces, except ends of lines. GitHub obeys a line that begins with
    ``::``, and ``##[`` anywhere, so these get a space inside.
    """
    lines = []
    for line in text.split("\n"):
        shown = "".join(character if character.isprintable() else " " for character in line).replace("##[", "## [")
        lines.append(shown.replace("::", ": :", 1) if shown.lstrip().startswith("::") else shown)
    return "\n".join(lines)


def _echo(text: str, stream: TextIO) -> None:
    """Write a text at once. A log that cannot be written stops nothing.

    Standard output that cannot be written raises what `writing_output` raises.
    """
    if stream is sys.stdout:
        with writing_output():
            click.echo(text, file=stream, nl=False)
        return
    with suppress(OSError):
        click.echo(text, file=stream, nl=False)


class Console:
    """Prints events as text or as JSON lines.

    The format ``auto`` is text, with progress on a terminal. ``stamped`` text begins with the time, unless it goes to a
    terminal. A ``quiet`` console prints only warnings and errors.
    """

    def __init__(
        self, log_format: str = "auto", stream: TextIO | None = None, *, stamped: bool = False, quiet: bool = False
    ) -> None:
        self._json = log_format == "json"
        # Python has no standard streams if its parent closed them.
        self._stream = stream or sys.stderr or StringIO()
        self._progress = log_format == "auto" and self._stream.isatty() and not quiet
        self._stamped = stamped and not self._stream.isatty()
        self._quiet = quiet
        self._doing = ""  # the text on the terminal's line while a step runs

    @property
    def is_json(self) -> bool:
        """Whether events are printed as JSON lines."""
        return self._json

    def event(self, name: str, message: str, **facts: Any) -> None:
        """Print an event. JSON lines also have its name and facts."""
        if self._quiet and name not in ("warning", "error"):
            return
        at = datetime.now(UTC)
        if self._json:
            stamp = at.isoformat(timespec="milliseconds")
            line = json.dumps({"time": stamp, "event": name, "message": message, **facts}, default=str)
            line = line.replace("##[", r"##\u005b")  # see `without_commands`
        else:
            message = without_commands(message)
            line = f"{at:%Y-%m-%dT%H:%M:%SZ} {message}" if self._stamped else message
        before, after = ("\r\x1b[2K", self._doing) if self._doing else ("", "")
        _echo(f"{before}{line}\n{after}", self._stream)

    def warning(self, message: str, **facts: Any) -> None:
        """Print a warning, in which URLs are cut down to their hosts."""
        message = without_keys(message)
        self.event("warning", message if self._json else f"warning: {message}", **facts)

    def error(self, message: str, exit_code: int) -> None:
        """Print an error, in which URLs are cut down to their hosts."""
        message = without_keys(message)
        self.event("error", message if self._json else f"error: {message}", exit_code=exit_code)

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[dict[str, object]]:
        """Report a step. A terminal shows it while it runs. When it is done, one line has its time and its facts."""
        facts: dict[str, object] = {}
        began = monotonic()
        if self._progress:
            self._doing = f"  {doing} ..."
            _echo(self._doing, self._stream)
        try:
            yield facts
        except BaseException:
            if self._progress:
                _echo("\n", self._stream)
            raise
        finally:
            self._doing = ""
        seconds = monotonic() - began
        shown = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
        if self._progress:
            _echo("\r\x1b[2K", self._stream)
        self.event("step", f"{name:<8} {seconds:6.2f} s  {shown}", step=name, seconds=round(seconds, 3), **facts)

    @contextmanager
    def progress(self, label: str) -> Iterator[Progress]:
        """A counter that a terminal shows until the block ends."""
        progress = Progress(label, self._stream if self._progress else None)
        try:
            yield progress
        finally:
            progress.close()


class Silence(Console):
    """A console that prints nothing, for callers of the library."""

    def __init__(self) -> None:
        super().__init__("text")

    def event(self, name: str, message: str, **facts: Any) -> None:
        pass


class Progress:
    """A counter on one line of a terminal, updated at most ten times a second."""

    def __init__(self, label: str, stream: TextIO | None) -> None:
        self._label, self._stream = label, stream
        self._count, self._shown = 0, 0.0

    def advance(self, by: int = 1) -> None:
        """Count on."""
        self._count += by
        if self._stream is not None and monotonic() - self._shown > 0.1:
            self._shown = monotonic()
            _echo(f"\r\x1b[2K  {self._label} {self._count:,}", self._stream)

    def close(self) -> None:
        """Clear the line."""
        if self._stream is not None:
            _echo("\r\x1b[2K", self._stream)
