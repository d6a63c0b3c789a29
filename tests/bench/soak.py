"""A soak: 200 publishes with random faults, kills and races, while three readers walk everything; nothing may be lost.

Against the simulated bucket, which can fail and kill at any call, and against the server of `EXPORTER_TEST_S3_ENDPOINT`
where that is set (`scripts/radosgw run scripts/bench soak`), where processes are killed and meet each other. The random
numbers are seeded; what the processes of the machine make of them is not.
"""

from __future__ import annotations

import secrets
import time
from contextlib import closing
from random import Random

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from tests.bench.timing import Finding, Spread, Target
from tests.s3.faults import Answer, Cut, Fault, Hang, Kill, Reset
from tests.s3.places import JumpingClock, RealPlace, WirePlace, assert_settled
from tests.s3.publishers import Job, Publisher
from tests.s3.radosgw import given_gateway
from tests.s3.scenarios import SHORT_LEASE, Told, publish_until_done, published_ledger_of, readers, sweep_now
from tests.s3.wire_bucket import WireBucket

PUBLISHES = 200
READERS = 3
SECONDS = 420.0
"""After so long no further publish is begun, and the figures tell how many there were."""

SEED = 1
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


def run(quick: bool = False) -> list[Finding]:
    """The figures of each bucket; the target is that no promise is broken."""
    publishes = 6 if quick else PUBLISHES
    clock = JumpingClock()
    with WireBucket(clock) as bucket, closing(WirePlace(bucket)) as place:
        findings = soak("simulated bucket", place, publishes, bucket, clock)
    given = given_gateway()
    if given is not None and not quick:
        with closing(RealPlace(given, f"soak-{secrets.token_hex(4)}")) as real:
            findings += soak("real server", real, publishes, None, JumpingClock())
    return findings


def soak(
    title: str, place: WirePlace | RealPlace, publishes: int, bucket: WireBucket | None, clock: JumpingClock
) -> list[Finding]:
    """Publish again and again; ``bucket`` is the simulated one, where faults can be made and time can be skipped."""
    random = Random(SEED)
    told = Told()
    began = time.monotonic()
    done = disturbed = 0
    ledger = 99
    publish_until_done(place, ledger, told)
    with readers(place, told, READERS):
        while done < publishes and time.monotonic() - began < SECONDS:
            before = published_ledger_of(place)
            ledger += random.choice((1, 1, 2, 3))
            count = random.choice((1, 1, 1, 2))
            jobs = []
            for number in range(count):
                name = f"publisher-{done + number}"
                own = ledger - random.choice((0, 0, 1, 4)) if number else ledger
                job = Job(place.uri, place.environment(name), own, options=SHORT_LEASE, ahead=clock.ahead)
                publisher = Publisher(job)
                if bucket is not None:
                    disturbed += disturb(bucket, name, publisher, random)
                jobs.append(publisher.start())
            if bucket is None and random.random() < 0.15:
                time.sleep(random.uniform(0.0, 0.5))
                jobs[0].kill()
            codes = [publisher.join() for publisher in jobs]
            told.exit_codes.update(codes)
            told.killed += sum(code < 0 for code in codes)
            done += count
            if published_ledger_of(place) < before:
                told.broken.append(f"the published ledger went back below {before}")
            if done // SWEPT_EVERY != (done - count) // SWEPT_EVERY:
                sweep_now(place, told, RETENTION, clock.ahead)
            if not {0, EXIT_SOURCE, EXIT_LOST_RACE}.issuperset(codes):
                if bucket is not None:
                    clock.advance(SHORT_LEASE.lease_seconds + 3)  # the hold of one that died lapses
                else:
                    ledger += 1
                    publish_until_done(place, ledger, told)
        publish_until_done(place, ledger + 1, told)
    assert_settled(place, ledger + 1)
    return _findings(title, told, done, disturbed, time.monotonic() - began)


def disturb(bucket: WireBucket, name: str, publisher: Publisher, random: Random) -> bool:
    """Let something happen to some publishers at random calls; gives whether anything was planned."""
    chance = random.random()
    if chance < 0.4:
        return False
    if chance < 0.55:
        bucket.disturb(name, random.randrange(50), Kill(publisher.kill, after=random.random() < 0.5))
    elif chance < 0.65:
        bucket.disturb(name, random.randrange(50), random.choice(FAULTS[:5]), more=1_000)
    else:
        for _ in range(random.randrange(1, 4)):
            bucket.disturb(name, random.randrange(50), random.choice(FAULTS))
    return True


def _findings(title: str, told: Told, done: int, disturbed: int, seconds: float) -> list[Finding]:
    codes = told.exit_codes
    facts: dict[str, object] = {
        "publishes": done,
        "published": codes[0],
        "refused_as_lost_race": codes[5],
        "refused_as_not_newer": codes[3],
        "failed": codes[1],
        "killed": told.killed,
        "other_exit_codes": sum(codes.values()) - codes[0] - codes[5] - codes[3] - codes[1] - told.killed,
        "disturbed_on_purpose": disturbed,
        "sweeps": told.swept,
        "rounds_of_readers": told.rounds,
        "walks": told.walks,
        "files_read": told.files,
        "seconds": round(seconds),
        "first_broken": told.broken[0] if told.broken else "",
    }
    broken = Spread.of([float(len(told.broken))])
    return [Finding(f"{title}: promises broken to {READERS} readers", broken, "", Target(0, at_least=False), facts)]
