"""The hold of a publisher on a bucket (exporter/stores/s3_lease.py), with clocks that go where a test sends them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.errors import ConfigError, LostRaceError, StoreError
from exporter.stores.s3_client import LEASE_KEY, S3Client, S3Options
from exporter.stores.s3_errors import RefusedError
from exporter.stores.s3_lease import Lease, _ReleasedError
from exporter.stores.s3_store import S3Store
from tests.s3.clients import OPTIONS, session_of, store_at
from tests.s3.wire_bucket import BUCKET, Answer, Reset, WireBucket

LEASE = f"p/{LEASE_KEY}"
SECONDS = OPTIONS.lease_seconds
MARGIN = OPTIONS.margin_seconds


class Clocks:
    """The server's clock and the publishers' own one."""

    def __init__(self) -> None:
        self.server = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
        self.own = 1000.0

    def advance(self, seconds: float) -> None:
        self.server += timedelta(seconds=seconds)
        self.own += seconds


@pytest.fixture
def clocks() -> Clocks:
    """The server's clock and the publishers' own one, which a test sets."""
    return Clocks()


@pytest.fixture
def bucket(clocks: Clocks) -> Iterator[WireBucket]:
    """A bucket that goes by the server's clock."""
    with WireBucket(lambda: clocks.server) as bucket:
        yield bucket


@pytest.fixture
def alice(bucket: WireBucket, clocks: Clocks) -> Iterator[S3Store]:
    """A store that goes by the publishers' clock."""
    store = store_at(bucket.environment("alice"), "p", clock=lambda: clocks.own)
    yield store
    store.close()


def lease_of(bucket: WireBucket) -> dict[str, object]:
    document: dict[str, object] = json.loads(bucket.objects[LEASE].data)
    return document


def client_of(bucket: WireBucket, name: str, options: S3Options = OPTIONS) -> S3Client:
    return S3Client(BUCKET, "p", options, session_of(bucket.environment(name)), bucket.endpoint)


def acquire(bucket: WireBucket, clocks: Clocks, name: str) -> Lease:
    """Get hold without a thread that renews it."""
    return Lease.acquire(client_of(bucket, name), clock=lambda: clocks.own, renewing=False)


def test_the_hold_is_hidden_and_private(bucket: WireBucket, alice: S3Store) -> None:
    """No listing shows the lease, no key of a store names it, and no cache keeps it."""
    with alice.exclusive():
        assert [] == list(alice.list(""))
        with pytest.raises(StoreError, match="not a key"):
            alice.delete([LEASE_KEY])

    assert [] == list(alice.list(""))
    assert "private, no-store" == bucket.objects[LEASE].headers["cache-control"]
    assert "application/json" == bucket.objects[LEASE].headers["content-type"]


def test_a_dead_publisher(bucket: WireBucket, clocks: Clocks) -> None:
    """The hold of a publisher that died ends by the server's clock, two seconds after it ran out."""
    dead = acquire(bucket, clocks, "alice")
    for wait in (SECONDS - 1, 1, 1):
        clocks.server += timedelta(seconds=wait)
        with pytest.raises(LostRaceError, match="until 10:01:02 UTC"):
            acquire(bucket, clocks, "bob")
    clocks.advance(1)
    heir = acquire(bucket, clocks, "bob")

    heir.check()
    with pytest.raises(LostRaceError, match="another publisher took it"):
        dead.renew()
    with pytest.raises(LostRaceError, match="another publisher took it"):
        dead.check()
    holder = lease_of(bucket)["holder"]
    dead.release()
    assert holder == lease_of(bucket)["holder"]


def test_a_renewed_hold_lasts_from_then_on(bucket: WireBucket, clocks: Clocks) -> None:
    """A hold that is renewed lasts from then on."""
    lease = acquire(bucket, clocks, "alice")
    for _ in range(5):
        clocks.advance(SECONDS / 2)
        lease.renew()
    lease.check()

    with pytest.raises(LostRaceError, match="until 10:03:32 UTC"):
        acquire(bucket, clocks, "bob")
    lease.release()
    acquire(bucket, clocks, "bob").check()


def test_a_thread_renews_it(bucket: WireBucket, clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who works for long keeps the hold without doing anything for it."""
    renewed, write = threading.Semaphore(0), S3Client.write

    def counted(*given: Any, **named: Any) -> Any:
        written = write(*given, **named)
        renewed.release()
        return written

    monkeypatch.setattr(S3Client, "write", counted)
    # The hold is renewed after each fifth of its time. It does not run out here: this clock stands still.
    client = client_of(bucket, "alice", replace(OPTIONS, lease_seconds=0.1))
    lease = Lease.acquire(client, clock=lambda: clocks.own)
    for _ in range(4):  # the first is the one that got hold
        assert renewed.acquire(timeout=300)
    lease.release()

    assert None is lease_of(bucket)["holder"]
    assert 4 <= int(str(lease_of(bucket)["renewals"]))
    assert [] == [thread for thread in threading.enumerate() if thread.name == "s3-lease"]


def test_nothing_is_written_after_the_hold(bucket: WireBucket, clocks: Clocks, alice: S3Store) -> None:
    """If less time is left than a request may take, every method that changes something refuses before it asks."""
    alice.put("old", b"1")
    with alice.exclusive():
        alice.put_many([("a", b"1")])
        clocks.advance(SECONDS - MARGIN - 0.1)
        alice.put("b", b"1")
        clocks.advance(0.1)
        calls = len(bucket.calls)
        for write in (
            lambda: alice.put_new("v1/pages/x.json", b"1"),
            lambda: alice.put_many([("a", b"2")]),
            lambda: alice.put_many([("v1/pages/x.json", b"1"), ("v1/pages/y.json", b"1")], immutable=True),
            lambda: alice.swap("c", b"1", None),
            lambda: alice.delete(["old"]),
        ):
            with pytest.raises(LostRaceError, match=r"the hold on s3://bucket/p was lost .*Run again"):
                write()
        assert {"LIST", "GET", "HEAD"} >= {call.operation for call in bucket.calls[calls:]}

    assert {"p/old", "p/a", "p/b", LEASE} == set(bucket.objects)


def test_a_hold_that_cannot_be_renewed(bucket: WireBucket, clocks: Clocks) -> None:
    """A server that fails for a while costs nothing; when it is back the hold goes on."""
    lease = acquire(bucket, clocks, "alice")
    bucket.disturb_next("alice", Answer(503), more=OPTIONS.tries - 1)
    clocks.advance(10)
    with pytest.raises(StoreError, match="503"):
        lease.renew()
    lease.check()
    lease.renew()
    clocks.advance(SECONDS - MARGIN - 1)

    lease.check()


@pytest.mark.parametrize("taken", [False, True])
def test_an_answer_that_was_lost(bucket: WireBucket, clocks: Clocks, *, taken: bool) -> None:
    """A lease that was written without an answer is known again: at the beginning, and at a renewal."""
    if taken:
        acquire(bucket, clocks, "carol").release()
    bucket.disturb("alice", 1, Reset(after=True))
    lease = acquire(bucket, clocks, "alice")
    bucket.disturb_next("alice", Reset(after=True))
    lease.renew()

    lease.check()
    with pytest.raises(LostRaceError, match="holds"):
        acquire(bucket, clocks, "bob")


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1", b'{"holder": 5}', b'{"holder":"x","lease_seconds":1e9,"renewals":1}']
)
def test_a_lease_that_cannot_be_understood(bucket: WireBucket, clocks: Clocks, text: bytes) -> None:
    """An object that is not a lease holds as long as ours would, and no longer."""
    client = client_of(bucket, "carol")
    client.boto.put_object(Bucket=BUCKET, Key=LEASE, Body=text)
    with pytest.raises(LostRaceError, match="until 10:01:02 UTC"):
        acquire(bucket, clocks, "bob")
    clocks.advance(SECONDS + 2)

    acquire(bucket, clocks, "bob").check()


@pytest.mark.parametrize("found", ["nothing", "released", "expired"])
def test_only_one_gets_hold(bucket: WireBucket, clocks: Clocks, found: str) -> None:
    """Only one of sixteen publishers that begin together gets the lease, whatever was there before."""
    if found != "nothing":
        earlier = acquire(bucket, clocks, "carol")
        if found == "released":
            earlier.release()
        clocks.advance(SECONDS + 2)
    client = client_of(bucket, "everybody")
    together = threading.Barrier(16)

    def contend(_: int) -> Lease | None:
        together.wait(10)
        with suppress(LostRaceError):
            return Lease.acquire(client, clock=lambda: clocks.own, renewing=False)
        return None

    with ThreadPoolExecutor(16) as pool:
        (held,) = filter(None, pool.map(contend, range(16)))
    held.check()


class _Careless(S3Client):
    """Sends no condition of one kind, as a server does that ignores it."""

    ignores_match: bool

    def put(self, key, data, headers, match):  # type: ignore[no-untyped-def]
        ignored = (match is not None) == self.ignores_match
        if ignored:
            self.boto.put_object(Bucket=BUCKET, Key=self.full_key(key), Body=data)
            return "0"
        return super().put(key, data, headers, match)


@pytest.mark.parametrize("ignores_match", [True, False])
def test_a_server_that_ignores_conditions(bucket: WireBucket, *, ignores_match: bool) -> None:
    """A server that writes against a condition is refused before anything but the lease was written."""
    client = _Careless(BUCKET, "p", OPTIONS, session_of(bucket.environment("alice")), bucket.endpoint)
    client.ignores_match = ignores_match
    with pytest.raises(ConfigError, match=r"ignores If-(None-)?Match"):
        Lease.acquire(client, renewing=False)

    assert {LEASE} == set(bucket.objects)


def test_conditions_are_proved_once(bucket: WireBucket, alice: S3Store) -> None:
    """The two writes that must be refused are made at the first hold only."""
    counts = []
    for _ in range(2):
        bucket.forget()
        with alice.exclusive():
            pass
        counts.append([(call.operation, call.status) for call in bucket.calls])

    assert [("GET", 404), ("PUT", 200), ("PUT", 412), ("PUT", 412), ("PUT", 200)] == counts[0]
    assert [("GET", 200), ("PUT", 200), ("PUT", 200)] == counts[1]


@pytest.mark.parametrize("gone", [False, True])
def test_a_lease_that_another_took_is_noticed_at_the_listing(bucket: WireBucket, alice: S3Store, *, gone: bool) -> None:
    """Who looks at what is there, and lost the lease meanwhile, learns it before anything is written by that."""
    with alice.exclusive():
        taken = bucket.objects.pop(LEASE)
        if not gone:
            bucket.objects[LEASE] = replace(taken, data=b"{}")
        with pytest.raises(LostRaceError, match="another publisher took it"):
            alice.put("v1/markets.json", b"1")

    assert "p/v1/markets.json" not in bucket.objects


def test_a_renewal_is_not_tried_again_after_release(
    bucket: WireBucket, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal that the server refused for a moment sends nothing more once the publisher lets go."""
    client, tries = client_of(bucket, "alice"), list[str]()
    lease = Lease.acquire(client, clock=lambda: clocks.own, renewing=False)

    def refused(key: str, *_: object) -> str:
        tries.append(key)
        lease._ended.set()  # the publisher is done while this request is under way
        raise RefusedError(503, "SlowDown")

    with monkeypatch.context() as patch:
        patch.setattr(client, "put", refused)
        with pytest.raises(_ReleasedError):
            lease.renew()
    lease.release()

    assert [LEASE_KEY] == tries
    assert None is lease_of(bucket)["holder"]
