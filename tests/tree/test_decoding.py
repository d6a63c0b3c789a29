"""JSON out of a store: whatever the bytes are, an error says what is wrong, and nothing else comes out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.errors import StoreError
from exporter.history.manifest import read_history_manifest
from exporter.job.known_markets_file import MEMORY_KEY, load_memory
from exporter.publishing.published_state import read_intent, read_listing, read_published
from exporter.publishing.retention import SUPERSEDED_KEY, _read_record
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, POINTER_KEY

DEEP = {
    "brackets": b"[" * 200_000,
    "objects": b'{"a":' * 200_000,
    "in a field": b'{"files":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "no UTF-8": b'{"run_id":"\xff"}',
    "nothing": b"",
}


@pytest.mark.parametrize("data", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize(
    ("key", "read"),
    [
        (POINTER_KEY, read_published),
        (INTENT_KEY, read_intent),
        (HISTORY_MANIFEST_KEY, read_history_manifest),
        ("v1/runs/1-a.json", lambda store: read_listing(store, "v1/runs/1-a.json")),
    ],
)
def test_a_store_with_such_json_is_refused_by_name(key: str, read: Callable[[Store], object], data: bytes) -> None:
    """What a run decides by is refused, and the error names the key."""
    store = MemoryStore()
    store.put(key, data)

    with pytest.raises(StoreError, match=key):
        read(store)


@pytest.mark.parametrize("data", DEEP.values(), ids=DEEP)
def test_records_that_may_be_lost_are_begun_again(data: bytes) -> None:
    """What only saves work is as if it were not there."""
    store = MemoryStore()
    for key in (SUPERSEDED_KEY, MEMORY_KEY):
        store.put(key, data)

    assert {} == _read_record(store).superseded
    assert [True] == [MEMORY_KEY in notice for notice in load_memory(store, "0" * 64).notices]
