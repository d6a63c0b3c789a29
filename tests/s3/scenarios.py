"""Publishers, sweeps and readers that are at work at once, for a simulated bucket and for a real one alike."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import msgspec

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from exporter.publishing.published_state import Pointer
from exporter.stores.s3_client import S3Options
from exporter.tree.families import POINTER_KEY
from tests.s3.places import Place, assert_settled
from tests.s3.publishers import EXIT_SWEEP_REFUSED, LONGEST, Job, Publisher, run_job
from tests.s3.reader import Reader

SHORT_LEASE = S3Options(
    connect_seconds=1.0,
    read_seconds=1.0,
    tries=4,
    pause_seconds=0.02,
    longest_pause_seconds=0.2,
    deadline_seconds=8,
    lease_seconds=4.6,
)
"""For processes that are killed: the next one need not wait long. The server's times are whole seconds. On a busy
machine such a hold runs out in good hands, so who is not killed has the usual one."""

RETENTION = 60.0
"""Seconds for which the pages of a superseded run stay; no walk in these tests takes nearly so long."""


@dataclass
class Observed:
    """What came of it all."""

    exit_codes: Counter[int] = field(default_factory=Counter)
    killed: int = 0
    swept: int = 0
    walks: int = 0
    rounds: int = 0
    newest: int = 0
    broken: list[str] = field(default_factory=list)


def published_ledger_of(place: Place) -> int:
    """The ledger that is published; 0 for none."""
    data = place.fetch(POINTER_KEY)
    return 0 if data is None else msgspec.json.decode(data, type=Pointer).observed_ledger


@contextmanager
def readers(place: Place, observed: Observed, count: int) -> Iterator[None]:
    """Let readers walk everything while a block runs, and record what they saw."""
    until = threading.Event()
    made = [Reader(place.fetch, grace=RETENTION / 2) for _ in range(count)]

    def read(reader: Reader) -> None:
        try:
            reader.keep_looking(until)
        except Exception as error:
            reader.broken.append(f"a reader failed: {error!r}")

    threads = [threading.Thread(target=read, args=(reader,)) for reader in made]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        until.set()
        for thread in threads:
            thread.join(LONGEST)
        observed.broken += [text for reader in made for text in reader.broken]
        observed.walks += sum(reader.walks for reader in made)
        observed.rounds += sum(reader.rounds for reader in made)


def two_at_once(place: Place, first: int, second: int) -> tuple[int, int]:
    """Publish two ledgers from two processes at once; gives their exit codes."""
    publishers = [
        Publisher(Job(place.uri, place.environment(name), ledger)).start()
        for name, ledger in (("first", first), ("second", second))
    ]
    one, other = (publisher.join() for publisher in publishers)
    return one, other


def races(place: Place, rounds: int) -> Counter[tuple[int, int]]:
    """Two processes that publish the same ledger, again and again: exactly one of them wins each ledger."""
    seen: Counter[tuple[int, int]] = Counter()
    for number in range(rounds):
        ledger = 100 + number
        codes = two_at_once(place, ledger, ledger)
        seen[codes] += 1
        assert 1 == codes.count(0), codes
        assert max(codes) in (EXIT_LOST_RACE, EXIT_SOURCE), codes
        assert_settled(place, ledger)
    return seen


def killed_at_random(place: Place, random: Random, deaths: int, longest: float) -> Observed:
    """Kill publishers at random moments; after each, a later run repairs and completes, and is whole."""
    observed = Observed()
    ledger = 100
    assert 0 == run_job(Job(place.uri, place.environment("first"), ledger))
    while observed.killed < deaths:
        ledger += 1
        publisher = Publisher(Job(place.uri, place.environment("victim"), ledger, options=SHORT_LEASE)).start()
        time.sleep(random.uniform(0.0, longest))
        publisher.kill()
        code = publisher.join()
        observed.exit_codes[code] += 1
        observed.killed += code < 0
        assert published_ledger_of(place) in (ledger - 1, ledger)
        ledger += 1
        publish_until_done(place, ledger, observed)
        assert_settled(place, ledger)
    observed.newest = ledger
    return observed


def publish_until_done(place: Place, ledger: int, observed: Observed, seconds: float = 40.0) -> None:
    """Publish a ledger, waiting for the hold of one that died to lapse."""
    deadline = time.monotonic() + seconds
    while True:
        code = run_job(Job(place.uri, place.environment("next"), ledger))
        observed.exit_codes[code] += 1
        if code == 0:
            return
        assert EXIT_LOST_RACE == code
        assert time.monotonic() < deadline, "the hold of a dead publisher did not lapse"
        time.sleep(0.2)


def sweep_now(place: Place, observed: Observed, retention: float = RETENTION, ahead: float = 0.0) -> None:
    """Sweep in a process of its own, whose clock may be ahead of the real time."""
    environment = place.environment("sweeper")
    code = run_job(Job(place.uri, environment, 0, retention=retention, ahead=ahead))
    assert code in (0, EXIT_SWEEP_REFUSED), code
    observed.swept += code == 0
