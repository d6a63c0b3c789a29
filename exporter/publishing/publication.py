"""Publishes a run in an order in which a reader never sees half of it.

The caller holds the store and has made sure that the run is newer than the published one. Then files are written in
this order:

1. Pages. Nothing that readers can find refers to them yet.
2. The listing of the run's files, and then the run's manifest, which names the listing. From now on the sweep
   (`exporter.publishing.retention`) knows every file that this run may leave behind.
3. The intent. It announces that documents change from now on, so that no earlier ledger is published any more. It also
   names the run's Parquet file, so that the sweep knows where that file came from.
4. The Parquet file, the rollups of the history, the history's manifest, and the documents. Each is replaced in one
   step, and refers only to files that are there already. The listings without a limit come last, because a request
   whose own limit has no file is answered from them.
5. The status document, by compare-and-swap. With it the run is the published one.

A crash after any single write leaves the status document, its pages and everything that they lead to as they were. The
next run, at this ledger or a later one, writes what is missing and goes on. Only rollups of months that the history
lost are deleted here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Struct

from exporter.errors import CheckError, ImmutableKeyError, LostRaceError, StoreError
from exporter.history.manifest import HistoryPart
from exporter.publishing.acceptance import AcceptedRun
from exporter.publishing.published_history import extended_manifest, replace_history
from exporter.publishing.published_state import Published, read_intent, unfinished_run
from exporter.publishing.retention import clock_problem
from exporter.publishing.sweep_state import record_run_start
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, Written, immutable_key_message, utc_now
from exporter.tree.documents import Intent, ManifestFile, RunInput, RunManifest, RunSettings, SystemStatus, timestamp
from exporter.tree.families import (
    FAMILIES,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    is_listing,
    kind_of,
)
from exporter.tree.files import FileKind, RenderedFile, is_key
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing

_PUBLISHER_PREFIXES = (STATUS_KEY, RUN.prefix, *(family.prefix for family in FAMILIES if not family.public))
"""Beginnings of the keys that the publisher itself writes. A run renders no file with such a key."""


class RunIdentity(Struct, frozen=True):
    """What identifies a run, all of which its status document has to state."""

    run_id: str
    observed_ledger: int
    published_at: datetime
    manifest_key: str
    manifest_sha256: str
    previous_run_id: str | None


class SealedRun(Struct, frozen=True):
    """A run whose files are all known, except for the status document.

    Attributes:
        manifests: the listing, the run's manifest and the history's manifest.
    """

    identity: RunIdentity
    manifests: tuple[RenderedFile, ...]


class _WaitingFile(NamedTuple):
    """A document that waits, compressed, until everything that it refers to is in the store."""

    key: str
    replaces: tuple[str, ...]
    size: int
    compressed: bytes

    @property
    def data(self) -> bytes:
        data: bytes = pa.decompress(self.compressed, self.size, codec="lz4", asbytes=True)
        return data


class Publication:
    """Publishes one run into a store that is held: call `write`, `seal` and `complete`, in this order.

    Each of them raises `LostRaceError` if the hold is lost, `ImmutableKeyError` if a page exists with other content,
    and `StoreError` if the store fails. Whatever is raised, the published run stays as it was. Only the status
    document, the run's manifest, the intent and the sweep's state depend on the wall clock.

    Args:
        held: the store.
        accepted: the run, as `accept_run` accepted it.
        history: the Parquet file of the run, with its entry for the history's manifest.

    Attributes:
        history_manifest: the history's manifest with the run's file and the previous rollups. `complete` makes
            the rollups that are due, and publishes the manifest with their entries.
    """

    def __init__(self, held: HeldStore, accepted: AcceptedRun, history: HistoryPart, now: Clock = utc_now) -> None:
        self._store, self._published = held, accepted.published
        self._documents: list[_WaitingFile] = []
        self._listings: list[_WaitingFile] = []
        self._observed_ledger, self._history, self._now = accepted.observed_ledger, history, now
        self._replaced_ledger = accepted.replaced_ledger
        self._began = now()
        self._listed: list[ManifestFile] = []
        self._pages = self._reused = Written()
        self.history_manifest, self._replaced = extended_manifest(
            held, accepted.published, history, accepted.replaced_ledger
        )

    def list_again(self, files: Collection[ManifestFile]) -> None:
        """List files of the published run that this run has, too, and does not write."""
        self._listed += files
        self._reused += Written(unchanged=len(files))

    def write(self, files: Iterable[RenderedFile]) -> None:
        """Write the pages at once, and keep the documents for `complete`.

        Raises `CheckError` for a file that no run renders under its key.
        """
        self._pages += self._store.put_many(self._pages_of(files), immutable=True)
        self._take_history_file()

    def seal(self, settings: RunSettings, inputs: Sequence[RunInput]) -> SealedRun:
        """Make the listing and the manifest of the run, whose files are all known now. Readers find none of them yet.

        The manifest names the ``settings`` and the ``inputs`` that the files were made from. Raises `CheckError` if a
        file was written twice.
        """
        listing, published_at = RunListing.of(self._listed), self._now()
        run_id, (file_count, size) = listing.run_id(self._observed_ledger), listing.size
        files = RenderedFile(RUN_FILES.key(run_id=run_id), listing.parquet, FileKind.DOCUMENT)
        manifest = render_document(
            RunManifest(
                run_id=run_id,
                observed_ledger=self._observed_ledger,
                published_at=_time(published_at),
                file_count=file_count,
                bytes=size,
                files_key=files.key,
                files_sha256=files.sha256,
                settings=settings,
                inputs=list(inputs),
            )
        )
        identity = RunIdentity(
            run_id=run_id,
            observed_ledger=self._observed_ledger,
            published_at=published_at,
            manifest_key=manifest.key,
            manifest_sha256=manifest.sha256,
            previous_run_id=None if self._published is None else self._published.status.run_id,
        )
        return SealedRun(identity, (files, manifest, render_document(self.history_manifest)))

    def complete(self, run: SealedRun, status: SystemStatus) -> Written:
        """Publish the run, with its status document last. Returns what all steps together wrote.

        Raises `CheckError`, before readers find anything new, if the status document does not state the run's facts.
        """
        store, manifests = self._store, {file.key: file for file in run.manifests}
        for field in ("run_id", "observed_ledger", "manifest_key", "manifest_sha256", "previous_run_id"):
            stated, expected = getattr(status, field), getattr(run.identity, field)
            if stated != expected:
                raise CheckError(f"{STATUS_KEY}: {field} is {stated}, not {expected}")
        document = render_document(status)
        for key in (RUN_FILES.key(run_id=run.identity.run_id), run.identity.manifest_key):
            store.put(key, manifests[key].data)
        closed = int(datetime.fromisoformat(status.ledger_close_time).timestamp())
        is_start_certain = not self._pages.unchanged and clock_problem(self._began, closed) is None
        moment, part = run.identity.published_at, self._history
        began = self._began if is_start_certain else None
        record_run_start(
            store, run.identity.manifest_key, began, moment=moment, left_files=self._file_of_unfinished_run()
        )
        newest = max((file.last_ledger for file in self.history_manifest.files if file != part.entry), default=0)
        intent = Intent(
            run.identity.run_id,
            run.identity.observed_ledger,
            started_at=_time(moment),
            history_key=part.file.key,
            history_ledger=newest,
            replaced_ledger=self._undone_from(),
        )
        store.put(INTENT_KEY, msgspec.json.encode(intent))
        parquet = store.put_many([(part.file.key, part.file.data)], immutable=True)
        in_memory = {part.file.key: part.file.data}
        replaced_files = dict.fromkeys(self._replaced, part.file.key)
        replace_history(store, self.history_manifest, replaced_files, moment, in_memory=in_memory)
        replaced = Written()
        for waiting in (self._documents, self._listings):
            replaced += store.put_many((file.key, file.data) for file in waiting)
        # An earlier run may have had documents of its own for limits that the listing without a limit answers now.
        stale = ((f"{file.key.rpartition('/')[0]}/{name}", file) for file in self._listings for name in file.replaces)
        store.put_many((key, file.data) for key, file in stale if store.has(key))
        _swap_status(store, document.data, self._published)
        return self._pages + parquet + replaced + self._reused

    def _pages_of(self, files: Iterable[RenderedFile]) -> Iterator[tuple[str, bytes]]:
        """The pages among the files, by key. Lists every file, and keeps the documents compressed."""
        for file in files:
            if file.kind not in (FileKind.PAGE, FileKind.DOCUMENT):
                raise CheckError(f"{file.key}: a {file.kind} is not for the stream of pages and documents")
            _refuse_stray(file)
            if file.kind is FileKind.PAGE:
                yield file.key, file.data
            else:
                compressed: bytes = pa.compress(file.data, codec="lz4", asbytes=True)
                waiting = self._listings if is_listing(file.key) else self._documents
                waiting.append(_WaitingFile(file.key, file.replaces, len(file.data), compressed))
            self._list(file)

    def _list(self, file: RenderedFile) -> None:
        self._listed.append(ManifestFile(file.key, file.kind.value, len(file.data), file.sha256))

    def _take_history_file(self) -> None:
        """List the run's Parquet file, after checking that its entry describes it and no other file has its key."""
        file, entry = self._history.file, self._history.entry
        _refuse_stray(file)
        if (entry.key, entry.bytes, entry.sha256) != (file.key, len(file.data), file.sha256):
            raise CheckError(f"{file.key}: the history's entry does not describe this file")
        if self._store.has(file.key):
            stored = self._store.get(file.key)
            if stored is not None and stored.data != file.data:
                raise ImmutableKeyError(immutable_key_message(file.key))
        self._list(file)

    def _unfinished_run(self) -> Intent | None:
        status = None if self._published is None else self._published.status
        return unfinished_run(status, read_intent(self._store))

    def _undone_from(self) -> int | None:
        """The lowest ledger whose run this run undoes, or an unfinished run before it undid."""
        unfinished = self._unfinished_run()
        ledgers = (self._replaced_ledger, None if unfinished is None else unfinished.replaced_ledger)
        return min((ledger for ledger in ledgers if ledger is not None), default=None)

    def _file_of_unfinished_run(self) -> dict[str, str]:
        """The id of a run that died before the history's manifest named its Parquet file, keyed by that file."""
        unfinished = self._unfinished_run()
        named = {file.key for file in self.history_manifest.files}.union(self._replaced)
        if unfinished is None or unfinished.history_key is None or unfinished.history_key in named:
            return {}
        return {unfinished.history_key: unfinished.run_id}


def _refuse_stray(file: RenderedFile) -> None:
    """Raise `CheckError` for a file that no run renders under its key."""
    if not is_key(file.key):
        raise CheckError(f"{file.key}: not a key that a store accepts")
    if kind_of(file.key) is not file.kind or file.key.startswith(_PUBLISHER_PREFIXES):
        raise CheckError(f"{file.key}: no run renders a {file.kind} under this key")
    if file.key == HISTORY_MANIFEST_KEY:
        raise CheckError(f"{file.key}: the publisher writes it, because it continues the published one")


def _swap_status(store: Store, status: bytes, published: Published | None) -> None:
    """Swap the status document.

    If the swap fails, the document is read: the store may have swapped it, and only the answer was lost.
    """
    try:
        store.swap(STATUS_KEY, status, None if published is None else published.etag)
    except (StoreError, LostRaceError):
        with suppress(StoreError):
            current = store.get(STATUS_KEY)
            if current is not None and current.data == status:
                return
        raise


def _time(moment: datetime) -> str:
    return timestamp(int(moment.timestamp()))
