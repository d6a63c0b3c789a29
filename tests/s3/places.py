"""Places in a simulated bucket or on a real server, and who is at work there: publishers and sweeps."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache

from msgspec.structs import replace

from exporter.errors import ExitCode, ExporterError
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.publishing.retention import CACHE_MARGIN
from exporter.stores.memory import MemoryStore
from exporter.stores.s3_client import S3Options
from exporter.stores.s3_store import S3Store
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.families import lacks_extension
from exporter.tree.files import is_key
from tests.publishing.held import sweep
from tests.publishing.published_tree import MadeRun, assert_whole, make_run, publish_run
from tests.render.rendering import contract
from tests.s3.clients import given_gateway, real_client, store_at
from tests.s3.wire_bucket import BUCKET, Stall, WireBucket

FAST = S3Options(
    connect_seconds=0.5, read_seconds=0.5, tries=4, pause_seconds=0.01, longest_pause_seconds=0.02, deadline_seconds=300
)
"""Bounds for a bucket on the same machine that is made to fail."""

PATIENT = replace(FAST, connect_seconds=20.0, read_seconds=20.0)
"""Bounds that an undisturbed client keeps, however busy the machine is."""

ONE_BY_ONE = replace(PATIENT, concurrency=1)
"""One call after the other, so that a position means the same call each time."""

GUARD_SECONDS = 300.0
"""How long a test waits for what comes in any case, before it fails."""

AFTER_ITS_LEASE = 600.0
"""Seconds after which nobody holds the bucket who did not renew."""

RETENTION = 60.0
"""Seconds for which the pages of a superseded run stay; no walk in these tests takes nearly so long."""


_LEDGER = re.compile(rb'@(\d+)"|"observed_ledger": ?(\d+)|Ledger (\d+)')


class JumpingClock:
    """The clock of a simulated bucket: the wall clock, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def advance(self, seconds: float) -> None:
        """Jump ahead."""
        self.ahead += seconds


class WirePlace:
    """A place in a simulated bucket."""

    def __init__(self, bucket: WireBucket, prefix: str = "api") -> None:
        self.bucket = bucket
        self.prefix = prefix

    def environment(self, client: str) -> Mapping[str, str]:
        return self.bucket.environment(client)

    def objects(self) -> dict[str, bytes]:
        with self.bucket.lock:
            base = f"{self.prefix}/"
            return {
                key.removeprefix(base): stored.data
                for key, stored in self.bucket.objects.items()
                if key.startswith(base)
            }


class RealPlace:
    """A place in the bucket of a real server."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.client = real_client()

    def environment(self, client: str) -> Mapping[str, str]:
        return {name: value for name, value in (given_gateway() or {}).items() if name.startswith("AWS_")}

    def objects(self) -> dict[str, bytes]:
        def fetch(key: str) -> tuple[str, bytes]:
            with closing(self.client.get_object(Bucket=BUCKET, Key=key)["Body"]) as body:
                return key.removeprefix(f"{self.prefix}/"), body.read()

        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        with ThreadPoolExecutor(8) as pool:
            return dict(pool.map(fetch, [entry["Key"] for page in pages for entry in page.get("Contents", ())]))


Place = WirePlace | RealPlace
"""The output to which a tree is published."""


def open_place(
    place: Place, client: str, options: S3Options = FAST, clock: Callable[[], float] = time.monotonic
) -> S3Store:
    """Open a place as a client of a name, in this process; close it afterwards."""
    return store_at(place.environment(client), place.prefix, options=options, clock=clock)


def publish_ledger(store: Store, ledger: int, now: Clock = utc_now) -> None:
    """Publish the run of a ledger as the pipeline would."""
    publish_run(store, run_at(ledger), now)


@cache
def run_at(ledger: int) -> MadeRun:
    """The run of a ledger: the number of its pools differs from run to run, and one market comes and goes."""
    markets = {contract(1): 2 + ledger % 4, contract(2): 2}
    if ledger % 3 == 0:
        markets[contract(3)] = 3
    return make_run(ledger, markets)


def ledger_of(data: bytes) -> int:
    """The ledger that a document of a made-up run states; 0 where there is none."""
    match = _LEDGER.search(data)
    return 0 if match is None else int(next(group for group in match.groups() if group is not None))


def assert_readable(place: Place, *ledgers: int, settled: bool = False) -> int:
    """Check that one of these runs, or any, is published and whole; gives its ledger.

    Each document is that of this run or of a later one that did not finish; ``settled``: of this one.
    """
    objects = place.objects()
    store = MemoryStore()
    for key, data in objects.items():
        if is_key(key):
            store.put(key, data)
    published = read_published(store)
    assert published is not None
    ledger = published.status.observed_ledger
    assert not ledgers or ledger in ledgers
    assert_whole(store, run_at(ledger))
    documents = [file.key for file in read_current_listing(store, published.status) if file.kind == "document"]
    for key in documents:
        own = max(ledger_of(objects[key]), ledger)
        assert not settled or own == ledger
        assert run_at(own).document(key) == objects[key], key
    assert [] == [key for key in objects if lacks_extension(key)]
    return ledger


def assert_settled(place: Place, ledger: int) -> None:
    """Check that this run is published with all that is its own."""
    assert_readable(place, ledger, settled=True)


def attempt(store: Store, ledger: int, now: Clock = utc_now) -> ExporterError | None:
    """Try to publish; gives the exporter's error where that ends with one."""
    try:
        publish_ledger(store, ledger, now)
    except ExporterError as error:
        return error
    return None


def code_of(error: ExporterError | None) -> int:
    """The exit code with which an attempt to publish ends."""
    return 0 if error is None else error.exit_code


@contextmanager
def watched(place: Place) -> Iterator[None]:
    """Look at what is published all the time while a block runs: it is whole, and only goes forward."""
    until = threading.Event()

    def watch() -> int:
        newest = looks = 0
        while not until.wait(0.02):
            found = assert_readable(place)
            assert newest <= found
            newest, looks = found, looks + 1
        return looks

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield
        finally:
            until.set()
    assert watching.result() > 3


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
        codes = [code_of(error) for error in pool.map(attempt, stores, ledgers)]
    for store in stores:
        store.close()
    return codes


def assert_one_wins(place: Place, ledger: int, publishers: int) -> None:
    """Check that exactly one of the publishers of a ledger wins, and that the others end with code 5 or 3."""
    codes = at_once(place, *[ledger] * publishers)

    assert 1 == codes.count(0)
    assert set(codes) <= {0, ExitCode.LOST_RACE, ExitCode.SOURCE}
    assert_settled(place, ledger)


def hold_up(bucket: WireBucket, client: str, position: int) -> Stall:
    """Let a client pause at a call: this one and all that follow it wait, those of its other threads, too."""
    until = threading.Event()
    stall = Stall(until)
    bucket.disturb(client, position + 1, Stall(until), more=10_000)
    bucket.disturb(client, position, stall)
    return stall


def begins_to_pause(bucket: WireBucket, client: str, stall: Stall) -> None:
    """Wait until a client pauses: this call of it waits, and those that its other threads began before are over."""
    assert stall.reached.wait(GUARD_SECONDS)
    assert bucket.is_quiet(client, GUARD_SECONDS)
