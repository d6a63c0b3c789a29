"""Limits the size of everything that somebody else wrote, as it is stored and as it is unpacked.

Whoever writes a file decides what it unpacks to: a kilobyte of gzip can become a megabyte, and a gigabyte if it was
compressed twice. So every reader of a tree, a bucket, an archive, a lake or a server takes its limits from here, and
unpacks step by step with these functions. What exceeds a limit is an error before the memory is used.
`exporter.parquet_bounds` does the same for Parquet.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exporter.errors import DecodeError

MIB: Final = 2**20

FILE_BYTES: Final = 512 * MIB
"""The limit of a file that is read as a whole, from a tree or a store, or because a user named it."""

DOCUMENT_BYTES: Final = 64 * MIB
"""The limit of a document whose size no manifest states, and of small state."""

TOGETHER_BYTES: Final = 512 * MIB
"""The limit of all files together that are in memory at the same time."""

EVIDENCE_BYTES: Final = 256 * MIB
EVIDENCE_LINE_BYTES: Final = 32 * MIB
"""The limits of unpacked evidence, and of a line in it. A pool of mainnet needs about 10 kB."""

LAKE_OBJECT_BYTES: Final = 64 * MIB
LAKE_LEDGER_BYTES: Final = 64 * MIB
LAKE_BATCH_BYTES: Final = 512 * MIB
"""The limits of a compressed object of a lake, of a ledger in it, and of all its ledgers.

A ledger of mainnet has 2 MB.
"""

CHANGES_BYTES: Final = 4096 * MIB
"""The limit of a backfill's unpacked file of changes, which has those of up to some thousand ledgers."""

ARCHIVE_STATE_BYTES: Final = MIB
ARCHIVE_RECORD_BYTES: Final = 32 * MIB
ARCHIVE_RECORDS_FILE_BYTES: Final = 1024 * MIB
ARCHIVE_BUCKET_BYTES: Final = 32 * 1024 * MIB
"""The limits of an archive's unpacked files. Buckets are streamed, with one record in memory."""

PARQUET_BYTES: Final = 2048 * MIB
PARQUET_ROWS: Final = 2**22
PARQUET_VALUES: Final = 2**28
PARQUET_FOOTER_BYTES: Final = 4 * MIB
PARQUET_DICTIONARY_VALUES: Final = 2**23
"""The limits of a Parquet file.

They bound its rows and its footer and, for the columns that are read, their unpacked pages, their values, and the
values in dictionaries of texts. A month of mainnet with a run every 5 minutes has 1.5 million rows.
"""

STEP_BYTES: Final = MIB
"""The most bytes that are unpacked in one step."""

MAX_ENCODINGS: Final = 2
"""The largest number of times that a body may have been compressed."""

_GZIP_NAMES: Final = frozenset({"gzip", "x-gzip"})


class TooLargeError(DecodeError):
    """Content is larger than accepted, or unpacks to more. The message does not name the file."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most:,} bytes when decompressed, which are the most that are accepted")


class Gunzip:
    """Unpacks gzip that comes in pieces, and may have several members, to at most ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._left = most, most
        self._member = zlib.decompressobj(wbits=31)
        self.begun = False
        """Whether any content came."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content of a piece, in steps of bounded size. Raises `DecodeError` or `TooLargeError`."""
        while data:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            try:
                unpacked = self._member.decompress(data, min(STEP_BYTES, self._left + 1))
            except zlib.error as error:
                raise DecodeError(f"it is not gzip, or is damaged: {error}") from None
            self.begun = True
            self._left -= len(unpacked)
            if self._left < 0:
                raise TooLargeError(self._most)
            if unpacked:
                yield unpacked
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def finish(self) -> None:
        """Raise `DecodeError` if the content ends inside a member."""
        if not self.begun or not self._member.eof:
            raise DecodeError("it is not gzip, or ends too early")


class Body:
    """Collects an HTTP body that comes in pieces, compressed as they were sent, up to ``most`` unpacked bytes."""

    def __init__(self, encoding: str, most: int) -> None:
        """Take the ``Content-Encoding``. Raises `DecodeError` if it was not asked for."""
        names = [name for each in encoding.split(",") if (name := each.strip().lower()) not in ("", "identity")]
        if len(names) > MAX_ENCODINGS or not _GZIP_NAMES.issuperset(names):
            raise DecodeError("it has a compression that was not asked for")
        self._most = most
        self._layers = [Gunzip(most) for _ in names]
        self._content = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises `DecodeError` or `TooLargeError`."""
        for piece in _through(self._layers, data):
            self._content += piece
            if len(self._content) > self._most:
                raise TooLargeError(self._most)

    @property
    def size(self) -> int:
        """The number of unpacked bytes so far."""
        return len(self._content)

    @property
    def content(self) -> bytes:
        """The unpacked content so far."""
        return bytes(self._content)

    def finish(self) -> bytes:
        """The whole body. Raises `DecodeError` if it ends too early."""
        if self._layers and self._layers[0].begun:
            for layer in self._layers:
                layer.finish()
        return bytes(self._content)


def _through(layers: list[Gunzip], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].feed(data):
        yield from _through(layers[1:], piece)


def gzip_lines(content: bytes, most: int, most_line: int) -> Iterator[bytes]:
    """The lines in gzip, each with its end.

    Raises `DecodeError`, also if there are more or longer lines than accepted.
    """
    gunzip, rest = Gunzip(most), bytearray()
    view = memoryview(content)
    for begin in range(0, len(view), STEP_BYTES):
        for piece in gunzip.feed(bytes(view[begin : begin + STEP_BYTES])):
            rest += piece
            if b"\n" in piece:
                *lines, rest = rest.split(b"\n")
                if max(map(len, lines)) >= most_line:
                    raise TooLargeError(most_line)
                yield from (bytes(line) + b"\n" for line in lines)
            if len(rest) > most_line:
                raise TooLargeError(most_line)
    gunzip.finish()
    if rest:
        yield bytes(rest)


def decompress(data: bytes, most: int = LAKE_BATCH_BYTES) -> bytes:
    """The content of zstd frames, which need not state their size. Raises `DecodeError` or `TooLargeError`."""
    import pyarrow as pa

    parts, total = [], 0
    try:
        with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
            while part := stream.read(STEP_BYTES if total else 4 * STEP_BYTES):
                total += len(part)
                if total > most:
                    raise TooLargeError(most)
                parts.append(part)
    except (OSError, pa.ArrowException) as error:
        raise DecodeError(f"it is not zstd, or is damaged: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_regular_file(path: Path, most: int = FILE_BYTES) -> bytes | None:
    """The bytes of a regular file. None for a folder, a pipe or a device.

    It never follows a link, and never waits for a pipe. Raises `OSError` or `TooLargeError`, also for a file that grows
    while it is read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            return None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > most:
            raise TooLargeError(most)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(status.st_size + 1)
            if len(data) > status.st_size:  # the file grows
                data += file.read(most + 1 - len(data))
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise TooLargeError(most)
    return data
