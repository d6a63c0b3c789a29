"""A store of which each document is read once, because nobody else writes it meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from exporter.stores.store import ObjectInfo, Store, StoredObject, Written, etag_of, read_many
from exporter.tree.families import kind_of
from exporter.tree.files import FileKind

_REMEMBERED = ("v1/", "state/")
MOST_BYTES = 2**20
"""What is larger is forgotten when it was asked for: the state of many histories, the listing of many files."""


class ReadOnce(Store):
    """Remembers documents read or written through it (no pages, no Parquet); ``held``: nobody else can write them."""

    def __init__(self, store: Store, *, held: bool = False) -> None:
        self.uri, self.reads_at_once = store.uri, store.reads_at_once
        self.store = store
        self._held = held
        self._read: dict[str, StoredObject | None] = {}

    def read(self, keys: Iterable[str], prefix: str | None = None) -> None:
        """Read documents together, for those who ask later. Raises `StoreError`.

        A distant store also lists ``prefix`` at the same time.
        """
        with ThreadPoolExecutor(1) as pool:
            if prefix is not None and self.reads_at_once > 1:
                pool.submit(next, self.store.list(prefix), None)  # where it fails, whoever needs it lists again
            self._read.update(read_many(self.store, [key for key in keys if key not in self._read]))

    def get(self, key: str) -> StoredObject | None:
        return self._note(key, self._read.pop(key) if key in self._read else self.store.get(key))

    def has(self, key: str) -> bool:
        return self._read[key] is not None if key in self._read else self.store.has(key)

    def put(self, key: str, data: bytes) -> bool:
        self._read.pop(key, None)
        written = self.store.put(key, data)
        self._note(key, StoredObject(data, etag_of(data)))
        return written

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        return self.store.put_many(self._forgotten(files), immutable=immutable)

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        self._read.pop(key, None)
        etag = self.store.swap(key, data, expected_etag)
        self._note(key, StoredObject(data, etag))
        return etag

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self.store.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        for key in gone:
            self._read.pop(key, None)
        self.store.delete(gone)

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext() if self._held else self.store.exclusive()

    def try_writing(self) -> None:
        self.store.try_writing()

    def remove_leftovers(self, before: datetime) -> None:
        self.store.remove_leftovers(before)

    def _note(self, key: str, found: StoredObject | None) -> StoredObject | None:
        small = found is None or len(found.data) <= MOST_BYTES
        if small and key.startswith(_REMEMBERED) and kind_of(key) is not FileKind.PAGE:
            self._read[key] = found
        return found

    def _forgotten(self, files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        for key, data in files:
            self._read.pop(key, None)
            yield key, data
