"""A tree below a prefix of a bucket of S3, or of a server that speaks its protocol.

- Every object is sent whole with one request; it is there when that was answered, for every reader.
- Every write is conditional on what was seen before, and inside `exclusive` on the publisher's hold (`s3_lease`).
- What is there already is not sent again (`SeenObjects`).

Cloudflare R2 accepts one write a second to each key, so a renewal right after another may be tried again. Ceph before
18 ignores conditions of deletions. Servers that ignore conditions of writes are refused before anything that readers
can find is written.
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


PAGES = "v1/pages/"
EXPECTED_NEW = (PAGES, "history/")
"""Folders in which a run seldom finds an immutable object of its own. That of the pages has by far the most."""

_SHALLOW = ("", "v1/")
"""Folders that are listed without what is below them."""

_MD5 = re.compile(r"[0-9a-f]{32}")


class SeenObjects:
    """The objects of a bucket as its publisher knows them, so that nothing is sent or listed twice. Thread-safe.

    All folders of a tree are listed together, as soon as one has to be. The pages of the assets are not listed: they
    carry their ledger, so a run finds none of its own, unless it was begun before.
    """

    def __init__(self, client: S3Client, lease: Lease) -> None:
        self._client, self.lease = client, lease
        self._entries: dict[str, ObjectInfo | None] = {}  # None: there is no such object
        self._listed: set[str] = set()
        self._lock = Lock()

    def etag(self, key: str, *, immutable: bool = False) -> str | None:
        """None where there is no object, or an immutable one is expected to be new."""
        folder = folder_of(key)
        if key not in self._entries and not (immutable and folder.startswith(EXPECTED_NEW)):
            self._list(folder)
        entry = self._entries.get(key)
        return None if entry is None else entry.etag

    def entries(self, prefix: str) -> Iterator[ObjectInfo]:
        folder = folder_of(prefix)
        if folder in (*_SHALLOW, PAGES):
            return self._client.entries(prefix)
        self._list(folder)
        entries = [entry for entry in [*self._entries.values()] if entry is not None and entry.key.startswith(prefix)]
        return iter(sorted(entries, key=lambda entry: entry.key))

    def note(self, key: str, entry: ObjectInfo | None) -> None:
        """Note what was written or read under a key just now; None: nothing."""
        self._entries[key] = entry

    def _list(self, folder: str) -> None:
        if folder in self._listed:
            return
        with self._lock:
            if folder in self._listed:
                return
            folders = {folder} if self._listed else {folder, *_FOLDERS}
            workers = self._client.options.concurrency
            for _ in in_parallel(sorted(folders), self._take_in, workers=workers, stop=Event()):
                pass
            self.lease.confirm()  # no other publisher wrote since
            self._listed |= folders

    def _take_in(self, folder: str) -> None:
        for entry in self._client.entries(folder, shallow=folder in _SHALLOW):
            self._entries.setdefault(entry.key, entry)  # what was read or written meanwhile is what counts


def folder_of(key: str) -> str:
    """The folder that is listed to learn of a key: of the first level, below ``v1/`` of the second."""
    *folders, _ = key.split("/")
    return "".join(f"{name}/" for name in folders[: 2 if key.startswith("v1/") else 1])


_FOLDERS = frozenset(folder_of(family.template) for family in FAMILIES) - {PAGES}


class S3Store(Store):
    """A tree of objects below a prefix of a bucket, which may be empty; makes no request yet."""

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
        self._digests_are_etags = True

    def close(self) -> None:
        self._client.close()

    def get(self, key: str) -> StoredObject | None:
        stored = self._client.get(check_key(key))
        if self._seen is not None and kind_of(key) is FileKind.DOCUMENT:
            # What a publisher decides by must not be replaced when it has changed since.
            read = None if stored is None else ObjectInfo(key, len(stored.data), stored.modified, stored.etag)
            self._seen.note(key, read)
        return None if stored is None else StoredObject(stored.data, stored.etag)

    def has(self, key: str) -> bool:
        return self._etag(check_key(key)) is not None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """In ascending order of the keys. Inside `exclusive` a folder is asked for once, but that of the pages."""
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
                self._digests_are_etags = False
            return Written(1, 0, len(data)) if written else Written(unchanged=1)

        return sum(in_parallel(files, write, workers=self._client.options.concurrency, stop=stop), Written())

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        etag, _ = self._client.write(check_key(key), data, expected_etag, may_write=self._check_hold, ours_alone=True)
        self._note_written(key, etag, data)
        return etag

    def delete(self, keys: Iterable[str]) -> None:
        remaining = iter(keys)
        while batch := [check_key(key) for key in islice(remaining, MAX_DELETED)]:
            self._client.delete(batch, self._check_hold)
            if self._seen is not None:
                for key in batch:
                    self._seen.note(key, None)

    def try_writing(self) -> None:
        """The lease is written as one that nobody holds, which needs all that publishing needs but leave to delete."""
        with suppress(LostRaceError):
            Lease.write_free(self._client, self._clock)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Any write inside raises `LostRaceError` as soon as the hold is not sure any more."""
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
        described = self._client.head(key)
        return None if described is None else described.etag

    def _note_written(self, key: str, etag: str, data: bytes) -> None:
        if self._seen is not None:
            self._seen.note(key, ObjectInfo(key, len(data), utc_now(), etag))

    def _is_same(self, key: str, etag: str, data: bytes) -> bool:
        if etag == _md5(data):
            return True
        if self._digests_are_etags and _MD5.fullmatch(etag):  # not that of a multipart upload
            return False
        # Encrypted by KMS or uploaded in parts: the etag says nothing, the digest that was sent with it does.
        described = self._client.head(key)
        return described is not None and (described.etag, described.sha256) == (etag, etag_of(data))

    def _check_hold(self) -> None:
        if self._seen is not None:
            self._seen.lease.check()


class _StoppedError(ExporterError):
    """Another write of the same bulk failed, so this one is not begun."""


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
