"""The hold on a store, as a value: whoever has it may publish, compact and sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from exporter.stores.read_once import ReadOnce
from exporter.stores.store import Store


class HeldStore(ReadOnce):
    """A store that nobody else writes as long as the `hold` lasts that gave it, so each document is read once.

    A hold that is lost in the middle, as when a lease ran out, makes the next write raise `LostRaceError`.
    """

    def exclusive(self) -> AbstractContextManager[None]:
        raise AssertionError(f"{self.uri} is held already: hand the hold on, and do not ask for another one")


@contextmanager
def hold(store: Store) -> Iterator[HeldStore]:
    """Hold a store as its only publisher. Raises `LostRaceError` at once if another one has it."""
    with store.exclusive():
        yield HeldStore(store)
