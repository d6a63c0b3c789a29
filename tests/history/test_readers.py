"""Promise 3 of the design, under random schedules: who begins to page finishes, and nobody is taken back in time."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from exporter.errors import CheckError, StoreError
from exporter.publishing.published_state import LedgerNotNewerError
from exporter.publishing.retention import sweep
from exporter.stores.memory import MemoryStore
from exporter.tree.families import INTENT_KEY
from tests.publishing.published_tree import (
    MadeRun,
    TestClock,
    assert_every_head_leads_to_its_end,
    assert_whole,
    make_run,
    operations_until,
    publish_run,
    published_ledger,
    walk,
)
from tests.stores.bucket_simulator import BucketSimulator, SimulatedKill

RETENTION = timedelta(hours=24)
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
        self.pointer = 0

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
        """Every document as it is, of the published run or of one that died, leads to the end of one run."""
        assert_every_head_leads_to_its_end(self.store)

    @invariant()
    def nobody_goes_back(self) -> None:
        """Neither the pointer nor any document is ever followed by an earlier ledger."""
        pointer = published_ledger(self.store) or 0
        assert self.pointer <= pointer
        self.pointer = pointer
        for key, data in self.documents():
            rows = json.loads(data)["data"]
            if rows:
                ledger = int(rows[0].partition("@")[2])
                assert self.seen.get(key, 0) <= ledger
                self.seen[key] = ledger

    def documents(self) -> list[tuple[str, bytes]]:
        """Every head document as it is served now."""
        return [
            (info.key, stored.data)
            for info in self.store.list("v1/assets/")
            if (stored := self.store.get(info.key)) is not None
        ]


PublishedTree.TestCase.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestPublishedTree = PublishedTree.TestCase
