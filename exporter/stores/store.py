"""The small interface to where a published tree lives: a folder, a bucket or memory.

Each write is whole or absent to readers, never a mixture. A method returns when its effect would outlive a power cut,
where the store promises durability at all.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

from exporter.tree.files import check_key

_T = TypeVar("_T")
_R = TypeVar("_R")

Clock = Callable[[], datetime]
"""Gives the wall clock as an aware UTC time."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The bytes under a key, and the tag that changes whenever they do."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One entry of a listing; ``modified`` is an aware UTC time, ``etag`` is of a bucket's alone."""

    key: str
    size: int
    modified: datetime
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a bulk write; ``bytes`` are those written."""

    written: int = 0
    unchanged: int = 0
    bytes: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.written + other.written, self.unchanged + other.unchanged, self.bytes + other.bytes)


class Store(ABC):
    """Where a published tree lives. Every method raises StoreError, naming the key, when it is refused."""

    uri: str
    """The name of the store for people: a folder's path or a bucket's URI. Holds no secret."""

    reads_at_once: int = 1
    """How many calls of ``get`` may be made at the same time."""

    @abstractmethod
    def get(self, key: str) -> StoredObject | None: ...

    @abstractmethod
    def has(self, key: str) -> bool:
        """Say whether an object is under a key; a publisher asks about many, so this costs little."""

    @abstractmethod
    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        """Replace documents, each in one step. Raises `ImmutableKeyError` for an immutable key that has other bytes."""

    @abstractmethod
    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        """Replace an object if its etag is as expected (None: absent); gives the new one. Raises `LostRaceError`."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Stream objects by a prefix in any order, never half-written ones; those listed may be deleted meanwhile."""

    def strangers(self) -> Iterator[str]:
        """What is there beside the objects that `list` gives, in any order: names that are no keys, and links.

        A server may serve these all the same. The publisher's own hold is none.
        """
        return iter(())

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; keys that have none are skipped."""

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the store as its only publisher, until the process ends at most. Raises `LostRaceError` at once."""

    def try_writing(self) -> None:  # noqa: B027 - by default it can be written to
        """Find out cheaply whether a run could publish here. Another publisher at work is not a failure."""

    def remove_leftovers(self, before: datetime) -> None:  # noqa: B027 - by default nothing is left
        """Remove what writes that died before a time left half-written."""

    def put(self, key: str, data: bytes) -> bool:
        """Replace a document; False when the same bytes were there already."""
        return self.put_many([(key, data)]).written == 1

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an immutable object; False when the same bytes are there."""
        return self.put_many([(key, data)], immutable=True).written == 1


def utc_now() -> datetime:
    """Give the wall clock as an aware UTC time."""
    return datetime.now(UTC)


def etag_of(data: bytes) -> str:
    """SHA-256 of the bytes, 64 lowercase hex digits."""
    return hashlib.sha256(data).hexdigest()


def check_prefix(prefix: str) -> str:
    """Return the prefix if keys can start with it: empty, a key, or a key and ``/``."""
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix


def immutable_key_message(key: str) -> str:
    """Say which immutable key holds other bytes, and what that means."""
    return (
        f"{key} already holds other bytes, and an immutable key never changes. Another version of the exporter or "
        "another configuration wrote it for the same ledger: run again at a later ledger"
    )


def moved_message(key: str) -> str:
    """Say that a compare-and-swap lost."""
    return f"{key} was written by another publisher since it was read; its run is published, this one is not"


def read_many(store: Store, keys: Iterable[str]) -> Iterator[tuple[str, StoredObject | None]]:
    """Read objects in any order, None for a missing one; at most twice ``reads_at_once`` are in memory."""
    if store.reads_at_once == 1:
        yield from ((key, store.get(key)) for key in keys)
        return
    yield from in_parallel(keys, lambda key: (key, store.get(key)), workers=store.reads_at_once, stop=Event())


def in_parallel(items: Iterable[_T], work: Callable[[_T], _R], *, workers: int, stop: Event) -> Iterator[_R]:
    """Do some work for every item of a stream, and give the results as they come, in any order.

    At most twice as many items as workers were taken and not finished. The first error, of the work or of the stream,
    comes out when all work that was begun has ended; ``stop`` is set at once.
    """
    finished: SimpleQueue[Future[_R]] = SimpleQueue()
    begun = set[Future[_R]]()
    with ThreadPoolExecutor(workers, thread_name_prefix="store") as pool:
        try:
            for item in items:
                if len(begun) == 2 * workers:
                    begun.remove(future := finished.get())
                    yield future.result()
                begun.add(future := pool.submit(work, item))
                future.add_done_callback(finished.put)
            while begun:
                begun.remove(future := finished.get())
                yield future.result()
        finally:
            if begun:
                stop.set()
                for future in begun:
                    future.cancel()
