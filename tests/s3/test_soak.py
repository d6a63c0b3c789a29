"""A soak: publishes with random faults, deaths and races, while three readers walk everything; no promise is broken.

The random numbers are seeded; what the threads of the machine make of them is not.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from tests.s3.faults import Answer, Cut, Fault, Hang, Reset
from tests.s3.places import FAST, JumpingClock, WirePlace, assert_settled, attempt, open_place
from tests.s3.scenarios import publish_in, published_ledger_of, readers, sweep_in
from tests.s3.wire_bucket import WireBucket

PUBLISHES = 30
READERS = 3
SWEPT_EVERY = 10

FAULTS: tuple[Fault, ...] = (
    Answer(503),
    Answer(500),
    Answer(409, "ConditionalRequestConflict", writes=True),
    Reset(),
    Reset(after=True),
    Cut(),
    Hang(),
)


@pytest.mark.slow
def test_no_promise_is_broken() -> None:
    """Whatever fails, dies or races, readers see whole runs that only go forward, and the last publish settles it."""
    random, clock, codes = Random(1), JumpingClock(), Counter[int]()
    done, ledger = 0, 100
    with WireBucket(clock) as bucket:
        place = WirePlace(bucket)
        publish_in(place, "first", 99)
        with readers(place, READERS) as made, ThreadPoolExecutor(2) as pool:
            while done < PUBLISHES:
                before = published_ledger_of(place)
                ledgers = [ledger, ledger - random.choice((0, 0, 1, 4))][: random.choice((1, 1, 1, 2))]
                names = [f"publisher-{done + number}" for number in range(len(ledgers))]
                stores = [open_place(place, name, FAST) for name in names]
                for name in names:
                    disturb(bucket, name, random)
                found = [outcome.code for outcome in pool.map(attempt, stores, ledgers, [clock] * len(ledgers))]
                for store in stores:
                    store.close()
                codes.update(found)
                done += len(found)
                assert before <= published_ledger_of(place)
                if not {0, EXIT_SOURCE, EXIT_LOST_RACE}.issuperset(found):
                    clock.advance(FAST.lease_seconds + 3)  # the hold of one that died lapses
                if done // SWEPT_EVERY != (done - len(found)) // SWEPT_EVERY:
                    sweep_in(place, now=clock)
                ledger += random.choice((1, 1, 2, 3))
            clock.advance(FAST.lease_seconds + 3)
            publish_in(place, "last", ledger + 1)
        assert_settled(place, ledger + 1)

    assert [] == [text for reader in made for text in reader.broken]
    assert sum(reader.walks for reader in made) > 0
    assert len(codes) > 2  # some were published, some were not


def disturb(bucket: WireBucket, name: str, random: Random) -> None:
    """Let something happen to most publishers at random calls."""
    chance = random.random()
    if chance < 0.4:
        return
    if chance < 0.55:
        bucket.kill(name, random.randrange(50), after=random.random() < 0.5)
    elif chance < 0.65:
        bucket.disturb(name, random.randrange(50), random.choice(FAULTS[:5]), more=1_000)
    else:
        for _ in range(random.randrange(1, 4)):
            bucket.disturb(name, random.randrange(50), random.choice(FAULTS))
