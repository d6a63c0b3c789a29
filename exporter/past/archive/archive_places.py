"""Where archives are kept: a folder, a web server, a bucket. Several archives of a network replace each other.

archives = Archives.open(["https://…", "s3://…", "/srv/archive"], kept)
checkpoint = archives.first(lambda archive: archive.checkpoint(ledger))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from exporter.errors import ArchiveError, ArchiveFileMissingError
from exporter.past.archive.archive_files import CHUNK_BYTES, ArchiveFiles, FolderFiles, hashed, unpack
from exporter.past.archive.checkpoint import MAX_BUCKET_BYTES, HistoryArchive

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

T = TypeVar("T")

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
    """The files of a history archive behind https:// or in s3://, which may be slow or never answer."""

    def __init__(self, uri: str, deadline: Deadline | None = None) -> None:
        self._uri = uri
        self._deadline = deadline or Deadline()
        self._seconds = REQUEST_SECONDS
        self._place, self.label = self._opened()

    def _opened(self) -> tuple[ObjectStore, str]:
        from exporter.past.lake.objects import open_place

        return open_place(self._uri, "history archive", verified=True, seconds=self._seconds)

    def _in_time(self) -> ObjectStore:
        """The client whose requests end before the deadline does. Raises `ArchiveError` after it."""
        left = self._deadline.left()
        if left < self._seconds:
            self._seconds = left
            self._place = self._opened()[0]
        return self._place

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """The file from a byte on, in pieces. A request that breaks is continued, unless a few in a row give nothing.

        Raises `ArchiveFileMissingError`, `ArchiveError`.
        """
        tries = 0
        while True:
            begun = start
            options: GetOptions = {"range": {"offset": start}} if start else {}
            place = self._in_time()
            try:
                for piece in place.get(name, options=options).stream(min_chunk_size=CHUNK_BYTES):
                    start += len(piece)
                    yield bytes(piece)
                return
            except FileNotFoundError:
                raise ArchiveFileMissingError(f"{self.label} has no file {name}") from None
            except Exception as error:  # obstore's own errors have no common base
                left = self._deadline.left()
                tries = 1 if start > begun else tries + 1
                if tries == TRIES or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise ArchiveError(f"{self.label}: {name} cannot be fetched ({kind}); try again") from error
                sleep(min(left, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)))


class KeptBuckets:
    """An archive's files, whose buckets are fetched once into a folder and read from there.

    A bucket is kept under its digest when its content was found to have it, so archives and jobs share them. What was
    fetched of one when a job ended is continued by the next job.
    """

    def __init__(self, files: ArchiveFiles, folder: Path, max_bucket_bytes: int = MAX_BUCKET_BYTES) -> None:
        self.label = files.label
        self._files = files
        self._folder = folder
        self._max_bucket_bytes = max_bucket_bytes

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """As the archive's own; of a bucket only what has its digest."""
        if not name.startswith("bucket/"):
            yield from self._files.chunks(name, start)
            return
        file_name = name.rpartition("/")[2]
        if not (self._folder / file_name).exists():
            self._fetch(name, self._folder / file_name)
        yield from FolderFiles(self._folder).chunks(file_name, start)

    def _fetch(self, name: str, kept: Path) -> None:
        digest = bytes.fromhex(name.rpartition("-")[2].partition(".")[0])
        source = hashlib.sha256(self.label.encode()).hexdigest()[:16]  # archives may pack the same content differently
        partial = kept.with_name(f"{kept.name}.{source}.part")
        what = f"{self.label}: {name}"
        with partial.open("ab") as file:
            begun = file.tell()
            try:
                for chunk in self._files.chunks(name, begun):
                    if file.tell() + len(chunk) > self._max_bucket_bytes:
                        raise ArchiveError(f"{what} has more than the {self._max_bucket_bytes} bytes that are accepted")
                    file.write(chunk)
            except ArchiveError:
                if file.tell() in (0, begun):  # nothing to continue from
                    partial.unlink()
                raise
        try:
            chunks = FolderFiles(self._folder).chunks(partial.name)
            for _ in hashed(unpack(chunks, what, self._max_bucket_bytes), digest, what):
                pass
        except ArchiveError:
            partial.unlink()
            raise
        partial.replace(kept)


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
        """Open archives by folder, ``https://``, ``http://`` (every digest is verified) or ``s3://BUCKET/PREFIX``.

        ``kept`` is a folder for the buckets that are fetched. Raises `ConfigError` for an address of no archive, and
        `ArchiveFileMissingError` where there is no such folder.
        """
        kept.mkdir(parents=True, exist_ok=True)
        deadline = deadline or Deadline()
        return cls(
            [
                HistoryArchive(
                    KeptBuckets(RemoteFiles(uri, deadline), kept) if "://" in uri else FolderFiles(Path(uri))
                )
                for uri in uris
            ]
        )

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
