"""The watched values of the published run, by which the next run finds what changed."""

from __future__ import annotations

import hashlib

import msgspec

from exporter.errors import CheckError, ExporterError, StoreError
from exporter.job.evidence import Evidence
from exporter.job.reading import read_again
from exporter.publishing.published_state import manifest_keys, read_listing, read_published
from exporter.render.changes import WatchedFile, watched_values
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import WatchedValues
from exporter.tree.families import EVIDENCE, RUN, WATCHED
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import ledger_of


def run_before(store: Store, ledger: int) -> str | None:
    """The id of the published run, with which a run at a ledger is compared; None if there was none.

    Where the status document is lost, it is the newest run below that ledger that left a manifest.
    """
    published = read_published(store, older=True)
    if published is not None:
        return published.status.run_id
    found = (RUN.pattern.fullmatch(key) for key in manifest_keys(store))
    earlier = [name["run_id"] for name in found if name is not None and ledger_of(name["run_id"]) < ledger]
    return max(earlier, key=ledger_of, default=None)


def watched_by(store: Store, run_id: str) -> WatchedFile:
    """The values of a run: from their file or, if that is lost or not understood, from its evidence.

    Raises `StoreError` or `CheckError` if neither can be read.
    """
    listing = read_listing(store, RUN.key(run_id=run_id))
    if listing is None:
        raise StoreError(f"run {run_id} has no manifest")
    for listed in listing.under(WATCHED.prefix):
        stored = store.get(listed.key)
        if stored is not None and (found := watched_in(listed.key, stored.data)) is not None:
            return found
    for listed in listing.under(EVIDENCE.prefix):
        stored = store.get(listed.key)
        if stored is not None:
            return watched_from(stored.data, listed.key)
    raise StoreError(f"run {run_id} left neither its watched values nor its evidence")


def watched_in(key: str, data: bytes) -> WatchedFile | None:
    """The values in a file; None if it is not the one that its key names, or of a form that is not understood."""
    if key != WATCHED.key(sha256=hashlib.sha256(data).hexdigest()):
        return None
    try:
        return WatchedFile(decode_json(data, WatchedValues), RenderedFile(key, data, FileKind.PAGE))
    except msgspec.DecodeError:
        return None


def watched_from(evidence: bytes, key: str) -> WatchedFile:
    """The values that evidence gives. Raises `CheckError` if a run cannot be repeated from it."""
    try:
        read, _ = read_again(Evidence.decode(evidence, key))
    except ExporterError as error:
        raise CheckError(f"{key}: {error}") from None
    return WatchedFile.of(watched_values(read.tables()))
