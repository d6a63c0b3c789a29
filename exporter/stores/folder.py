"""A folder as a store: every write whole or absent, for readers, after a crash and after a power cut.

A file is written under a temporary name in its own folder, made durable, and only then given its name: by
``rename`` (a document: readers have the old file or the new one) or by ``link`` (an immutable file: fails where the
name is taken). So a name never leads to half a file:

- The process dies: at most temporary files stay. Their names start with a dot, which no key can, so neither a
  listing nor a web server that serves keys ever shows them.
- The power fails: as above. When a method has returned, its names are on the disk too; only deletions are not waited
  for.

Making many files durable one by one takes minutes on many disks, so the bulk methods work in batches.

The lock is ``flock`` on ``.exporter.lock``, which vanishes with the process. Only POSIX systems have it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

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
    errno.ENOTDIR: "; a file is in the place of a folder: remove it",
    errno.EISDIR: "; a folder is in the place of a file: remove it",
}

FEW = 4
"""Up to this many paths are made durable one by one; above it the whole file system is synced."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def make_durable(files: Collection[str], folders: Collection[str]) -> None:
    """Return when the bytes of these files and the names in these folders (paths) are on the disk. Raises `OSError`.

    Many paths on Linux cost one ``syncfs`` for each file system; elsewhere, and for few paths, each has its ``fsync``.
    """
    sync_file_system = _sync_file_system()
    if sync_file_system is not None and len(files) + len(folders) > FEW:
        touched = {file.rpartition("/")[0] for file in files}.union(folders)
        devices = {os.stat(folder).st_dev: folder for folder in touched}  # noqa: PTH116 - cheaper, for thousands
        for folder in devices.values():
            sync_file_system(folder)
        return
    for path in (*files, *folders):
        _with_descriptor(path, os.fsync)


@cache
def _sync_file_system() -> Callable[[str], None] | None:
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return lambda folder: _with_descriptor(folder, sync)


def _with_descriptor(path: str, action: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        action(descriptor)
    finally:
        os.close(descriptor)


def read_file(name: str, folder: int) -> bytes | None:
    """Read a regular file of an open folder; None when there is none. Never follows a link, never waits for a pipe."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def write_file(name: str, data: bytes, folder: int) -> None:
    """Make a file that was not there in an open folder, with the permissions that the umask leaves."""
    # Not tempfile: its files are readable by their owner alone, and a web server has to read these.
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
    finally:
        os.close(descriptor)


def refused(action: str, what: str, error: OSError) -> StoreError:
    """An error of the operating system, as a StoreError that names the key."""
    reason = error.strerror or type(error).__name__
    return StoreError(f"cannot {action} {what}: {reason}{_ADVICE.get(error.errno or 0, '')}")


@contextmanager
def reported(action: str, what: str) -> Iterator[None]:
    """Raise what is `refused`."""
    try:
        yield
    except OSError as error:
        raise refused(action, what, error) from error


def open_folder(root: str, part: str, changed: set[str] | None = None) -> int:
    """Open a folder, reached by no link below the root; with ``changed`` make it. Raises `FileNotFoundError`."""
    try:
        folder = os.open(root, _FOLDER)
    except FileNotFoundError:
        if changed is None:
            raise
        Path(root).mkdir(parents=True)
        changed.add(str(Path(root).parent))
        folder = os.open(root, _FOLDER)
    path = root
    for name in filter(None, part.split("/")):
        parent = folder
        try:
            try:
                folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
            except FileNotFoundError:
                if changed is None:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=parent)
                    changed.add(path)
                folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
        except NotADirectoryError:
            if stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            if changed is None:  # nothing is below a file
                raise FileNotFoundError from None
            raise
        finally:
            os.close(parent)
        path = f"{path}/{name}"
    return folder


class _Staged(NamedTuple):
    """A file written under a temporary name in its folder, waiting for its own name."""

    key: str
    part: str
    name: str
    temporary: str
    size: int


class FolderStore:
    """A tree below a folder, which may be a symbolic link; links inside are never followed."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self._root = str(self.root)
        self._temporary_stem = f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-"
        self._temporary_count = 0
        self._swap_lock = Lock()
        self._held = False

    @property
    def uri(self) -> str:
        return str(self.root)

    @property
    def reads_at_once(self) -> int:
        return 1

    def get(self, key: str) -> StoredObject | None:
        part, _, name = check_key(key).rpartition("/")
        data = None
        with reported("read", key), suppress(FileNotFoundError), self._opened(part) as folder:
            data = read_file(name, folder)
        return None if data is None else StoredObject(data, etag_of(data))

    def has(self, key: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(f"{self._root}/{check_key(key)}").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise refused("look at", key, error) from error

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        parent = check_prefix(prefix).rpartition("/")[0]
        for key, entry in self._files_below(parent):
            if not key.startswith(prefix) or not is_key(key):
                continue
            with reported("list", key), suppress(FileNotFoundError):  # deleted while the listing went on
                status = entry.stat(follow_symlinks=False)
                yield ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

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
        with self._swap_lock, nullcontext() if self._held else self.exclusive():
            present = self.get(key)
            if (None if present is None else present.etag) != expected_etag:
                raise LostRaceError(moved_message(key))
            self.put(key, data)
        return etag_of(data)

    def delete(self, keys: Iterable[str]) -> None:
        """Folders that become empty go too. A power cut may bring deleted files back."""
        for key in keys:
            part, _, name = check_key(key).rpartition("/")
            with reported("delete", key), suppress(FileNotFoundError):
                with self._opened(part) as folder:
                    os.unlink(name, dir_fd=folder)
                self._remove_if_empty(part)

    def remove_leftovers(self, before: datetime) -> None:
        for key, entry in self._files_below(""):
            if not entry.name.startswith(TEMPORARY_PREFIX):
                continue
            with reported("delete", key), suppress(FileNotFoundError):
                if datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC) < before:
                    Path(entry.path).unlink()
                    self._remove_if_empty(key.rpartition("/")[0])

    def try_writing(self) -> None:
        """A folder that is not there is made and removed again."""
        made = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
        trial = f"{self._temporary_stem}trial"
        try:
            with reported("write into", self.uri), self._opened("", set()) as root:
                try:
                    write_file(trial, b"trial", root)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(trial, dir_fd=root)
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

    @contextmanager
    def _opened(self, part: str, changed: set[str] | None = None) -> Iterator[int]:
        folder = open_folder(self._root, part, changed)
        try:
            yield folder
        finally:
            os.close(folder)

    def _path(self, part: str) -> str:
        return f"{self._root}/{part}" if part else self._root

    def _remove_if_empty(self, part: str) -> None:
        """Remove a folder in which nothing is, and those above it that become empty by that; the root stays."""
        with suppress(OSError):
            while part:
                part, _, name = part.rpartition("/")
                with self._opened(part) as parent:
                    os.rmdir(name, dir_fd=parent)

    def _write_all(self, files: Iterable[tuple[str, bytes]], *, immutable: bool) -> Written:
        total = Written()
        batch: deque[_Staged] = deque()
        changed: set[str] = set()  # the paths of folders that have new names in them, which are not durable yet
        size = unchanged = 0
        try:
            for key, data in files:
                part, _, name = check_key(key).rpartition("/")
                with reported("write", key), self._opened(part, changed) as folder:
                    if _is_there(folder, name, key, data, immutable=immutable):
                        unchanged += 1
                        continue
                    self._temporary_count += 1
                    temporary = f"{self._temporary_stem}{self._temporary_count}"
                    batch.append(_Staged(key, part, name, temporary, len(data)))  # before anything can go wrong
                    write_file(temporary, data, folder)
                size += len(data)
                if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                    total += self._place_all(batch, changed, immutable=immutable)
                    size = 0
            total += self._place_all(batch, changed, immutable=immutable)
        finally:
            for staged in batch:
                with suppress(OSError), self._opened(staged.part) as folder:
                    os.unlink(staged.temporary, dir_fd=folder)
        if changed:
            with reported("make durable the names in", self.uri):
                make_durable((), changed)
        return total + Written(unchanged=unchanged)

    def _place_all(self, batch: deque[_Staged], changed: set[str], *, immutable: bool) -> Written:
        if batch:
            with reported("make durable", f"{len(batch)} files, the first {batch[0].key}"):
                make_durable([f"{self._path(staged.part)}/{staged.temporary}" for staged in batch], changed)
            changed.clear()
        total = Written()
        while batch:
            staged = batch[0]
            with reported("write", staged.key), self._opened(staged.part) as folder:
                is_new = not immutable or _link(staged, folder)
                if not immutable:
                    os.replace(staged.temporary, staged.name, src_dir_fd=folder, dst_dir_fd=folder)
            batch.popleft()
            changed.add(self._path(staged.part))
            total += Written.of(staged.size, written=is_new)
        return total

    def _files_below(self, part: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Stream the regular files below a folder, with the keys they would have; links are skipped."""
        to_visit = []
        with reported("list", part or self.uri), suppress(FileNotFoundError), self._opened(part):
            to_visit.append((f"{part}/" if part else "", self._path(part)))
        while to_visit:
            stem, folder = to_visit.pop()
            with reported("list", stem or self.uri), suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield stem + entry.name, entry
                    elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                        to_visit.append((f"{stem}{entry.name}/", entry.path))


def _is_there(folder: int, name: str, key: str, data: bytes, *, immutable: bool) -> bool:
    """Say whether exactly these bytes have the name; other bytes under an immutable key are an error."""
    try:
        status = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    same = stat.S_ISREG(status.st_mode) and status.st_size == len(data) and read_file(name, folder) == data
    if immutable and not same:
        raise ImmutableKeyError(immutable_key_message(key))
    return same


def _link(staged: _Staged, folder: int) -> bool:
    """Name a file that must not replace another; False when the same bytes have the name already."""
    is_new = True
    try:
        os.link(staged.temporary, staged.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS and not isinstance(error, FileExistsError):
            raise
        # On a file system without hard links the publisher's lock replaces the exclusive creation.
        data = read_file(staged.temporary, folder) or b""
        is_new = not _is_there(folder, staged.name, staged.key, data, immutable=True)
        if is_new:
            os.replace(staged.temporary, staged.name, src_dir_fd=folder, dst_dir_fd=folder)
            return True
    os.unlink(staged.temporary, dir_fd=folder)
    return is_new
