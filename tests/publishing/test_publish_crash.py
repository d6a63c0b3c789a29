"""A run that dies or fails at any single operation leaves the old run whole, and the next run repairs what it left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import exporter.stores.folder
from exporter.publishing.publish import verify
from exporter.publishing.retention import CACHE_MARGIN, sweep
from exporter.stores.folder import TEMPORARY_PREFIX, FolderStore, write_file
from exporter.stores.memory import MemoryStore
from exporter.stores.store import utc_now
from tests.publishing.published_tree import (
    MARKETS,
    TestClock,
    assert_whole,
    make_run,
    publish_run,
    published_ledger,
    tree_of,
    walk,
)
from tests.stores.bucket_simulator import BucketSimulator, SimulatedKill

RETENTION = timedelta(hours=24)
OLD = make_run(100, {**MARKETS, "CEEE": 1, "CFFF": 2})
NEW = make_run(101, {"CAAA": 5, "CDDD": 3, "CEEE": 2, "CFFF": 1})
LATER = make_run(102)


def current_part(tree: dict[str, object]) -> dict[str, object]:
    """A tree without what may remain of a run that died: its history, and the sweep's record of it."""
    return {
        key: data for key, data in tree.items() if not key.startswith(("history/", "v1/history", "v1/system/super"))
    }


def followed_by_a_later_run(store: MemoryStore, clock: TestClock) -> dict[str, object]:
    """Publish a later run and sweep until the retention time is over; gives what is left."""
    publish_run(store, LATER, clock)
    assert sweep(store, RETENTION, now=clock).refused is None
    assert_whole(store, LATER)
    assert OLD.rows["v1/assets/index.json"] == walk(store, OLD.document("v1/assets/index.json"))
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    assert sweep(store, RETENTION, now=clock).refused is None
    assert_whole(store, LATER)
    return current_part(tree_of(store))


def test_killed_at_any_operation() -> None:
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

    for position in range(len(bucket.calls)):
        clock = TestClock()
        left = MemoryStore(old, clock)
        dying = BucketSimulator(left)
        dying.die_at(position)
        with pytest.raises(SimulatedKill):
            publish_run(dying, NEW, clock)
        again = MemoryStore(left, clock)
        if position < len(bucket.calls) - 1:  # the last operation swaps the pointer
            assert_whole(left, OLD)
            assert verify(again, publish_run(again, NEW, clock)) > 0
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
    command = [sys.executable, "-c", f"import polars, exporter.publishing.publish; {THREADS}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "polars-0" not in printed
