"""Single files of a folder store: read and made without ever following a link, their errors put into words."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exporter.errors import StoreError

_NEEDS_WRITE_ACCESS = "; the user that runs the exporter needs write access to the output folder"
_ADVICE = {
    errno.ENOSPC: "; free space and run again",
    errno.EDQUOT: "; free space and run again",
    errno.EACCES: _NEEDS_WRITE_ACCESS,
    errno.EPERM: _NEEDS_WRITE_ACCESS,
    errno.EROFS: "; choose another output.uri",
    errno.ELOOP: "; a symbolic link inside the output folder is never followed: remove it",
    errno.ENOTDIR: "; a file stands where a folder is needed: remove it",
    errno.EISDIR: "; a folder stands where a file is needed: remove it",
}


def refuse_link(folder: Path) -> None:
    """Raise OSError unless this is a folder itself, not a link to one."""
    mode = folder.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def read_file(path: Path) -> bytes | None:
    """Read a regular file; None when there is none. Never follows a link, never waits for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Make a file that was not there, with the permissions that the umask leaves."""
    # Not tempfile: its files are readable by their owner alone, and a web server has to read these.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


@contextmanager
def reported(action: str, what: str) -> Iterator[None]:
    """Turn what the operating system says into a StoreError that names the key."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot {action} {what}: {reason}{_ADVICE.get(error.errno or 0, '')}") from error
