"""What happens when standard output, or the log on standard error, cannot be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from exporter.errors import ConfigError


@contextmanager
def writing_output() -> Iterator[None]:
    """Name standard output in the errors of a block that writes to it, and to nothing else.

    Raises `ConfigError` if it refuses, as a file on a full disk does. ``BrokenPipeError`` stays what it is: the reader
    of a pipe has what he wants, and `exporter.cli.common.MainGroup` ends the command in silence.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"cannot write to standard output: {error.strerror or type(error).__name__}") from error


def write_line(text: str) -> None:
    """Write a line of a command's answer to standard output at once, as `writing_output` does."""
    with writing_output():
        click.echo(text)


def drop_unwritten() -> None:
    """Drop what standard output and standard error still hold if they refuse it.

    Python would try to write it when it ends, and replace the exit code by 120.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # the parent closed it
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
