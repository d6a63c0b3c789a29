"""A run that dies or fails at any single operation leaves the old run whole, and the next run repairs what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import exporter.stores.folder
from exporter.errors import CheckError, StoreError
from exporter.publishing.acceptance import LedgerNotNewerError
from exporter.publishing.published_sample import read_back_sample
from exporter.publishing.retention import CACHE_MARGIN
from exporter.stores.folder import TEMPORARY_PREFIX, FolderStore, write_file
from exporter.stores.memory import MemoryStore
from exporter.stores.store import utc_now
from exporter.tree.families import INTENT_KEY
from tests.examples import examples, spread, strides
from tests.publishing.held import sweep
from tests.publishing.published_tree import (
    MARKETS,
    MadeRun,
    TestClock,
    assert_every_head_leads_to_its_end,
    assert_whole,
    make_run,
    operations_until,
    publish_run,
    published_ledger,
    tree_of,
    walk,
)
from tests.stores.bucket_simulator import BucketSimulator, SimulatedKill, content

RETENTION = timedelta(hours=24)
OLD = make_run(100, {**MARKETS, "CEEE": 1, "CFFF": 2})
NEW = make_run(101, {"CAAA": 5, "CDDD": 3, "CEEE": 2, "CFFF": 1})
LATER = make_run(102)


def current_part(tree: dict[str, object]) -> dict[str, object]:
    """A tree without what may remain of a run that died: its history files and their records."""
    left = ("history/", "v1/history", "v1/system/super", INTENT_KEY)
    return {key: data for key, data in tree.items() if not key.startswith(left)}


def followed_by_a_later_run(store: MemoryStore, clock: TestClock) -> dict[str, object]:
    """Publish a later run and sweep until the retention time is over; gives what is left."""
    publish_run(store, LATER, clock)
    assert sweep(store, RETENTION, now=clock).refused is None
    assert_whole(store, LATER)
    assert OLD.rows["v1/assets/index.json"] == walk(store, OLD.document("v1/assets/index.json"))
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    swept = sweep(store, RETENTION, now=clock)
    assert (None, ()) == (swept.refused, swept.unnamed)
    assert_whole(store, LATER)
    named = {file["key"] for file in json.loads(content(store, "v1/history.json"))["files"]}
    assert named == {info.key for info in store.list("history/")}
    return current_part(tree_of(store))


@strides(4)
def test_killed_at_any_operation(stride: int) -> None:
    """Killed after any operation, the old run is whole.

    Neither the run itself, published again, nor a later one leaves a trace of that.
    """
    clock = TestClock()
    old = MemoryStore(clock=clock)
    publish_run(old, OLD, clock)
    undisturbed = MemoryStore(old, clock)
    bucket = BucketSimulator(undisturbed)
    publish_run(bucket, NEW, clock)
    assert len(bucket.calls) > 25
    later = followed_by_a_later_run(MemoryStore(old, clock), clock)

    for position in spread(range(len(bucket.calls)), stride):
        clock = TestClock()
        left = MemoryStore(old, clock)
        dying = BucketSimulator(left)
        dying.die_at(position)
        with pytest.raises(SimulatedKill):
            publish_run(dying, NEW, clock)
        again = MemoryStore(left, clock)
        if position < len(bucket.calls) - 1:  # the last operation swaps the status document
            assert_whole(left, OLD)
            assert read_back_sample(again, publish_run(again, NEW, clock)) > 0
        assert_whole(again, NEW)
        assert tree_of(undisturbed) == tree_of(again)
        if position < len(bucket.calls) - 1:
            assert later == followed_by_a_later_run(left, clock)


def test_sweep_killed_at_any_operation() -> None:
    """A sweep that is killed at any operation harms no reader, and the next one completes it."""
    clock = TestClock()
    unswept = MemoryStore(clock=clock)
    publish_run(unswept, OLD, clock)
    publish_run(unswept, NEW, clock)
    sweep(unswept, RETENTION, now=clock)
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    publish_run(unswept, LATER, clock)
    trees: list[dict[str, object]] = []
    died = True
    while died:
        store = MemoryStore(unswept, clock)
        bucket = BucketSimulator(store)
        bucket.die_at(len(trees))
        try:
            sweep(bucket, RETENTION, now=clock)
            died = False
        except SimulatedKill:
            pass
        assert_whole(store, LATER)
        assert NEW.rows["v1/assets/index.json"] == walk(store, NEW.document("v1/assets/index.json"))
        for _ in range(2):  # the second one forgets what the first one removed
            assert sweep(store, RETENTION, now=clock).refused is None
        trees.append(tree_of(store))

    assert len(trees) > 10
    assert [trees[-1]] * len(trees) == trees


# -- below the store: the folder's own steps ----------------------------------------------------------------------


@contextmanager
def effect_hook(before_effect: Callable[[], None]) -> Iterator[None]:
    """Call a function before each step that a folder store takes on the disk."""

    def hooked(step: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **options: object) -> object:
            before_effect()
            return step(*args, **options)

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter.stores.folder, "write_file", hooked(write_file))
        patch.setattr(exporter.stores.folder, "make_durable", hooked(lambda *_: None))
        for name in ("mkdir", "replace", "link", "unlink"):
            patch.setattr(os, name, hooked(getattr(os, name)))
        yield


def effects_of(store: FolderStore) -> int:
    """How many steps on the disk publishing the new run takes."""
    steps: list[None] = []
    with effect_hook(lambda: steps.append(None)):
        publish_run(store, NEW)
    return len(steps)


@pytest.mark.slow
def test_killed_at_any_step_on_the_disk(tmp_path: Path) -> None:
    """Killed before any write, link, rename or removal in the folder, the old run is whole and the next succeeds."""
    store = FolderStore(tmp_path / "undisturbed")
    publish_run(store, OLD)
    steps = effects_of(store)
    undisturbed = tree_of(store)
    leftovers = 0

    for last in range(steps):
        store = FolderStore(tmp_path / str(last))
        with effect_hook(lambda: None):
            publish_run(store, OLD)
        done = iter(range(last))

        def die() -> None:
            if next(done, None) is None:  # noqa: B023 - used up before the next round
                raise SimulatedKill

        with effect_hook(die), pytest.raises(SimulatedKill):
            publish_run(store, NEW)
        with effect_hook(lambda: None):
            survivor = FolderStore(store.root)
            if published_ledger(survivor) == OLD.ledger:
                assert_whole(survivor, OLD)
                publish_run(survivor, NEW)
            assert_whole(survivor, NEW)
            assert undisturbed == tree_of(survivor)
            leftovers += len(list(store.root.rglob(f"{TEMPORARY_PREFIX}*")))
            sweep(survivor, RETENTION, now=lambda: utc_now() + timedelta(hours=2))
        assert [] == list(store.root.rglob(f"{TEMPORARY_PREFIX}*"))

    assert steps > 50
    assert leftovers > 20  # the deaths did leave temporary files for the sweep


# -- a process that is forked after the imports ---------------------------------------------------------------------

THREADS = "import os; print(*(open(f'/proc/self/task/{task}/comm').read() for task in os.listdir('/proc/self/task')))"


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux lists the names of threads")
def test_importing_does_not_start_the_threads_of_polars() -> None:
    """A process that is forked after an import can use Polars; with its threads started, it would wait forever."""
    command = [sys.executable, "-c", f"import polars, exporter.publishing.publication; {THREADS}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "polars-0" not in printed


# -- random schedules: who begins to page finishes, and nobody is taken back in time -----------------------------------


WORLDS = ({"CAAA": 3, "CBBB": 2}, {"CAAA": 3, "CCCC": 1})


class PublishedTree(RuleBasedStateMachine):
    """Runs that succeed, die, fail and come too late, sweeps that die, a clock, and readers who take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = TestClock()
        self.store = MemoryStore(clock=self.clock)
        self.ledger = 100
        self.readers: list[tuple[datetime, bytes, list[str]]] = []
        self.seen: dict[str, int] = {}
        self.published = 0

    @rule(step=st.integers(-2, 3), world=st.sampled_from(WORLDS))
    def run(self, step: int, world: dict[str, int]) -> None:
        """A run at a ledger that may lag."""
        self.publish(make_run(self.ledger + step, world), BucketSimulator(self.store))

    @rule(
        step=st.integers(0, 3), world=st.sampled_from(WORLDS), death=st.integers(0, 30), among_documents=st.booleans()
    )
    def run_that_dies(self, step: int, world: dict[str, int], death: int, among_documents: bool) -> None:
        """A run that dies at any operation, every other time while it replaces documents."""
        run = make_run(self.ledger + step, world)
        bucket = BucketSimulator(self.store)
        if among_documents:
            with suppress(LedgerNotNewerError, StoreError):
                death = operations_until(self.store, run, INTENT_KEY) + 2 + death % 5
        bucket.die_at(death)
        self.publish(run, bucket)

    def publish(self, run: MadeRun, bucket: BucketSimulator) -> None:
        highest = self.ledger
        self.ledger = max(highest, run.ledger)
        try:
            publish_run(bucket, run, self.clock)
        except LedgerNotNewerError:
            assert run.ledger <= highest  # a ledger above all that were tried is never refused
        except SimulatedKill:
            pass
        except (StoreError, CheckError) as error:  # the same ledger with other markets: its history is written once
            assert run.history.file.key in str(error)  # noqa: PT017
        else:
            assert_whole(self.store, run)
            assert sweep(self.store, RETENTION, now=self.clock).refused is None
            assert {key for key, _ in self.documents()} == {f.key for f in run.files if f.key.startswith("v1/assets")}

    @rule(death=st.none() | st.integers(0, 30))
    def clean_up(self, death: int | None) -> None:
        """A sweep that may die at any operation."""
        bucket = BucketSimulator(self.store)
        if death is not None:
            bucket.die_at(death)
        with suppress(SimulatedKill):
            sweep(bucket, RETENTION, now=self.clock)

    @rule(minutes=st.sampled_from([10, 12 * 60, 23 * 60, 25 * 60]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.clock.advance(timedelta(minutes=minutes))

    @rule()
    def readers_begin(self) -> None:
        """A reader takes every document that is served at this moment."""
        for _, data in self.documents():
            self.readers.append((self.clock.now, data, walk(self.store, data)))

    @invariant()
    def readers_finish(self) -> None:
        """Whoever began within the retention time can go on to the end, on the run he began with."""
        self.readers = [reader for reader in self.readers if self.clock.now - reader[0] <= RETENTION]
        for _, head, rows in self.readers:
            assert rows == walk(self.store, head)
            assert len({row.partition("@")[2] for row in rows}) <= 1

    @invariant()
    def everything_served_leads_on(self) -> None:
        """Every document, of the published run or of one that died, leads to the end of one run."""
        assert_every_head_leads_to_its_end(self.store)

    @invariant()
    def nobody_goes_back(self) -> None:
        """Neither the status document nor any document is ever followed by an earlier ledger."""
        published = published_ledger(self.store) or 0
        assert self.published <= published
        self.published = published
        for key, data in self.documents():
            rows = json.loads(data)["data"]
            if rows:
                ledger = int(rows[0].partition("@")[2])
                assert self.seen.get(key, 0) <= ledger
                self.seen[key] = ledger

    def documents(self) -> list[tuple[str, bytes]]:
        """Every head document that is served now."""
        return [
            (info.key, stored.data)
            for info in self.store.list("v1/assets/")
            if (stored := self.store.get(info.key)) is not None
        ]


PublishedTree.TestCase.settings = examples(fast=12, thorough=300, stateful_step_count=25)
TestPublishedTree = PublishedTree.TestCase
