"""Publishers that meet: two at once, one that paused and goes on late, and readers all the while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from exporter.publishing.retention import sweep
from tests.s3 import scenarios
from tests.s3.faults import Stall
from tests.s3.places import (
    FAST,
    JumpingClock,
    WirePlace,
    assert_settled,
    attempt,
    open_place,
    publish_ledger,
)
from tests.s3.scenarios import assert_one_wins, at_once, begins_to_pause, hold_up, publish_in
from tests.s3.wire_bucket import WireBucket

OLD, NEW, LATER, LAST = 100, 102, 103, 105
AFTER_ITS_LEASE = 600.0

PATIENT = replace(scenarios.PATIENT, concurrency=1)
"""Waits for an answer for as long as a test needs, so that a call that is held up goes on."""


@pytest.fixture
def clock() -> JumpingClock:
    """The clock of the bucket."""
    return JumpingClock()


@pytest.fixture
def place(clock: JumpingClock) -> Iterator[WirePlace]:
    """A place in an empty bucket."""
    with WireBucket(clock) as bucket:
        yield WirePlace(bucket)


# -- many at once ---------------------------------------------------------------------------------------------------


def test_older_and_newer_at_once(place: WirePlace) -> None:
    """Of two publishers with different ledgers, the newer one's documents remain if it published; one always does."""
    for ledger in (100, 110, 120):
        codes = at_once(place, ledger, ledger + 2)

        assert set(codes) <= {0, EXIT_LOST_RACE, EXIT_SOURCE}
        assert 0 in codes
        assert_settled(place, ledger + 2 if codes[1] == 0 else ledger)


def test_many_at_once(place: WirePlace) -> None:
    """Of eight publishers of the same ledger exactly one wins, ledger after ledger."""
    for ledger in (100, 101):
        assert_one_wins(place, ledger, 8)


# -- one that is late ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_call_arrives_after_its_client_is_gone(place: WirePlace, clock: JumpingClock) -> None:
    """A write that its client gave up on, and that arrives when a newer run is published, is refused."""
    publish_in(place, "old", OLD)
    bucket = place.bucket
    with closing(open_place(place, "counted", replace(FAST, concurrency=1))) as store:
        publish_ledger(store, NEW)
    writes = [number for number, call in enumerate(bucket.calls_of("counted")) if call.operation == "PUT"]
    for position in writes[3:-18:9]:  # the last ones are too late in a run of fewer files
        ledger = 1_000 + 10 * position
        publish_in(place, f"before-{position}", ledger)
        stall = Stall(threading.Event())
        bucket.disturb(f"gone-{position}", position, stall, more=1_000)
        with closing(open_place(place, f"gone-{position}", replace(FAST, concurrency=1, tries=1))) as gone:
            assert attempt(gone, ledger + 2).error is not None
        clock.advance(AFTER_ITS_LEASE)
        publish_in(place, f"newer-{position}", ledger + 3)
        stall.until.set()
        bucket.quiesce()

        assert_settled(place, ledger + 3)


def sweep_late(place: WirePlace, clock: JumpingClock, position: int, ahead: list[float]) -> str | None:
    """Let a sweep pause at a call until a newer run is published; gives why it refused."""
    for ledger in (OLD, NEW, LATER):  # the third market comes with the second and vanishes with the last
        publish_in(place, str(ledger), ledger)
    stall = hold_up(place.bucket, "sweeper", position)
    with ThreadPoolExecutor(1) as pool, closing(open_place(place, "sweeper", PATIENT, clock=lambda: ahead[-1])) as late:
        running = pool.submit(sweep, late, timedelta(0))
        begins_to_pause(stall)
        clock.advance(AFTER_ITS_LEASE)
        ahead.append(AFTER_ITS_LEASE)
        publish_in(place, "newer", LAST)  # the third market is back
        stall.until.set()
        return running.result(30).refused


@pytest.mark.slow
def test_sweep_that_paused_removes_nothing() -> None:
    """A sweep that paused beyond its hold notices, and leaves what a newer run names."""
    position, deletes = 4, 0
    while not deletes:
        clock = JumpingClock()
        with WireBucket(clock) as bucket:
            place = WirePlace(bucket)
            refused = sweep_late(place, clock, position, [0.0])
            calls = bucket.calls_of("sweeper")
            deletes = sum(call.operation.startswith("DELETE") for call in calls)
            if not deletes:
                assert refused is not None
                assert_settled(place, LAST)
        position += 1

    assert 12 < position


def test_removal_that_arrives_too_late_is_repaired(place: WirePlace, clock: JumpingClock) -> None:
    """Removals have no condition: one that was sent in time and arrives after the hold is made good by the next run."""
    with WireBucket() as other:
        counted = WirePlace(other)
        for ledger in (OLD, NEW, LATER):
            publish_in(counted, str(ledger), ledger)
        with closing(open_place(counted, "sweeper", PATIENT)) as store:
            sweep(store, timedelta(0))
        operations = [call.operation for call in other.calls_of("sweeper")]
    sweep_late(place, clock, operations.index("DELETE MANY"), [0.0])
    with pytest.raises(AssertionError):
        assert_settled(place, LAST)
    clock.advance(AFTER_ITS_LEASE)
    publish_in(place, "repairing", LAST + 3)

    assert_settled(place, LAST + 3)
