"""Removes files that readers no longer need, in a step of its own after publishing.

In this order, so that a sweep that dies is completed by the next one:

1. documents of earlier runs that the published run does not have (a market that vanished), and the copies without an
   extension that earlier versions made in buckets: at once, because they would be served as if they were current;
2. pages that are older than the retention time and belong to no run that is retained;
3. manifests and listings of runs whose retention time is over, and listings of runs that died before their manifest;
4. Parquet files that the history's manifest does not name and the record explains: compacted into others, or written by
   what died, for as long as the retention; and temporary files. Others that it does not name are kept, and reported.

Nothing is removed while it is uncertain what is needed, a run is half-way, or a publisher is at work.

Readers of a run can go on for the retention time after it was superseded. Runs' own times do not say when that was, so
a record is kept: a run that is not the published one, and is not recorded yet, is superseded from now on. Where the
record is lost, every run is: kept too long, never too short. The record also spares a sweep most listings of runs and,
for a day, that of all pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

import polars as pl
from msgspec import structs

from exporter.errors import LostRaceError, StoreError
from exporter.history.manifest import file_ledgers
from exporter.publishing import published_state
from exporter.publishing.sweep_record import SweepRecord, has_successor, read_record, write_record
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import BUCKET_PAGE, FAMILIES, HISTORY_PREFIX, MARKET, RUN, RUN_FILES, Sweep, lacks_extension
from exporter.tree.files import FileKind
from exporter.tree.run_listing import RunListing

CACHE_MARGIN = timedelta(minutes=10)
"""Added to the retention time: a document may be served from a cache for a while after it was replaced."""

CLOCK_TOLERANCE = timedelta(hours=1)
"""The newest ledger closed minutes before the sweep. Where it is more than that, the clock of this machine is wrong,
or the ledger is an old one: either way nothing can be said of the age of anything."""

LEFTOVER_AGE = timedelta(hours=1)
"""Younger temporary files are left alone."""

WHOLE_SWEEP = timedelta(hours=24)
"""How long a sweep may go by the listings of expired runs, before one looks at every page there is: those of runs that
died before they had a listing, and proofs."""

BATCH_PAGES = 100_000
"""How many pages are looked at together; bounds the memory of a sweep."""

COPIES = ("v1/assets", "v1/changes", "v1/markets", "v1/system/status")
"""Where earlier versions made copies in buckets, besides those of each market."""

_EXPIRING = tuple(  # most pages of histories stay: newest documents of any later run lead to them
    family.prefix for family in FAMILIES if family.kind is FileKind.PAGE and family.sweep is Sweep.AFTER_RETENTION
)
_KEPT = tuple(family.prefix for family in FAMILIES if family.sweep is not Sweep.WITH_ITS_RUN)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """``refused`` says why nothing was removed, ``ageless`` why nothing by its age.

    ``unnamed`` are Parquet files of the history that neither its manifest nor the record names. They were kept.
    """

    documents: int = 0
    pages: int = 0
    runs: int = 0
    history: int = 0
    refused: str | None = None
    ageless: str | None = None
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """``retained`` runs are superseded for less than the retention time, ``expired`` for longer; by manifest key."""

    current: str
    retained: list[str]
    expired: list[str]
    whole: bool
    record: SweepRecord
    stale_documents: list[str]
    history: HistoryManifest | None


def clock_problem(moment: datetime, closed: int) -> str | None:
    """Why ages cannot be determined at a moment, if the run's ledger closed then (unix seconds); None when they can."""
    away = moment - datetime.fromtimestamp(closed, UTC)
    if abs(away) <= CLOCK_TOLERANCE:
        return None
    hours = abs(away) / timedelta(hours=1)
    side = "after" if away > timedelta() else "before"
    return (
        f"by this machine's clock it is {hours:.1f} hours {side} the close of the run's ledger; one of the two is wrong"
    )


def sweep(held: HeldStore, retention: timedelta, *, now: Clock = utc_now, closed: int | None = None) -> SweepResult:
    """Remove what no reader needs any more. A hold that is lost in the middle ends the sweep.

    Raises `StoreError` for a refused removal; the next sweep goes on.

    ``closed`` is when the ledger of the run just published closed (unix seconds): where that is far from the wall
    clock, only documents that are not part of the run are removed, and no time is recorded.
    """
    moment = now()
    before = moment - retention - CACHE_MARGIN
    ageless = None if closed is None else clock_problem(moment, closed)
    try:
        try:
            plan = _make_plan(held, None if ageless else moment, retention + CACHE_MARGIN)
        except StoreError as error:
            return SweepResult(refused=str(error))
        held.delete(plan.stale_documents)
        documents = len(plan.stale_documents)
        if ageless is not None:
            return SweepResult(documents=documents, ageless=ageless)
        write_record(held, plan.record)
        try:
            pages = _remove_pages(held, plan, before)
        except _UncertainError as error:
            return SweepResult(documents=documents, refused=str(error))
        _remove_runs(held, plan.expired)
        history, unnamed = _remove_history(held, plan, before)
        held.remove_leftovers(moment - LEFTOVER_AGE)
        return SweepResult(documents, pages, len(plan.expired), history, unnamed=unnamed)
    except LostRaceError as error:
        return SweepResult(refused=str(error))


def _make_plan(store: Store, moment: datetime | None, retention: timedelta) -> _Plan:
    """Without a time all runs stay. Raises `StoreError` where the sweep must not go on."""
    published = published_state.read_published(store)
    if published is None:
        raise StoreError("nothing is published yet")
    intent = published_state.unfinished_run(published, published_state.read_intent(store))
    if intent is not None:
        raise StoreError(
            f"run {intent.run_id} began to replace documents and did not finish; the next run that is published "
            "makes the tree whole"
        )
    listing = published_state.read_current_listing(store, published.status)
    history, current = published_state.read_whole_history(store), published.status.manifest_key
    earlier = [key for key in published_state.manifest_keys(store) if key != current]
    if moment is None:
        stale = _stale_documents(store, listing, earlier, ())
        return _Plan(current, earlier, [], False, SweepRecord({}), stale, history)
    present, last = int(moment.timestamp()), int((moment - retention).timestamp())
    record = read_record(store)
    # A later time was recorded under a wrong clock.
    superseded = {key: min(record.superseded.get(key, present), present) for key in earlier}
    began = {key: since for key, since in record.began.items() if key in superseded or key == current}
    expired = [key for key, since in superseded.items() if since < last]
    # A page that a sweep which died removed may have been written again since by a run that found none of its own.
    whole = not 0 <= present - record.whole < WHOLE_SWEEP.total_seconds() or not set(expired).isdisjoint(record.expired)
    due = [key for key in earlier if key not in record.settled]
    stale = _stale_documents(store, listing, due, expired)
    record = SweepRecord(superseded, record.history, began, earlier, expired, present if whole else record.whole)
    retained = [key for key in earlier if key not in expired]
    return _Plan(current, retained, expired, whole, record, stale, history)


def _stale_documents(store: Store, current: RunListing, due: Sequence[str], expired: Collection[str]) -> list[str]:
    """Documents of these runs that the published one does not have. An expired run may be unreadable."""
    stale, current_documents = set[str](), set(_documents(current)) if due else set[str]()
    for key in due:
        try:
            listing = published_state.read_listing(store, key)
        except StoreError:
            if key in expired:
                continue
            raise
        if listing is not None:
            stale.update(key for key in _documents(listing) if key not in current_documents)
    there = {key for key in stale if not key.startswith(_KEPT) and store.has(key)}
    return sorted(there.union(_copies(store)))


def _copies(store: Store) -> Iterator[str]:
    """The copies without an extension that earlier versions made in buckets."""
    yield from (key for key in COPIES if store.has(key))
    yield from (info.key for info in store.list(MARKET.prefix) if lacks_extension(info.key))


def _documents(listing: RunListing) -> Iterator[str]:
    yield from listing.frame.filter(pl.col("kind") == FileKind.DOCUMENT.value)["key"]


class _UncertainError(Exception):
    """It cannot be determined which pages are needed."""


def _remove_pages(store: Store, plan: _Plan, before: datetime) -> int:
    """Remove pages last written before a time, except those of the published and of retained runs.

    Age alone says nothing: a page may be written once and named by many runs. But a run that found none of its pages
    there, and began after that time by any clock, has none that is older.
    """
    removed = 0
    last = int((before + CLOCK_TOLERANCE).timestamp())
    holding = [key for key in (plan.current, *plan.retained) if plan.record.began.get(key, 0) <= last]
    old = _old_pages(store, plan, before)
    while keys := list(islice(old, BATCH_PAGES)):
        batch = pl.DataFrame({"key": keys}).unique()
        for key in holding:
            try:
                listing = published_state.read_listing(store, key)
            except StoreError as error:
                raise _UncertainError(str(error)) from error
            if listing is None:
                raise _UncertainError(f"{key} vanished while pages were removed; nothing more was removed")
            batch = batch.join(listing.frame, on="key", how="anti")
            if batch.is_empty():
                break
        store.delete(batch["key"].sort())
        removed += batch.height
    return removed


def _old_pages(store: Store, plan: _Plan, before: datetime) -> Iterator[str]:
    """Pages last written before a time: those of the expired runs, or where that is not enough, all."""
    listings: list[RunListing | None] = [None]
    if not plan.whole:
        with suppress(StoreError):
            listings = [published_state.read_listing(store, key) for key in plan.expired]
    if None in listings:
        infos = (info for prefix in _EXPIRING for info in store.list(prefix))
        pages = (info.key for info in infos if info.modified < before)
    else:
        pages = (key for listing in listings if listing is not None for key in listing.frame["key"])
    yield from (key for key in pages if key.startswith(_EXPIRING) and not BUCKET_PAGE.pattern.fullmatch(key))


def _remove_runs(store: Store, expired: Sequence[str]) -> None:
    store.delete(expired)
    left = [info.key for info in store.list(published_state.RUNS_PREFIX)]
    named = {f"{key.removesuffix('.json')}.parquet" for key in left if RUN.pattern.fullmatch(key)}
    store.delete(sorted(key for key in left if RUN_FILES.pattern.fullmatch(key) and key not in named))


def _remove_history(store: Store, plan: _Plan, before: datetime) -> tuple[int, tuple[str, ...]]:
    """Remove Parquet files that the record says were replaced; gives how many, and the files that nothing explains.

    A manifest that was put back from a copy names fewer files than there are. So that a file is not named is no reason.
    """
    history, record = plan.history, plan.record
    if history is None:
        return 0, ()
    named, last = {file.key for file in history.files}, int(before.timestamp())
    there = {info.key for info in store.list(HISTORY_PREFIX) if file_ledgers(info.key) is not None}
    replaced = {key for key in record.history if key not in named and has_successor(key, record, named)}
    expired = {key for key in replaced if record.history[key].since < last}
    store.delete(sorted(expired))
    still_replaced = {key: why for key, why in record.history.items() if key not in expired and key not in named}
    if still_replaced != record.history:
        write_record(store, structs.replace(record, history=still_replaced))
    return len(expired & there), tuple(sorted(there - named - replaced))
