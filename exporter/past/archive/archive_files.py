"""Files of a history archive: their names, how they are opened, and the records in them."""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Protocol, cast

from exporter.bounds import ARCHIVE_RECORD_BYTES
from exporter.errors import ArchiveError, ArchiveFileMissingError
from exporter.user_files import no_folder

NEWEST_STATE: Final = ".well-known/stellar-history.json"


class ArchiveFiles(Protocol):
    """A place that keeps the files of an archive. ``label`` names it in errors, and must not contain a secret."""

    label: str

    def open(self, name: str, max_bytes: int) -> IO[bytes]:
        """Open a file as it is stored.

        Raises `ArchiveFileMissingError` if there is no such file, and `ArchiveError` if it cannot be read or has more
        than ``max_bytes``.
        """
        ...


class FolderFiles:
    """The files of an archive in a folder."""

    def __init__(self, folder: Path, label: str | None = None) -> None:
        self._folder = folder
        self.label = label or f"history archive {folder.name}"
        if reason := no_folder(folder):
            raise ArchiveFileMissingError(f"{self.label}: it {reason}; name the folder of a history archive")

    def open(self, name: str, max_bytes: int) -> IO[bytes]:
        path = self._folder / name
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise ArchiveError(f"{self.label}: {name} is not a regular file")
            if status.st_size > max_bytes:
                raise ArchiveError(f"{self.label}: {name} has more than the {max_bytes} bytes that are accepted")
            return path.open("rb")
        except FileNotFoundError:
            raise ArchiveFileMissingError(f"{self.label}: {name} is missing") from None
        except OSError as error:
            raise ArchiveError(f"{self.label}: {name} cannot be read: {error.strerror or error}") from None


def state_name(checkpoint: int) -> str:
    """The name of a checkpoint's state file."""
    return f"history/{_folders(f'{checkpoint:08x}')}/history-{checkpoint:08x}.json"


def records_name(category: str, checkpoint: int) -> str:
    """The name of a checkpoint's file of ledger headers (``ledger``), ``transactions``, ``results`` or ``scp``."""
    return f"{category}/{_folders(f'{checkpoint:08x}')}/{category}-{checkpoint:08x}.xdr.gz"


def bucket_name(digest: bytes) -> str:
    """The name of the file of an archive bucket."""
    return f"bucket/{_folders(digest.hex())}/bucket-{digest.hex()}.xdr.gz"


def _folders(text: str) -> str:
    return f"{text[:2]}/{text[2:4]}/{text[4:6]}"


def records(files: ArchiveFiles, name: str, max_bytes: int, digest: bytes | None = None) -> Iterator[bytes]:
    """The records of a gzip file. Each follows a mark of four bytes, which is its length with the highest bit set.

    Raises `ArchiveError` for a file of another form, and for one that unpacks to more than ``max_bytes``. Raises it
    after the last record if the SHA-256 of the unpacked content is not ``digest``. So a caller must use nothing of a
    file before its end.
    """
    what, running, total = f"{files.label}: {name}", hashlib.sha256(), 0
    try:
        with files.open(name, max_bytes) as packed:
            if not packed.read(1):
                raise EOFError
            packed.seek(0)
            file = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=packed)), 1 << 20)
            while mark := file.read(4):
                length = int.from_bytes(mark, "big") - 0x80000000
                if len(mark) == 4 and not 0 <= length <= ARCHIVE_RECORD_BYTES:
                    raise ArchiveError(f"{what}: a record's mark is damaged: {mark.hex()}")
                total += 4 + length
                if total > max_bytes:
                    raise ArchiveError(f"{what} unpacks to more than the {max_bytes} bytes that are accepted")
                record = file.read(max(length, 0))
                if len(mark) < 4 or len(record) < length:
                    raise ArchiveError(f"{what}: it ends inside a record")
                running.update(mark)
                running.update(record)
                yield record
    except EOFError:
        raise ArchiveError(f"{what} ends too early; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ArchiveError(f"{what} is not gzip, or is damaged: {error}") from None
    except OSError as error:
        raise ArchiveError(f"{what} cannot be read: {error.strerror or error}") from None
    if digest not in (None, running.digest()):
        raise ArchiveError(f"{what}: its content has the SHA-256 {running.hexdigest()}; do not use this copy")
