"""A store that reads each document only once, so that it does not see what others write meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime

from exporter.stores.store import ObjectInfo, Store, StoredObject, Written, etag_of
from exporter.tree.families import kind_of
from exporter.tree.files import FileKind

_REMEMBERED_PREFIXES = ("v1/", "state/")

MAX_REMEMBERED_BYTES = 2**20
"""Largest document that is remembered. The state of many histories and the listing of many files are larger."""


class ReadOnce(Store):
    """A store that remembers the documents which are read or written through it, but no pages and no Parquet files."""

    def __init__(self, store: Store) -> None:
        self.uri, self.reads_at_once = store.uri, store.reads_at_once
        self._store = store
        self._read: dict[str, StoredObject | None] = {}

    def get(self, key: str) -> StoredObject | None:
        return self._remember(key, self._read[key] if key in self._read else self._store.get(key))

    def has(self, key: str) -> bool:
        return self._read[key] is not None if key in self._read else self._store.has(key)

    def put(self, key: str, data: bytes) -> bool:
        self._read.pop(key, None)
        written = self._store.put(key, data)
        self._remember(key, StoredObject(data, etag_of(data)))
        return written

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        return self._store.put_many(self._forget_each(files), immutable=immutable)

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        self._read.pop(key, None)
        etag = self._store.swap(key, data, expected_etag)
        self._remember(key, StoredObject(data, etag))
        return etag

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def strangers(self) -> Iterator[str]:
        return self._store.strangers()

    def delete(self, keys: Iterable[str]) -> None:
        deleted = list(keys)
        for key in deleted:
            self._read.pop(key, None)
        self._store.delete(deleted)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._store.exclusive()

    def try_writing(self) -> None:
        self._store.try_writing()

    def remove_leftovers(self, before: datetime) -> None:
        self._store.remove_leftovers(before)

    def _remember(self, key: str, stored: StoredObject | None) -> StoredObject | None:
        is_small = stored is None or len(stored.data) <= MAX_REMEMBERED_BYTES
        if is_small and key.startswith(_REMEMBERED_PREFIXES) and kind_of(key) is not FileKind.PAGE:
            self._read[key] = stored
        return stored

    def _forget_each(self, files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Yield the files unchanged. Each is forgotten just before it is written, because the write may fail."""
        for key, data in files:
            self._read.pop(key, None)
            yield key, data
