"""A folder as a store. A file is there as a whole or not at all: for readers, after a crash, and after a power cut.

A file is written under a temporary name in its own folder, made durable, and only then renamed. So a name never leads
to half a file:

- If the process dies, temporary files may stay. Their names start with a dot, and no key does. So neither a listing nor
  a web server that serves keys shows them.
- If the power fails, the same is true. Once a method has returned, the new names are on the disk too. Only deletions
  may be undone by a power cut.

Making many files durable one by one takes minutes on many disks, so files are written in batches.

The lock is a ``flock`` on ``.exporter.lock``, which ends with the process. Only POSIX systems have it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from exporter.bounds import TooLargeError, read_regular_file
from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.store import (
    ObjectInfo,
    Store,
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
"""A batch of files is made durable and renamed as soon as it has this many bytes, or `BATCH_FILES` files."""

_NEEDS_WRITE_ACCESS = "; the user that runs the exporter needs write access to the output folder"
_FREE_SPACE = "; free space and run again"
_NO_FOLDER = "; a file is in the place of a folder: remove it"
_ADVICE = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EACCES: _NEEDS_WRITE_ACCESS,
    errno.EPERM: _NEEDS_WRITE_ACCESS,
    errno.EROFS: "; choose another output.uri",
    errno.ELOOP: "; a symbolic link inside the output folder is never followed: remove it",
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.EISDIR: "; a folder is in the place of a file: remove it",
}

MAX_SYNCED_ONE_BY_ONE = 4
"""Largest number of paths that are made durable one by one. For more paths the whole file system is synced."""


def make_durable(files: Collection[str | Path], folders: Collection[Path]) -> None:
    """Wait until the bytes of these files and the names in these folders are on the disk. Raises `OSError`.

    For many paths on Linux, each file system is synced once by ``syncfs``. For few paths, and on other systems, each
    path is synced by ``fsync``.
    """
    sync: Callable[[int], None] = os.fsync
    paths: Sequence[str | Path] = (*files, *folders)
    sync_file_system = _sync_file_system()
    if len(paths) > MAX_SYNCED_ONE_BY_ONE and sync_file_system is not None:
        touched = {os.path.dirname(file) for file in files}.union(map(str, folders))
        one_folder_of_each_system = {os.stat(folder).st_dev: folder for folder in touched}
        sync, paths = sync_file_system, tuple(one_folder_of_each_system.values())
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


@cache
def _sync_file_system() -> Callable[[int], None] | None:
    """A function that syncs the file system of an open file; None on systems that have no ``syncfs``."""
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync


def write_file(path: str | Path, data: bytes) -> None:
    """Write a new file, with the permissions that the umask leaves. Raises `FileExistsError` if it is there."""
    # The module tempfile makes files that only their owner can read, but a web server has to read these.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@contextmanager
def locked(folder: Path, held_text: str) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process.

    Raises `LostRaceError` with ``held_text`` at once if another process holds it. The empty lock file stays afterwards.
    If it were removed, two processes could lock two files of the same name.
    """
    with reported("lock", str(folder / LOCK_NAME)):
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        with reported("lock", str(folder / LOCK_NAME)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LostRaceError(held_text) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def reported(action: str, what: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StoreError`: "cannot ``action`` ``what``", why, and what to do."""
    try:
        yield
    except TooLargeError as error:
        raise StoreError(f"cannot {action} {what}: {error}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot {action} {what}: {reason}{_ADVICE.get(error.errno or 0, '')}") from error


class _StagedFile(NamedTuple):
    """A file that was written under a temporary name, and is to be renamed to its own."""

    key: str
    path: str
    temporary: str
    data: bytes


class FolderStore(Store):
    """A store of a tree below a folder. The folder itself may be a symbolic link; links inside are never followed."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self.uri = str(self.root)
        self._temporary_stem = f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-"
        self._temporary_count = 0
        self._held = False

    def get(self, key: str) -> StoredObject | None:
        data = None
        with reported("read", check_key(key)), suppress(FileNotFoundError, NotADirectoryError):
            data = read_regular_file(self._path(key))
        return None if data is None else StoredObject(data, etag_of(data))

    def has(self, key: str) -> bool:
        with reported("look at", check_key(key)), suppress(FileNotFoundError, NotADirectoryError):
            return stat.S_ISREG((self.root / key).lstat().st_mode)
        return False

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        parent = check_prefix(prefix).rpartition("/")[0]
        for key, entry in self._files_below(parent):
            if not key.startswith(prefix) or not is_key(key):
                continue
            with reported("list", key), suppress(FileNotFoundError):  # deleted while the listing went on
                status = entry.stat(follow_symlinks=False)
                yield ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def strangers(self) -> Iterator[str]:
        """Everything in the folder whose name is no key, and every symbolic link. Links are not followed."""
        to_visit = [("", str(self.root))]
        while to_visit:
            stem, folder = to_visit.pop()
            with reported("list", stem or self.uri), suppress(FileNotFoundError), os.scandir(folder) as entries:
                for entry in entries:
                    name = stem + entry.name
                    if entry.is_symlink():
                        yield f"{name} (a link)"
                    elif entry.is_dir(follow_symlinks=False):
                        to_visit.append((f"{name}/", entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        yield f"{name} (no regular file)"
                    elif not is_key(name) and not (name == LOCK_NAME and entry.stat().st_size == 0):
                        yield f"{name} (no key of a tree)"

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        total, size = Written(), 0
        batch: deque[_StagedFile] = deque()
        changed: set[Path] = set()  # folders with new names, which are not durable yet
        folders: dict[str, Path] = {}  # folders that were looked at, because most of them get several files
        try:
            for key, data in files:
                with reported("write", check_key(key)):
                    part, _, name = key.rpartition("/")
                    folder = self._folder(part, changed, folders)
                    path = f"{folder}/{name}"
                    if _has_bytes(path, key, data, immutable=immutable):
                        total += Written(unchanged=1)
                        continue
                    self._temporary_count += 1
                    temporary = f"{folder}/{self._temporary_stem}{self._temporary_count}"
                    # Appended first, so that the file is removed even if writing it fails halfway.
                    batch.append(_StagedFile(key, path, temporary, data))
                    write_file(temporary, data)
                size += len(data)
                if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                    total += _rename_all(batch, changed, immutable=immutable)
                    size = 0
            total += _rename_all(batch, changed, immutable=immutable)
        finally:
            for staged in batch:
                with suppress(OSError):
                    os.unlink(staged.temporary)
        if changed:
            with reported("make durable the names in", self.uri):
                make_durable((), changed)
        return total

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        """Replace a file if its etag is as expected. Takes the lock for that moment, unless this store holds it."""
        with nullcontext() if self._held else self.exclusive():
            present = self.get(key)
            if (None if present is None else present.etag) != expected_etag:
                raise LostRaceError(moved_message(key))
            self.put(key, data)
        return etag_of(data)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, and folders that become empty. A power cut may bring deleted files back."""
        for key in keys:
            with reported("delete", check_key(key)), suppress(FileNotFoundError, NotADirectoryError):
                self._remove(self._path(key))

    def remove_leftovers(self, before: datetime) -> None:
        for key, entry in self._files_below(""):
            if not entry.name.startswith(TEMPORARY_PREFIX):
                continue
            with reported("delete", key), suppress(FileNotFoundError):
                if datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC) < before:
                    self._remove(Path(entry.path))

    def try_writing(self) -> None:
        """Write and remove a trial file. If the folder does not exist yet, the nearest folder above it is tried.

        The lock file is opened, but not locked: a lock for a moment would make another run lose that begins to publish
        in that moment.
        """
        with reported("write into", self.uri):
            nearest = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
            trial = nearest / f"{self._temporary_stem}trial"
            try:
                write_file(trial, b"trial")
            finally:
                trial.unlink(missing_ok=True)
        with reported("lock", str(self.root / LOCK_NAME)), suppress(FileNotFoundError):
            os.close(os.open(self.root / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW))

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder as its only publisher. Raises `LostRaceError` at once if another process holds it."""
        if self._held:
            raise LostRaceError(f"this process is already publishing to {self.root}")
        with reported("make the folder", self.uri):
            self.root.mkdir(parents=True, exist_ok=True)
        with locked(self.root, f"another process is publishing to {self.root}; let it finish and run again"):
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def _path(self, key: str) -> Path:
        part, _, name = key.rpartition("/")
        return self._folder(part) / name

    def _folder(self, part: str, changed: set[Path] | None = None, checked: dict[str, Path] | None = None) -> Path:
        """The folder of this path below the root. Raises `OSError` if a symbolic link leads there.

        With ``changed``, folders that are missing are made, and every folder that got a new name is added to it.
        ``checked`` has folders that an earlier call looked at, by path; those of this call are added.
        """
        checked = {} if checked is None else checked
        if part in checked:
            return checked[part]
        if not part:
            folder = self.root
            if changed is not None and not folder.is_dir():
                folder.mkdir(parents=True)
                changed.add(folder.parent)
        else:
            above, _, name = part.rpartition("/")
            parent = self._folder(above, changed, checked)
            folder = parent / name
            try:
                if stat.S_ISLNK(folder.lstat().st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            except FileNotFoundError:
                if changed is None:
                    raise
                folder.mkdir()
                changed.add(parent)
        checked[part] = folder
        return folder

    def _remove(self, path: Path) -> None:
        """Remove a file, and the folders that become empty without it, but not the root."""
        path.unlink()
        with suppress(OSError):
            while (path := path.parent) != self.root:
                path.rmdir()

    def _files_below(self, part: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The regular files below a folder, each with the key that its name gives. Symbolic links are skipped."""
        to_visit = []
        with reported("list", part or self.uri), suppress(FileNotFoundError, NotADirectoryError):
            to_visit.append((f"{part}/" if part else "", str(self._folder(part))))
        while to_visit:
            stem, folder = to_visit.pop()
            # Somebody may remove a folder while it is listed. But a root that is no folder is an error.
            vanished = (FileNotFoundError, NotADirectoryError) if stem else (FileNotFoundError,)
            with reported("list", stem or self.uri), suppress(*vanished), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_file(follow_symlinks=False):
                        yield stem + entry.name, entry
                    elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                        to_visit.append((f"{stem}{entry.name}/", entry.path))


def _has_bytes(path: str, key: str, data: bytes, *, immutable: bool) -> bool:
    """Whether the file at a path has exactly these bytes. Raises `ImmutableKeyError` if an immutable one has others."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    same = stat.S_ISREG(status.st_mode) and status.st_size == len(data) and Path(path).read_bytes() == data
    if immutable and not same:
        raise ImmutableKeyError(immutable_key_message(key))
    return same


def _rename_all(batch: deque[_StagedFile], changed: set[Path], *, immutable: bool) -> Written:
    """Make the staged files durable and give them their own names. Files are taken out of the batch one by one."""
    if batch:
        with reported("make durable", f"{len(batch)} files, the first {batch[0].key}"):
            make_durable([staged.temporary for staged in batch], changed)
        changed.clear()
    total = Written()
    while batch:
        staged = batch[0]
        with reported("write", staged.key):
            # Another process may have written the same immutable file since this batch began.
            if immutable and _has_bytes(staged.path, staged.key, staged.data, immutable=True):
                os.unlink(staged.temporary)
                total += Written(unchanged=1)
            else:
                os.replace(staged.temporary, staged.path)
                total += Written(1, 0, len(staged.data))
        batch.popleft()
        changed.add(Path(staged.path).parent)
    return total
