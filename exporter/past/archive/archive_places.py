"""Archives in a folder, on a web server or in a bucket. Several archives of one network replace each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, TypeVar

from exporter.durations import duration_text
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
"""The longest that one request may take. What has come by then is kept, and the next request asks for the rest."""


PATIENCE_SECONDS = 15.0
"""How long an archive may bring nothing while another one may have the file; at most a quarter of what is left."""


class Deadline:
    """The time by which a command must have read all that it needs of history archives. ``setting`` names the bound."""

    def __init__(self, seconds: float = 300.0, setting: str = "the deadline") -> None:
        limit = timedelta(seconds=seconds)
        self._end = monotonic() + seconds
        self._error = f"reading history archives took longer than {setting} = {duration_text(limit)}; raise it"

    def left(self) -> float:
        """The seconds that are left. Raises `ArchiveError` if there are none."""
        if (left := self._end - monotonic()) <= 0:
            raise ArchiveError(self._error)
        return left


class Answering:
    """Which of a command's archives still answer. One that does not is left alone as long as another does."""

    def __init__(self, count: int = 1) -> None:
        self._count = count
        self._silent: dict[RemoteFiles, ArchiveError] = {}

    def has_others(self, archive: RemoteFiles) -> bool:
        """Whether another archive than this one may be asked instead."""
        return self._count - len(self._silent.keys() - {archive}) > 1

    def require(self, archive: RemoteFiles) -> None:
        """Raise the `ArchiveError` that the archive ended with, if another one is there to be asked instead."""
        if archive in self._silent and self.has_others(archive):
            raise self._silent[archive]

    def note(self, archive: RemoteFiles, error: ArchiveError | None) -> None:
        """Record that the archive answered, or with which error it did not."""
        if error is None:
            self._silent.pop(archive, None)
        else:
            self._silent[archive] = error


class RemoteFiles:
    """The files of a history archive behind https:// or in s3://, which may be slow or never answer.

    With a folder ``kept`` each bucket is fetched once and kept there under its digest, when its content was found to
    have it, so archives and jobs share them. What was fetched of one when a job ended is continued by the next job.

    ``answering`` is shared by archives that replace each other: one that brings nothing for `PATIENCE_SECONDS`, or
    fails `TRIES` times in a row, is asked again only when no other answers.
    """

    def __init__(
        self,
        uri: str,
        deadline: Deadline | None = None,
        kept: Path | None = None,
        answering: Answering | None = None,
    ) -> None:
        self._uri, self._kept, self._answering = uri, kept, answering or Answering()
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
                if file.tell() in (0, begun):  # there is no earlier part to continue from
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
        """Append what follows in the archive's file. A request that breaks is continued, until a few bring nothing."""
        self._deadline.left()
        self._answering.require(self)
        tries, came = 0, monotonic()
        while True:
            begun = file.tell()
            options: GetOptions = {"range": {"offset": begun}} if begun else {}
            has_others = self._answering.has_others(self)
            left = self._deadline.left()
            seconds = min(PATIENCE_SECONDS, left / 4) if has_others else min(REQUEST_SECONDS, left)
            place, _ = self._place(seconds)
            try:
                for piece in place.get(name, options=options).stream(min_chunk_size=CHUNK_BYTES):
                    if file.tell() + len(piece) > max_bytes:
                        raise ArchiveError(
                            f"{self.label}: {name} has more than the {max_bytes} bytes that are accepted"
                        )
                    file.write(piece)
                self._answering.note(self, None)
                return
            except FileNotFoundError:
                self._answering.note(self, None)
                raise ArchiveFileMissingError(f"{self.label} has no file {name}") from None
            except ArchiveError:
                raise
            except Exception as error:  # obstore's own errors have no common base
                left = self._deadline.left()
                if file.tell() > begun:
                    tries, came = 0, monotonic()
                tries += 1
                is_refused = isinstance(error, PermissionError)
                if tries == TRIES or is_refused or (has_others and monotonic() - came >= seconds):
                    kind = type(error).__name__
                    failed = ArchiveError(f"{self.label}: {name} cannot be fetched ({kind}); try again")
                    if not is_refused:  # some S3 buckets answer this for a file that they do not have
                        self._answering.note(self, failed)
                    raise failed from error
                sleep(min(left, seconds, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)))


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
        deadline, answering = deadline or Deadline(), Answering(len(uris))
        files = [
            RemoteFiles(uri, deadline, kept, answering) if "://" in uri else FolderFiles(user_path(uri)) for uri in uris
        ]
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
        checkpoints = []
        for archive in self.each:
            with suppress(ArchiveError):
                checkpoints.append(archive.newest())
        if not checkpoints:
            return self.first(HistoryArchive.newest)  # its error says what is wrong with each archive
        return max(checkpoints)
