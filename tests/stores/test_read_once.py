"""A held store of which documents are read once."""

from __future__ import annotations

import pytest

from exporter.errors import LostRaceError
from exporter.stores.memory import MemoryStore
from exporter.stores.read_once import MOST_BYTES, ReadOnce
from tests.stores.bucket_simulator import BucketSimulator

STATUS, CHANGES, PAGE = "v1/system/status.json", "v1/changes.json", "v1/pages/0123456789abcdefABCD_-.json"


def test_a_document_is_read_once() -> None:
    """What was read, was found missing, or was written is not asked for again; a page is, each time."""
    bucket = BucketSimulator()
    bucket.put(STATUS, b"1")
    bucket.put(PAGE, b"2")
    bucket.calls.clear()
    once = ReadOnce(bucket)
    once.read([STATUS, CHANGES])
    contents = [None if found is None else found.data for key in (STATUS, CHANGES, PAGE) if [found := once.get(key)]]
    once.get(PAGE)
    once.put(CHANGES, b"3")

    assert [b"1", None, b"2"] == contents
    assert once.get(CHANGES) == bucket.inner.get(CHANGES)
    assert once.has(CHANGES)
    assert [STATUS, CHANGES, PAGE, PAGE] == [call.key for call in bucket.calls if call.operation == "get"]


def test_what_is_large_is_not_kept() -> None:
    """Of a large document that was read with others the bytes are let go with the first who asks."""
    bucket = BucketSimulator()
    bucket.put(STATUS, b"1" * MOST_BYTES)
    bucket.put(CHANGES, b"2" * (MOST_BYTES + 1))
    bucket.calls.clear()
    once = ReadOnce(bucket)
    once.read([STATUS, CHANGES])
    sizes = [len(found.data) for key in (STATUS, CHANGES) * 2 if (found := once.get(key))]

    assert [MOST_BYTES, MOST_BYTES + 1] * 2 == sizes
    assert [STATUS, CHANGES, CHANGES] == [call.key for call in bucket.calls]


def test_what_is_written_in_bulk_swapped_or_deleted_is_not_what_was_read() -> None:
    """After any write the new bytes are read, and after one that failed what is there."""
    store = MemoryStore()
    once = ReadOnce(store)
    once.read([STATUS, CHANGES])
    once.put_many([(CHANGES, b"1")])
    etag = once.swap(STATUS, b"2", None)
    store.put(STATUS, b"of another")
    assert b"2" == once.get(STATUS).data  # type: ignore[union-attr]
    with pytest.raises(LostRaceError):
        once.swap(STATUS, b"3", etag)
    assert b"of another" == once.get(STATUS).data  # type: ignore[union-attr]
    assert b"1" == once.get(CHANGES).data  # type: ignore[union-attr]
    once.delete([CHANGES])

    assert once.get(CHANGES) is None


def test_who_holds_it_has_it() -> None:
    """Steps of a run that ask for the hold have it already; without one they get it as from any store."""
    store = MemoryStore()
    with store.exclusive(), ReadOnce(store, held=True).exclusive(), pytest.raises(LostRaceError):
        ReadOnce(store).exclusive().__enter__()
    with ReadOnce(store).exclusive(), pytest.raises(LostRaceError), store.exclusive():
        pass
