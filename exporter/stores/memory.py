"""A store in memory, for tests and for dry runs, which must not change the real store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from exporter.errors import ImmutableKeyError, LostRaceError
from exporter.stores import store
from exporter.tree.files import check_key


class MemoryStore(store.Store):
    """A store that keeps every object in memory.

    Objects that were neither written nor deleted here are read from ``underlay``, so that a dry run sees what a real
    run would. Nothing is ever written to ``underlay``.
    """

    def __init__(self, underlay: store.Store | None = None, clock: store.Clock = store.utc_now) -> None:
        self.uri = "memory:" if underlay is None else f"memory over {underlay.uri}"
        if underlay is not None:
            self.reads_at_once = underlay.reads_at_once
        self._underlay = underlay
        self._clock = clock
        self._entries: dict[str, tuple[bytes, datetime] | None] = {}  # bytes and time of writing; None if deleted here
        self._held = False

    def get(self, key: str) -> store.StoredObject | None:
        if check_key(key) in self._entries:
            entry = self._entries[key]
            return None if entry is None else store.StoredObject(entry[0], store.etag_of(entry[0]))
        return None if self._underlay is None else self._underlay.get(key)

    def has(self, key: str) -> bool:
        if check_key(key) in self._entries:
            return self._entries[key] is not None
        return self._underlay is not None and self._underlay.has(key)

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> store.Written:
        total = store.Written()
        for key, data in files:
            present = self.get(key)
            if present is not None and present.data == data:
                total += store.Written(unchanged=1)
                continue
            if present is not None and immutable:
                raise ImmutableKeyError(store.immutable_key_message(key))
            self._entries[key] = bytes(data), self._clock()
            total += store.Written(1, 0, len(data))
        return total

    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        present = self.get(key)
        if (None if present is None else present.etag) != expected_etag:
            raise LostRaceError(store.moved_message(key))
        self.put(key, data)
        return store.etag_of(data)

    def list(self, prefix: str) -> Iterator[store.ObjectInfo]:
        store.check_prefix(prefix)
        infos = {
            key: store.ObjectInfo(key, len(entry[0]), entry[1])
            for key, entry in self._entries.items()
            if entry is not None and key.startswith(prefix)
        }
        if self._underlay is not None:
            infos |= {info.key: info for info in self._underlay.list(prefix) if info.key not in self._entries}
        return iter([infos[key] for key in sorted(infos)])

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._entries[check_key(key)] = None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold this store as its only publisher. The store underneath is not held."""
        if self._held:
            raise LostRaceError(f"another publisher holds {self.uri}; let it finish and run again")
        self._held = True
        try:
            yield
        finally:
            self._held = False
