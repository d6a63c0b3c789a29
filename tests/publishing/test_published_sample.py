"""Tests of exporter/publishing/published_sample.py: any damage to the files of a run is found."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from exporter.errors import PublishedCheckError, StoreError
from exporter.publishing.published_sample import read_back_sample
from exporter.stores.memory import MemoryStore
from exporter.tree.families import STATUS_KEY
from tests.publishing.published_tree import make_run, publish_run
from tests.stores.bucket_simulator import BucketSimulator

RUN = make_run(100)
FILES = len({file.key for file in RUN.files}) + 1  # and the Parquet file


@pytest.mark.parametrize("key", [*sorted({file.key for file in RUN.files}), RUN.history.file.key, STATUS_KEY, None])
@pytest.mark.parametrize("damage", [None, b"", b"{}"])
def test_any_damage_is_found(key: str | None, damage: bytes | None) -> None:
    """Any file of the run, or its manifest, that is missing or other than it was written is named."""
    store = MemoryStore()
    identity = publish_run(store, RUN)
    key = key or identity.manifest_key
    if damage is None:
        store.delete([key])
    else:
        store.put(key, damage)
    with pytest.raises(PublishedCheckError, match=key):
        read_back_sample(store, identity)


def test_a_status_that_names_another_run_is_found() -> None:
    """A status document that names another run of this ledger is found; a later run is not this run's failure."""
    store = MemoryStore()
    identity = publish_run(store, RUN)
    with pytest.raises(PublishedCheckError, match="names run 100-"):
        read_back_sample(store, replace(identity, run_id="100-other"))
    publish_run(store, make_run(101))

    assert 0 == read_back_sample(store, identity)


def test_what_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files of a small run are compared, and a sample of a larger one, which differs from run to run."""
    store = MemoryStore()
    assert FILES == read_back_sample(store, publish_run(store, RUN))
    monkeypatch.setattr("exporter.publishing.published_sample.MAX_FILES_READ_BACK", 4)
    samples = set()
    for ledger in range(101, 111):
        bucket = BucketSimulator(store)
        assert 4 == read_back_sample(bucket, publish_run(store, make_run(ledger)))
        samples.add(
            tuple(call.key for call in bucket.calls if not call.key.startswith(("v1/pages", "v1/runs", "hist")))
        )

    assert len(samples) > 3


def test_a_store_that_cannot_be_read() -> None:
    """An error of the store while it is read back means that the check failed, not the publishing."""
    store = MemoryStore()
    identity = publish_run(store, RUN)
    for position in range(FILES + 2):
        bucket = BucketSimulator(store)
        bucket.fail_at(position, StoreError("connection reset"))
        with pytest.raises(PublishedCheckError, match="connection reset"):
            read_back_sample(bucket, identity)
