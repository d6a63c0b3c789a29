"""A store that is held: the value that allows to publish, compact and sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from exporter.stores.read_once import ReadOnce
from exporter.stores.store import Store


class HeldStore(ReadOnce):
    """A store that nobody else writes to, as long as the `hold` lasts that gave it. So each document is read only once.

    If the hold is lost in the middle, because a lease ran out, the next write raises `LostRaceError`.
    """

    def exclusive(self) -> AbstractContextManager[None]:
        raise AssertionError(f"{self.uri} is held already: hand the hold on, and do not ask for another one")


@contextmanager
def hold(store: Store) -> Iterator[HeldStore]:
    """Hold a store as its only publisher. Raises `LostRaceError` at once if another publisher holds it."""
    with store.exclusive():
        yield HeldStore(store)
