"""Publishers that meet: two at once, one that paused and goes on late, and readers all the while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from random import Random

import pytest

from exporter.errors import ExitCode
from tests.publishing.held import sweep
from tests.s3.places import (
    AFTER_ITS_LEASE,
    FAST,
    GUARD_SECONDS,
    ONE_BY_ONE,
    JumpingClock,
    WirePlace,
    assert_one_wins,
    assert_settled,
    at_once,
    attempt,
    begins_to_pause,
    code_of,
    hold_up,
    open_place,
    publish_in,
    sweep_in,
    watched,
)
from tests.s3.wire_bucket import PASSING, WireBucket

OLD, NEW, LATER, LAST = 100, 102, 103, 105


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


@pytest.mark.parametrize("ledgers", [[100], pytest.param([100, 110, 120], marks=pytest.mark.slow)], ids=len)
def test_older_and_newer_at_once(place: WirePlace, ledgers: list[int]) -> None:
    """If two ledgers are published at once, the newer one's documents remain if it published. One always does."""
    for ledger in ledgers:
        codes = at_once(place, ledger, ledger + 2)

        assert set(codes) <= {0, ExitCode.LOST_RACE, ExitCode.SOURCE}
        assert 0 in codes
        assert_settled(place, ledger + 2 if codes[1] == 0 else ledger)


@pytest.mark.parametrize("ledgers", [[100], pytest.param([100, 101], marks=pytest.mark.slow)], ids=len)
def test_many_at_once(place: WirePlace, ledgers: list[int]) -> None:
    """Exactly one of eight publishers of the same ledger wins, ledger after ledger."""
    for ledger in ledgers:
        assert_one_wins(place, ledger, 8)


# -- one that is late ----------------------------------------------------------------------------------------------


def sweep_late(place: WirePlace, clock: JumpingClock, position: int) -> str | None:
    """Let a sweep pause at a call until a newer run is published; gives why it refused."""
    for ledger in (OLD, NEW, LATER):  # the third market comes with the second and vanishes with the last
        publish_in(place, str(ledger), ledger)
    stall, ahead = hold_up(place.bucket, "sweeper", position), [0.0]
    with (
        ThreadPoolExecutor(1) as pool,
        closing(open_place(place, "sweeper", ONE_BY_ONE, clock=lambda: ahead[-1])) as late,
    ):
        running = pool.submit(sweep, late, timedelta(0))
        begins_to_pause(place.bucket, "sweeper", stall)
        clock.advance(AFTER_ITS_LEASE)
        ahead.append(AFTER_ITS_LEASE)
        publish_in(place, "newer", LAST)  # the third market is back
        stall.until.set()
        return running.result(GUARD_SECONDS).refused


@pytest.mark.slow
def test_sweep_that_paused_removes_nothing() -> None:
    """A sweep that paused beyond its hold notices, and leaves what a newer run names."""
    position, deletes = 4, 0
    while not deletes:
        clock = JumpingClock()
        with WireBucket(clock) as bucket:
            place = WirePlace(bucket)
            refused = sweep_late(place, clock, position)
            calls = bucket.calls_of("sweeper")
            deletes = sum(call.operation.startswith("DELETE") for call in calls)
            if not deletes:
                assert refused is not None
                assert_settled(place, LAST)
        position += 1

    assert 12 < position


@pytest.mark.slow
def test_removal_that_arrives_too_late_is_repaired(place: WirePlace, clock: JumpingClock) -> None:
    """Removals have no condition: one that was sent in time and arrives after the hold is made good by the next run."""
    with WireBucket() as other:
        counted = WirePlace(other)
        for ledger in (OLD, NEW, LATER):
            publish_in(counted, str(ledger), ledger)
        with closing(open_place(counted, "sweeper", ONE_BY_ONE)) as store:
            sweep(store, timedelta(0))
        operations = [call.operation for call in other.calls_of("sweeper")]
    sweep_late(place, clock, operations.index("DELETE MANY"))
    with pytest.raises(AssertionError):
        assert_settled(place, LAST)
    clock.advance(AFTER_ITS_LEASE)
    publish_in(place, "repairing", LAST + 3)

    assert_settled(place, LAST + 3)


# -- all of it, at random: the numbers are seeded, what the machine's threads make of them is not -------------------


def disturb(bucket: WireBucket, name: str, random: Random) -> None:
    """Let something happen to most publishers at random calls."""
    chance, faults = random.random(), [*PASSING.values()]
    if chance < 0.4:
        return
    if chance < 0.55:
        bucket.kill(name, random.randrange(50))
    elif chance < 0.65:
        bucket.disturb(name, random.randrange(50), random.choice(faults[:5]), more=1_000)
    else:
        for _ in range(random.randrange(1, 4)):
            bucket.disturb(name, random.randrange(50), random.choice(faults))


@pytest.mark.slow
def test_no_promise_is_broken(place: WirePlace, clock: JumpingClock) -> None:
    """Whatever fails, dies or races, readers see whole runs that only go forward, and the last publish settles it."""
    random, codes = Random(1), Counter[int]()
    done, ledger = 0, 100
    publish_in(place, "first", 99)
    with watched(place), ThreadPoolExecutor(2) as pool:
        while done < 30:
            ledgers = [ledger, ledger - random.choice((0, 0, 1, 4))][: random.choice((1, 1, 1, 2))]
            names = [f"publisher-{done + number}" for number in range(len(ledgers))]
            stores = [open_place(place, name, FAST) for name in names]
            for name in names:
                disturb(place.bucket, name, random)
            found = [code_of(error) for error in pool.map(attempt, stores, ledgers, [clock] * len(ledgers))]
            for store in stores:
                store.close()
            codes.update(found)
            done += len(found)
            if not {0, ExitCode.SOURCE, ExitCode.LOST_RACE}.issuperset(found):
                clock.advance(FAST.lease_seconds + 3)  # the hold of one that died lapses
            if done // 10 != (done - len(found)) // 10:
                sweep_in(place, now=clock)
            ledger += random.choice((1, 1, 2, 3))
        clock.advance(FAST.lease_seconds + 3)
        publish_in(place, "last", ledger + 1)
    assert_settled(place, ledger + 1)

    assert len(codes) > 2  # some were published, some were not
