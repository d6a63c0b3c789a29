"""Reading many objects of a store."""

from __future__ import annotations

import threading
import time

import pytest

from exporter.errors import StoreError
from exporter.stores.memory import MemoryStore
from exporter.stores.store import StoredObject, read_many


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


def test_many_at_once_but_not_more() -> None:
    """A distant store is asked for several objects at once, and never for more than it allows."""
    store = DistantStore()
    list(read_many(store, [f"files/{number}" for number in range(40)]))

    assert 2 <= store.most <= 4


def test_an_error_ends_it() -> None:
    """What the store refuses comes out, and the rest of the stream is not read."""
    store = DistantStore()
    with pytest.raises(StoreError, match="broken: refused"):
        list(read_many(store, ["broken", *(f"files/{number}" for number in range(1000))]))
    assert store.asked < 20
