"""Tests of exporter/publishing/publish.py: reading back after publishing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.errors import PublishedCheckError, StoreError
from exporter.publishing.publish import verify
from exporter.stores.memory import MemoryStore
from exporter.tree.families import POINTER_KEY
from tests.publishing.published_tree import make_run, publish_run
from tests.stores.bucket_simulator import BucketSimulator

RUN = make_run(100)
FILES = len({file.key for file in RUN.files}) + 1  # and the Parquet file


def test_a_whole_tree() -> None:
    """All files of a small run are compared, and a sample of the given size of a larger one."""
    store = MemoryStore()
    summary = publish_run(store, RUN).summary

    assert [FILES, FILES, 3] == [verify(store, summary), verify(store, summary, None), verify(store, summary, 3)]


@pytest.mark.parametrize("key", [*sorted({file.key for file in RUN.files}), RUN.history.file.key, POINTER_KEY])
@pytest.mark.parametrize("damage", [None, b"", b"{}"])
def test_any_damage_is_found(key: str, damage: bytes | None) -> None:
    """Any file of the run that is missing or other than it was written is named."""
    store = MemoryStore()
    summary = publish_run(store, RUN).summary
    if damage is None:
        store.delete([key])
    else:
        store.put(key, damage)
    with pytest.raises(PublishedCheckError, match=key):
        verify(store, summary)


def test_a_damaged_manifest() -> None:
    """The run's manifest must have the digest that the pointer gives for it."""
    store = MemoryStore()
    summary = publish_run(store, RUN).summary
    store.put(summary.manifest_key, b"{}")
    with pytest.raises(PublishedCheckError, match="digest"):
        verify(store, summary)


def test_another_run() -> None:
    """A pointer that names another run of this ledger is found; a later run is not this run's failure."""
    store = MemoryStore()
    summary = publish_run(store, RUN).summary
    with pytest.raises(PublishedCheckError, match="names run 100-"):
        verify(store, replace(summary, run_id="100-other"))
    publish_run(store, make_run(101))

    assert 0 == verify(store, summary)


def test_samples_differ_from_run_to_run() -> None:
    """Which files of a large run are read depends on the run, so that every file's turn comes."""
    samples = set()
    for ledger in range(100, 110):
        store = MemoryStore()
        summary = publish_run(store, make_run(ledger)).summary
        bucket = BucketSimulator(store)
        verify(bucket, summary, 4)
        samples.add(
            tuple(call.key for call in bucket.calls if not call.key.startswith(("v1/pages", "v1/runs", "hist")))
        )

    assert len(samples) > 3


def test_a_store_that_cannot_be_read() -> None:
    """An error of the store while it is read back means that the check failed, not the publishing."""
    store = MemoryStore()
    summary = publish_run(store, RUN).summary
    for position in range(FILES + 2):
        bucket = BucketSimulator(store)
        bucket.fail_at(position, StoreError("connection reset"), after=False)
        with pytest.raises(PublishedCheckError, match="connection reset"):
            verify(bucket, summary)
