"""Where archives are kept: a folder, a web server, a bucket. Several archives of a network replace each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, TypeVar

from exporter.errors import ArchiveError, ArchiveFileMissingError
from exporter.past.archive.archive_files import FolderFiles, records
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.lake.objects import open_place
from exporter.user_files import user_path

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

T = TypeVar("T")

CHUNK_BYTES = 1 << 18
TRIES = 5
FIRST_PAUSE_SECONDS = 0.25
REQUEST_SECONDS = 30.0
"""The longest that one request may take. What came until then is kept, and the next request asks for the rest."""


class Deadline:
    """When a command must have read all that it needs of history archives; ``setting`` names what bounds it."""

    def __init__(self, seconds: float = 300.0, setting: str = "the deadline") -> None:
        self._end = monotonic() + seconds
        self._error = f"reading history archives took longer than {setting} = {seconds:g} seconds; raise it"

    def left(self) -> float:
        """The seconds that are left. Raises `ArchiveError` where none are."""
        if (left := self._end - monotonic()) <= 0:
            raise ArchiveError(self._error)
        return left


class RemoteFiles:
    """The files of a history archive behind https:// or in s3://, which may be slow or never answer.

    With a folder ``kept`` each bucket is fetched once and kept there under its digest, when its content was found to
    have it, so archives and jobs share them. What was fetched of one when a job ended is continued by the next job.
    """

    def __init__(self, uri: str, deadline: Deadline | None = None, kept: Path | None = None) -> None:
        self._uri, self._kept = uri, kept
        self._deadline = deadline or Deadline()
        self.label = self._place(REQUEST_SECONDS)[1]

    def _place(self, seconds: float) -> tuple[ObjectStore, str]:
        return open_place(self._uri, "history archive", verified=True, seconds=seconds)

    def open(self, name: str, max_bytes: int) -> IO[bytes]:
        """A file; of a kept bucket only what has its digest. Raises `ArchiveFileMissingError`, `ArchiveError`."""
        if self._kept is not None and name.startswith("bucket/"):
            path = self._kept / name.rpartition("/")[2]
            if not path.exists():
                self._keep(name, path, max_bytes)
            return path.open("rb")
        with ExitStack() as stack:
            file = stack.enter_context(TemporaryFile())
            self._fetch(name, file, max_bytes)
            file.seek(0)
            stack.pop_all()
        return file

    def _keep(self, name: str, path: Path, max_bytes: int) -> None:
        digest = bytes.fromhex(name.rpartition("-")[2].partition(".")[0])
        source = hashlib.sha256(self.label.encode()).hexdigest()[:16]  # archives may pack the same content differently
        partial = path.with_name(f"{path.name}.{source}.part")
        with partial.open("ab") as file:
            begun = file.tell()
            try:
                self._fetch(name, file, max_bytes)
            except ArchiveError:
                if file.tell() in (0, begun):  # nothing to continue from
                    partial.unlink()
                raise
        try:
            for _ in records(FolderFiles(path.parent, self.label), partial.name, max_bytes, digest):
                pass
        except ArchiveError:
            partial.unlink()
            raise
        partial.replace(path)

    def _fetch(self, name: str, file: IO[bytes], max_bytes: int) -> None:
        """Append what follows in the archive's file. A request that breaks is continued, but for a few in vain."""
        tries = 0
        while True:
            begun = file.tell()
            options: GetOptions = {"range": {"offset": begun}} if begun else {}
            place, _ = self._place(min(self._deadline.left(), REQUEST_SECONDS))
            try:
                for piece in place.get(name, options=options).stream(min_chunk_size=CHUNK_BYTES):
                    if file.tell() + len(piece) > max_bytes:
                        raise ArchiveError(
                            f"{self.label}: {name} has more than the {max_bytes} bytes that are accepted"
                        )
                    file.write(piece)
                return
            except FileNotFoundError:
                raise ArchiveFileMissingError(f"{self.label} has no file {name}") from None
            except ArchiveError:
                raise
            except Exception as error:  # obstore's own errors have no common base
                left = self._deadline.left()
                tries = 1 if file.tell() > begun else tries + 1
                if tries == TRIES or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise ArchiveError(f"{self.label}: {name} cannot be fetched ({kind}); try again") from error
                sleep(min(left, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)))


def forget_other_buckets(folder: Path, wanted: Iterable[bytes]) -> None:
    """Remove the kept buckets, and the begun ones, whose digests are not wanted any more."""
    names = {digest.hex() for digest in wanted}
    for path in folder.glob("bucket-*.xdr.gz*"):
        if path.name[7:71] not in names:
            path.unlink(missing_ok=True)


class Archives:
    """Several archives of one network, in the order in which they are tried."""

    def __init__(self, archives: Sequence[HistoryArchive]) -> None:
        self.each = tuple(archives)

    @classmethod
    def open(cls, uris: Sequence[str], kept: Path, deadline: Deadline | None = None) -> Archives:
        """Open archives by folder or URL; ``kept`` is a folder for the buckets that are fetched.

        Raises `ConfigError` for an address of no archive, and `ArchiveFileMissingError` for a missing folder.
        """
        kept.mkdir(parents=True, exist_ok=True)
        deadline = deadline or Deadline()
        files = [RemoteFiles(uri, deadline, kept) if "://" in uri else FolderFiles(user_path(uri)) for uri in uris]
        return cls(list(map(HistoryArchive, files)))

    def first(self, read: Callable[[HistoryArchive], T]) -> T:
        """The file of the first archive that has it. Raises `ArchiveError` with what was wrong in each of them."""
        problems: list[ArchiveError] = []
        for archive in self.each:
            try:
                return read(archive)
            except ArchiveError as error:
                problems.append(error)
        missing = all(isinstance(problem, ArchiveFileMissingError) for problem in problems)
        message = "; ".join(dict.fromkeys(map(str, problems))) or "no history archive is named"
        raise (ArchiveFileMissingError if missing else ArchiveError)(message)

    def newest(self) -> int:
        """The newest checkpoint that any archive says it has. Raises `ArchiveError` where none says anything."""
        found = []
        for archive in self.each:
            with suppress(ArchiveError):
                found.append(archive.newest())
        if not found:
            return self.first(HistoryArchive.newest)  # says what is wrong with each
        return max(found)
