"""Many small things at once (exporter/stores/store.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from exporter.errors import StoreError
from exporter.stores.memory import MemoryStore
from exporter.stores.store import StoredObject, in_parallel, read_many


@pytest.mark.parametrize("where", ["work", "stream", "reader"])
def test_an_error_ends_it(where: str) -> None:
    """An error of the work, the stream or the reader ends it when what was begun has ended; the rest never begins."""
    before = set(threading.enumerate())
    stop = threading.Event()
    begun: list[int] = []
    ended: list[int] = []

    def stream() -> Iterator[int]:
        yield from range(50)
        if where == "stream":
            raise KeyError(50)
        yield from range(50, 1000)

    def work(number: int) -> int:
        begun.append(number)
        if where == "work" and number == 50:
            raise KeyError(number)
        stop.wait(0.001)
        ended.append(number)
        return number

    def read() -> None:
        for count, _ in enumerate(in_parallel(stream(), work, workers=4, stop=stop)):
            if where == "reader" and count == 50:
                raise KeyError(count)

    with pytest.raises(KeyError, match="50"):
        read()
    # A generator that its reader left ends when it is collected, which CPython does at once.
    assert stop.is_set()
    assert 80 >= len(begun)
    assert set(begun) - {50} <= set(ended) | {50}
    assert set() == {thread for thread in threading.enumerate() if thread.name.startswith("store")} - before


class DistantStore(MemoryStore):
    """A store of which every answer takes its time; it counts how many are asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.asked = 0

    @property
    def reads_at_once(self) -> int:
        return 4

    def get(self, key: str) -> StoredObject | None:
        with self._lock:
            self._now += 1
            self.asked += 1
            self.most = max(self.most, self._now)
        time.sleep(0.005)
        with self._lock:
            self._now -= 1
        if key == "broken":
            raise StoreError("broken: refused")
        return super().get(key)


@pytest.mark.parametrize("store", [MemoryStore(), DistantStore()], ids=["near", "distant"])
def test_every_object_with_its_key(store: MemoryStore) -> None:
    """Each key comes with its bytes, once, and one that names nothing with None."""
    for number in range(20):
        store.put(f"files/{number}", str(number).encode())
    keys = [f"files/{number}" for number in range(22)]

    found = dict(read_many(store, keys))

    assert sorted(keys) == sorted(found)
    assert [None, None] == [found[key] for key in keys[20:]]
    assert all(stored is None or stored.data == key.removeprefix("files/").encode() for key, stored in found.items())
