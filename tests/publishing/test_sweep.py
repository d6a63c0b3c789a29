"""Tests of `exporter.publishing.retention`: what is removed, when, and what never is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from exporter.errors import LostRaceError, StoreError
from exporter.publishing.acceptance import accept_run
from exporter.publishing.publication import Publication
from exporter.publishing.published_state import RUNS_PREFIX, manifest_keys
from exporter.publishing.retention import CACHE_MARGIN, SweepResult
from exporter.publishing.sweep_state import SWEEP_STATE_KEY, is_sweep_state, record_replaced
from exporter.stores.held_store import hold
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.documents import ManifestFile, RunManifest, encode, timestamp
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, RUN, RUN_FILES, STATUS_KEY
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import RunListing
from tests.examples import examples
from tests.publishing.held import sweep
from tests.publishing.published_tree import (
    SETTINGS,
    TestClock,
    assert_whole,
    fail_publishing,
    make_run,
    operations_until,
    publish_run,
    published,
    status_of,
    walk,
)
from tests.stores.bucket_simulator import BucketSimulator, Call, SimulatedKill, content

RETENTION = timedelta(hours=24)
HEAD = "v1/assets/index.json"
BEGUN = b'{"run_id":"103-x","observed_ledger":103,"started_at":""}'
UNDOING = b'{"run_id":"101-x","observed_ledger":101,"started_at":"","replaced_ledger":102}'


def keys_of(store: Store, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


def page_keys(*ledgers: int) -> set[str]:
    return {file.key for ledger in ledgers for file in make_run(ledger).files if file.key.startswith("v1/pages/")}


def test_a_sweep_that_loses_its_hold_ends() -> None:
    """If another publisher took over the hold before a removal, the sweep removes nothing more and says so."""

    class TakenOver(MemoryStore):
        def delete(self, keys: Iterable[str]) -> None:
            raise LostRaceError("another publisher holds it")

    store, clock = published(100)
    publish_run(store, make_run(101), clock)
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    before = keys_of(store)

    assert SweepResult(refused="another publisher holds it") == sweep(TakenOver(store, clock), RETENTION, now=clock)
    assert before == keys_of(store)


def test_a_run_that_was_current_for_long_is_retained_from_its_end() -> None:
    """The retention time begins when a run is superseded: the last run before a week without any is still served."""
    store, clock = published(100)
    clock.advance(timedelta(days=7))
    publish_run(store, make_run(101), clock)
    first = sweep(store, RETENTION, now=clock)
    clock.advance(RETENTION)
    second = sweep(store, RETENTION, now=clock)
    assert 5 == len(walk(store, make_run(100).document(HEAD)))
    clock.advance(CACHE_MARGIN + timedelta(seconds=1))
    third = sweep(store, RETENTION, now=clock)

    assert [SweepResult(), SweepResult()] == [first, second]
    assert SweepResult(pages=len(page_keys(100)), runs=1) == third
    assert page_keys(101) == set(keys_of(store, "v1/pages/"))


def test_a_limit_that_is_left_out_from_now_on() -> None:
    """If a listing shrank, its files for a limit have the bytes of its index at once, and are swept later."""
    limit, index = "v1/assets/market/CAAA/limit/1.json", "v1/assets/market/CAAA/index.json"
    store = MemoryStore(clock=TestClock())

    publish_run(store, make_run(1, {"CAAA": 2}))
    for ledger in (2, 3):
        run = make_run(ledger, {"CAAA": 1})
        publish_run(store, run)  # and no sweep after the first of them

        assert run.document(index) == content(store, limit)
    assert 1 == sweep(store, RETENTION, now=TestClock()).documents
    assert not store.has(limit)
    assert run.document(index) == content(store, index)
    publish_run(store, make_run(4, {"CAAA": 1}))
    assert not store.has(limit)


def test_documents_are_found_after_missed_sweeps() -> None:
    """A document that vanished several runs ago, or that only a run that died had, is removed as well."""
    store, clock = published(100)
    publish_run(store, make_run(101, {"CAAA": 3}), clock)
    doomed = make_run(102, {"CAAA": 3, "CCCC": 1})
    fail_publishing(store, doomed, operations_until(store, doomed, STATUS_KEY), clock)
    assert "v1/markets/CCCC.json" in keys_of(store)
    publish_run(store, make_run(103, {"CAAA": 3}), clock)
    sweep(store, RETENTION, now=clock)

    assert [] == [key for key in keys_of(store) if "CBBB" in key or "CCCC" in key]
    assert_whole(store, make_run(103, {"CAAA": 3}))


def test_the_order_of_replaced_files_is_not_in_the_record() -> None:
    """The record has the same bytes in whatever order the files were replaced, and is then known as a record."""
    now = TestClock()()
    replaced = {f"history/pools/date=2026-11-{day}/{day}.parquet": None for day in (21, 20, 23, 22)}
    records = []
    for order in (replaced, dict(reversed(replaced.items()))):
        store = MemoryStore()
        record_replaced(store, order, now)
        records.append(content(store, SWEEP_STATE_KEY))

    assert records[0] == records[1]
    assert sorted(replaced) == list(json.loads(records[0])["history"])
    assert is_sweep_state(records[0])


def test_order_of_removals() -> None:
    """Documents go first, then the record is written; pages go before the manifests that know of them."""
    clock = TestClock()
    bucket = BucketSimulator(MemoryStore(clock=clock))
    publish_run(bucket, make_run(100), clock)
    publish_run(bucket, make_run(101, {"CAAA": 3}), clock)
    clock.advance(2 * RETENTION)
    publish_run(bucket, make_run(102, {"CAAA": 3}), clock)
    bucket.put(SWEEP_STATE_KEY, json.dumps({"superseded": dict.fromkeys(manifest_keys(bucket), 1)}).encode())
    clock.advance(2 * RETENTION)
    bucket.calls.clear()
    result = sweep(bucket, RETENTION, now=clock)
    order = {"v1/syste": 1, "v1/pages": 2, "v1/runs/": 3}
    steps = [order.get(call.key[:8], 0) for call in bucket.writes() if call.operation in ("delete", "put")]

    assert {0, 1, 2, 3} == set(steps)
    assert all(earlier <= later for earlier, later in pairwise(steps))
    assert (3, 2) == (result.documents, result.runs)


def test_pages_that_many_runs_share() -> None:
    """An old page stays as long as the published or a retained run names it; one that none names goes.

    The pages of the histories stay for good, because every later page leads to them, but for those of five minutes.
    """
    store, clock = published()
    shared, once = (RenderedFile(f"v1/pages/{name}.json", b"{}", FileKind.PAGE) for name in ("shared", "once"))
    similar = f"5m-{19 * 'a'}"  # as those of five minutes begin, and shorter
    names = similar, f"5m-{22 * 'b'}", "closed", f"totals/{22 * 'a'}"
    buckets = [RenderedFile(f"v1/buckets/{name}.json", b"{}", FileKind.PAGE) for name in names]
    for day in range(5):
        run = make_run(100 + day)
        publish_run(store, run, clock, files=(*run.files, shared, *([once, *buckets] if day == 0 else [])))
        assert sweep(store, RETENTION, now=clock).refused is None
        watched = [key for key in keys_of(store, "v1/pages/") if key in (once.key, shared.key)]
        assert [once.key, shared.key][day // 3 :] == watched
        stays = [bucket.key for bucket in buckets if day < 3 or bucket is not buckets[1]]
        assert stays == keys_of(store, "v1/buckets/")
        clock.advance(timedelta(hours=23))


def recorded(store: Store) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(content(store, SWEEP_STATE_KEY))
    return record


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 6, 13, 24, 30]),
        st.sampled_from([{"CAAA": 3, "CBBB": 2}, {"CAAA": 2}, {"CBBB": 3, "CCCC": 1}]),
        st.sampled_from(["publish", "publish", "publish", "die", "clock"]),
        st.booleans(),
    ),
    min_size=3,
    max_size=14,
)
"""Hours that pass, the markets of the run, what becomes of it, and whether it has the page that many runs share."""


@examples(fast=5, thorough=100)
@given(STEPS)
def test_what_the_record_spares(steps: list[tuple[int, dict[str, int], str, bool]]) -> None:
    """The same files are left whether a sweep reads the listings of all runs or only those that the record demands."""
    shared = RenderedFile("v1/pages/shared.json", b"{}", FileKind.PAGE)
    left = []
    for is_spared in (True, False):
        clock, left_after = TestClock(), list[set[str]]()
        store = MemoryStore(clock=clock)
        for number, (hours, markets, what, shares) in enumerate(steps):
            clock.advance(timedelta(hours=hours))
            run = make_run(100 + number, markets)
            files = (*run.files, *([shared] if shares else []))
            bucket = BucketSimulator(store)
            if what == "die":
                bucket.fail_from(operations_until(store, run, INTENT_KEY) - number % 3, StoreError("no"))
            wrong, closed = TestClock(), timestamp(int(clock().timestamp()) - 5)
            wrong.now = clock() + timedelta(hours=9 if what == "clock" else 0)
            with suppress(StoreError), hold(bucket) as held:
                publication = Publication(held, accept_run(held, run.ledger), run.history, wrong)
                publication.write(files)
                sealed = publication.seal(SETTINGS, ())
                publication.complete(sealed, structs.replace(status_of(sealed.identity), ledger_close_time=closed))
            if not is_spared and store.get(SWEEP_STATE_KEY) is not None:
                store.put(SWEEP_STATE_KEY, json.dumps(recorded(store) | {"began": {}, "settled": []}).encode())
            sweep(store, RETENTION, now=clock)
            left_after.append(set(keys_of(store)) - {SWEEP_STATE_KEY})
        left.append(left_after)

    for number, (spared, all_read) in enumerate(zip(*left, strict=True)):
        assert (number, set()) == (number, spared ^ all_read)


def test_a_sweep_reads_few_listings() -> None:
    """If a run starts every half hour, some 50 are retained; a sweep reads the listings of a few of them."""
    store, clock = published()
    for number in range(60):
        publish_run(store, make_run(100 + number, {"CAAA": 2}), clock)
        bucket = BucketSimulator(store)
        pages = sweep(bucket, RETENTION, now=clock).pages
        clock.advance(timedelta(minutes=30))
    read = [call.key for call in bucket.calls if call.operation == "get" and call.key.endswith(".parquet")]

    assert pages > 0
    assert len(manifest_keys(store)) > 45
    assert len(read) <= 6


def test_an_hour_after_a_full_sweep_pages_are_not_listed() -> None:
    """The first sweep lists all pages, one an hour later does not, and one more than a day later does again."""
    store, clock = published(100)
    listed = []
    for ledger, hours in ((101, 1), (102, 1), (103, 26)):
        clock.advance(timedelta(hours=hours))
        publish_run(store, make_run(ledger), clock)
        bucket = BucketSimulator(store)
        sweep(bucket, RETENTION, now=clock)
        listed.append(Call("list", "v1/pages/") in bucket.calls)

    assert [True, False, True] == listed


@pytest.mark.slow
def test_pages_are_listed_once_a_day() -> None:
    """In between, pages go with the runs that expired, as if all had been listed; those of a dead run wait a day."""
    listed, left = [], []
    for always in (False, True):
        clock = TestClock()
        store, counted = MemoryStore(clock=clock), 0
        for hour in range(52):
            if hour == 3:
                fail_publishing(store, make_run(1100), 5, clock)
            publish_run(store, make_run(100 + hour), clock)
            if always:
                store.put(SWEEP_STATE_KEY, json.dumps(recorded(store) | {"whole": 0}).encode())
            bucket = BucketSimulator(store)
            sweep(bucket, RETENTION, now=clock)
            counted += Call("list", "v1/pages/") in bucket.calls
            clock.advance(timedelta(hours=1))
            pages = set(keys_of(store, "v1/pages/"))
            assert page_keys(*range(max(100, 100 + hour - 25), 101 + hour)) <= pages  # superseded an hour after it
            assert set() == page_keys(*range(100, 100 + hour - 26)) & pages
        listed.append(counted)
        left.append(set(keys_of(store)))

    assert [3, 52] == listed
    assert set() == left[0] ^ left[1]
    assert set() == page_keys(1100) & left[0]


def test_a_page_that_a_dead_sweep_removed_and_a_run_wrote_again() -> None:
    """Such a page stays, because a sweep that follows a dead one goes by the age of every page."""
    store, clock = published()
    again = RenderedFile("v1/pages/again.json", b"{}", FileKind.PAGE)

    def publish_with(ledger: int, *pages: RenderedFile) -> None:
        run = make_run(ledger)
        publish_run(store, run, clock, files=(*run.files, *pages))

    publish_with(100, again)
    publish_with(101)
    for hours in (0, 24.1, 0.4):  # all pages are looked at by the second sweep, and run 100 is expired after it
        clock.advance(timedelta(hours=hours))
        if hours != 0.4:
            sweep(store, RETENTION, now=clock)
    trial, dying = BucketSimulator(MemoryStore(store, clock)), BucketSimulator(store)
    sweep(trial, RETENTION, now=clock)
    removed = [call.operation == "delete" and call.key.startswith(RUNS_PREFIX) for call in trial.calls]
    dying.die_at(removed.index(True) - 1)
    with pytest.raises(SimulatedKill):
        sweep(dying, RETENTION, now=clock)
    assert store.get(again.key) is None
    publish_with(102, again)
    sweep(store, RETENTION, now=clock)

    assert again.key in keys_of(store)
    assert page_keys(101, 102) <= set(keys_of(store, "v1/pages/"))


def test_a_dead_run_that_is_published_later_is_retained() -> None:
    """A run that died, was recorded, and was published much later has its readers' time from then on."""
    store, clock = published(100)
    fail_publishing(store, make_run(105), operations_until(store, make_run(105), INTENT_KEY), clock)
    assert keys_of(store, f"{RUNS_PREFIX}105-")
    sweep(store, RETENTION, now=clock)
    clock.advance(RETENTION - timedelta(hours=1))
    publish_run(store, make_run(105), clock)
    clock.advance(timedelta(hours=2))
    publish_run(store, make_run(106), clock)
    sweep(store, RETENTION, now=clock)
    clock.advance(RETENTION)
    sweep(store, RETENTION, now=clock)

    assert 5 == len(walk(store, make_run(105).document(HEAD)))


@pytest.mark.parametrize("damage", [b"", b"{}", b"[" * 200_000, b'{"superseded": 1}'])
def test_a_damaged_record_keeps_too_long(damage: bytes) -> None:
    """If its record is missing, the sweep takes every earlier run as superseded just now."""
    store, clock = published(100, 101)
    sweep(store, RETENTION, now=clock)
    clock.advance(2 * RETENTION)
    store.put(SWEEP_STATE_KEY, damage)

    assert SweepResult() == sweep(store, RETENTION, now=clock)
    clock.advance(2 * RETENTION)
    assert 1 == sweep(store, RETENTION, now=clock).runs


def test_a_clock_that_was_ahead() -> None:
    """A time recorded under a wrong clock, far ahead, does not keep a run for ever."""
    store, clock = published(100, 101)
    clock.advance(timedelta(days=365))
    sweep(store, RETENTION, now=clock)
    clock.advance(timedelta(days=-364))
    sweep(store, RETENTION, now=clock)
    clock.advance(2 * RETENTION)

    assert 1 == sweep(store, RETENTION, now=clock).runs


@pytest.mark.parametrize(
    ("prefix", "data", "reason"),
    [
        (STATUS_KEY, None, "nothing is published yet"),
        (STATUS_KEY, b"{}", "status.json cannot be understood"),
        (INTENT_KEY, b"{", "intent.json cannot be understood"),
        (INTENT_KEY, BEGUN, "run 103-x began to replace documents and did not finish"),
        (INTENT_KEY, UNDOING, "run 101-x began to replace documents and did not finish"),
        (HISTORY_MANIFEST_KEY, b"[]", "history.json is not a history manifest"),
        (f"{RUNS_PREFIX}102-", None, "102-.*json is missing"),
        (f"{RUNS_PREFIX}102-", b"{}", "102-.*json does not have the digest"),
        (f"{RUNS_PREFIX}101-", b"{}", "101-.*json cannot be understood"),
    ],
)
def test_nothing_is_removed_in_doubt(prefix: str, data: bytes | None, reason: str) -> None:
    """If it cannot be determined what is needed, nothing is removed, and the result says why."""
    store, clock = published(100, 101)
    sweep(store, RETENTION, now=clock)
    clock.advance(2 * RETENTION)
    publish_run(store, make_run(102, {"CAAA": 1}), clock)
    (key,) = (key for key in keys_of(store, prefix) if key.endswith(".json"))
    if data is None:
        store.delete([key])
    else:
        store.put(key, data)
    bucket = BucketSimulator(store)
    result = sweep(bucket, RETENTION, now=clock)

    assert result.refused is not None
    assert SweepResult(refused=result.refused) == result
    assert re.search(reason, result.refused)
    assert [] == [call for call in bucket.writes() if call.operation in ("delete", "remove_leftovers")]


def test_a_damaged_manifest_of_an_expired_run() -> None:
    """A manifest that cannot be read does not stop the sweep when its run's retention time is over."""
    store, clock = published(100, 101)
    sweep(store, RETENTION, now=clock)
    key = next(iter(keys_of(store, f"{RUNS_PREFIX}100-")))
    store.put(key, b"{")
    clock.advance(2 * RETENTION)

    assert 1 == sweep(store, RETENTION, now=clock).runs
    assert page_keys(101) == set(keys_of(store, "v1/pages/"))


@pytest.mark.parametrize("damaged", ["v1/runs/100-{}.json", "v1/runs/100-{}.parquet"])
def test_a_run_that_was_damaged_before_its_first_sweep(damaged: str) -> None:
    """It stops the sweep only until its retention time is over, which begins although its documents are not known."""
    store, clock = published(100)
    (key,) = manifest_keys(store)
    store.put(damaged.format(key.removesuffix(".json").partition("-")[2]), b"{}")
    refused = list[bool]()
    for ledger in (101, 102, 103, 104):
        publish_run(store, make_run(ledger), clock)
        swept = sweep(store, RETENTION, now=clock)
        refused.append(swept.refused is not None)
        if swept.refused is not None:
            assert "or leave it: runs go on without it" in swept.refused
        clock.advance(timedelta(hours=13))

    assert [True, True, False, False] == refused
    assert 1 == swept.runs
    assert key not in manifest_keys(store)
    assert page_keys(102, 103, 104) == set(keys_of(store, "v1/pages/"))


def test_what_a_damaged_manifest_names() -> None:
    """A manifest that lists records, pages or history as documents does not get them removed."""
    store, clock = published(100)
    store.put("state/history-buckets.bin", b"state")
    own = next(iter(page_keys(100))), make_run(100).history.file.key, next(iter(manifest_keys(store)))
    names = [STATUS_KEY, HISTORY_MANIFEST_KEY, INTENT_KEY, "state/history-buckets.bin", *own]
    put_run(store, names)
    result = sweep(store, RETENTION, now=clock)

    assert SweepResult() == result
    assert_whole(store, make_run(100))

    put_run(store, ["../outside"], "98-abc")
    assert f"{RUNS_PREFIX}98-abc.json cannot be understood" in (sweep(store, RETENTION, now=clock).refused or "")


def put_run(store: Store, names: list[str], run_id: str = "99-abc") -> None:
    """The manifest and the listing of a run, with these keys as documents."""
    listing = RunListing.of(ManifestFile(key, "document", 1, "0" * 64) for key in names).parquet
    key = RUN_FILES.key(run_id=run_id)
    manifest = RunManifest(
        run_id, 99, "2026-11-21T00:00:00Z", len(names), len(names), key, sha256(listing).hexdigest(), SETTINGS, []
    )
    store.put(key, listing)
    store.put(RUN.key(run_id=run_id), encode(manifest))


@pytest.mark.parametrize("wrong", [timedelta(days=400), timedelta(hours=1, minutes=1), timedelta(hours=-2)])
def test_a_clock_far_from_the_ledger(wrong: timedelta) -> None:
    """Nothing is removed for its age, nor is a time recorded; documents of what vanished go, as they need no clock."""
    store, clock = published(100)
    clock.advance(timedelta(hours=1))
    publish_run(store, make_run(101, {"CAAA": 3}), clock)
    closed = int(clock.now.timestamp()) - 60
    pages = page_keys(100)
    before = set(keys_of(store))
    clock.advance(wrong)

    result = sweep(store, RETENTION, now=clock, closed=closed)

    assert result.ageless is not None
    assert SweepResult(documents=result.documents, ageless=result.ageless) == result
    gone = {"v1/markets/CBBB.json", *(f"v1/assets/market/CBBB/{name}.json" for name in ("index", "limit/1"))}
    assert gone == before - set(keys_of(store))
    assert {} == recorded(store)["superseded"]

    clock.advance(-wrong)
    assert SweepResult() == sweep(store, RETENTION, now=clock, closed=closed)
    clock.advance(RETENTION + timedelta(minutes=11))
    assert len(pages) == sweep(store, RETENTION, now=clock, closed=int(clock.now.timestamp())).pages


def test_history_is_kept() -> None:
    """Parquet files that the manifest names stay for ever; so do those that nothing explains, and these are named."""
    store, clock = published(100, 110)
    unknown = [make_run(ledger).history.file for ledger in (90, 105, 120)]
    for file in unknown:
        store.put_new(file.key, file.data)
    store.put_new("history/pools/date=2026-11-21/notes.parquet", b"")
    clock.advance(timedelta(days=400))
    result = sweep(store, RETENTION, now=clock)
    kept = keys_of(store, "history/pools/date=")

    assert (0, sorted(file.key for file in unknown)) == (result.history, [*result.unnamed])
    assert [f"history/pools/date=2026-11-21/{name}.parquet" for name in (100, 105, 110, 120, 90, "notes")] == kept


def test_the_file_of_a_run_that_died_goes() -> None:
    """The run that finds the intent of one that died records its Parquet file, and it goes after the retention."""
    store, clock = published(100)
    dead = make_run(101).history.file.key
    fail_publishing(store, make_run(101), operations_until(store, make_run(101), HISTORY_MANIFEST_KEY), clock)
    assert store.has(dead)
    publish_run(store, make_run(102), clock)

    results = [sweep(store, RETENTION, now=clock)]
    assert store.has(dead)
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    results.append(sweep(store, RETENTION, now=clock))
    assert [(0, ()), (1, ())] == [(result.history, result.unnamed) for result in results]
    assert not store.has(dead)


@pytest.mark.parametrize("back", [1, 3])
def test_an_older_manifest_of_the_history_is_refused(back: int) -> None:
    """A manifest of some runs before is refused by runs and sweeps alike, and no file of the history is removed."""
    store, clock = published(*range(100, 111 - back))
    older = content(store, HISTORY_MANIFEST_KEY)
    for ledger in range(111 - back, 111):
        publish_run(store, make_run(ledger), clock)
    files = keys_of(store, "history/")
    store.put(HISTORY_MANIFEST_KEY, older)
    clock.advance(timedelta(days=400))

    said = rf"ends at ledger {110 - back}, but ledger 110 was published.*exporter history rebuild"
    with pytest.raises(StoreError, match=said) as caught:
        publish_run(store, make_run(111), clock)
    assert 10 == caught.value.exit_code
    assert re.search(said, sweep(store, RETENTION, now=clock).refused or "")
    assert files == keys_of(store, "history/")


def test_a_manifest_that_is_older_than_the_intent_is_refused() -> None:
    """If the status document is lost, the intent still says which ledgers the history had."""
    store, clock = published(100)
    older = content(store, HISTORY_MANIFEST_KEY)
    for ledger in (101, 102):
        publish_run(store, make_run(ledger), clock)
    store.put(HISTORY_MANIFEST_KEY, older)
    store.delete([STATUS_KEY])
    with pytest.raises(StoreError, match="ends at ledger 100, but ledger 101 was published"):
        publish_run(store, make_run(103), clock)


def test_what_a_file_was_replaced_by_must_be_there() -> None:
    """A replaced file stays, and is named, if nothing that took its place is in the manifest; a chain is followed."""
    store, clock = published(100)
    day, part = (f"history/pools/date=2026-11-21/{name}.parquet" for name in ("80-89-" + 12 * "a", "80"))
    for key in (day, part):
        store.put_new(key, b"")
    record_replaced(store, {part: day}, clock())
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    lost = sweep(store, RETENTION, now=clock)
    record_replaced(store, {day: make_run(100).history.file.key}, clock())
    found = sweep(store, RETENTION, now=clock)

    assert [(0, (day, part)), (1, ())] == [(each.history, each.unnamed) for each in (lost, found)]
    assert [False, True] == [store.has(key) for key in (part, day)]


def test_a_retained_run_whose_manifest_is_damaged() -> None:
    """If the pages of a retained run are no longer known, none is removed, and the refusal names the run's manifest."""
    store, clock = published(100, 101)
    sweep(store, RETENTION, now=clock)  # no document of the first run is looked for again
    clock.advance(timedelta(hours=12))
    publish_run(store, make_run(102), clock)
    clock.advance(timedelta(hours=13))
    damaged = manifest_keys(store)[1]
    store.put(damaged, b"{}")
    pages = page_keys(100, 101, 102)

    swept = sweep(store, RETENTION, now=clock)
    assert swept.refused is not None
    assert damaged in swept.refused
    assert pages == set(keys_of(store, "v1/pages/"))


def test_copies_of_earlier_versions_go() -> None:
    """The first sweep removes every copy without an extension that an earlier version made, and nothing else."""
    store, clock = published(100)
    whole = set(keys_of(store))
    copies = ["v1/assets", "v1/changes", "v1/markets", "v1/markets/CAAA", "v1/markets/CGONE", "v1/system/status"]
    store.put_many((key, b"{}") for key in copies)
    result = sweep(store, RETENTION, now=clock)

    assert 6 == result.documents
    assert whole | {SWEEP_STATE_KEY} == set(keys_of(store))
