"""Tests of exporter/publishing/publication.py: what is written in which order, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from exporter.errors import CheckError, ImmutableKeyError, LostRaceError, StoreError
from exporter.publishing.acceptance import LedgerNotNewerError, accept_run
from exporter.publishing.publication import Publication, RunIdentity
from exporter.publishing.sweep_state import SWEEP_STATE_KEY
from exporter.stores.held_store import hold
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, Written, etag_of
from exporter.tree.documents import RunManifest, SystemStatus
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, STATUS_KEY
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.run_listing import RunListing
from tests.history.frames import manifest_of
from tests.publishing.held import sweep
from tests.publishing.published_tree import (
    SETTINGS,
    START,
    TestClock,
    assert_whole,
    fail_publishing,
    make_run,
    operations_until,
    publish_run,
    published,
    status_of,
    tree_of,
    walk,
)
from tests.stores.bucket_simulator import BucketSimulator, Call, content


def phase(call: Call) -> int:
    """The step of publishing that a write belongs to."""
    if call.key.startswith("v1/pages/"):
        return 1
    if call.key.startswith("v1/runs/") or call.key == SWEEP_STATE_KEY:
        return 2
    if call.key.startswith("history/"):
        return 4
    return {INTENT_KEY: 3, HISTORY_MANIFEST_KEY: 5, STATUS_KEY: 7}.get(call.key, 6)


def stored_json(store: Store, key: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content(store, key))
    return document


@pytest.mark.parametrize("step", [1, -1])
def test_order_of_writes(step: int) -> None:
    """Pages come first, then manifest, intent, Parquet file, history's manifest, documents, and the status document.

    In whatever order the stream has them no file is written before the files that it links to.
    """
    bucket, run = BucketSimulator(), make_run(100)
    publish_run(bucket, run, files=run.files[::step])
    writes = bucket.writes()

    assert {1, 2, 3, 4, 5, 6, 7} == {phase(call) for call in writes}
    assert all(phase(earlier) <= phase(later) for earlier, later in pairwise(writes))
    assert {"put_new"} == {call.operation for call in writes if phase(call) in (1, 4)}
    assert [Call("swap", STATUS_KEY)] == [call for call in writes if call.operation == "swap"]


def test_result_counts_what_was_written() -> None:
    """The result says how many files and bytes were written, and what was there already."""
    store, run = MemoryStore(), make_run(100)
    files = [*run.files, run.history.file]
    store.put(files[0].key, files[0].data)
    with hold(store) as held:
        publication = Publication(held, accept_run(held, run.ledger), run.history)
        publication.write(run.files)
        sealed = publication.seal(SETTINGS, ())
        result = publication.complete(sealed, status_of(sealed.identity))

    assert Written(len(files) - 1, 1, sum(len(file.data) for file in files[1:])) == result


def test_records_of_the_run_agree() -> None:
    """Status document, manifest and intent name the same run, and the manifest lists every file with its digest."""
    store, clock = MemoryStore(), TestClock()
    run = make_run(100)
    first = publish_run(store, run, clock)
    manifest_data = content(store, first.manifest_key)
    manifest = msgspec.json.decode(manifest_data, type=RunManifest)
    expected = {file.key: (file.kind.value, len(file.data), file.sha256) for file in (*run.files, run.history.file)}

    listing = content(store, manifest.files_key)
    assert manifest.files_sha256 == etag_of(listing)
    listed = list(RunListing.from_parquet(listing))
    assert expected == {file.key: (file.kind, file.bytes, file.sha256) for file in listed}
    assert sorted(expected) == [file.key for file in listed]
    assert (len(listed), sum(file.bytes for file in listed)) == (manifest.file_count, manifest.bytes)
    assert (first.run_id, 100, "2026-11-21T10:00:00Z") == (
        manifest.run_id,
        manifest.observed_ledger,
        manifest.published_at,
    )
    assert first.manifest_sha256 == etag_of(manifest_data) == stored_json(store, STATUS_KEY)["manifest_sha256"]
    assert {
        "run_id": first.run_id,
        "observed_ledger": 100,
        "started_at": "2026-11-21T10:00:00Z",
        "history_key": run.history.file.key,
        "history_ledger": 0,
        "replaced_ledger": None,
    } == stored_json(store, INTENT_KEY)
    assert None is first.previous_run_id
    assert first.run_id == publish_run(store, make_run(101), clock).previous_run_id


def test_the_wall_clock_reaches_only_the_records() -> None:
    """The same run published at two times gives the same tree, apart from the times in the records of runs."""
    late = TestClock()
    late.now = START.replace(year=2027)
    trees = []
    for clock in (TestClock(), late):
        store = MemoryStore()
        identity = publish_run(store, make_run(100), clock)
        trees.append((identity.run_id, tree_of(store)))

    assert trees[0] == trees[1]


def history_ledgers(store: Store) -> list[int]:
    """The ledgers that the history's manifest has."""
    return [file.first_ledger for file in manifest_of(store).files]


def test_replacing_a_ledger_that_the_network_never_had() -> None:
    """A tree that is ahead goes back in one swap: the history loses the false ledgers, readers nothing."""
    store, clock = published(100, 1_000_100)
    false = stored_json(store, STATUS_KEY)["run_id"]
    run = make_run(101)
    with pytest.raises(LedgerNotNewerError):
        publish_run(store, run, clock)

    bucket = BucketSimulator(store)
    publish_run(bucket, run, clock, replaced_ledger=1_000_100)

    assert Call("swap", STATUS_KEY) == bucket.writes()[-1]
    assert_whole(store, run)
    assert false == stored_json(store, STATUS_KEY)["previous_run_id"]
    assert [100, 101] == history_ledgers(store)
    assert 101 == stored_json(store, HISTORY_MANIFEST_KEY)["observed_ledger"]
    assert 5 == len(walk(store, make_run(1_000_100).document("v1/assets/index.json")))  # who pages there goes on

    clock.advance(timedelta(hours=25))
    publish_run(store, make_run(102), clock)
    sweep(store, timedelta(hours=24), now=clock)
    assert ["100", "101", "102"] == sorted(info.key[30:-8] for info in store.list("history/pools/date="))
    publish_run(store, make_run(1_000_100), clock)  # which the network has reached by now
    assert_whole(store, make_run(1_000_100))


@pytest.mark.parametrize("ledger", [102, 103, 104])
def test_replacing_several_runs(ledger: int) -> None:
    """The history loses the named ledger and every later one, whether the run is before, at or after it."""
    store, _ = published(100, 101, 102, 103)
    run = make_run(ledger)

    publish_run(store, run, replaced_ledger=102)

    assert_whole(store, run)
    assert [100, 101, ledger] == history_ledgers(store)


def test_replacing_an_unfinished_run() -> None:
    """A run that began at a wrong ledger and did not finish can be replaced, too."""
    store, _ = published(100)
    false, run = make_run(1_000_100), make_run(101)
    fail_publishing(store, false, operations_until(store, false, INTENT_KEY) + 3)

    publish_run(store, run, replaced_ledger=1_000_100)

    assert_whole(store, run)
    assert [100, 101] == history_ledgers(store)


def test_two_publishers_at_once() -> None:
    """While one publishes, the other loses at once, and what it would have written is not there."""
    store = MemoryStore()
    run = make_run(100)

    def stream() -> Iterator[RenderedFile]:
        with pytest.raises(LostRaceError):
            publish_run(store, make_run(101))
        yield from run.files

    publish_run(store, run, files=stream())

    assert_whole(store, run)
    assert None is store.get(make_run(101).history.file.key)


def test_a_status_document_that_moved_is_left_alone() -> None:
    """If another publisher swaps the status document in spite of the lock, its run is published; this one has lost."""
    store, _ = published(100)

    def rival_status(identity: RunIdentity) -> SystemStatus:
        present = store.get(STATUS_KEY)
        assert present is not None
        store.swap(STATUS_KEY, present.data.replace(b'"network":"', b'"network":"rival of '), present.etag)
        return status_of(identity)

    run = make_run(101)
    with pytest.raises(LostRaceError, match=STATUS_KEY):
        publish_run(store, run, build_status=rival_status)

    assert stored_json(store, STATUS_KEY)["network"].startswith("rival of ")


@pytest.mark.parametrize("error", [StoreError("connection reset"), LostRaceError("412 to a repeated request")])
def test_a_lost_answer_to_the_swap(error: Exception) -> None:
    """If the status document was written and only the answer was lost, the run counts as published."""
    bucket = BucketSimulator()
    bucket.fail_at(operations_until(bucket.inner, make_run(100), STATUS_KEY), error)
    publish_run(bucket, make_run(100))

    assert_whole(bucket, make_run(100))


def test_an_error_of_the_stream_leaves_everything() -> None:
    """A check that fails while the run is rendered leaves documents and the status document as they were."""
    bucket = BucketSimulator(published(100)[0])
    before = tree_of(bucket)
    run = make_run(101)

    def stream() -> Iterator[RenderedFile]:
        yield from run.files
        raise CheckError("the sums differ")

    with pytest.raises(CheckError, match="the sums differ"):
        publish_run(bucket, run, files=stream())
    after = tree_of(bucket)

    assert before == {key: after[key] for key in before}
    assert all(key.startswith("v1/pages/") for key in set(after) - set(before))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (STATUS_KEY, FileKind.STATUS),
        *((key, FileKind.DOCUMENT) for key in (STATUS_KEY, INTENT_KEY, HISTORY_MANIFEST_KEY, "../outside.json")),
        *((key, FileKind.DOCUMENT) for key in ("v1/runs/1-abc.json", "v1/runs/1-abc.parquet", "v1/pages/abc.json")),
        ("v1/markets/a b.json", FileKind.DOCUMENT),
        ("v1/assets/index.json", FileKind.PAGE),
        ("history/pools/date=2026-11-21/1.parquet", FileKind.HISTORY),
    ],
)
def test_keys_that_no_run_renders(key: str, kind: FileKind) -> None:
    """The publisher's own keys, files of the wrong kind and malformed keys are refused before any document."""
    bucket = BucketSimulator(published(100)[0])
    run = make_run(101)
    stray = RenderedFile(key, b"{}", kind)
    with pytest.raises((CheckError, StoreError), match=key.replace(".", r"\.")):
        publish_run(bucket, run, files=(*run.files, stray))

    assert_whole(bucket, make_run(100))
    assert make_run(100).document("index.html") == bucket.get("index.html").data


def test_a_file_rendered_twice() -> None:
    """A page or a document that is in the stream twice is refused, and no run is published."""
    run = make_run(100)
    document = next(file for file in run.files if file.kind is FileKind.DOCUMENT)
    page = next(file for file in run.files if file.kind is FileKind.PAGE)
    for twice in (document, page):
        with pytest.raises(CheckError, match=f"{twice.key}: rendered twice"):
            publish_run(store := MemoryStore(), run, files=(*run.files, twice))
        assert not store.has(STATUS_KEY)
    with pytest.raises(ImmutableKeyError, match=page.key):
        publish_run(MemoryStore(), run, files=(*run.files, msgspec.structs.replace(page, data=b"{}")))


@pytest.mark.parametrize("field", ["run_id", "observed_ledger", "manifest_key", "manifest_sha256", "previous_run_id"])
def test_a_status_of_another_run(field: str) -> None:
    """A status document that contradicts the run it is for is refused before any document is replaced."""
    store, _ = published(100)
    run = make_run(101)
    wrong = {"observed_ledger": 7, "manifest_sha256": "0" * 64}.get(field, "other")
    with pytest.raises(CheckError, match=f"{field} is {wrong}"):
        publish_run(
            store, run, build_status=lambda identity: msgspec.structs.replace(status_of(identity), **{field: wrong})
        )

    assert_whole(store, make_run(100))
    assert make_run(100).document("index.html") == store.get("index.html").data  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", [b"", b"[" * 200_000, b"{}", b"[]", b'{"run_id": "1"}', b"\xff"])
@pytest.mark.parametrize("key", [STATUS_KEY, INTENT_KEY, HISTORY_MANIFEST_KEY])
def test_damaged_records_are_not_published_over(key: str, damage: bytes) -> None:
    """A status document, intent or history manifest that cannot be understood stops the run, which names it."""
    store, _ = published(100)
    store.put(key, damage)
    bucket = BucketSimulator(store)
    with pytest.raises(StoreError, match=key):
        publish_run(bucket, make_run(101))

    assert [] == bucket.writes()


def test_a_status_whose_run_has_no_ledger_in_its_id_is_damaged() -> None:
    """A run's id begins with its ledger. A status document with another id stops the run, which names it."""
    store, _ = published(100)
    status = json.loads(content(store, STATUS_KEY))
    store.put(STATUS_KEY, json.dumps(status | {"run_id": "x"}).encode())
    with pytest.raises(StoreError, match=STATUS_KEY):
        publish_run(store, make_run(101))


@pytest.mark.parametrize("manifest_key", ["../outside.json", "/v1/runs/1.json", "", "v1//runs.json"])
def test_a_damaged_manifest_key_names_the_file_to_mend(manifest_key: str) -> None:
    """A status document whose manifest cannot be in the tree is named with the field, and stays unchanged."""
    store, _ = published(100)
    status = json.loads(content(store, STATUS_KEY))
    store.put(STATUS_KEY, json.dumps(status | {"manifest_key": manifest_key}).encode())
    bucket = BucketSimulator(store)
    with pytest.raises(StoreError, match=f"{STATUS_KEY} cannot be understood: manifest_key"):
        publish_run(bucket, make_run(101))

    assert [] == bucket.writes()


def test_a_lost_history_manifest_is_not_begun_again() -> None:
    """If a published tree has Parquet files and no manifest of them, the run stops and says so."""
    store, _ = published(100)
    store.delete([HISTORY_MANIFEST_KEY])
    with pytest.raises(StoreError, match=r"history\.json is missing.*100\.parquet"):
        publish_run(store, make_run(101))
    store.delete([make_run(100).history.file.key])
    own = make_run(101).history.file
    store.put_new(own.key, own.data)  # it died before
    publish_run(store, make_run(101))

    assert_whole(store, make_run(101))


def test_an_entry_of_another_file() -> None:
    """A history entry that does not describe the Parquet file next to it is refused."""
    run = make_run(100)
    wrong = replace(run.history, entry=msgspec.structs.replace(run.history.entry, bytes=1))
    with pytest.raises(CheckError, match=r"100\.parquet: the history's entry"):
        publish_run(MemoryStore(), run, history=wrong)
