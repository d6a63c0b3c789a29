"""Where the scenarios run: a place in a simulated bucket or on a real server, and what can be seen of it there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from exporter.errors import ExporterError
from exporter.publishing.publish import PublishResult
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.s3_client import S3Options
from exporter.stores.s3_store import S3Store
from exporter.stores.store import Clock, Store, utc_now
from exporter.tree.families import POINTER_KEY, alias_of
from exporter.tree.files import is_key
from tests.publishing.published_tree import assert_whole, publish_run
from tests.s3.bucket_objects import BUCKET
from tests.s3.clients import Variables, boto_at, session_of, store_at
from tests.s3.reader import Reader, run_at
from tests.s3.wire_bucket import WireBucket

FAST = S3Options(
    connect_seconds=0.5, read_seconds=0.5, tries=4, pause_seconds=0.01, longest_pause_seconds=0.02, deadline_seconds=20
)
"""Bounds for a bucket on the same machine that is made to fail."""


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

    @property
    def uri(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    def environment(self, client: str) -> Mapping[str, str]:
        return self.bucket.environment(client)

    def fetch(self, key: str) -> bytes | None:
        """Read as the public does; may be called by many threads."""
        stored = self.bucket.objects.get(f"{self.prefix}/{key}")
        return None if stored is None else stored.data

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

    def __init__(self, variables: Variables, prefix: str) -> None:
        self._variables = {name: value for name, value in variables.items() if name.startswith("AWS_")}
        self.prefix = prefix
        self.client = boto_at(variables["AWS_ENDPOINT_URL_S3"], session_of(variables))

    @property
    def uri(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    def environment(self, client: str) -> Mapping[str, str]:
        return self._variables

    def fetch(self, key: str) -> bytes | None:
        try:
            answer = self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{key}")
            with closing(answer["Body"]) as body:
                data: bytes = body.read()
        except self.client.exceptions.NoSuchKey:
            return None
        return data

    def objects(self) -> dict[str, bytes]:
        base = f"{self.prefix}/"
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=base)
        keys = [entry["Key"].removeprefix(base) for page in pages for entry in page.get("Contents", ())]
        with ThreadPoolExecutor(8) as pool:
            return {key: data for key, data in zip(keys, pool.map(self.fetch, keys), strict=True) if data is not None}


Place = WirePlace | RealPlace
"""Where a tree is published to."""


def open_place(
    place: Place, client: str, options: S3Options = FAST, clock: Callable[[], float] = time.monotonic
) -> S3Store:
    """Open a place as a client of a name, in this process; close it afterwards."""
    return store_at(place.environment(client), place.prefix, options=options, clock=clock)


def publish_ledger(store: Store, ledger: int, now: Clock = utc_now) -> PublishResult:
    """Publish the run of a ledger as the pipeline would."""
    return publish_run(store, run_at(ledger), now)


def assert_readable(place: Place, *ledgers: int, settled: bool = False) -> int:
    """Check that one of these runs is published and whole, and that a reader finds no fault; gives its ledger.

    ``settled``: also that every document is its own, and that each alias is equal to its document.
    """
    objects = place.objects()
    store = MemoryStore()
    for key, data in objects.items():
        if is_key(key):
            store.put(key, data)
    published = read_published(store)
    assert published is not None
    ledger = published.pointer.observed_ledger
    assert ledger in ledgers
    run = run_at(ledger)
    assert_whole(store, run)
    reader = Reader(objects.get)
    reader.look()
    assert ([], 1) == (reader.broken, reader.rounds)
    if settled:
        keys = [file.key for file in read_current_listing(store, published.pointer) if file.kind == "document"]
        aliased = [(key, alias) for key in (*keys, POINTER_KEY) if (alias := alias_of(key)) is not None]
        assert [] == [key for key in keys if run.document(key) != objects[key]]
        assert [] == [alias for key, alias in aliased if objects[key] != objects[alias]]
        assert len(aliased) > 3
    return ledger


def assert_settled(place: Place, ledger: int) -> None:
    """Check that this run is published with all that is its own."""
    assert_readable(place, ledger, settled=True)


@dataclass(frozen=True)
class Outcome:
    """How an attempt to publish ended: with a result, or an error of the exporter."""

    result: PublishResult | None
    error: ExporterError | None

    @property
    def code(self) -> int:
        return 0 if self.error is None else self.error.exit_code


def attempt(store: Store, ledger: int, now: Clock = utc_now) -> Outcome:
    """Try to publish."""
    try:
        return Outcome(publish_ledger(store, ledger, now), None)
    except ExporterError as error:
        return Outcome(None, error)
