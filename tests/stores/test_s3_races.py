"""Publishers that write the same keys, and servers with conditions of their own (exporter.stores.s3_client.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from exporter.errors import LostRaceError, StoreError
from exporter.stores.s3_store import S3Store
from exporter.stores.store import Written
from exporter.tree.families import STATUS_KEY
from tests.s3 import wire_bucket
from tests.s3.clients import ATOMIC, ENDPOINT_VARIABLE, Variables, gateway_name, store_at
from tests.s3.wire_bucket import Answer, Stall, WireBucket


def test_a_publisher_that_lost_its_hold_unnoticed(bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """A document and a removal that a later run made are not taken back by one that is late."""
    files = [("v1/markets.json", b"old"), ("index.html", b"old"), ("v1/assets/index.json", b"old")]
    alice.put_many(files)
    with alice.exclusive():
        alice.put_many([("v1/protocols.json", b"1")])  # now she knows what is there
        bob.put("v1/markets.json", b"newer")
        with pytest.raises(LostRaceError, match=r"v1/markets\.json was written by another publisher"):
            alice.put_many([("v1/markets.json", b"older")])
        bob.delete(["v1/protocols.json"])
        with pytest.raises(LostRaceError, match=r"v1/protocols\.json"):
            alice.put("v1/protocols.json", b"2")

    assert b"newer" == bucket.data()["v1/markets.json"]
    assert "v1/protocols.json" not in bucket.data()


def test_what_was_read_is_what_is_replaced(bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """A document that a publisher read under its hold, and somebody wrote since, is not replaced."""
    bob.put("v1/system/intent.json", b"1")
    with alice.exclusive():
        alice.get("v1/system/intent.json")
        alice.get("v1/history.json")
        bob.put("v1/system/intent.json", b"2")
        bob.put("v1/history.json", b"2")
        list(alice.list("v1/system/"))  # what a listing has since does not count
        for key in ("v1/system/intent.json", "v1/history.json"):
            with pytest.raises(LostRaceError, match=key):
                alice.put(key, b"3")

    assert {"v1/system/intent.json": b"2", "v1/history.json": b"2"} == bucket.data()


def test_compare_and_swap_loses_no_addition(server: Variables) -> None:
    """No addition by compare-and-swap is lost."""
    if ENDPOINT_VARIABLE in server and not ATOMIC[gateway_name()]:
        pytest.skip(f"{gateway_name()} looks at a condition and writes in two steps (docs/operations.md)")
    store = store_at(server)
    store.swap(STATUS_KEY, b"0", None)

    def add(adder: int) -> None:
        while True:
            stored = store.get(STATUS_KEY)
            assert stored is not None
            count = int(stored.data.split()[0]) + 1
            try:
                # Named, because a store takes the bytes that it sent without an answer for its own, whoever wrote them.
                store.swap(STATUS_KEY, b"%d by %d" % (count, adder), stored.etag)
            except LostRaceError:
                continue
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    status = store.get(STATUS_KEY)
    store.close()

    assert status is not None
    assert status.data.startswith(b"12 ")


def held_up(
    bucket: WireBucket, position: int, swap: Callable[[], object], meanwhile: Callable[[], object]
) -> BaseException | None:
    """Do something while one of alice's next calls waits; gives the error of her swap."""
    stall = Stall(threading.Event())
    bucket.disturb("alice", len(bucket.calls_of("alice")) + position, stall)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(swap)
        assert stall.reached.wait(300)
        meanwhile()
        stall.until.set()
        return running.exception(300)


def test_the_status_document_never_goes_back(bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """If a publisher is held up before the status document, that of a later publisher stays."""
    first = bob.swap(STATUS_KEY, b"0", None)
    alice.get("x")

    def swap_current() -> None:
        current = bob.get(STATUS_KEY)
        assert current is not None
        bob.swap(STATUS_KEY, b"2", current.etag)

    error = held_up(bucket, 0, lambda: alice.swap(STATUS_KEY, b"1", first), swap_current)

    assert {STATUS_KEY: b"2"} == bucket.data()
    assert isinstance(error, LostRaceError)


def test_the_same_bytes_of_somebody_else(alice: S3Store, bob: S3Store) -> None:
    """A status document that another publisher moved to the very same bytes is lost; another document is not."""
    bob.swap(STATUS_KEY, b"1", None)
    with pytest.raises(LostRaceError, match="status"):
        alice.swap(STATUS_KEY, b"1", None)
    with alice.exclusive():
        alice.put_many([("v1/markets.json", b"0")])
        bob.put("v1/markets.json", b"1")
        assert Written(0, 1, 0) == alice.put_many([("v1/markets.json", b"1")])


def test_a_server_that_wants_etags_without_quotes(
    bucket: WireBucket, alice: S3Store, bob: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ceph compares If-Match without quotes; that is found out once, and then kept to."""
    monkeypatch.setattr(wire_bucket, "names", lambda condition, etag: condition == etag)
    first = alice.swap("a", b"1", None)
    second = alice.swap("a", b"2", first)
    third = alice.swap("a", b"3", second)
    with pytest.raises(LostRaceError):
        alice.swap("a", b"4", second)
    bob.swap("a", b"5", third)

    assert b"5" == bucket.data()["a"]
    assert [200, 412, 200, 200, 412] == [call.status for call in bucket.calls_of("alice") if call.operation == "PUT"]


def test_a_server_that_refuses_every_condition(
    bucket: WireBucket, alice: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes neither form is distinguished from a lost race."""
    monkeypatch.setattr(wire_bucket, "names", lambda *_: False)
    first = alice.swap("a", b"1", None)
    with pytest.raises(StoreError, match="does not implement conditional writes"):
        alice.swap("a", b"2", first)

    assert b"1" == bucket.data()["a"]


@pytest.mark.parametrize("code", ["XMinioObjectExistsAsDirectory", "ObjectParentIsFile", "InvalidRequest"])
def test_a_conflict_that_is_no_lost_race(bucket: WireBucket, alice: S3Store, code: str) -> None:
    """A 409 for another reason than the condition is the server's refusal, with its code; nobody else was at work."""
    bucket.disturb_next("alice", Answer(409, code, writes=True), more=10)
    with pytest.raises(StoreError, match=f"the server answers with HTTP status 409 {code}") as caught:
        alice.swap("v1/markets.json", b"1", None)

    assert 10 == caught.value.exit_code


def test_a_server_that_shows_no_object_and_says_there_is_one(bucket: WireBucket, alice: S3Store) -> None:
    """A condition that fails for no object that anybody can see is not called the work of another publisher."""
    bucket.disturb_next("alice", Answer(412, "PreconditionFailed", writes=True), more=20)
    with pytest.raises(StoreError, match="has keys below that name, or does not implement If-None-Match"):
        alice.swap("v1/markets.json", b"1", None)
