"""A store for tests that logs every operation and can die or fail at any one of them.

It is over another store (by default one in memory), which has what a dead process left. A killed process does nothing
any more: every later operation raises SimulatedKill, too, and its lock is gone. The bulk operations are made one file
at a time, so a process can die between any two files. Positions count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, Written

WRITES = frozenset({"put", "put_new", "swap", "delete", "remove_leftovers"})


class SimulatedKill(BaseException):
    """The process was killed; nothing but a test may catch this."""


@dataclass(frozen=True)
class Call:
    """One operation on one key (or prefix)."""

    operation: str
    key: str


def _logged(operation: str) -> Callable[..., Any]:
    """An operation of the inner store, logged with the key that is its first argument."""

    def made(self: BucketSimulator, key: str, *more: object) -> Any:
        with self._operation(operation, key):
            return getattr(self.inner, operation)(key, *more)

    return made


class BucketSimulator(Store):
    """A store that logs, dies and fails."""

    uri = "simulated bucket"
    reads_at_once = 1

    def __init__(self, inner: Store | None = None) -> None:
        self.inner: Store = MemoryStore() if inner is None else inner
        self.calls: list[Call] = []
        self.dead = False
        self._error_at: dict[int, BaseException] = {}
        self._error_from: tuple[int, Exception] | None = None

    def die_at(self, position: int) -> None:
        """Kill the process after its operation at a position."""
        self._error_at[position] = SimulatedKill()

    def fail_at(self, position: int, error: Exception) -> None:
        """Let one operation fail after it took effect."""
        self._error_at[position] = error

    def fail_from(self, position: int, error: Exception) -> None:
        """Let every write from a position on fail without effect."""
        self._error_from = (position, error)

    def writes(self) -> list[Call]:
        """The operations that change something, in order."""
        return [call for call in self.calls if call.operation in WRITES]

    get = _logged("get")
    has = _logged("has")
    put = _logged("put")
    put_new = _logged("put_new")
    swap = _logged("swap")
    list = _logged("list")

    def put_many(self, files: Iterable[tuple[str, bytes]], *, immutable: bool = False) -> Written:
        total = Written()
        for key, data in files:
            written = self.put_new(key, data) if immutable else self.put(key, data)
            total += Written(1, 0, len(data)) if written else Written(unchanged=1)
        return total

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._operation("delete", key):
                self.inner.delete([key])

    def try_writing(self) -> None:
        self.inner.try_writing()

    def remove_leftovers(self, before: datetime) -> None:
        with self._operation("remove_leftovers", ""):
            self.inner.remove_leftovers(before)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._operation("exclusive", ""):
            pass
        with self.inner.exclusive():
            yield

    @contextmanager
    def _operation(self, operation: str, key: str) -> Iterator[None]:
        if self.dead:
            raise SimulatedKill
        position = len(self.calls)
        self.calls.append(Call(operation, key))
        if self._error_from is not None and position >= self._error_from[0] and operation in WRITES:
            raise self._error_from[1]
        yield
        error = self._error_at.get(position)
        if error is not None:
            self.dead = isinstance(error, SimulatedKill)
            raise error


def content(store: Store, key: str) -> bytes:
    """The bytes of an object that is there."""
    stored = store.get(key)
    assert stored is not None, key
    return stored.data
