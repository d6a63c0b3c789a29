"""The sweep: removes files that readers no longer need, in a step of its own after publishing.

It removes them in this order, so that the next sweep completes one that died:

1. Documents of earlier runs that the published run does not have, such as those of a market that vanished. They are
   removed at once, because they would be served as if they were current. So are the copies without an extension that
   earlier versions made in S3 buckets.
2. Pages that are older than the retention time and belong to no retained run.
3. Manifests and listings of runs whose retention time is over, and listings of runs that died before they wrote their
   manifest.
4. Parquet files that the history's manifest does not name, if the sweep's state has said for the retention time why:
   they were compacted, or written by a run that died. Files that neither names are kept, and reported.
5. Temporary files.

Nothing is removed while it is uncertain what is needed, while a run has not finished, or while somebody publishes.

Readers of a run can go on for the retention time after another run superseded it. A run cannot say itself when that
was. So the sweep keeps a state (`exporter.publishing.sweep_state`): a run that is neither published nor recorded is
superseded from now on. If the state is lost, that is so for every run, and files are kept too long rather than too
short. The state also spares the sweep most listings of runs, and for a day the list of all pages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice

import polars as pl
from msgspec import Struct, structs

from exporter.clocks import MAX_CLOCK_ERROR
from exporter.errors import LostRaceError, StoreError
from exporter.history.manifest import file_ledgers
from exporter.publishing import published_state
from exporter.publishing.published_history import read_checked_history_manifest
from exporter.publishing.sweep_state import SweepState, has_successor, read_sweep_state, write_sweep_state
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import (
    BUCKET_PAGE,
    FAMILIES,
    HISTORY_FILES_PREFIX,
    MARKET,
    RUN,
    RUN_FILES,
    Sweep,
    lacks_extension,
)
from exporter.tree.files import FileKind
from exporter.tree.run_listing import RunListing

CACHE_MARGIN = timedelta(minutes=10)
"""Time that is added to the retention time, because a cache may serve a document after it was replaced."""

LEFTOVER_AGE = timedelta(hours=1)
"""Age from which temporary files are removed. Somebody may still write to a younger one."""

FULL_SWEEP_INTERVAL = timedelta(hours=24)
"""Time between two sweeps that look at every page in the store.

Sweeps in between look only at the pages that the listings of expired runs name. They miss proofs, and pages of runs
that died before they had a listing."""

BATCH_PAGES = 100_000
"""Number of pages that are judged together, which bounds the memory of a sweep."""

COPIES = ("v1/assets", "v1/changes", "v1/markets", "v1/system/status")
"""Keys of the copies that earlier versions made in S3 buckets, besides the copies of each market."""

_EXPIRING_PREFIXES = tuple(
    family.prefix for family in FAMILIES if family.kind is FileKind.PAGE and family.sweep is Sweep.AFTER_RETENTION
)
"""Beginnings of the keys of pages that are removed after the retention time. Most pages of histories have others and
stay, because the history documents of every later run lead to them."""

_INDEPENDENT_PREFIXES = tuple(family.prefix for family in FAMILIES if family.sweep is not Sweep.WITH_ITS_RUN)
"""Beginnings of the keys of files that do not go when the run that listed them does."""


class SweepResult(Struct, frozen=True):
    """What a sweep removed: the number of documents, pages, runs and history files.

    Attributes:
        refused: why the sweep ended before it removed everything that is due; None if it did not.
        ageless: why nothing was removed by its age; None if ages could be determined.
        unnamed: Parquet files that neither the history's manifest nor the sweep's state names. They were kept.
    """

    documents: int = 0
    pages: int = 0
    runs: int = 0
    history: int = 0
    refused: str | None = None
    ageless: str | None = None
    unnamed: tuple[str, ...] = ()


class _Plan(Struct, frozen=True):
    """What a sweep is to do. Runs are named by the keys of their manifests.

    Attributes:
        current: the published run.
        retained: runs that are superseded for less than the retention time.
        expired: runs that are superseded for longer.
        is_full: whether every page in the store is looked at.
        state: the state as this sweep leaves it.
        stale_documents: the documents to remove at once.
        history: the history's manifest; None without one.
        doubt: why nothing may be removed now; None if it is known what is needed. The state then has only since when
            runs are superseded, so that a run whose listing is damaged expires like any other.
    """

    current: str
    retained: list[str]
    expired: list[str]
    is_full: bool
    state: SweepState
    stale_documents: list[str]
    history: HistoryManifest | None
    doubt: str | None = None


def clock_problem(moment: datetime, closed: int) -> str | None:
    """Why the age of files cannot be determined; None if it can.

    ``moment`` is the time by this machine's clock, ``closed`` when the run's ledger closed, in unix seconds.
    """
    away = moment - datetime.fromtimestamp(closed, UTC)
    if abs(away) <= MAX_CLOCK_ERROR:
        return None
    hours = abs(away) / timedelta(hours=1)
    side = "after" if away > timedelta() else "before"
    return (
        f"by this machine's clock it is {hours:.1f} hours {side} the close of the run's ledger; one of the two is wrong"
    )


def sweep(held: HeldStore, retention: timedelta, *, now: Clock = utc_now, closed: int | None = None) -> SweepResult:
    """Remove what no reader needs any more, in the order that this module describes.

    A sweep that loses its hold ends, and its result says so. Raises `StoreError` if the store refuses a removal; the
    next sweep goes on from there.

    ``closed`` is when the ledger of the run that was just published closed, in unix seconds. If that is far from this
    machine's clock, only documents that the run does not have are removed, and no time is recorded.
    """
    moment = now()
    before = moment - retention - CACHE_MARGIN
    ageless = None if closed is None else clock_problem(moment, closed)
    try:
        try:
            plan = _make_plan(held, None if ageless else moment, retention + CACHE_MARGIN)
        except StoreError as error:
            return SweepResult(refused=str(error))
        if plan.doubt is not None:
            write_sweep_state(held, plan.state)
            return SweepResult(refused=plan.doubt)
        held.delete(plan.stale_documents)
        documents = len(plan.stale_documents)
        if ageless is not None:
            return SweepResult(documents=documents, ageless=ageless)
        write_sweep_state(held, plan.state)
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
    """Decide what to remove. Without a ``moment`` no run expires. Raises `StoreError` if the sweep must not go on."""
    published = published_state.read_published(store)
    if published is None:
        raise StoreError("nothing is published yet")
    intent = published_state.unfinished_run(published.status, published_state.read_intent(store))
    if intent is not None:
        raise StoreError(
            f"run {intent.run_id} began to replace documents and did not finish; the next run that is published "
            "makes the tree whole"
        )
    listing = published_state.read_current_listing(store, published.status)
    history, current = read_checked_history_manifest(store), published.status.manifest_key
    earlier = [key for key in published_state.manifest_keys(store) if key != current]
    if moment is None:
        stale = _stale_documents(store, listing, earlier, ())
        return _Plan(current, earlier, [], False, SweepState({}), stale, history)
    present, last = int(moment.timestamp()), int((moment - retention).timestamp())
    state = read_sweep_state(store)
    # A recorded time that is later than now was recorded under a wrong clock.
    superseded = {key: min(state.superseded.get(key, present), present) for key in earlier}
    began = {key: since for key, since in state.began.items() if key in superseded or key == current}
    expired = [key for key, since in superseded.items() if since < last]
    # If the last sweep died while it removed these runs' pages, a run may have written such a page again since. Then
    # the age of each page has to be looked at.
    is_recent = 0 <= present - state.whole < FULL_SWEEP_INTERVAL.total_seconds()
    is_full = not is_recent or not set(expired).isdisjoint(state.expired)
    due = [key for key in earlier if key not in state.settled]
    retained = [key for key in earlier if key not in expired]
    try:
        stale = _stale_documents(store, listing, due, expired)
    except StoreError as error:
        state = structs.replace(state, superseded=superseded)
        return _Plan(current, retained, expired, is_full, state, [], history, doubt=str(error))
    state = SweepState(superseded, state.history, began, earlier, expired, present if is_full else state.whole)
    return _Plan(current, retained, expired, is_full, state, stale, history)


def _stale_documents(store: Store, current: RunListing, due: Sequence[str], expired: Collection[str]) -> list[str]:
    """Documents of the runs in ``due`` that the published run does not have, and the copies of earlier versions.

    A run in ``expired`` may have lost its listing to a sweep that died. Raises `StoreError` for any other run whose
    listing cannot be read.
    """
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
    present = {key for key in stale if not key.startswith(_INDEPENDENT_PREFIXES) and store.has(key)}
    return sorted(present.union(_copies(store)))


def _copies(store: Store) -> Iterator[str]:
    """The copies without an extension that earlier versions made in S3 buckets."""
    yield from (key for key in COPIES if store.has(key))
    yield from (info.key for info in store.list(MARKET.prefix) if lacks_extension(info.key))


def _documents(listing: RunListing) -> Iterator[str]:
    yield from listing.frame.filter(pl.col("kind") == FileKind.DOCUMENT.value)["key"]


class _UncertainError(Exception):
    """The error if it cannot be determined which pages are needed."""


def _remove_pages(store: Store, plan: _Plan, before: datetime) -> int:
    """Remove pages last written before a time, except those of the published and of retained runs; return how many.

    Age alone is no reason to remove a page, because a page may be written once and named by many later runs. But a run
    that wrote all its pages itself, and certainly began after that time, has no older page, so that its listing need
    not be read.
    """
    removed = 0
    latest_start = int((before + MAX_CLOCK_ERROR).timestamp())
    needed_runs = (plan.current, *plan.retained)
    may_need_old_pages = [key for key in needed_runs if plan.state.began.get(key, 0) <= latest_start]
    old = _old_pages(store, plan, before)
    while keys := list(islice(old, BATCH_PAGES)):
        batch = pl.DataFrame({"key": keys}).unique()
        for key in may_need_old_pages:
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
    """Pages that may be removed: those that expired runs list; in a full sweep, all last written before a time."""
    listings: list[RunListing | None] = [None]
    if not plan.is_full:
        with suppress(StoreError):
            listings = [published_state.read_listing(store, key) for key in plan.expired]
    if None in listings:
        infos = (info for prefix in _EXPIRING_PREFIXES for info in store.list(prefix))
        pages = (info.key for info in infos if info.modified < before)
    else:
        pages = (key for listing in listings if listing is not None for key in listing.frame["key"])
    yield from (key for key in pages if key.startswith(_EXPIRING_PREFIXES) and not BUCKET_PAGE.pattern.fullmatch(key))


def _remove_runs(store: Store, expired: Sequence[str]) -> None:
    """Remove the manifests of expired runs, and then every listing without a manifest."""
    store.delete(expired)
    keys = [info.key for info in store.list(published_state.RUNS_PREFIX)]
    named_listings = {f"{key.removesuffix('.json')}.parquet" for key in keys if RUN.pattern.fullmatch(key)}
    store.delete(sorted(key for key in keys if RUN_FILES.pattern.fullmatch(key) and key not in named_listings))


def _remove_history(store: Store, plan: _Plan, before: datetime) -> tuple[int, tuple[str, ...]]:
    """Remove Parquet files that the state says were replaced. Returns how many, and the files that nothing explains.

    That the manifest does not name a file is no reason to remove it: somebody may have put back an old copy of the
    manifest, which names fewer files than there are.
    """
    history, state = plan.history, plan.state
    if history is None:
        return 0, ()
    named, last = {file.key for file in history.files}, int(before.timestamp())
    present = {info.key for info in store.list(HISTORY_FILES_PREFIX) if file_ledgers(info.key) is not None}
    replaced = {key for key in state.history if key not in named and has_successor(key, state, named)}
    expired = {key for key in replaced if state.history[key].since < last}
    store.delete(sorted(expired))
    still_replaced = {key: why for key, why in state.history.items() if key not in expired and key not in named}
    if still_replaced != state.history:
        write_sweep_state(store, structs.replace(state, history=still_replaced))
    return len(expired & present), tuple(sorted(present - named - replaced))
