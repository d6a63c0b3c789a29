"""A store of which each document is read once: what others write meanwhile is not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime

from exporter.stores.store import ObjectInfo, Store, StoredObject, Written, etag_of
from exporter.tree.families import kind_of
from exporter.tree.files import FileKind

_REMEMBERED = ("v1/", "state/")
MAX_REMEMBERED_BYTES = 2**20
"""A larger document is not remembered: the state of many histories, or the listing of many files."""


class ReadOnce(Store):
    """Remembers documents that were read or written through it, but no pages and no Parquet files."""

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
        return self._store.put_many(self._forgotten(files), immutable=immutable)

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        self._read.pop(key, None)
        etag = self._store.swap(key, data, expected_etag)
        self._remember(key, StoredObject(data, etag))
        return etag

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        for key in gone:
            self._read.pop(key, None)
        self._store.delete(gone)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._store.exclusive()

    def try_writing(self) -> None:
        self._store.try_writing()

    def remove_leftovers(self, before: datetime) -> None:
        self._store.remove_leftovers(before)

    def _remember(self, key: str, stored: StoredObject | None) -> StoredObject | None:
        is_small = stored is None or len(stored.data) <= MAX_REMEMBERED_BYTES
        if is_small and key.startswith(_REMEMBERED) and kind_of(key) is not FileKind.PAGE:
            self._read[key] = stored
        return stored

    def _forgotten(self, files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        for key, data in files:
            self._read.pop(key, None)
            yield key, data
