"""After publishing: read back what stands in the store, and compare it with what was written."""

from __future__ import annotations

import random

from exporter.api.headers import POINTER_KEY
from exporter.errors import PublishedCheckError, StoreError
from exporter.publishing.publish import RunSummary
from exporter.publishing.published import ListedFile, read_current_listing, read_published
from exporter.stores.reading import read_many
from exporter.stores.store import Store, StoredObject, etag_of

MAX_FILES = 1_000
"""How many files of a run are read back: all of a small run, a sample of a large one."""


def verify(store: Store, summary: RunSummary, max_files: int | None = MAX_FILES) -> int:
    """Read the pointer, the run's manifest and files of the run back.

    Args:
        store: the store that was published to.
        summary: the run, from ``PublishResult``.
        max_files: above so many files a sample of that size is read, another one for each run; None reads all.

    Returns:
        How many files of the run were compared; 0 when a later run is published by now.

    Raises:
        PublishedCheckError: something is missing or other than it was written; the message names its key.
    """
    try:
        published = read_published(store)
        if published is None:
            raise PublishedCheckError(f"{POINTER_KEY} is missing after it was written")
        pointer = published.pointer
        if pointer.observed_ledger > summary.observed_ledger:
            return 0
        if (pointer.run_id, pointer.manifest_sha256) != (summary.run_id, summary.manifest_sha256):
            raise PublishedCheckError(f"{POINTER_KEY} names run {pointer.run_id}, not {summary.run_id}")
        chosen = _chosen(read_current_listing(store, pointer).files, summary.run_id, max_files)
        by_key = {file.key: file for file in chosen}
        for key, stored in read_many(store, by_key):
            _compare(stored, by_key[key])
    except StoreError as error:
        raise PublishedCheckError(f"the published run cannot be read back: {error}") from error
    return len(chosen)


def _chosen(files: list[ListedFile], run_id: str, max_files: int | None) -> list[ListedFile]:
    if max_files is None or len(files) <= max_files:
        return files
    return random.Random(run_id).sample(files, max_files)


def _compare(stored: StoredObject | None, file: ListedFile) -> None:
    if stored is None:
        raise PublishedCheckError(f"{file.key} is missing, though the run's manifest lists it")
    if len(stored.data) != file.bytes or etag_of(stored.data) != file.sha256:
        raise PublishedCheckError(f"{file.key} does not have the bytes that the run's manifest gives for it")
