"""Finds the watched values of the previous run. The next run compares its own with them, and so finds what changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

import msgspec

from exporter.errors import CheckError, ExporterError, StoreError
from exporter.job.evidence import Evidence
from exporter.job.inputs import inputs_named
from exporter.job.reading import read_again
from exporter.publishing.published_state import inputs_in, manifest_keys, read_listing, read_published
from exporter.render.watched_values import WatchedFile, leaves_gaps, watched_values
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import WatchedValues
from exporter.tree.families import EVIDENCE, RUN, WATCHED
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import ledger_of

MAX_RUNS_BACK = 20
"""Number of earlier runs, at most, that are repeated to find the values which a run handed on."""


def run_before(store: Store, ledger: int) -> str | None:
    """The id of the run that a run at this ledger is compared with: the published run. None if nothing was published.

    If the status document is lost, it is the newest run before that ledger that left a manifest.
    """
    published = read_published(store, older=True)
    if published is not None:
        return published.status.run_id
    return next(iter(_runs_before(store, ledger)), None)


def _runs_before(store: Store, ledger: int) -> list[str]:
    """The ids of the runs below a ledger that have a manifest, newest first."""
    matches = (RUN.pattern.fullmatch(key) for key in manifest_keys(store))
    run_ids = (match["run_id"] for match in matches if match is not None)
    return sorted((run_id for run_id in run_ids if ledger_of(run_id) < ledger), key=ledger_of, reverse=True)


def watched_by(store: Store, run_id: str, most: int = MAX_RUNS_BACK) -> WatchedFile:
    """The values that a run watched, from their file, or from the run's evidence if that file is lost or damaged.

    Values that the run handed on are not in its evidence. They follow from the values that it was compared with. If
    these are lost, too, the run before is repeated, and so on, for at most ``most`` runs.

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
            return watched_from(stored.data, listed.key, lambda: _compared_with(store, run_id, most - 1))
    raise StoreError(f"run {run_id} left neither its watched values nor its evidence")


def is_as_watched(store: Store, run_id: str, watched: WatchedFile) -> bool:
    """Whether the run listed these values as its own.

    If not, its file was lost, and its evidence gives other ones: values that it had handed on are missing, or another
    version of the exporter made them.
    """
    listing = read_listing(store, RUN.key(run_id=run_id))
    return listing is not None and listing.sha256_of(watched.file.key) is not None


def _compared_with(store: Store, run_id: str, most: int) -> WatchedValues | None:
    """The values that a run was compared with; None if it was compared with none, or they are lost."""
    key = RUN.key(run_id=run_id)
    stored = store.get(key)
    named = [] if stored is None else inputs_in(key, stored)
    for item in inputs_named(named, "watched"):
        file = store.get(item.key)
        watched = None if file is None else watched_in(item.key, file.data)
        if watched is not None:
            return watched.values
        with suppress(ExporterError):
            maker = _run_that_lists(store, item.key, ledger_of(run_id)) if most > 0 else None
            again = None if maker is None else watched_by(store, maker, most)
            if again is not None and again.file.key == item.key:
                return again.values
    return None


def _run_that_lists(store: Store, key: str, before: int) -> str | None:
    """The newest run below a ledger that lists a file; None if none of the newest `MAX_RUNS_BACK` does."""
    for run_id in _runs_before(store, before)[:MAX_RUNS_BACK]:
        listing = read_listing(store, RUN.key(run_id=run_id))
        if listing is not None and listing.sha256_of(key) is not None:
            return run_id
    return None


def watched_in(key: str, data: bytes) -> WatchedFile | None:
    """The watched values in a file. None if the key has another digest, or if the file cannot be decoded."""
    if key != WATCHED.key(sha256=hashlib.sha256(data).hexdigest()):
        return None
    try:
        return WatchedFile(decode_json(data, WatchedValues), RenderedFile(key, data, FileKind.PAGE))
    except msgspec.DecodeError:
        return None


def watched_from(evidence: bytes, key: str, before: Callable[[], WatchedValues | None]) -> WatchedFile:
    """The watched values that follow from evidence, and from the values with which its run was compared.

    ``before`` gives the latter. It is asked only if the run did not read everything. Raises `CheckError` if the run
    cannot be repeated from its evidence.
    """
    try:
        decoded = Evidence.decode(evidence, key)
        reading, _ = read_again(decoded)
        tables = reading.tables()
    except ExporterError as error:
        raise CheckError(f"{key}: {error}") from None
    return WatchedFile.of(watched_values(tables, decoded.passphrase, before() if leaves_gaps(tables) else None))
