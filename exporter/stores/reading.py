"""Reading many objects of a store: one after the other from a disk, many at once where each takes a journey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Event

from exporter.stores.parallel import in_parallel
from exporter.stores.store import Store, StoredObject


def read_many(store: Store, keys: Iterable[str]) -> Iterator[tuple[str, StoredObject | None]]:
    """Read objects; gives each key with its object (None: there is none), in any order.

    At most twice as many objects as the store reads at once are in memory.

    Raises:
        StoreError: the store cannot be read.
    """
    if store.reads_at_once == 1:
        yield from ((key, store.get(key)) for key in keys)
        return
    yield from in_parallel(keys, lambda key: (key, store.get(key)), workers=store.reads_at_once, stop=Event())
