"""A store that is held: the value that allows to publish, compact and sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import monotonic, sleep

from exporter.errors import LostRaceError
from exporter.stores.read_once import ReadOnce
from exporter.stores.store import Store

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 15.0
"""Time between two tries to hold a store that somebody else holds. It doubles with each try."""


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


@contextmanager
def hold_when_free(store: Store, wait_seconds: float) -> Iterator[HeldStore]:
    """Hold a store as soon as no other publisher holds it. Raises `LostRaceError` after ``wait_seconds``."""
    deadline, pause = monotonic() + wait_seconds, FIRST_PAUSE_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                held = stack.enter_context(hold(store))
                break
            except LostRaceError:
                if monotonic() + pause > deadline:
                    raise
            sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        yield held
