"""Publishes a run in an order in which a reader never sees half of it, and reads it back afterwards.

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

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
from msgspec import Struct

from exporter.errors import CheckError, ImmutableKeyError, LostRaceError, PublishedCheckError, StoreError
from exporter.history.manifest import (
    HistoryPart,
    extend_history,
    history_below,
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
from exporter.publishing.sweep_record import record_run_start, record_superseded
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
    ALL_HISTORY_PREFIX,
    FAMILIES,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    MONTH_ROLLUP,
    POOL_DOCUMENT,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    is_listing,
    kind_of,
)
from exporter.tree.files import FileKind, RenderedFile, is_key
from exporter.tree.read_back import render_document
from exporter.tree.run_listing import RunListing, listed_files

_PUBLISHER_PREFIXES = (STATUS_KEY, RUN.prefix, *(family.prefix for family in FAMILIES if not family.public))
"""Beginnings of the keys that the publisher itself writes. A run renders no file with such a key."""

_BUCKET_LENGTH = (
    pl.when(pl.col("key").str.ends_with("/history.csv"))
    .then(pl.lit("1d"))
    .otherwise(pl.col("key").str.extract(r"/history/(\w+)\.json$"))
)
"""The bucket length of a history document, out of its key, as an expression; null for other keys.

The history in days is also there as CSV.
"""

MAX_FILES_READ_BACK = 128
"""Largest number of files of a run that are read back. A run with more files has a sample of them read."""


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
        records: the publisher's own files: the listing, the run's manifest and the history's manifest.
    """

    identity: RunIdentity
    records: tuple[RenderedFile, ...]


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
    document, the run's manifest, the intent and the sweep's record depend on the wall clock.

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
        self.history_manifest, self._superseded = _extended_history_manifest(
            held, accepted.published, history, accepted.replaced_ledger
        )

    def reuse_unchanged_histories(
        self, lengths: Callable[[int], Collection[str]], totals: Collection[str] | None = None
    ) -> tuple[frozenset[str], list[str]]:
        """List the published run's history documents again, if no time bucket closed since, instead of writing them.

        ``lengths`` is called with the published ledger. It gives the bucket lengths in which no bucket closed since
        then. Returns the lengths whose documents are reused, and the keys of these documents. A length is reused only
        if each of its documents is in the store with the size that the published run's listing gives.

        ``totals`` are the keys of the histories of totals that may be reused, None for all: every run renders those in
        which no pool was ever observed.

        The digests are taken from that listing, too. The content is not read here, so a damaged document would be
        listed again. Reading back may find it, and then this run fails. The next run renders everything, because the
        state that allows to reuse documents is saved only by runs that succeed.
        """
        status = None if self._published is None else self._published.status
        unchanged = () if status is None else lengths(status.observed_ledger)
        if status is None or not unchanged:
            return frozenset(), []
        try:
            listing = read_current_listing(self._store, status)
        except StoreError:
            return frozenset(), []
        histories = listing.frame.with_columns(_BUCKET_LENGTH.alias("length")).filter(pl.col("length").is_not_null())
        if totals is not None:
            histories = histories.filter(
                pl.col("key").str.starts_with(POOL_DOCUMENT.prefix) | pl.col("key").is_in(list(totals))
            )
        folders = set(histories.select(pl.col("key").str.extract(r"^(\w+/\w+/)")).to_series())
        sizes = {info.key: info.size for folder in sorted(folders) for info in self._store.list(folder)}
        listed = histories.select("key", "bytes", "length").iter_rows()
        lost = {length for key, size, length in listed if sizes.get(key) != size}
        reused_lengths = frozenset(histories["length"]).intersection(unchanged) - lost
        reused = list(listed_files(histories.filter(pl.col("length").is_in(reused_lengths)).drop("length")))
        self._listed += reused
        self._reused += Written(unchanged=len(reused))
        return reused_lengths, [file.key for file in reused]

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
        store, records = self._store, {file.key: file for file in run.records}
        for field in ("run_id", "observed_ledger", "manifest_key", "manifest_sha256", "previous_run_id"):
            stated, expected = getattr(status, field), getattr(run.identity, field)
            if stated != expected:
                raise CheckError(f"{STATUS_KEY}: {field} is {stated}, not {expected}")
        document = render_document(status)
        for key in (RUN_FILES.key(run_id=run.identity.run_id), run.identity.manifest_key):
            store.put(key, records[key].data)
        closed = int(datetime.fromisoformat(status.ledger_close_time).timestamp())
        is_start_certain = not self._pages.unchanged and clock_problem(self._began, closed) is None
        moment, part = run.identity.published_at, self._history
        began = self._began if is_start_certain else None
        record_run_start(store, run.identity.manifest_key, began, moment=moment, died=self._file_of_died_run())
        newest = max((file.last_ledger for file in self.history_manifest.files if file != part.entry), default=0)
        intent = Intent(
            run.identity.run_id,
            run.identity.observed_ledger,
            started_at=_time(moment),
            history_key=part.file.key,
            history_ledger=newest,
            replaced_ledger=self._taken_back_from(),
        )
        store.put(INTENT_KEY, msgspec.json.encode(intent))
        parquet = store.put_many([(part.file.key, part.file.data)], immutable=True)
        in_memory = {part.file.key: part.file.data}
        superseded = dict.fromkeys(self._superseded, part.file.key)
        replace_history(store, self.history_manifest, superseded, moment, in_memory=in_memory)
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

    def _died_run(self) -> Intent | None:
        """The run that last began to replace documents and was not published; None if there is none."""
        return died_run(self._published, read_intent(self._store))

    def _taken_back_from(self) -> int | None:
        """The lowest ledger that this run takes back, or that runs took back that died since the published run."""
        died = self._died_run()
        ledgers = (self._replaced_ledger, None if died is None else died.replaced_ledger)
        return min((ledger for ledger in ledgers if ledger is not None), default=None)

    def _file_of_died_run(self) -> dict[str, str]:
        """The id of a run that died before the history's manifest named its Parquet file, keyed by that file."""
        died = self._died_run()
        named = {file.key for file in self.history_manifest.files}.union(self._superseded)
        if died is None or died.history_key is None or died.history_key in named:
            return {}
        return {died.history_key: died.run_id}


def _extended_history_manifest(
    store: Store, published: Published | None, history: HistoryPart, replaced_ledger: int | None
) -> tuple[HistoryManifest, list[str]]:
    """The history's manifest with the run's file, and the keys of the files that it names no more."""
    previous = read_whole_history(store, older=True, replaced_ledger=replaced_ledger)
    if previous is None and published is not None:
        refuse_lost_manifest(store, history.entry.key)
    continued = previous
    if replaced_ledger is not None:
        continued = history_below(previous, min(replaced_ledger, history.entry.first_ledger), history.entry)
    continued_keys = set[str]() if continued is None else {file.key for file in continued.files}
    previous_keys = [] if previous is None else [file.key for file in previous.files]
    superseded = [key for key in previous_keys if key not in continued_keys]
    return extend_history(continued, history.entry), superseded


def replace_history(
    store: Store,
    manifest: HistoryManifest,
    superseded: Mapping[str, str | None],
    moment: datetime,
    *,
    rollups: bool = True,
    most_reads: int | None = MAX_READS,
    in_memory: Mapping[str, bytes] | None = None,
) -> None:
    """Replace the history's manifest in the held store, after writing the rollups that follow from its new files.

    Every file that the manifest names must be in the store already. A rollup is written if one of its buckets closed,
    or if it is missing or has another size than the manifest says. Rollups of months that the history lost are deleted.

    Args:
        store: the store, which is held.
        manifest: the new manifest, with the rollups of the one that it replaces.
        moment: the time to record for the superseded files.
        superseded: the files that the manifest names no more, each with the file that takes its place
            (`record_superseded`).
        rollups: whether rollups are brought up to date; False leaves them as they are.
        most_reads: how many files of the history may be read for rollups; None for as many as are needed.
        in_memory: files of the history that need not be read, keyed by their keys.
    """
    record_superseded(store, superseded, moment)
    sizes = {info.key: info.size for info in store.list(ALL_HISTORY_PREFIX)} if rollups else {}
    if rollups:
        manifest = _with_rollups(store, manifest, sizes, most_reads, in_memory or {})
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)
    months = {key for key in sizes if key.startswith(MONTH_ROLLUP.prefix)}
    store.delete(sorted(months - {entry.key for entry in manifest.rollups}))


def _with_rollups(
    store: Store,
    manifest: HistoryManifest,
    sizes: Mapping[str, int],
    most_reads: int | None,
    in_memory: Mapping[str, bytes],
) -> HistoryManifest:
    """Write the rollups that are due, and return the manifest with their entries.

    ``sizes`` has the size of each rollup that is in the store. A rollup whose history files cannot be read stays as it
    is.
    """
    before = {entry.key: entry for entry in manifest.rollups}
    lost = {entry.bucket for key, entry in before.items() if sizes.get(key) != entry.bytes}
    if lost:  # without its entries, all rollups of a bucket length are made again
        others = [entry for entry in manifest.rollups if entry.bucket not in lost]
        manifest = msgspec.structs.replace(manifest, rollups=others)

    def read(key: str) -> bytes | None:
        if key in in_memory:
            return in_memory[key]
        stored = store.get(key)
        return None if stored is None else stored.data

    unchanged, files = updated_rollups(manifest, read, most_reads=most_reads)
    entries = {entry.key: entry for entry in unchanged}
    try:
        for file in files:
            store.put(file.entry.key, file.data)
            entries[file.entry.key] = file.entry
    except UnreadableHistoryError:
        entries = before | entries
    return msgspec.structs.replace(manifest, rollups=[entries[key] for key in sorted(entries)])


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
