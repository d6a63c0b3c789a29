"""A published tree in a folder, opened for reading while runs are published into it, and sent over HTTP.

Publishing replaces a file by renaming another over it. A reader that opens a file once and takes its size, its
digest and its bytes from that one open file therefore gets the old file or the new one, never a mixture.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from exporter.errors import ConfigError, FormatError
from exporter.tree.decoding import decode_json
from exporter.tree.families import POINTER_KEY
from exporter.tree.format import refuse_other_format
from exporter.tree.routes import checked_page_sizes

CHUNK_BYTES = 256 * 1024

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)


def byte_range(header: str | None, size: int) -> range | None:
    """The positions that a `Range` header asks for of a file of `size` bytes.

    None means the whole file: no header, one that cannot be understood, or several ranges at once, which a
    server may all ignore. An empty range is one that the file has no byte of (416).
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None:
        return None
    first, last = match.groups()
    if first:
        start, stop = int(first), int(last) + 1 if last else size
        if last and stop <= start:
            return None
        return range(start, max(start, min(stop, size)))
    if not last:
        return None
    return range(max(0, size - int(last)), size)


def etag_matches(header: str | None, etag: str) -> bool:
    """Whether an `If-None-Match` header names the ETag, by the weak comparison that it asks for."""
    if header is None:
        return False
    named = [part.strip().removeprefix("W/") for part in header.split(",")]
    return "*" in named or etag in named


class FileResponse(Response):
    """A part of an open file, which is read in pieces and closed when it is sent, or when nobody listens any more."""

    def __init__(self, file: BinaryIO, start: int, length: int, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status_code=status, headers=dict(headers) | {"content-length": str(length)})
        self._file = file
        self._start = start
        self._length = length

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the head, and for anything but HEAD the bytes."""
        with self._file as file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            left = 0 if scope["method"] == "HEAD" else self._length
            file.seek(self._start)
            while left:
                chunk = await run_in_threadpool(file.read, min(left, CHUNK_BYTES))
                if not chunk:
                    # The file was cut short under us; ending here leaves the answer visibly incomplete.
                    break
                left -= len(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


LARGE_FILE = 2**20
"""Bytes from which on a digest is remembered instead of computed again for each request."""

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
    """The fields that are read of the pointer."""

    page_sizes: list[int]
    default_page_size: int


class Tree:
    """The files below one folder, by key. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._digests: OrderedDict[tuple[int, ...], str] = OrderedDict()
        self._lock = Lock()

    def page_sizes(self) -> tuple[int, ...] | None:
        """The page sizes of the published run, ascending; None where there is no usable pointer.

        Raises `FormatError` for a tree of another format.
        """
        file = self._open(POINTER_KEY)
        if file is None:
            return None
        with file:
            data = file.read(MAX_POINTER_BYTES)
        try:
            refuse_other_format(f"{self._root}: {POINTER_KEY}", data)
            pointer = decode_json(data, _Pointer)
            return checked_page_sizes(pointer.page_sizes, pointer.default_page_size)
        except FormatError:
            raise
        except (msgspec.DecodeError, ConfigError):
            return None

    def open(self, key: str) -> OpenFile | None:
        """Open the file of a key; None where it is missing, or not a plain file inside the folder."""
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
