"""Finds the watched values of the previous run. The next run compares its own with them, and so finds what changed."""

from __future__ import annotations

import hashlib

import msgspec

from exporter.errors import CheckError, ExporterError, StoreError
from exporter.job.evidence import Evidence
from exporter.job.reading import read_again
from exporter.publishing.published_state import manifest_keys, read_listing, read_published
from exporter.render.watched_values import WatchedFile, watched_values
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import WatchedValues
from exporter.tree.families import EVIDENCE, RUN, WATCHED
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import ledger_of


def run_before(store: Store, ledger: int) -> str | None:
    """The id of the run that a run at this ledger is compared with: the published run. None if nothing was published.

    If the status document is lost, it is the newest run before that ledger that left a manifest.
    """
    published = read_published(store, older=True)
    if published is not None:
        return published.status.run_id
    matches = (RUN.pattern.fullmatch(key) for key in manifest_keys(store))
    run_ids = (match["run_id"] for match in matches if match is not None)
    earlier = [run_id for run_id in run_ids if ledger_of(run_id) < ledger]
    return max(earlier, key=ledger_of, default=None)


def watched_by(store: Store, run_id: str) -> WatchedFile:
    """The values that a run watched, from their file, or from the run's evidence if that file is lost or damaged.

    Raises `StoreError` or `CheckError` if neither can be read.
    """
    listing = read_listing(store, RUN.key(run_id=run_id))
    if listing is None:
        raise StoreError(f"run {run_id} has no manifest")
    for listed in listing.under(WATCHED.prefix):
        stored = store.get(listed.key)
        watched = None if stored is None else watched_in(listed.key, stored.data)
        if watched is not None:
            return watched
    for listed in listing.under(EVIDENCE.prefix):
        stored = store.get(listed.key)
        if stored is not None:
            return watched_from(stored.data, listed.key)
    raise StoreError(f"run {run_id} left neither its watched values nor its evidence")


def watched_in(key: str, data: bytes) -> WatchedFile | None:
    """The watched values in a file. None if the key has another digest, or if the file cannot be decoded."""
    if key != WATCHED.key(sha256=hashlib.sha256(data).hexdigest()):
        return None
    try:
        return WatchedFile(decode_json(data, WatchedValues), RenderedFile(key, data, FileKind.PAGE))
    except msgspec.DecodeError:
        return None


def watched_from(evidence: bytes, key: str) -> WatchedFile:
    """The watched values that follow from evidence. Raises `CheckError` if the run cannot be repeated from it."""
    try:
        decoded = Evidence.decode(evidence, key)
        reading, _ = read_again(decoded)
    except ExporterError as error:
        raise CheckError(f"{key}: {error}") from None
    return WatchedFile.of(watched_values(reading.tables(), decoded.passphrase))
