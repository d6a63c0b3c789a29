"""Trees in a bucket (exporter/stores/s3_store.py): headers, conditions, and what is not sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from exporter.errors import ImmutableKeyError, StoreError
from exporter.stores.s3_store import S3Store
from exporter.stores.store import Written, etag_of
from exporter.tree.families import STATUS_KEY
from tests.s3.clients import OPTIONS, Variables, store_at
from tests.s3.wire_bucket import BUCKET, Answer, Stored, WireBucket

MARKET = "C" + "A" * 55
PAGES = "public, max-age=31536000, immutable"
DOCUMENTS = "public, max-age=30"
STATUS = "public, max-age=5, must-revalidate"
PRIVATE = "private, no-store"


HEADERS = {
    "index.html": ("text/html; charset=utf-8", DOCUMENTS),
    "v1/assets/index.json": ("application/json", DOCUMENTS),
    "v1/pages/x.json": ("application/json", PAGES),
    "v1/buckets/x.json": ("application/json", PAGES),
    "history/pools/date=2026-11-21/7.parquet": ("application/vnd.apache.parquet", PAGES),
    "v1/runs/7-0.json": ("application/json", DOCUMENTS),
    STATUS_KEY: ("application/json", STATUS),
    "v1/system/intent.json": ("application/json", PRIVATE),
    "v1/system/superseded.json": ("application/json", PRIVATE),
    "state/history-buckets.bin": ("application/octet-stream", PRIVATE),
}


def test_each_class_has_its_type_cache_lifetime_and_digest(server: Variables) -> None:
    """Each class of object has its content type, cache lifetime and digest."""
    store = store_at(server)
    store.put_many((key, key.encode()) for key in HEADERS if key != STATUS_KEY)
    store.swap(STATUS_KEY, STATUS_KEY.encode(), None)
    prefix = store.uri.split("/", 3)[3]
    heads = {key: store._client.boto.head_object(Bucket=BUCKET, Key=f"{prefix}/{key}") for key in HEADERS}
    store.close()

    assert HEADERS == {key: (head["ContentType"], head["CacheControl"]) for key, head in heads.items()}
    assert {key: {"sha256": etag_of(key.encode())} for key in HEADERS} == {
        key: head["Metadata"] for key, head in heads.items()
    }
    assert all("ContentEncoding" not in head for head in heads.values())


def test_what_has_no_key_of_a_tree_is_a_stranger(server: Variables) -> None:
    """Objects next to a tree's own are named. Neither the lease nor a file of the tree is among them."""
    store = store_at(server)
    with store.exclusive():
        store.put("v1/a.json", b"a")
        prefix = store.uri.split("/", 3)[3]
        for key in (".notes", "v1/.hidden"):
            store._client.boto.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=b"x")
        strangers = list(store.strangers())
    store.close()

    assert [f"{key} (no key of a tree)" for key in (".notes", "v1/.hidden")] == sorted(strangers)


def test_no_object_is_next_to_keys_below_its_name(bucket: WireBucket, alice: S3Store) -> None:
    """A document is one object, under its own key; so no key is also a folder of keys."""
    keys = ["index.html", "v1/assets/index.json", "v1/markets.json", f"v1/markets/{MARKET}.json"]
    alice.put_many((key, b"1") for key in keys)
    alice.swap(STATUS_KEY, b"1", None)

    assert [*keys, STATUS_KEY] == sorted(bucket.data())


def test_unchanged_files_are_not_sent(bucket: WireBucket, alice: S3Store) -> None:
    """A run that changes nothing lists each folder once, looks at its lease once, and writes nothing."""
    documents = [(f"v1/markets/{number}.json", b"%d" % number) for number in range(30)]
    documents += [("v1/markets.json", b"m"), ("index.html", b"i"), (f"v1/assets/{MARKET}/p.json", b"a")]
    buckets = [(f"v1/buckets/{number}.json", b"%d" % number) for number in range(30)]
    with alice.exclusive():
        alice.put_many(buckets, immutable=True)
        alice.put_many(documents)
    bucket.forget()
    with alice.exclusive():
        assert Written(0, 30, 0) == alice.put_many(buckets, immutable=True)
        assert Written(0, 33, 0) == alice.put_many(documents)
        assert [] == bucket.sent()
        listed = bucket.sent("LIST")
        assert {"", "v1/", "v1/assets/", "v1/buckets/", "v1/markets/"} <= set(listed)
        assert len(set(listed)) == len(listed)
        assert [] == bucket.sent("HEAD")
        assert ["p/.exporter.lease"] == [call.key for call in bucket.calls if call.operation == "HEAD"]

        assert Written(1, 32, 3) == alice.put_many([("index.html", b"new"), *documents[:31], documents[32]])
        assert ["index.html"] == bucket.sent()


def test_a_listing_inside_the_hold(bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """A folder is asked for once, and has what was written, swapped and deleted since; that of the pages each time."""
    bob.put_many([("v1/markets/1.json", b"1"), ("v1/markets/2.json", b"22")])
    bob.put_new("v1/pages/x.json", b"1")

    def sizes(prefix: str) -> dict[str, int]:
        return {info.key: info.size for info in alice.list(prefix)}

    with alice.exclusive():
        assert {"v1/markets/1.json": 1, "v1/markets/2.json": 2} == sizes("v1/markets/")
        alice.put_many([("v1/markets/3.json", b"333"), ("v1/markets/2.json", b"")])
        alice.swap(STATUS_KEY, b"4444", None)
        alice.delete(["v1/markets/1.json"])
        assert {"v1/markets/2.json": 0, "v1/markets/3.json": 3} == sizes("v1/markets/")
        assert {STATUS_KEY: 4} == sizes("v1/system/")
        for _ in range(2):
            assert {"v1/pages/x.json": 1} == sizes("v1/pages/")
        assert {"v1/markets/2.json", "v1/markets/3.json", "v1/pages/x.json", STATUS_KEY} == {*sizes("")}
    listed = bucket.sent("LIST")

    assert (1, 2) == (listed.count("v1/markets/"), listed.count("v1/pages/"))


def test_pages_of_a_run_that_died(bucket: WireBucket, alice: S3Store, bob: S3Store) -> None:
    """Pages are expected to be new and not listed; those that are there already are found one by one."""
    pages = [(f"v1/pages/{number:03}.json", b"%d" % number) for number in range(30)]
    with alice.exclusive():
        alice.put_many(pages[:25], immutable=True)
    with bob.exclusive():
        assert Written(5, 25, 10) == bob.put_many(pages, immutable=True)

    assert [] == bucket.sent("LIST")
    assert dict(pages) == bucket.data()


def test_listing_and_deleting_go_on_after_1000_keys(bucket: WireBucket, alice: S3Store) -> None:
    """Listing, looking up and deleting go on after 1000 keys."""
    files = [(f"v1/markets/{number:05}.json", b"%d" % number) for number in range(1100)]
    bucket.objects.update((f"p/{key}", Stored(data, datetime.now(UTC), {})) for key, data in files)
    with alice.exclusive():
        assert Written(0, 1100, 0) == alice.put_many(files)
    assert (1, 2) == tuple(bucket.sent("LIST").count(folder) for folder in ("v1/", "v1/markets/"))
    assert [key for key, _ in files] == [info.key for info in alice.list("v1/markets/")]
    bucket.forget()
    alice.delete(key for key, _ in files)

    assert ["DELETE MANY"] * 2 == [call.operation for call in bucket.calls]
    assert {} == bucket.data()


def test_immutable_objects_are_compared_by_bytes(bucket: WireBucket, alice: S3Store) -> None:
    """Other bytes under an immutable key are an error that leaves the object, even if the listing knows it."""
    with alice.exclusive():
        alice.put_many([("v1/buckets/x.json", b"1")], immutable=True)
        for files in ([("v1/buckets/x.json", b"2")], [("v1/pages/y.json", b"1"), ("v1/pages/y.json", b"2")]):
            with pytest.raises(ImmutableKeyError, match=files[-1][0]):
                alice.put_many(files, immutable=True)

    assert b"1" == bucket.data()["v1/buckets/x.json"]


def test_the_first_error_ends_a_bulk(bucket: WireBucket, alice: S3Store) -> None:
    """If one object is refused, the others are no longer begun, and the error names it."""
    taken = 0

    def stream() -> Iterator[tuple[str, bytes]]:
        nonlocal taken
        for taken in range(1, 2001):
            yield f"v1/pages/{taken:04}.json", b"1"

    alice.get("x")
    bucket.disturb_next("alice", Answer(403, "AccessDenied"), more=5000)
    with pytest.raises(StoreError, match=r"s3://bucket/p/v1/pages/00\d\d\.json: access is denied"):
        alice.put_many(stream(), immutable=True)

    assert 4 * OPTIONS.concurrency >= taken
    assert taken >= len(bucket.sent())
    assert {} == bucket.data()


def test_a_bulk_is_never_all_in_memory(bucket: WireBucket) -> None:
    """The stream is read as objects are sent: at most two for each thread are on the way."""
    store = store_at(bucket.environment("alice"), "p", options=replace(OPTIONS, concurrency=4))
    ahead: list[int] = []

    def stream() -> Iterator[tuple[str, bytes]]:
        for number in range(200):
            ahead.append(number - len(bucket.objects))
            yield f"v1/pages/{number:04}.json", b"1"

    store.put_many(stream(), immutable=True)
    store.close()

    assert 8 >= max(ahead)
    assert 200 == len(bucket.objects)


def test_etags_that_are_no_digests(bucket: WireBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """If etags are no digests, the digest in the metadata decides, and nothing is sent again."""
    opaque = property(lambda stored: hashlib.md5(b"salt" + stored.data, usedforsecurity=False).hexdigest())
    monkeypatch.setattr(Stored, "etag", opaque)
    documents = [(f"v1/markets/{number}.json", b"%d" % number) for number in range(5)]
    for client in ("alice", "bob"):
        store = store_at(bucket.environment(client), "p")
        with store.exclusive():
            store.put_many([(f"v1/pages/{client}.json", b"1")], immutable=True)
            written = store.put_many(documents)
            assert Written(1, 4, 1) == store.put_many([("v1/markets/0.json", client.encode()[:1]), *documents[1:]])
            store.put("v1/markets/0.json", b"0")
        store.close()

    assert Written(0, 5, 0) == written


def test_deletions_that_are_refused_singly(bucket: WireBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that the server could not delete just then is tried again; one it refuses is named."""
    store = store_at(bucket.environment("alice"), "p")
    store.put_many([("a.txt", b"1"), ("b.txt", b"1"), ("c.txt", b"1")])
    client = store._client.boto
    answers = ["InternalError", "AccessDenied"]
    asked: list[list[str]] = []

    def delete_objects(**arguments):  # type: ignore[no-untyped-def]
        keys = [item["Key"] for item in arguments["Delete"]["Objects"]]
        asked.append([key.rpartition("/")[2] for key in keys])
        code = answers.pop(0)
        return {"Errors": [{"Key": key, "Code": code} for key in keys if key.endswith("b.txt")]}

    monkeypatch.setattr(client, "delete_objects", delete_objects)
    with pytest.raises(StoreError, match=r"cannot delete s3://.*/b\.txt: access is denied"):
        store.delete(["a.txt", "b.txt", "c.txt"])
    store.close()

    assert [["a.txt", "b.txt", "c.txt"], ["b.txt"]] == [sorted(keys) for keys in asked]


def test_a_prefix_of_its_own(server: Variables) -> None:
    """Two trees in one bucket do not see each other, even if one prefix begins with the other."""
    first = store_at(server)
    second = store_at(server, first.uri.rpartition("/")[2] + "-more")
    first.put_many([("a", b"1"), ("v1/markets.json", b"1")])
    second.put_many([("a", b"2"), ("b", b"2")])

    first.delete(["b"])

    assert ["a", "v1/markets.json"] == [info.key for info in first.list("")]
    assert ["a", "b"] == [info.key for info in second.list("")]
    assert f"s3://{BUCKET}/{first.uri.rpartition('/')[2]}-more" == second.uri
    first.close()
    second.close()


def test_every_character_of_keys(server: Variables) -> None:
    """A key is written unchanged, whatever characters it has."""
    keys = ["a/b~+@,c=d_e-f..g", "date=2026-11-21/1.parquet", "~", "=", "+", "@,", "A" * 255]
    store = store_at(server)
    store.put_many((key, key.encode()) for key in keys)
    listed = sorted(info.key for info in store.list(""))
    read = {key: stored.data for key in keys if (stored := store.get(key)) is not None}
    store.close()

    assert sorted(keys) == listed
    assert {key: key.encode() for key in keys} == read


def test_documents_where_pages_are_expected(alice: S3Store) -> None:
    """A document is looked up in every folder, so it can be replaced in any."""
    for data in (b"1", b"2"):
        assert Written(1, 0, 1) == alice.put_many([("history/x/readme.txt", data)])
