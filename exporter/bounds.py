"""How large what somebody else wrote may be, as it is stored and unpacked: the one place for it.

Whoever writes a file decides what it unpacks to: a kilobyte of gzip becomes a megabyte, and that becomes a gigabyte if
it was compressed twice. So every reader of a tree, bucket, archive, lake or server takes its limit from here, and
unpacks through here step by step. What exceeds a limit is an error before the memory is used.
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
"""The limit of a file that is read as a whole: of a tree, a store, or given by name."""

DOCUMENT_BYTES: Final = 64 * MIB
"""The limit of one document of a tree that no manifest gives the size of, and of small state."""

TOGETHER_BYTES: Final = 512 * MIB
"""The limit of files that are in memory at the same time because they were asked for together."""

EVIDENCE_BYTES: Final = 256 * MIB
EVIDENCE_LINE_BYTES: Final = 32 * MIB
"""Limits of evidence when it is unpacked. A pool of mainnet has about 10 kB."""

LAKE_OBJECT_BYTES: Final = 64 * MIB
LAKE_LEDGER_BYTES: Final = 64 * MIB
LAKE_BATCH_BYTES: Final = 512 * MIB
"""Limits of a lake's object as it is compressed, and of a ledger and all ledgers in it. Those of mainnet have 2 MB."""

CHANGES_BYTES: Final = 4096 * MIB
"""The limit of a backfill's own file of changes when it is unpacked: of up to some thousand ledgers."""

ARCHIVE_STATE_BYTES: Final = MIB
ARCHIVE_RECORD_BYTES: Final = 32 * MIB
ARCHIVE_RECORDS_FILE_BYTES: Final = 1024 * MIB
ARCHIVE_BUCKET_BYTES: Final = 32 * 1024 * MIB
"""Limits of an archive's files when they are unpacked. Buckets are streamed, one record in memory."""

PARQUET_BYTES: Final = 2048 * MIB
PARQUET_ROWS: Final = 2**22
PARQUET_VALUES: Final = 2**28
PARQUET_FOOTER_BYTES: Final = 4 * MIB
PARQUET_DICTIONARY_VALUES: Final = 2**23
"""Limits of a Parquet file: its rows and footer, and of the columns that are read of it their pages unpacked, their
values, and the values in dictionaries of texts. A month of mainnet at 5 minutes has 1.5 million rows."""

STEP_BYTES: Final = MIB
"""How much is unpacked at once."""

MAX_ENCODINGS: Final = 2
"""How often a body may have been compressed."""

_GZIP_NAMES: Final = frozenset({"gzip", "x-gzip"})


class TooLargeError(DecodeError):
    """What was read is, or unpacks to, more than is accepted; the message has no name of the file."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most:,} bytes when decompressed, which are the most that are accepted")


class Gunzip:
    """Unpacks gzip that comes in pieces, of one or more members, to at most ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._left = most, most
        self._member = zlib.decompressobj(wbits=31)
        self.begun = False
        """Whether anything came."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What a piece unpacks to, in steps of bounded size. Raises `DecodeError`, and `TooLargeError`."""
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
    """Collects an HTTP body that comes in pieces as they were sent, to at most ``most`` bytes unpacked."""

    def __init__(self, encoding: str, most: int) -> None:
        """Take the ``Content-Encoding``. Raises `DecodeError` for one that was not asked for."""
        names = [name for each in encoding.split(",") if (name := each.strip().lower()) not in ("", "identity")]
        if len(names) > MAX_ENCODINGS or not _GZIP_NAMES.issuperset(names):
            raise DecodeError("it has a compression that was not asked for")
        self._most = most
        self._layers = [Gunzip(most) for _ in names]
        self._content = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises `DecodeError`, and `TooLargeError`."""
        for piece in _through(self._layers, data):
            self._content += piece
            if len(self._content) > self._most:
                raise TooLargeError(self._most)

    @property
    def size(self) -> int:
        """How many bytes came so far, unpacked."""
        return len(self._content)

    @property
    def content(self) -> bytes:
        """What came so far, unpacked."""
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
    """The lines of gzip, each with its end. Raises `DecodeError`, also for more or longer lines than are accepted."""
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
    """The content of zstd frames, which need not state their size. Raises `DecodeError`, and `TooLargeError`."""
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
    """Read a regular file; None for a folder, a pipe or a device. Never follows a link, and never waits for a pipe.

    Raises `OSError`, and `TooLargeError`, also for a file that grows while it is read.
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
            if len(data) > status.st_size:  # it grows
                data += file.read(most + 1 - len(data))
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise TooLargeError(most)
    return data
