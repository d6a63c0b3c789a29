"""Opens history archives in a folder, on a web server or in an S3 bucket.

Several archives of one network replace each other: if one does not have a file, or does not answer, another is asked.
"""

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
from exporter.stores.folder import reported
from exporter.user_files import user_path

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

T = TypeVar("T")

CHUNK_BYTES = 1 << 18
TRIES = 5
FIRST_PAUSE_SECONDS = 0.25
REQUEST_SECONDS = 30.0
"""Longest time of one request. What has come by then is kept, and the next request asks for the rest."""


PATIENCE_SECONDS = 15.0
"""Longest time that an archive may send nothing, if another one may have the file. A quarter of the time that is left
limits it, too."""


class Deadline:
    """The time by which a command must have read what it needs of history archives.

    ``setting`` is the name of the setting that the error tells people to raise.
    """

    def __init__(self, seconds: float = 300.0, setting: str = "the deadline") -> None:
        limit = timedelta(seconds=seconds)
        self._end = monotonic() + seconds
        self._error = f"reading history archives took longer than {setting} = {duration_text(limit)}; raise it"

    def left(self) -> float:
        """The number of seconds that are left. Raises `ArchiveError` if the time is over."""
        if (left := self._end - monotonic()) <= 0:
            raise ArchiveError(self._error)
        return left


class Answering:
    """Remembers which of a command's archives answer. One that does not answer is not asked while another one does."""

    def __init__(self, count: int = 1) -> None:
        self._count = count
        self._silent: dict[RemoteFiles, ArchiveError] = {}

    def has_others(self, archive: RemoteFiles) -> bool:
        """Whether another archive than this one can be asked."""
        return self._count - len(self._silent.keys() - {archive}) > 1

    def require(self, archive: RemoteFiles) -> None:
        """Raise the archive's last `ArchiveError` if it does not answer, and another one can be asked."""
        if archive in self._silent and self.has_others(archive):
            raise self._silent[archive]

    def record_answer(self, archive: RemoteFiles, error: ArchiveError | None) -> None:
        """Record that the archive answered, or the error with which it did not."""
        if error is None:
            self._silent.pop(archive, None)
        else:
            self._silent[archive] = error


class RemoteFiles:
    """The files of a history archive at https:// or s3://, which may be slow or never answer.

    Args:
        uri: the archive.
        deadline: when all reading has to end.
        bucket_folder: a folder that keeps archive buckets, which archives and jobs share. A bucket is kept under its
            digest, once its content was found to have that digest. A bucket that was half fetched when a job ended is
            continued by the next job. None keeps nothing.
        answering: shared by archives that replace each other. An archive that sends nothing for `PATIENCE_SECONDS`, or
            fails `TRIES` times in a row, is asked again only if no other archive answers.
    """

    def __init__(
        self,
        uri: str,
        deadline: Deadline | None = None,
        bucket_folder: Path | None = None,
        answering: Answering | None = None,
    ) -> None:
        self._uri, self._bucket_folder, self._answering = uri, bucket_folder, answering or Answering()
        self._deadline = deadline or Deadline()
        self.label = self._place(REQUEST_SECONDS)[1]

    def _place(self, seconds: float) -> tuple[ObjectStore, str]:
        return open_place(self._uri, "history archive", verified=True, seconds=seconds)

    def open(self, name: str, max_bytes: int) -> IO[bytes]:
        """Open a file. A bucket out of the folder has the content that its digest says.

        Raises `ArchiveFileMissingError` if there is no such file, `ArchiveError` if it cannot be fetched, and
        `StoreError` if the folder does not take it.
        """
        if self._bucket_folder is not None and name.startswith("bucket/"):
            path = self._bucket_folder / name.rpartition("/")[2]
            with reported("keep buckets in", str(self._bucket_folder)):
                if not path.exists():
                    self._fetch_bucket(name, path, max_bytes)
                return path.open("rb")
        with ExitStack() as stack:
            file = stack.enter_context(TemporaryFile())
            self._fetch(name, file, max_bytes)
            file.seek(0)
            stack.pop_all()
        return file

    def _fetch_bucket(self, name: str, path: Path, max_bytes: int) -> None:
        """Fetch a bucket into the folder, where it gets its name once its content has its digest."""
        digest = bytes.fromhex(name.rpartition("-")[2].partition(".")[0])
        # Archives may compress the same content differently, so each continues only its own partial files.
        source = hashlib.sha256(self.label.encode()).hexdigest()[:16]
        partial = path.with_name(f"{path.name}.{source}.part")
        with partial.open("ab") as file:
            begun = file.tell()
            try:
                self._fetch(name, file, max_bytes)
            except ArchiveError:
                if file.tell() in (0, begun):  # nothing was added to it, or it is empty
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
        """Append what the file lacks of the archive's file.

        A request that breaks off is continued by the next, until `TRIES` requests in a row bring nothing.
        """
        self._deadline.left()
        self._answering.require(self)
        tries, last_came_at = 0, monotonic()
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
                self._answering.record_answer(self, None)
                return
            except FileNotFoundError:
                self._answering.record_answer(self, None)
                raise ArchiveFileMissingError(f"{self.label} has no file {name}") from None
            except ArchiveError:
                raise
            except Exception as error:  # obstore's own errors have no common base
                if isinstance(error, OSError) and error.errno is not None:  # of this machine: a full disk
                    raise
                left = self._deadline.left()
                if file.tell() > begun:
                    tries, last_came_at = 0, monotonic()
                tries += 1
                is_refused = isinstance(error, PermissionError)
                is_silent = has_others and monotonic() - last_came_at >= seconds
                if tries == TRIES or is_refused or is_silent:
                    kind = type(error).__name__
                    failed = ArchiveError(f"{self.label}: {name} cannot be fetched ({kind}); try again")
                    if not is_refused:  # some S3 buckets refuse a file that they do not have
                        self._answering.record_answer(self, failed)
                    raise failed from error
                sleep(min(left, seconds, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)))


def forget_other_buckets(folder: Path, needed: Iterable[bytes]) -> None:
    """Remove archive buckets, whole and partial ones, from the folder unless their digests are ``needed``."""
    names = {digest.hex() for digest in needed}
    with reported("remove old buckets from", str(folder)):
        for path in folder.glob("bucket-*.xdr.gz*"):
            if path.name[7:71] not in names:
                path.unlink(missing_ok=True)


class Archives:
    """Several archives of one network, in the order in which they are tried."""

    def __init__(self, archives: Sequence[HistoryArchive]) -> None:
        self.each = tuple(archives)

    @classmethod
    def open(cls, uris: Sequence[str], bucket_folder: Path, deadline: Deadline | None = None) -> Archives:
        """Open archives in folders and at URLs. ``bucket_folder`` keeps the archive buckets that are fetched.

        Raises `ConfigError` for an address that no archive can have, `ArchiveFileMissingError` for a missing folder,
        and `StoreError` if the folder for buckets cannot be made.
        """
        with reported("make the folder", str(bucket_folder)):
            bucket_folder.mkdir(parents=True, exist_ok=True)
        deadline, answering = deadline or Deadline(), Answering(len(uris))
        files = [
            RemoteFiles(uri, deadline, bucket_folder, answering) if "://" in uri else FolderFiles(user_path(uri))
            for uri in uris
        ]
        return cls(list(map(HistoryArchive, files)))

    def first(self, read: Callable[[HistoryArchive], T]) -> T:
        """What ``read`` gives for the first archive for which it does not fail.

        Raises `ArchiveError`, which says what was wrong with each archive, if it fails for all of them.
        """
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
        """The newest checkpoint that any archive says it has. Raises `ArchiveError` if none can be asked."""
        checkpoints = []
        for archive in self.each:
            with suppress(ArchiveError):
                checkpoints.append(archive.newest())
        if not checkpoints:
            return self.first(HistoryArchive.newest)  # fails again, with an error that names each archive
        return max(checkpoints)
