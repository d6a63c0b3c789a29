"""Publishers, sweeps and readers that are at work at once, for a simulated bucket and for a real one alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta

from exporter.errors import EXIT_LOST_RACE, EXIT_SOURCE
from exporter.publishing.published_state import Pointer
from exporter.publishing.retention import CACHE_MARGIN, sweep
from exporter.stores.store import Clock, utc_now
from exporter.tree.decoding import decode_json
from exporter.tree.families import POINTER_KEY
from tests.s3.faults import Stall
from tests.s3.places import FAST, Place, assert_settled, attempt, open_place, publish_ledger
from tests.s3.reader import Reader
from tests.s3.wire_bucket import WireBucket

PATIENT = replace(FAST, connect_seconds=20.0, read_seconds=20.0)
"""For those to whom nothing happens, however busy the machine is."""

RETENTION = 60.0
"""Seconds for which the pages of a superseded run stay; no walk in these tests takes nearly so long."""


def published_ledger_of(place: Place) -> int:
    """The ledger that is published; 0 for none."""
    data = place.fetch(POINTER_KEY)
    return 0 if data is None else decode_json(data, Pointer).observed_ledger


@contextmanager
def readers(place: Place, count: int) -> Iterator[list[Reader]]:
    """Let readers walk everything while a block runs; after it they are done."""
    until = threading.Event()
    made = [Reader(place.fetch, grace=RETENTION / 2) for _ in range(count)]
    with ThreadPoolExecutor(count) as pool:
        reading = [pool.submit(reader.keep_looking, until) for reader in made]
        try:
            yield made
        finally:
            until.set()
    for done in reading:
        done.result()


def publish_in(place: Place, client: str, ledger: int) -> None:
    """Publish and close the store."""
    with closing(open_place(place, client, PATIENT)) as store:
        publish_ledger(store, ledger)


def sweep_in(place: Place, retention: float = RETENTION, now: Clock = utc_now) -> None:
    """Sweep and close the store."""
    with closing(open_place(place, "sweeper", PATIENT)) as store:
        assert sweep(store, timedelta(seconds=retention) - CACHE_MARGIN, now=now).refused is None


def at_once(place: Place, *ledgers: int) -> list[int]:
    """Publish ledgers from as many threads at once; gives the exit codes."""
    stores = [open_place(place, f"publisher-{number}", PATIENT) for number in range(len(ledgers))]
    with ThreadPoolExecutor(len(stores)) as pool:
        codes = [outcome.code for outcome in pool.map(attempt, stores, ledgers)]
    for store in stores:
        store.close()
    return codes


def assert_one_wins(place: Place, ledger: int, publishers: int) -> None:
    """Of publishers of the same ledger exactly one wins; the others end with code 5 or 3."""
    codes = at_once(place, *[ledger] * publishers)

    assert 1 == codes.count(0)
    assert set(codes) <= {0, EXIT_LOST_RACE, EXIT_SOURCE}
    assert_settled(place, ledger)


def hold_up(bucket: WireBucket, client: str, position: int, *, after: bool = False) -> Stall:
    """Let a client pause at a call: this one and all that follow it wait, those of its other threads, too."""
    until = threading.Event()
    stall = Stall(until, after=after)
    bucket.disturb(client, position + 1, Stall(until), more=10_000)
    bucket.disturb(client, position, stall)
    return stall


def begins_to_pause(stall: Stall) -> None:
    """Wait until a client pauses."""
    assert stall.reached.wait(20)
    time.sleep(0.05)  # a call of another thread may just have begun
