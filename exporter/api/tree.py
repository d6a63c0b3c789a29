"""A published tree in a folder, opened for reading while runs are published into it.

Publishing replaces a file by renaming another over it. A reader that opens a file once and takes its size, its
digest and its bytes from that one open file therefore gets the old file or the new one, never a mixture.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import OrderedDict
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Lock

import msgspec

from exporter.api.headers import POINTER_KEY
from exporter.api.routes import checked_page_sizes
from exporter.decoding import decode_json
from exporter.errors import ConfigError

LARGE_FILE = 2**20
"""Bytes from which on a digest is remembered instead of computed anew for each request."""

REMEMBERED_DIGESTS = 1024

MAX_POINTER_BYTES = 64 * 2**20

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EINVAL}


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of the tree, open for reading at its start; whoever gets it closes it."""

    key: str
    file: BufferedReader
    size: int
    etag: str


class _Pointer(msgspec.Struct):
    """What is read of the pointer; a tree of a later version may say more in it."""

    page_sizes: list[int]
    default_page_size: int


class Tree:
    """The files below one folder, by key. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._digests: OrderedDict[tuple[int, ...], str] = OrderedDict()
        self._lock = Lock()

    def page_sizes(self) -> tuple[int, ...] | None:
        """The page sizes of the published run, ascending; None where there is no usable pointer."""
        file = self._open(POINTER_KEY)
        if file is None:
            return None
        with file:
            data = file.read(MAX_POINTER_BYTES)
        try:
            pointer = decode_json(data, _Pointer)
            return checked_page_sizes(pointer.page_sizes, pointer.default_page_size)
        except (msgspec.DecodeError, ConfigError):
            return None

    def open(self, key: str) -> OpenFile | None:
        """Open the file of a key; None where there is none, or it is no plain file inside the folder."""
        file = self._open(key)
        if file is None:
            return None
        try:
            status = os.fstat(file.fileno())
            return OpenFile(key, file, status.st_size, self._etag(file, status))
        except BaseException:
            file.close()
            raise

    def _open(self, key: str) -> BufferedReader | None:
        try:
            root = self._root.resolve(strict=True)
            # Links are followed as far as they stay inside, so that a tree may be put together of links.
            path = (root / key).resolve(strict=True)
            if not path.is_relative_to(root) or not path.is_file():
                return None
            return path.open("rb")
        except (RuntimeError, ValueError):
            # How pathlib reports links that lead in a circle, before Python 3.13, and a name with a NUL in it.
            return None
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def _etag(self, file: BufferedReader, status: os.stat_result) -> str:
        """A strong ETag from the content; leaves the file at its start."""
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        with self._lock:
            digest = self._digests.get(identity)
        if digest is None:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            if status.st_size >= LARGE_FILE:
                with self._lock:
                    self._digests[identity] = digest
                    while len(self._digests) > REMEMBERED_DIGESTS:
                        self._digests.popitem(last=False)
        return f'"{digest[:32]}"'
