"""The order in which a run is published, so that a reader never sees half of it; and reading it back.

Under a lock, and after refusing what is not newer:

1. Pages first. Nothing that readers can find refers to them yet.
2. The listing of the run's files and then its manifest, which names it, so that whatever this run leaves behind is
   known to the sweep (`exporter.publishing.retention`).
3. The intent: from here on documents change, and no earlier ledger may be published any more. It names the run's
   Parquet file, so that none is ever there without a reason.
4. The Parquet file, the rollups of the history, its manifest, and the documents. Each is replaced in one step, and
   refers only to what is there already. The listings without a limit come last, because they answer for limits that
   are left out.
5. The status document, by compare-and-swap. With it the run is the published one.

A crash after any single operation leaves the status document, its pages and everything they lead to as they were. The
next run, at this ledger or a later one, writes what is missing and goes on. Nothing is ever deleted here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa

from exporter.errors import CheckError, ImmutableKeyError, LostRaceError, PublishedCheckError, StoreError
from exporter.history.manifest import (
    HistoryPart,
    extend_history,
    history_below,
    read_history_manifest,
    refuse_lost_manifest,
)
from exporter.history.rollups import MAX_READS, UnreadableHistoryError, updated_rollups
from exporter.publishing.published_state import (
    AcceptedRun,
    Published,
    died_run,
    read_current_listing,
    read_intent,
    read_published,
    read_whole_history,
)
from exporter.publishing.retention import clock_problem
from exporter.publishing.sweep_record import record_replaced, record_run_start
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, Written, etag_of, immutable_key_message, read_many, utc_now
from exporter.tree.documents import (
    HistoryManifest,
    Intent,
    ManifestFile,
    RunInput,
    RunManifest,
    RunSettings,
    SystemStatus,
    timestamp,
)
from exporter.tree.families import (
    FAMILIES,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    MONTH_ROLLUP,
    ROLLUPS_PREFIX,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    is_listing,
    kind_of,
)
from exporter.tree.files import FileKind, RenderedFile, is_key
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing, listed_files

_OWN = (STATUS_KEY, RUN.prefix, *(family.prefix for family in FAMILIES if not family.public))
"""The starts of keys that the publisher itself writes; a run renders nothing there."""

_LENGTH = (
    pl.when(pl.col("key").str.ends_with("/history.csv"))
    .then(pl.lit("1d"))
    .otherwise(pl.col("key").str.extract(r"/history/(\w+)\.json$"))
)
"""The length of time bucket of a newest document; that of days has its days as CSV, too."""

MAX_FILES = 128
"""At most this many files of a run are read back: all of a small run, a sample of a large one."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The facts of a rendered run that its status document has to state."""

    run_id: str
    observed_ledger: int
    published_at: datetime
    manifest_key: str
    manifest_sha256: str
    previous_run_id: str | None


@dataclass(frozen=True, slots=True)
class SealedRun:
    """Everything is known but the status document; ``records`` are files that were not in the stream."""

    summary: RunSummary
    records: tuple[RenderedFile, ...]


class _Waiting(NamedTuple):
    """Compressed, until everything that it points to is in the store."""

    key: str
    replaces: tuple[str, ...]
    size: int
    packed: bytes

    @property
    def data(self) -> bytes:
        data: bytes = pa.decompress(self.packed, self.size, codec="lz4", asbytes=True)
        return data


class Publication:
    """A run on its way into a store that is held: `write`, `seal`, `complete`, in this order.

    Whatever is raised leaves the published run as it was. Nothing but the status document, the run's manifest, the
    intent and the sweep's record depends on the wall clock.

    Args:
        history: the Parquet file of the run, and its entry.

    Raises `LostRaceError`, `ImmutableKeyError`, and `StoreError`, after which the published run stays, unless reading
    it back is what failed.
    """

    def __init__(self, held: HeldStore, accepted: AcceptedRun, history: HistoryPart, now: Clock = utc_now) -> None:
        self._store, self._published = held, accepted.published
        self._documents: list[_Waiting] = []
        self._listings: list[_Waiting] = []
        self._observed_ledger, self._history, self._now = accepted.observed_ledger, history, now
        self._replaced_ledger = accepted.replaced_ledger
        self._began = now()
        self._listed: list[ManifestFile] = []
        self._pages = self._kept = Written()
        self.history_manifest, self._withdrawn = _extended_history_manifest(
            held, accepted.published, history, accepted.replaced_ledger
        )
        """The history's manifest as it is once this run is published."""

    def reuse_unchanged_histories(self, lengths: Callable[[int], Collection[str]]) -> tuple[frozenset[str], list[str]]:
        """Take over the published run's newest documents in ``lengths`` of which none closed since its ledger.

        Gives the lengths, but for one of which any document is lost, and the keys. Digests are in the listing of that
        run; each document must be in the store with its size. A run that reads another digest back fails, and the next
        one renders everything, because only a run that succeeds leaves the state for this.
        """
        status = None if self._published is None else self._published.status
        wanted = () if status is None else lengths(status.observed_ledger)
        if status is None or not wanted:
            return frozenset(), []
        try:
            frame = read_current_listing(self._store, status).frame
        except StoreError:
            return frozenset(), []
        histories = frame.with_columns(_LENGTH.alias("length")).filter(pl.col("length").is_not_null())
        folders = set(histories.select(pl.col("key").str.extract(r"^(\w+/\w+/)")).to_series())
        sizes = {info.key: info.size for folder in sorted(folders) for info in self._store.list(folder)}
        listed = histories.select("key", "bytes", "length").iter_rows()
        lost = {length for key, size, length in listed if sizes.get(key) != size}
        whole = frozenset(histories["length"]).intersection(wanted) - lost
        reused = list(listed_files(histories.filter(pl.col("length").is_in(whole)).drop("length")))
        self._listed += reused
        self._kept += Written(unchanged=len(reused))
        return whole, [file.key for file in reused]

    def write(self, files: Iterable[RenderedFile]) -> None:
        """Write pages as they come; let all else wait. Raises `CheckError`, `ImmutableKeyError`."""
        self._pages += self._store.put_many(self._pages_of(files), immutable=True)
        self._take_history_file()

    def seal(self, settings: RunSettings, inputs: Sequence[RunInput]) -> SealedRun:
        """End the list of files; no reader can find any yet. Raises `CheckError` for a file given twice.

        The manifest names the ``settings`` and the ``inputs`` that the files were made from.
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
        summary = RunSummary(
            run_id=run_id,
            observed_ledger=self._observed_ledger,
            published_at=published_at,
            manifest_key=manifest.key,
            manifest_sha256=manifest.sha256,
            previous_run_id=None if self._published is None else self._published.status.run_id,
        )
        return SealedRun(summary, (files, manifest, render_document(self.history_manifest)))

    def complete(self, run: SealedRun, status: SystemStatus) -> Written:
        """Publish the run, its status document last; gives the files of all steps.

        Raises `CheckError` before readers find anything new.
        """
        store, records = self._store, {file.key: file for file in run.records}
        for field in ("run_id", "observed_ledger", "manifest_key", "manifest_sha256", "previous_run_id"):
            if (said := getattr(status, field)) != (own := getattr(run.summary, field)):
                raise CheckError(f"{STATUS_KEY}: {field} is {said}, not {own}")
        document = render_document(status)
        for key in (RUN_FILES.key(run_id=run.summary.run_id), run.summary.manifest_key):
            store.put(key, records[key].data)
        closed = int(datetime.fromisoformat(status.ledger_close_time).timestamp())
        alone = not self._pages.unchanged and clock_problem(self._began, closed) is None
        moment, part = run.summary.published_at, self._history
        began = self._began if alone else None
        record_run_start(store, run.summary.manifest_key, began, moment=moment, died=self._died())
        newest = max((file.last_ledger for file in self.history_manifest.files if file != part.entry), default=0)
        intent = Intent(
            run.summary.run_id,
            run.summary.observed_ledger,
            started_at=_time(moment),
            history_key=part.file.key,
            history_ledger=newest,
            replaced_ledger=self._replaced_ledger,
        )
        store.put(INTENT_KEY, msgspec.json.encode(intent))
        parquet = store.put_many([(part.file.key, part.file.data)], immutable=True)
        at_hand = {part.file.key: part.file.data}
        withdrawn = dict.fromkeys(self._withdrawn, part.file.key)
        replace_history(store, self.history_manifest, withdrawn, moment, at_hand=at_hand)
        replaced = Written()
        for waiting in (self._documents, self._listings):
            replaced += store.put_many((file.key, file.data) for file in waiting)
        left_out = (
            (f"{file.key.rpartition('/')[0]}/{name}", file) for file in self._listings for name in file.replaces
        )
        store.put_many((key, file.data) for key, file in left_out if store.has(key))
        _swap_status(store, document.data, self._published)
        return self._pages + parquet + replaced + self._kept

    def _pages_of(self, files: Iterable[RenderedFile]) -> Iterator[tuple[str, bytes]]:
        for file in files:
            if file.kind not in (FileKind.PAGE, FileKind.DOCUMENT):
                raise CheckError(f"{file.key}: a {file.kind} is not for the stream of pages and documents")
            _refuse_stray(file)
            if file.kind is FileKind.PAGE:
                yield file.key, file.data
            else:
                packed: bytes = pa.compress(file.data, codec="lz4", asbytes=True)
                waiting = self._listings if is_listing(file.key) else self._documents
                waiting.append(_Waiting(file.key, file.replaces, len(file.data), packed))
            self._list(file)

    def _list(self, file: RenderedFile) -> None:
        self._listed.append(ManifestFile(file.key, file.kind.value, len(file.data), file.sha256))

    def _take_history_file(self) -> None:
        file, entry = self._history.file, self._history.entry
        _refuse_stray(file)
        if (entry.key, entry.bytes, entry.sha256) != (file.key, len(file.data), file.sha256):
            raise CheckError(f"{file.key}: the history's entry does not describe this file")
        if self._store.has(file.key):
            stored = self._store.get(file.key)
            if stored is not None and stored.data != file.data:
                raise ImmutableKeyError(immutable_key_message(file.key))
        self._list(file)

    def _died(self) -> dict[str, str]:
        """The Parquet file of a run that died before the manifest named it, with its run."""
        died = died_run(self._published, read_intent(self._store))
        named = {file.key for file in self.history_manifest.files}.union(self._withdrawn)
        if died is None or died.history_key is None or died.history_key in named:
            return {}
        return {died.history_key: died.run_id}


def _extended_history_manifest(
    store: Store, published: Published | None, history: HistoryPart, replaced_ledger: int | None
) -> tuple[HistoryManifest, list[str]]:
    whole = read_whole_history if replaced_ledger is None else read_history_manifest  # which loses ledgers anyway
    previous = whole(store, older=True)
    if previous is None and published is not None:
        refuse_lost_manifest(store, history.entry.key)
    continued = previous
    if replaced_ledger is not None:
        continued = history_below(previous, min(replaced_ledger, history.entry.first_ledger), history.entry)
    names = {file.key for file in ([] if continued is None else continued.files)}
    withdrawn = [file.key for file in ([] if previous is None else previous.files) if file.key not in names]
    return extend_history(continued, history.entry), withdrawn


def replace_history(
    store: Store,
    manifest: HistoryManifest,
    superseded: Mapping[str, str | None],
    moment: datetime,
    *,
    rollups: bool = True,
    most_reads: int | None = MAX_READS,
    at_hand: Mapping[str, bytes] | None = None,
) -> None:
    """Put a manifest, of files that are there, into the held store, and before it the rollups of which a bucket closed.

    Nobody names ``superseded`` files any more: each with the file that takes its place (`record_replaced`). ``rollups``
    False leaves these as they are. At most ``most_reads`` files of the history are read for them, none of those
    ``at_hand``, by key. A rollup that is missing, or has another size, is made again.
    """
    record_replaced(store, superseded, moment)
    sizes = {info.key: info.size for info in store.list(ROLLUPS_PREFIX)} if rollups else {}
    if rollups:
        manifest = _with_rollups(store, manifest, sizes, most_reads, at_hand or {})
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    months = {key for key in sizes if key.startswith(MONTH_ROLLUP.prefix)}
    store.delete(sorted(months - {entry.key for entry in manifest.rollups}))


def _with_rollups(
    store: Store,
    manifest: HistoryManifest,
    sizes: Mapping[str, int],
    most_reads: int | None,
    at_hand: Mapping[str, bytes],
) -> HistoryManifest:
    """Write the rollups that are due; where files cannot be read they stay. ``sizes`` are of those that are there."""
    before = {entry.key: entry for entry in manifest.rollups}
    lost = {entry.bucket for key, entry in before.items() if sizes.get(key) != entry.bytes}
    if lost:  # all files of that bucket are recomputed
        others = [entry for entry in manifest.rollups if entry.bucket not in lost]
        manifest = msgspec.structs.replace(manifest, rollups=others)

    def read(key: str) -> bytes | None:
        stored = None if key in at_hand else store.get(key)
        return at_hand.get(key) if stored is None else stored.data

    kept, files = updated_rollups(manifest, read, most_reads=most_reads)
    entries = {entry.key: entry for entry in kept}
    try:
        for file in files:
            store.put(file.entry.key, file.data)
            entries[file.entry.key] = file.entry
    except UnreadableHistoryError:
        entries = before | entries
    return msgspec.structs.replace(manifest, rollups=[entries[key] for key in sorted(entries)])


def _refuse_stray(file: RenderedFile) -> None:
    if not is_key(file.key):
        raise CheckError(f"{file.key}: not a key that a store accepts")
    if kind_of(file.key) is not file.kind or file.key.startswith(_OWN):
        raise CheckError(f"{file.key}: no run renders a {file.kind} under this key")
    if file.key == HISTORY_MANIFEST_KEY:
        raise CheckError(f"{file.key}: the publisher writes it, because it continues the published one")


def _swap_status(store: Store, status: bytes, published: Published | None) -> None:
    """Swap the status document. When that fails, look: the store may have done it, and only its answer was lost."""
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


def read_back_sample(store: Store, summary: RunSummary) -> int:
    """Read a sample of files back, if no later run is published; gives how many. Raises `PublishedCheckError`."""
    try:
        published = read_published(store)
        if published is None:
            raise PublishedCheckError(f"{STATUS_KEY} is missing after it was written")
        status = published.status
        if status.observed_ledger > summary.observed_ledger:
            return 0
        if (status.run_id, status.manifest_sha256) != (summary.run_id, summary.manifest_sha256):
            raise PublishedCheckError(f"{STATUS_KEY} names run {status.run_id}, not {summary.run_id}")
        frame = read_current_listing(store, status).frame
        if frame.height > MAX_FILES:
            frame = frame[sorted(random.Random(summary.run_id).sample(range(frame.height), MAX_FILES))]
        by_key = {file.key: file for file in listed_files(frame)}
        for key, stored in read_many(store, by_key):
            if stored is None:
                raise PublishedCheckError(f"{key} is missing, though the run's manifest lists it")
            if etag_of(stored.data) != by_key[key].sha256:
                raise PublishedCheckError(f"{key} does not have the bytes that the run's manifest gives for it")
    except StoreError as error:
        raise PublishedCheckError(f"the published run cannot be read back: {error}") from error
    return len(by_key)
