"""The files of a history archive: their names, where they come from, and the records in them.

`ArchiveFiles` is the seam to where an archive is kept: it streams the bytes of a file by its name in the archive, so
that a folder, a web server and a bucket can share one reader.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from exporter.errors import ArchiveError, ArchiveFileMissingError

NEWEST_STATE: Final = ".well-known/stellar-history.json"
CHECKPOINT_LEDGERS: Final = 64
CHUNK_BYTES: Final = 1 << 18
MAX_RECORD_BYTES: Final = 1 << 25
"""A longer record is refused: no entry, transaction set or result set of a ledger comes near it."""


class ArchiveFiles(Protocol):
    """Where an archive is kept. ``label`` names it in errors and must hold no secret."""

    label: str

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file from ``start`` on as they are stored, in pieces of a bounded size, not all at once.

        Raises `ArchiveFileMissingError` when there is no such file, and `ArchiveError` when it cannot be read.
        """
        ...


class FolderFiles:
    """An archive in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.label = f"history archive {folder.name}"
        if not folder.is_dir():
            raise ArchiveFileMissingError(f"{self.label}: there is no such folder")

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """The bytes of a file, in pieces of at most `CHUNK_BYTES`."""
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
        except FileNotFoundError:
            raise ArchiveFileMissingError(f"{self.label}: {name} is missing") from None
        except OSError as error:
            raise ArchiveError(f"{self.label}: {name} cannot be read: {error.strerror or error}") from None


def checkpoint_of(ledger: int) -> int:
    """The checkpoint whose files hold a ledger: the first one at or after it."""
    return ledger | CHECKPOINT_LEDGERS - 1


def state_name(checkpoint: int) -> str:
    """The name of a checkpoint's state file."""
    return f"history/{_folders(f'{checkpoint:08x}')}/history-{checkpoint:08x}.json"


def records_name(category: str, checkpoint: int) -> str:
    """The name of a checkpoint's file of ledger headers (``ledger``), ``transactions``, ``results`` or ``scp``."""
    return f"{category}/{_folders(f'{checkpoint:08x}')}/{category}-{checkpoint:08x}.xdr.gz"


def bucket_name(digest: bytes) -> str:
    """The name of a bucket's file."""
    return f"bucket/{_folders(digest.hex())}/bucket-{digest.hex()}.xdr.gz"


def _folders(text: str) -> str:
    return f"{text[:2]}/{text[2:4]}/{text[4:6]}"


def read_whole(files: ArchiveFiles, name: str, max_bytes: int) -> bytes:
    """The content of a small file that is not compressed."""
    content = bytearray()
    for chunk in files.chunks(name):
        content += chunk
        if len(content) > max_bytes:
            raise ArchiveError(f"{files.label}: {name} has more than the {max_bytes} bytes that are accepted")
    return bytes(content)


def unpacked(files: ArchiveFiles, name: str, max_bytes: int) -> Iterator[bytes]:
    """The uncompressed content of a gzip file, in bounded pieces."""
    return unpack(files.chunks(name), f"{files.label}: {name}", max_bytes)


def unpack(chunks: Iterable[bytes], what: str, max_bytes: int) -> Iterator[bytes]:
    """The same of a gzip file's bytes. They may be several gzip members in a row."""
    total = 0
    unpacker = zlib.decompressobj(31)
    begun = False
    for chunk in chunks:
        left = chunk
        while left:
            if unpacker.eof:
                unpacker = zlib.decompressobj(31)
            try:
                piece = unpacker.decompress(left, CHUNK_BYTES)
            except zlib.error as error:
                raise ArchiveError(f"{what} is not gzip, or is damaged: {error}") from None
            begun = True
            left = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            total += len(piece)
            if total > max_bytes:
                raise ArchiveError(f"{what} unpacks to more than the {max_bytes} bytes that are accepted")
            if piece:
                yield piece
        while not unpacker.eof:  # what zlib keeps back although all it was given is consumed
            piece = unpacker.decompress(b"", CHUNK_BYTES)
            if not piece:
                break
            total += len(piece)
            yield piece
    if not begun or not unpacker.eof:
        raise ArchiveError(f"{what} ends too early; fetch it again")


def records(pieces: Iterable[bytes], what: str) -> Iterator[bytes]:
    """The records of a stream of XDR files: each follows a mark of four bytes, its length with the highest bit set."""
    buffer = b""
    for piece in pieces:
        buffer = buffer + piece if buffer else piece
        position, size = 0, len(buffer)
        while size - position >= 4:
            length = int.from_bytes(buffer[position : position + 4], "big") - 0x80000000
            if not 0 <= length <= MAX_RECORD_BYTES:
                raise ArchiveError(f"{what}: a record's mark is damaged: {buffer[position : position + 4].hex()}")
            end = position + 4 + length
            if end > size:
                break
            yield buffer[position + 4 : end]
            position = end
        buffer = buffer[position:]
    if buffer:
        raise ArchiveError(f"{what}: it ends inside a record")


def hashed(pieces: Iterable[bytes], digest: bytes, what: str) -> Iterator[bytes]:
    """The same pieces; raises `ArchiveError` after the last one unless their SHA-256 is ``digest``."""
    running = hashlib.sha256()
    for piece in pieces:
        running.update(piece)
        yield piece
    if running.digest() != digest:
        raise ArchiveError(f"{what}: its content has the SHA-256 {running.hexdigest()}; do not use this copy")
