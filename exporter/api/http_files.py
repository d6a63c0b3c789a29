"""Sending a part of an open file over HTTP, and the two request headers that decide which part (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

CHUNK_BYTES = 256 * 1024

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)


def byte_range(header: str | None, size: int) -> range | None:
    """The positions that a `Range` header asks for of a file of `size` bytes.

    None stands for the whole file: no header, one that cannot be understood, or several ranges at once, which a
    server may all ignore. An empty range stands for one that the file has no byte of (416).
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
