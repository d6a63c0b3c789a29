"""A folder as a store: every write whole or absent, for readers, after a crash and after a power cut.

A file is written under a temporary name in its own folder, made durable, and only then given its name: by
``rename`` (a document: readers have the old file or the new one) or by ``link`` (an immutable file: fails where the
name is taken). So a name never leads to half a file:

- The process dies: at most temporary files stay. Their names start with a dot, which no key can, so neither a
  listing nor a web server that serves keys ever shows them; ``remove_leftovers`` removes them.
- The power fails: as above, because the bytes reach the disk before the name does. When a method has returned, its
  names are on the disk too; only deletions are not waited for. With ``durable=False``, or on a disk that lies
  about ``fsync``, the last writes before a power cut may be missing or empty.

Making 100,000 files durable one by one takes minutes on many disks. The bulk methods therefore work in batches:
write the temporary files of a batch, make them durable together, then give them their names.

The lock is ``flock`` on ``.exporter.lock``: it is held by the open file and vanishes with the process, so a killed
run never blocks the next one. Only POSIX systems have it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock

from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.store import (
    ObjectInfo,
    StoredObject,
    Written,
    check_prefix,
    etag_of,
    immutable_key_message,
    moved_message,
)
from exporter.tree.files import check_key, is_key

LOCK_NAME = ".exporter.lock"
TEMPORARY_PREFIX = ".tmp-"
BATCH_FILES = 2048
BATCH_BYTES = 32 * 1024 * 1024

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NEEDS_WRITE_ACCESS = "; the user that runs the exporter needs write access to the output folder"
_ADVICE = {
    errno.ENOSPC: "; free space and run again",
    errno.EDQUOT: "; free space and run again",
    errno.EACCES: _NEEDS_WRITE_ACCESS,
    errno.EPERM: _NEEDS_WRITE_ACCESS,
    errno.EROFS: "; choose another output.uri",
    errno.ELOOP: "; a symbolic link inside the output folder is never followed: remove it",
    errno.ENOTDIR: "; a file stands where a folder is needed: remove it",
    errno.EISDIR: "; a folder stands where a file is needed: remove it",
}

FEW = 4
"""Up to so many paths are made durable one by one; a whole file system is not bothered for them."""


def make_durable(files: Collection[Path], folders: Collection[Path]) -> None:
    """Return when the bytes of these files and the names in these folders are on the disk.

    Many paths on Linux cost one ``syncfs`` for each file system they are on; elsewhere, and for few paths, each
    is made durable with its own ``fsync``.

    Raises:
        OSError: the disk reported an error; what was written must be taken as lost.
    """
    sync_file_system = _sync_file_system()
    if sync_file_system is not None and len(files) + len(folders) > FEW:
        for folder in _one_for_each_device({file.parent for file in files} | set(folders)):
            sync_file_system(folder)
        return
    for path in (*files, *folders):
        _with_descriptor(path, os.fsync)


def _one_for_each_device(folders: Iterable[Path]) -> list[Path]:
    return list({folder.stat().st_dev: folder for folder in folders}.values())


@cache
def _sync_file_system() -> Callable[[Path], None] | None:
    """Find ``syncfs`` in the C library; Python has no name for it. None where there is none."""
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return lambda folder: _with_descriptor(folder, sync)


def _with_descriptor(path: Path, action: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        action(descriptor)
    finally:
        os.close(descriptor)


def refuse_link(folder: Path) -> None:
    """Raise OSError unless this is a folder itself, not a link to one."""
    mode = folder.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def read_file(path: Path) -> bytes | None:
    """Read a regular file; None when there is none. Never follows a link, never waits for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Make a file that was not there, with the permissions that the umask leaves."""
    # Not tempfile: its files are readable by their owner alone, and a web server has to read these.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


@contextmanager
def reported(action: str, what: str) -> Iterator[None]:
    """Turn what the operating system says into a StoreError that names the key."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot {action} {what}: {reason}{_ADVICE.get(error.errno or 0, '')}") from error


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file written under a temporary name, waiting for its own."""

    key: str
    data: bytes
    folder: Path
    temporary: Path

    @property
    def final(self) -> Path:
        return self.folder / self.key.rpartition("/")[2]


class FolderStore:
    """A tree of files below one folder, which is made at the first write.

    Args:
        root: the folder. It may be a symbolic link; links inside it are never followed.
        durable: False skips everything that waits for the disk (previews and tests).
    """

    def __init__(self, root: str | Path, *, durable: bool = True) -> None:
        self.root = Path(root).absolute()
        self._durable = durable
        self._known_folders: dict[str, Path] = {}  # folders that were seen and are no links, by their part of the key
        self._unsynced_folders: set[Path] = set()
        self._temporary_stem = f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-"
        self._temporary_count = 0
        self._swap_lock = Lock()
        self._held = False

    @property
    def uri(self) -> str:
        return str(self.root)

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def reads_at_once(self) -> int:
        return 1

    def get(self, key: str) -> StoredObject | None:
        with reported("read", check_key(key)):
            folder = self._existing_folder(key)
            data = None if folder is None else read_file(folder / _name(key))
        return None if data is None else StoredObject(data, etag_of(data))

    def has(self, key: str) -> bool:
        with reported("look at", check_key(key)):
            try:
                return stat.S_ISREG(os.lstat(f"{self.root}/{key}").st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The memory it takes does not grow with the number of files."""
        parent = check_prefix(prefix).rpartition("/")[0]
        for key, entry in self._files_below(parent):
            if not key.startswith(prefix) or not is_key(key):
                continue
            with reported("list", key), suppress(FileNotFoundError):  # deleted while the listing went on
                status = entry.stat(follow_symlinks=False)
                yield ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes) -> bool:
        return self.put_many([(key, data)]).written == 1

    def put_new(self, key: str, data: bytes) -> bool:
        return self.put_new_many([(key, data)]).written == 1

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> Written:
        return self._write_all(files, immutable=False)

    def put_new_many(self, files: Iterable[tuple[str, bytes]]) -> Written:
        return self._write_all(files, immutable=True)

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        """Takes the lock for itself unless this object holds it already."""
        with self._swap_lock:
            if self._held:
                return self._swap(key, data, expected_etag)
            with self.exclusive():
                return self._swap(key, data, expected_etag)

    def delete(self, keys: Iterable[str]) -> int:
        """Folders that become empty go too. A power cut may bring deleted files back."""
        removed = 0
        for key in keys:
            with reported("delete", check_key(key)):
                folder = self._existing_folder(key)
                if folder is None:
                    continue
                try:
                    (folder / _name(key)).unlink()
                except FileNotFoundError:
                    continue
                removed += 1
                self._remove_empty_folders(key)
        return removed

    def remove_leftovers(self, before: datetime) -> int:
        """These are the temporary files of runs that died."""
        removed = 0
        for key, entry in self._files_below(""):
            if not entry.name.startswith(TEMPORARY_PREFIX):
                continue
            with reported("delete", key), suppress(FileNotFoundError):
                if datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC) < before:
                    Path(entry.path).unlink()
                    self._remove_empty_folders(key)
                    removed += 1
        return removed

    def try_writing(self) -> None:
        """A folder that is not there is made and removed again."""
        made = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
        trial = self.root / f"{self._temporary_stem}trial"
        try:
            with reported("write into", self.uri):
                self.root.mkdir(parents=True, exist_ok=True)
                try:
                    write_file(trial, b"trial")
                finally:
                    trial.unlink(missing_ok=True)
            if (self.root / LOCK_NAME).exists():
                with suppress(LostRaceError), self.exclusive():
                    pass
        finally:
            for folder in made:
                with suppress(OSError):
                    folder.rmdir()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The empty lock file stays, so that no two processes can lock two files of that name."""
        if self._held:
            raise LostRaceError(f"this process is already publishing to {self.root}")
        with reported("lock", LOCK_NAME):
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            with reported("lock", LOCK_NAME):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    message = f"another process is publishing to {self.root}; let it finish and run again"
                    raise LostRaceError(message) from None
            self._held = True
            try:
                yield
            finally:
                self._held = False
        finally:
            os.close(descriptor)

    def _swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        present = self.get(key)
        if (None if present is None else present.etag) != expected_etag:
            raise LostRaceError(moved_message(key))
        self.put(key, data)
        return etag_of(data)

    def _write_all(self, files: Iterable[tuple[str, bytes]], *, immutable: bool) -> Written:
        """Write a stream of files in batches, each durable before its files get their names."""
        total = Written()
        batch: dict[Path, _Staged] = {}
        size = 0
        try:
            for key, data in files:
                with reported("write", check_key(key)):
                    folder = self._folder_to_write(key)
                    if self._is_there(folder / _name(key), key, data, immutable=immutable):
                        total += Written(unchanged=1)
                        continue
                    self._stage(key, data, folder, batch)
                size += len(data)
                if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                    total += self._place_all(batch, immutable=immutable)
                    size = 0
            total += self._place_all(batch, immutable=immutable)
        finally:
            for temporary in batch:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        if self._durable and self._unsynced_folders:
            with reported("make durable the names in", self.uri):
                make_durable((), self._unsynced_folders)
        self._unsynced_folders.clear()
        return total

    def _place_all(self, batch: dict[Path, _Staged], *, immutable: bool) -> Written:
        """Give every staged file its name, and take it out of the batch."""
        if self._durable and batch:
            with reported("make durable", f"{len(batch)} files, the first {next(iter(batch.values())).key}"):
                make_durable(batch.keys(), ())
        total = Written()
        for temporary, staged in [*batch.items()]:
            with reported("write", staged.key):
                if immutable:
                    placed = self._link(staged)
                else:
                    temporary.replace(staged.final)
                    placed = True
            del batch[temporary]
            total += Written(1, 0, len(staged.data)) if placed else Written(unchanged=1)
        return total

    def _link(self, staged: _Staged) -> bool:
        """Name a file that must not replace another; False when the same bytes have the name already."""
        try:
            staged.final.hardlink_to(staged.temporary)
        except FileExistsError:
            self._is_there(staged.final, staged.key, staged.data, immutable=True)
            staged.temporary.unlink()
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # A file system without hard links: the publisher's lock stands in for the exclusive creation.
            if self._is_there(staged.final, staged.key, staged.data, immutable=True):
                staged.temporary.unlink()
                return False
            staged.temporary.replace(staged.final)
            return True
        staged.temporary.unlink()
        return True

    def _is_there(self, path: Path, key: str, data: bytes, *, immutable: bool) -> bool:
        """Say whether exactly these bytes have the name; other bytes under an immutable key are an error."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        same = stat.S_ISREG(status.st_mode) and status.st_size == len(data) and read_file(path) == data
        if immutable and not same:
            raise ImmutableKeyError(immutable_key_message(key))
        return same

    def _stage(self, key: str, data: bytes, folder: Path, batch: dict[Path, _Staged]) -> None:
        """Write a file under a temporary name, and enter it into the batch before anything can go wrong."""
        self._temporary_count += 1
        temporary = folder / f"{self._temporary_stem}{self._temporary_count}"
        batch[temporary] = _Staged(key, data, folder, temporary)
        try:
            write_file(temporary, data)
        except FileNotFoundError:  # another process removed the empty folder since it was last seen
            self._known_folders.clear()
            self._folder_to_write(key)
            write_file(temporary, data)

    # -- folders ------------------------------------------------------------------------------------------------

    def _folder_to_write(self, key: str) -> Path:
        """Give the folder of a key, made if need be, no part of it below the root being a symbolic link."""
        part = key.rpartition("/")[0]
        folder = self._known_folders.get(part)
        if folder is None:
            if part:
                parent = self._folder_to_write(part)
                folder = parent / _name(part)
                try:
                    folder.mkdir()
                    self._unsynced_folders.add(parent)
                except FileExistsError:
                    refuse_link(folder)
            else:
                folder = self.root
                if not folder.is_dir():
                    folder.mkdir(parents=True)
                    self._unsynced_folders.add(folder.parent)
            self._known_folders[part] = folder
        self._unsynced_folders.add(folder)
        return folder

    def _existing_folder(self, key: str) -> Path | None:
        """Give the folder of a key, or None when there is none."""
        part = key.rpartition("/")[0]
        folder = self._known_folders.get(part)
        if folder is None:
            if not part:
                return self.root
            parent = self._existing_folder(part)
            if parent is None:
                return None
            folder = parent / _name(part)
            try:
                refuse_link(folder)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return folder

    def _remove_empty_folders(self, key: str) -> None:
        part = key.rpartition("/")[0]
        while part:
            try:
                (self.root / part).rmdir()
            except OSError:
                return
            self._known_folders.pop(part, None)
            self._unsynced_folders.discard(self.root / part)
            part = part.rpartition("/")[0]

    def _files_below(self, part: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Stream the regular files below a folder, with the keys they would have; links are skipped."""
        start = self._existing_folder(f"{part}/_") if part else self.root
        if start is None:
            return
        to_visit = [(f"{part}/" if part else "", start)]
        while to_visit:
            stem, folder = to_visit.pop()
            with reported("list", stem or self.uri), suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield stem + entry.name, entry
                    elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                        to_visit.append((f"{stem}{entry.name}/", Path(entry.path)))


def _name(key: str) -> str:
    return key.rpartition("/")[2]
