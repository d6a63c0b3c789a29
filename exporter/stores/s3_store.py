"""A store below a prefix of an S3 bucket, at AWS or at another server with the same protocol.

- Every object is sent as a whole in one request. Once that is answered, every reader sees the object.
- Every write has the condition that the object is as it was seen before. Inside `S3Store.exclusive` it also has the
  condition that the publisher's lease lasts (`exporter.stores.s3_lease`).
- Objects that are there already are not sent again (`SeenObjects`).

Cloudflare R2 accepts one write per second to each key, so that two renewals of a lease in a row may need another try.
Ceph before 18 ignores the conditions of deletions. A server that ignores the conditions of writes is refused before
anything is written that readers can find.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from threading import Event, Lock
from typing import TYPE_CHECKING

from exporter.errors import ExporterError, LostRaceError
from exporter.stores.s3_client import LEASE_KEY, MAX_DELETED, S3Client, S3Options
from exporter.stores.s3_lease import Lease, Monotonic, monotonic
from exporter.stores.store import ObjectInfo, Store, StoredObject, Written, check_prefix, etag_of, in_parallel, utc_now
from exporter.tree.families import FAMILIES, kind_of
from exporter.tree.files import FileKind, check_key, is_key

if TYPE_CHECKING:
    from boto3.session import Session


PAGES_FOLDER = "v1/pages/"
EXPECTED_NEW = (PAGES_FOLDER, "history/")
"""Folders in which a run's immutable objects are usually new, so that it does not look before it writes them."""

_SHALLOW_FOLDERS = ("", "v1/")
"""Folders that are listed without the folders in them."""

_MD5 = re.compile(r"[0-9a-f]{32}")


class SeenObjects:
    """Remembers the objects of a bucket for its publisher, so that nothing is listed or sent twice. Thread-safe.

    As soon as one folder has to be listed, all folders of a tree are listed together. The folder of the pages, which
    has by far the most objects, is left out: its keys carry the ledger, so a run finds none of its own there unless
    it was begun before.
    """

    def __init__(self, client: S3Client, lease: Lease) -> None:
        self._client, self.lease = client, lease
        self._entries: dict[str, ObjectInfo | None] = {}  # None for a key that has no object
        self._listed: set[str] = set()
        self._lock = Lock()

    def etag(self, key: str, *, immutable: bool) -> str | None:
        """The etag of an object; None if there is no object, or if an immutable one is expected to be new."""
        folder = folder_of(key)
        if key not in self._entries and not (immutable and folder.startswith(EXPECTED_NEW)):
            self._list(folder)
        entry = self._entries.get(key)
        return None if entry is None else entry.etag

    def entries(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose keys start with a prefix, in ascending order of their keys."""
        folder = folder_of(prefix)
        if folder in (*_SHALLOW_FOLDERS, PAGES_FOLDER):
            return self._client.entries(prefix)
        self._list(folder)
        entries = [entry for entry in [*self._entries.values()] if entry is not None and entry.key.startswith(prefix)]
        return iter(sorted(entries, key=lambda entry: entry.key))

    def remember(self, key: str, entry: ObjectInfo | None) -> None:
        """Remember the object that was just written or read under a key; None if there is none."""
        self._entries[key] = entry

    def _list(self, folder: str) -> None:
        if folder in self._listed:
            return
        with self._lock:
            if folder in self._listed:
                return
            folders = {folder} if self._listed else {folder, *_FOLDERS}
            workers = self._client.options.concurrency
            for _ in in_parallel(sorted(folders), self._list_one, workers=workers, stop=Event()):
                pass
            self.lease.confirm()  # so that the lists have nothing that another publisher changed since
            self._listed |= folders

    def _list_one(self, folder: str) -> None:
        for entry in self._client.entries(folder, shallow=folder in _SHALLOW_FOLDERS):
            self._entries.setdefault(entry.key, entry)  # what was read or written meanwhile is newer than the list


def folder_of(key: str) -> str:
    """The folder that is listed to learn of a key: one of the first level, or below ``v1/`` one of the second."""
    *folders, _ = key.split("/")
    return "".join(f"{name}/" for name in folders[: 2 if key.startswith("v1/") else 1])


_FOLDERS = frozenset(folder_of(family.template) for family in FAMILIES) - {PAGES_FOLDER}


class S3Store(Store):
    """A store of objects below a prefix of a bucket. The prefix may be empty. Making one sends no request."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        options: S3Options | None = None,
        session: Session | None = None,
        endpoint_url: str | None = None,
        clock: Monotonic = monotonic,
    ) -> None:
        self._client = S3Client(bucket, prefix, options or S3Options(), session, endpoint_url)
        self.uri, self.reads_at_once = self._client.uri, self._client.options.concurrency
        self._clock = clock
        self._seen: SeenObjects | None = None  # inside `exclusive` only
        self._etags_are_md5 = True

    def close(self) -> None:
        self._client.close()

    def get(self, key: str) -> StoredObject | None:
        stored = self._client.get(check_key(key))
        if self._seen is not None and kind_of(key) is FileKind.DOCUMENT:
            # A publisher decides by what it read. So a document that changed since must not be replaced.
            read = None if stored is None else ObjectInfo(key, len(stored.data), stored.modified, stored.etag)
            self._seen.remember(key, read)
        return None if stored is None else StoredObject(stored.data, stored.etag)

    def has(self, key: str) -> bool:
        return self._etag(check_key(key)) is not None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose keys start with a prefix, in ascending order of the keys.

        Inside `exclusive` each folder is listed once at most, except that of the pages.
        """
        source = self._client if self._seen is None else self._seen
        for entry in source.entries(check_prefix(prefix)):
            if is_key(entry.key):
                yield entry

    def strangers(self) -> Iterator[str]:
        for entry in self._client.entries(""):
            if entry.key != LEASE_KEY and not is_key(entry.key):
                yield f"{entry.key} (no key of a tree)"

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        stop = Event()

        def may_write() -> None:
            if stop.is_set():
                raise _StoppedError
            self._check_hold()

        def write(file: tuple[str, bytes]) -> Written:
            key, data = file
            etag = self._etag(check_key(key), immutable=immutable)
            if etag is not None and self._is_same(key, etag, data):
                return Written(unchanged=1)
            expected = None if immutable else etag
            etag, written = self._client.write(key, data, expected, may_write=may_write, immutable=immutable)
            self._note_written(key, etag, data)
            if written and etag != _md5(data):
                self._etags_are_md5 = False
            return Written(1, 0, len(data)) if written else Written(unchanged=1)

        return sum(in_parallel(files, write, workers=self._client.options.concurrency, stop=stop), Written())

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        etag, _ = self._client.write(
            check_key(key), data, expected_etag, may_write=self._check_hold, only_own_bytes=True
        )
        self._note_written(key, etag, data)
        return etag

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while batch := [check_key(key) for key in islice(remaining, MAX_DELETED)]:
            self._client.delete(batch, self._check_hold)
            if self._seen is not None:
                for key in batch:
                    self._seen.remember(key, None)

    def try_writing(self) -> None:
        """Write a lease that nobody holds. That needs every permission that publishing needs, except to delete."""
        with suppress(LostRaceError):
            Lease.write_free(self._client, self._clock)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the bucket as its only publisher. Raises `LostRaceError` at once if another publisher holds it.

        Inside, writes raise `LostRaceError` as soon as it is not certain that the lease still lasts.
        """
        lease = Lease.acquire(self._client, clock=self._clock)
        self._seen = SeenObjects(self._client, lease)
        try:
            yield
        finally:
            self._seen = None
            lease.release()

    def _etag(self, key: str, *, immutable: bool = False) -> str | None:
        if self._seen is not None:
            return self._seen.etag(key, immutable=immutable)
        return None if immutable else self._head(key)

    def _head(self, key: str) -> str | None:
        head = self._client.head(key)
        return None if head is None else head.etag

    def _note_written(self, key: str, etag: str, data: bytes) -> None:
        if self._seen is not None:
            self._seen.remember(key, ObjectInfo(key, len(data), utc_now(), etag))

    def _is_same(self, key: str, etag: str, data: bytes) -> bool:
        if etag == _md5(data):
            return True
        if self._etags_are_md5 and _MD5.fullmatch(etag):  # the etag of a multipart upload has another form
            return False
        # If an object was encrypted by KMS or uploaded in parts, its etag is not the MD5 of its bytes. The SHA-256 in
        # its metadata is compared instead.
        head = self._client.head(key)
        return head is not None and (head.etag, head.sha256) == (etag, etag_of(data))

    def _check_hold(self) -> None:
        if self._seen is not None:
            self._seen.lease.check()


class _StoppedError(ExporterError):
    """Another write of the same call failed, so this one is not begun."""


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
