"""Reads a sample of the files of a published run back, as a reader would."""

from __future__ import annotations

import random

from exporter.errors import PublishedCheckError, StoreError
from exporter.publishing.publication import RunIdentity
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.stores.store import Store, etag_of, read_many
from exporter.tree.families import STATUS_KEY
from exporter.tree.run_listing import listed_files

MAX_FILES_READ_BACK = 128
"""Largest number of files of a run that are read back. A run with more files has a sample of them read."""


def read_back_sample(store: Store, identity: RunIdentity) -> int:
    """Read a sample of the published run's files back, and return how many were read.

    Nothing is read if a later run was published meanwhile. Raises `PublishedCheckError` if the status document names
    another run, or a file is missing or has other content than the run's listing says.
    """
    try:
        published = read_published(store)
        if published is None:
            raise PublishedCheckError(f"{STATUS_KEY} is missing after it was written")
        status = published.status
        if status.observed_ledger > identity.observed_ledger:
            return 0
        if (status.run_id, status.manifest_sha256) != (identity.run_id, identity.manifest_sha256):
            raise PublishedCheckError(f"{STATUS_KEY} names run {status.run_id}, not {identity.run_id}")
        frame = read_current_listing(store, status).frame
        if frame.height > MAX_FILES_READ_BACK:
            frame = frame[sorted(random.Random(identity.run_id).sample(range(frame.height), MAX_FILES_READ_BACK))]
        by_key = {file.key: file for file in listed_files(frame)}
        for key, stored in read_many(store, by_key):
            if stored is None:
                raise PublishedCheckError(f"{key} is missing, though the run's manifest lists it")
            if etag_of(stored.data) != by_key[key].sha256:
                raise PublishedCheckError(f"{key} does not have the bytes that the run's manifest gives for it")
    except StoreError as error:
        raise PublishedCheckError(f"the published run cannot be read back: {error}") from error
    return len(by_key)
