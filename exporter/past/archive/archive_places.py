"""Where archives are kept: a folder, a web server, a bucket. Several archives of a network stand for each other.

archives = Archives.open(["https://…", "s3://…", "/srv/archive"], kept)
checkpoint = archives.first(lambda archive: archive.checkpoint(ledger))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from exporter.errors import ArchiveError, ArchiveFileMissingError
from exporter.past.archive.archive_files import ArchiveFiles, FolderFiles, hashed, unpack
from exporter.past.archive.checkpoint import MAX_BUCKET_BYTES, HistoryArchive

if TYPE_CHECKING:
    from obstore import GetOptions

T = TypeVar("T")

TRIES = 5


class RemoteFiles:
    """The files of a history archive behind https:// or in s3://."""

    def __init__(self, uri: str) -> None:
        from exporter.past.lake.objects import open_place

        self._place, self.label = open_place(uri, "history archive", verified=True)

    def chunks(self, name: str, start: int = 0) -> Iterator[bytes]:
        """The file from a byte on, in pieces. A connection that breaks is tried again, a few times.

        Raises `ArchiveFileMissingError`, `ArchiveError`.
        """
        for left in reversed(range(TRIES)):
            options: GetOptions = {"range": {"offset": start}} if start else {}
            try:
                for piece in self._place.get(name, options=options).stream(min_chunk_size=1 << 20):
                    start += len(piece)
                    yield bytes(piece)
                return
            except FileNotFoundError:
                raise ArchiveFileMissingError(f"{self.label} has no file {name}") from None
            except Exception as error:  # obstore's own errors have no common base
                if not left or isinstance(error, PermissionError):
                    kind = type(error).__name__
                    raise ArchiveError(f"{self.label}: {name} cannot be fetched ({kind}); try again") from error


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
    def open(cls, uris: Sequence[str], kept: Path) -> Archives:
        """Open archives by folder, ``https://``, ``http://`` (every digest is verified) or ``s3://BUCKET/PREFIX``.

        Args:
            uris: where they are.
            kept: a folder for the buckets that are fetched.

        Raises:
            ConfigError: an address is none of an archive.
            ArchiveFileMissingError: there is no such folder.
        """
        kept.mkdir(parents=True, exist_ok=True)
        return cls(
            [
                HistoryArchive(KeptBuckets(RemoteFiles(uri), kept) if "://" in uri else FolderFiles(Path(uri)))
                for uri in uris
            ]
        )

    def first(self, read: Callable[[HistoryArchive], T]) -> T:
        """What the first archive gives that can. Raises `ArchiveError` with what was wrong in each of them."""
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
        self.first(HistoryArchive.newest)
        found = []
        for archive in self.each:
            with suppress(ArchiveError):
                found.append(archive.newest())
        return max(found)
