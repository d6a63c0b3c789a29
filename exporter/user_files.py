"""Reads and writes at paths that a user names, in which ``~`` is the home.

A regular file is replaced in one step, through links, so that a reader never sees half of it. A device, a pipe or a
socket is written into, and stays what it is. ``-`` is standard output.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import BinaryIO

from exporter.errors import ConfigError
from exporter.standard_output import writing_output

STANDARD_OUTPUT = Path("-")

READER_SECONDS = 30.0
"""How long a reader of a pipe is waited for, in seconds."""

_READER_PAUSE_SECONDS = 0.05


def user_path(text: str | Path) -> Path:
    """The path that a user means, in which ``~`` and ``~name`` are homes. Raises `ConfigError` for an unknown home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ConfigError(f"{str(text)!r}: this home is not known; write the path without ~, or put ./ first") from None


def no_folder(path: Path) -> str:
    """Why a path cannot be used as a folder, in words that follow its name. Empty if it can.

    ``Path.is_dir`` raises if the user may not look there, or if the name is too long.
    """
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_folder = False
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    except ValueError:  # a NUL
        is_folder = False
    return "" if is_folder else "is not a folder"


def is_written_into(target: Path) -> bool:
    """Whether the target is standard output, a device, a pipe or a socket, which stays what it is."""
    # Somebody holds a regular file behind /dev/stdout open, and would not notice that it is replaced.
    if target == STANDARD_OUTPUT or str(target).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True
    try:
        mode = target.stat().st_mode
    except (OSError, ValueError):  # ValueError: a NUL
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def writing(target: Path, setting: str) -> Iterator[Path]:
    """Give a path to which the block writes a file. The file becomes the target when the block ends without an error.

    Raises `ConfigError`, which names the ``setting`` that the target comes from, or ``BrokenPipeError`` if standard
    output is closed.
    """
    with _refused(target, setting):
        if target != STANDARD_OUTPUT and target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not is_written_into(target):
        with _refused(target, setting):
            real = Path(os.path.realpath(target))
            temporary = real.with_name(f".{real.name}.{os.getpid()}.tmp")
            try:
                yield temporary
                temporary.replace(real)
            finally:
                temporary.unlink(missing_ok=True)
        return
    with TemporaryDirectory(prefix="exporter-") as folder:
        temporary = Path(folder) / "file"
        with _refused(target, setting):
            yield temporary
        with temporary.open("rb") as content:
            if target == STANDARD_OUTPUT:
                with writing_output():
                    shutil.copyfileobj(content, sys.stdout.buffer)
                    sys.stdout.buffer.flush()
                return
            with _refused(target, setting), _opened(target) as into:
                shutil.copyfileobj(content, into)


def write_text(target: Path, text: str, setting: str) -> None:
    """Write a text to one file, as `writing` does."""
    with writing(target, setting) as path:
        path.write_text(text, encoding="utf-8")


def _opened(target: Path) -> BinaryIO:
    """Open a device or a pipe for writing. Raises `OSError`, also if nobody reads a pipe within `READER_SECONDS`."""
    end = monotonic() + READER_SECONDS
    while True:
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if monotonic() >= end:
                raise OSError(errno.ENXIO, f"nobody read the pipe for {READER_SECONDS:g} seconds") from None
            sleep(_READER_PAUSE_SECONDS)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb")


@contextmanager
def _refused(target: Path, setting: str) -> Iterator[None]:
    """Turn errors of the block, which writes the target, into `ConfigError`, which names the ``setting``."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL
        reason = str(error)
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
            if isinstance(error, FileNotFoundError):
                reason = f"{reason}; make its folder first"
        raise ConfigError(f"{setting}: cannot write {str(target)!r}: {reason}") from error
