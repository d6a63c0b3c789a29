"""The small interface of a store, in which a published tree lives: a folder, an S3 bucket or memory.

To readers, each write has happened as a whole or not at all. If a store is durable, a method returns when its effect
would outlast a power cut.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

from msgspec import Struct

from exporter.tree.files import check_key

_T = TypeVar("_T")
_R = TypeVar("_R")

Clock = Callable[[], datetime]
"""A function that returns the current time as an aware UTC time."""


class StoredObject(Struct, frozen=True):
    """The bytes of an object, and a tag that changes whenever the bytes do."""

    data: bytes
    etag: str


class ObjectInfo(Struct, frozen=True):
    """One entry of a listing.

    Attributes:
        size: number of bytes.
        modified: when the object was last written, as an aware UTC time.
        etag: the tag that an S3 bucket gives; empty in other stores.
    """

    key: str
    size: int
    modified: datetime
    etag: str = ""


class Written(Struct, frozen=True):
    """What a write of many objects did.

    Attributes:
        written: number of objects that were written.
        unchanged: number of objects that had the same bytes already.
        bytes: size of the objects that were written.
    """

    written: int = 0
    unchanged: int = 0
    bytes: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.written + other.written, self.unchanged + other.unchanged, self.bytes + other.bytes)


class Store(ABC):
    """A place that keeps a published tree. Every method raises `StoreError`, with the key, if it is refused."""

    uri: str
    """The name of the store for people: the path of a folder or the URI of a bucket. It contains no secret."""

    reads_at_once: int = 1
    """How many calls of ``get`` may run at the same time."""

    @abstractmethod
    def get(self, key: str) -> StoredObject | None:
        """Read an object; None if there is none."""

    @abstractmethod
    def has(self, key: str) -> bool:
        """Whether there is an object with this key. A publisher asks about many keys, so this has to be cheap."""

    @abstractmethod
    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        """Write objects, each in one step; those that have the same bytes already are left alone.

        With ``immutable``, an object is never replaced: one that has other bytes raises `ImmutableKeyError`.
        """

    @abstractmethod
    def swap(self, key: str, data: bytes, expected_etag: str | None) -> str:
        """Replace an object if its etag is as expected, and return the new etag.

        An ``expected_etag`` of None says that there is no object yet. Raises `LostRaceError` if it is not as expected.
        """

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose keys start with a prefix, in any order.

        Objects that are half-written are not among them. An object may be deleted before the caller gets to it.
        """

    def strangers(self) -> Iterator[str]:
        """What the store has besides the objects of `list`, in any order: names that are not keys, and links.

        A web server may serve these all the same. The lock or lease of a publisher is not among them.
        """
        return iter(())

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. Keys without an object are skipped."""

    @abstractmethod
    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the store as its only publisher. Raises `LostRaceError` at once if another publisher holds it.

        A hold ends at the latest when the process does, or some time after.
        """

    def try_writing(self) -> None:  # noqa: B027 - by default a store can be written to
        """Find out cheaply whether a run could publish here. It is no error if another publisher is at work."""

    def remove_leftovers(self, before: datetime) -> None:  # noqa: B027 - by default a write leaves nothing behind
        """Remove temporary files that were last written before a time, by writes that died."""

    def put(self, key: str, data: bytes) -> bool:
        """Write an object. Returns False if it had the same bytes already."""
        return self.put_many([(key, data)]).written == 1

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an immutable object. Returns False if it had the same bytes already.

        Raises `ImmutableKeyError` if it has other bytes.
        """
        return self.put_many([(key, data)], immutable=True).written == 1


def utc_now() -> datetime:
    """The current time as an aware UTC time."""
    return datetime.now(UTC)


def etag_of(data: bytes) -> str:
    """The SHA-256 of these bytes, as 64 lowercase hex digits."""
    return hashlib.sha256(data).hexdigest()


def check_prefix(prefix: str) -> str:
    """Return the prefix if keys can start with it: it is empty, a key, or a key and ``/``. Raises `StoreError`."""
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix


def immutable_key_message(key: str) -> str:
    """The error text for an immutable object that has other bytes."""
    return (
        f"{key} already holds other bytes, and an immutable key never changes. Another version of the exporter or "
        "another configuration wrote it for the same ledger: run again at a later ledger"
    )


def moved_message(key: str) -> str:
    """The error text for a compare-and-swap that lost."""
    return f"{key} was written by another publisher since it was read; its run is published, this one is not"


def read_many(store: Store, keys: Iterable[str]) -> Iterator[tuple[str, StoredObject | None]]:
    """Read objects, and yield them in any order; None for a missing one.

    At most twice ``reads_at_once`` objects are in memory.
    """
    if store.reads_at_once == 1:
        yield from ((key, store.get(key)) for key in keys)
        return
    yield from in_parallel(keys, lambda key: (key, store.get(key)), workers=store.reads_at_once, stop=Event())


def in_parallel(items: Iterable[_T], work: Callable[[_T], _R], *, workers: int, stop: Event) -> Iterator[_R]:
    """Do some work for every item, and yield the results in the order in which they are finished.

    At most twice as many items as there are workers are taken before their results are yielded. After an error, of the
    work or of the items, ``stop`` is set at once, no other work begins, and the error is raised when all work ended.
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
