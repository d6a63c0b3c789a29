"""A soak: publishes with random faults, kills and races, while three readers walk everything; no promise is broken.

The bucket is simulated, which can fail and kill at any call. The random numbers are seeded; what the processes of the
machine make of them is not.
"""

from __future__ import annotations

from random import Random

import pytest

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from tests.s3.faults import Answer, Cut, Fault, Hang, Kill, Reset
from tests.s3.places import JumpingClock, WirePlace, assert_settled
from tests.s3.publishers import Job, Publisher
from tests.s3.scenarios import SHORT_LEASE, Observed, publish_until_done, published_ledger_of, readers, sweep_now
from tests.s3.wire_bucket import WireBucket

PUBLISHES = 30
READERS = 3
SWEPT_EVERY = 10
RETENTION = 60.0

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
    random, clock, observed = Random(1), JumpingClock(), Observed()
    done, ledger = 0, 100
    with WireBucket(clock) as bucket:
        place = WirePlace(bucket)
        publish_until_done(place, 99, observed)
        with readers(place, observed, READERS):
            while done < PUBLISHES:
                before = published_ledger_of(place)
                count = random.choice((1, 1, 1, 2))
                publishers = []
                for number in range(count):
                    name = f"publisher-{done + number}"
                    own = ledger - random.choice((0, 0, 1, 4)) if number else ledger
                    job = Job(place.uri, place.environment(name), own, options=SHORT_LEASE, ahead=clock.ahead)
                    publisher = Publisher(job)
                    disturb(bucket, name, publisher, random)
                    publishers.append(publisher.start())
                codes = [publisher.join() for publisher in publishers]
                observed.exit_codes.update(codes)
                done += count
                assert before <= published_ledger_of(place)
                if done // SWEPT_EVERY != (done - count) // SWEPT_EVERY:
                    sweep_now(place, observed, RETENTION, clock.ahead)
                if not {0, EXIT_SOURCE, EXIT_LOST_RACE}.issuperset(codes):
                    clock.advance(SHORT_LEASE.lease_seconds + 3)  # the hold of one that died lapses
                ledger += random.choice((1, 1, 2, 3))
            publish_until_done(place, ledger + 1, observed)
        assert_settled(place, ledger + 1)

    assert [] == observed.broken
    assert observed.walks > 0
    assert len(observed.exit_codes) > 2  # some were published, some were not


def disturb(bucket: WireBucket, name: str, publisher: Publisher, random: Random) -> None:
    """Let something happen to most publishers at random calls."""
    chance = random.random()
    if chance < 0.4:
        return
    if chance < 0.55:
        bucket.disturb(name, random.randrange(50), Kill(publisher.kill, after=random.random() < 0.5))
    elif chance < 0.65:
        bucket.disturb(name, random.randrange(50), random.choice(FAULTS[:5]), more=1_000)
    else:
        for _ in range(random.randrange(1, 4)):
            bucket.disturb(name, random.randrange(50), random.choice(FAULTS))
