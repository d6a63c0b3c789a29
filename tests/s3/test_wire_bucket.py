"""Tests of the simulated bucket itself: it answers as S3 does, and fails exactly where it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.s3.bucket_objects import BUCKET
from tests.s3.faults import Answer, Cut, Fault, Hang, Kill, Reset, Stall
from tests.s3.wire_bucket import WireBucket


@pytest.fixture
def bucket() -> Iterator[WireBucket]:
    """An empty bucket that is served."""
    with WireBucket() as running:
        yield running


@pytest.fixture
def client(bucket: WireBucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of AWS's own library, which tries once and waits half a second."""
    for name, value in bucket.environment("alice").items():
        monkeypatch.setenv(name, value)
    config = Config(retries={"total_max_attempts": 1}, read_timeout=0.5, connect_timeout=0.5)
    # A session of its own: the default one keeps the credentials that an earlier test had set.
    made = boto3.session.Session().client("s3", config=config)
    yield made
    made.close()


def refusal(request: Callable[[], object]) -> tuple[int, str]:
    """The status and code that a request is refused with."""
    with pytest.raises(ClientError) as caught:
        request()
    response: Any = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_objects_keep_bytes_and_headers(client: Any) -> None:
    """What was put is read back with its content type, cache lifetime and metadata; what is missing is a 404."""
    client.put_object(
        Bucket=BUCKET, Key="a/b c", Body=b"{}", ContentType="text/x", CacheControl="no-store", Metadata={"sha256": "1"}
    )
    answer = client.get_object(Bucket=BUCKET, Key="a/b c")

    assert b"{}" == answer["Body"].read()
    assert ("text/x", "no-store", {"sha256": "1"}) == (
        answer["ContentType"],
        answer["CacheControl"],
        answer["Metadata"],
    )
    assert answer["ETag"] == client.head_object(Bucket=BUCKET, Key="a/b c")["ETag"]
    assert (404, "NoSuchKey") == refusal(lambda: client.get_object(Bucket=BUCKET, Key="a"))
    assert 404 == refusal(lambda: client.head_object(Bucket=BUCKET, Key="a"))[0]
    assert (404, "NoSuchBucket") == refusal(lambda: client.get_object(Bucket="another", Key="a"))


def test_conditional_writes(client: Any) -> None:
    """A write is refused when the key exists, has another etag, or is missing, as its condition has it."""

    def put(**condition: str) -> Any:
        return client.put_object(Bucket=BUCKET, Key="key", Body=str(condition).encode(), **condition)

    assert (404, "NoSuchKey") == refusal(lambda: put(IfMatch='"0"'))
    first = put(IfNoneMatch="*")["ETag"]
    assert (412, "PreconditionFailed") == refusal(lambda: put(IfNoneMatch="*"))
    second = put(IfMatch=first)["ETag"]
    assert (412, "PreconditionFailed") == refusal(lambda: put(IfMatch=first))
    assert put(IfMatch=second.strip('"'))["ETag"] != second


def test_race_to_create_has_one_winner(bucket: WireBucket, client: Any) -> None:
    """Of many that create the same key at once, exactly one succeeds."""
    won: list[int] = []

    def create(number: int) -> None:
        try:
            client.put_object(Bucket=BUCKET, Key="key", Body=str(number).encode(), IfNoneMatch="*")
            won.append(number)
        except ClientError:
            pass

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert 1 == len(won)
    assert str(won[0]).encode() == bucket.objects["key"].data


def test_listing(client: Any) -> None:
    """A listing goes on where it was cut, ascending, and can stop at a delimiter."""
    for number in range(12):
        client.put_object(Bucket=BUCKET, Key=f"p/{number % 3}/{number:02}", Body=b"")
    client.put_object(Bucket=BUCKET, Key="q", Body=b"")
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="p/", PaginationConfig={"PageSize": 5}
    )
    sizes, keys = [], []
    for page in pages:
        sizes.append(len(page["Contents"]))
        keys += [entry["Key"] for entry in page["Contents"]]
    shallow = client.get_paginator("list_objects_v2").paginate(
        Bucket=BUCKET, Prefix="p/", Delimiter="/", PaginationConfig={"PageSize": 2}
    )

    assert [5, 5, 2] == sizes
    assert sorted(f"p/{number % 3}/{number:02}" for number in range(12)) == keys
    assert ["p/0/", "p/1/", "p/2/"] == [group["Prefix"] for page in shallow for group in page["CommonPrefixes"]]


def test_deletion(bucket: WireBucket, client: Any) -> None:
    """Objects are removed one by one or together; missing ones are no error."""
    for key in "abc":
        client.put_object(Bucket=BUCKET, Key=key, Body=b"")
    client.delete_object(Bucket=BUCKET, Key="a")
    client.delete_object(Bucket=BUCKET, Key="a")
    client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "b"}, {"Key": "x"}], "Quiet": True})

    assert ["c"] == list(bucket.objects)
    assert ["DELETE", "DELETE", "DELETE MANY"] == [call.operation for call in bucket.calls[-3:]]


@pytest.mark.parametrize(
    ("fault", "happens"),
    [
        (Answer(503), False),
        (Answer(500), False),
        (Answer(409), False),
        (Reset(), False),
        (Reset(after=True), True),
        (Hang(), False),
        (Hang(after=True), True),
        (Cut(), True),
        (Kill(lambda: None), False),
        (Kill(lambda: None, after=True), True),
    ],
)
def test_faults(bucket: WireBucket, client: Any, fault: Fault, happens: bool) -> None:
    """Each fault meets the call it was meant for, fails it within the client's bounds, and has its effect or none."""
    client.put_object(Bucket=BUCKET, Key="first", Body=b"")
    bucket.disturb_next("alice", fault)
    began = time.monotonic()
    with pytest.raises((ClientError, BotoCoreError)):
        client.put_object(Bucket=BUCKET, Key="second", Body=b"")
    client.put_object(Bucket=BUCKET, Key="third", Body=b"")

    assert time.monotonic() - began < 5
    assert happens == ("second" in bucket.objects)
    assert {"first", "third"} == set(bucket.objects) - {"second"}
    assert [False, True, False] == [call.disturbed for call in bucket.calls_of("alice")]


def test_stalled_call_takes_effect_late(bucket: WireBucket, client: Any) -> None:
    """A call that was held up takes effect when it is let go, although its client has given up on it long since."""
    stall = Stall(threading.Event())
    bucket.disturb_next("alice", stall)
    with pytest.raises(BotoCoreError):
        client.put_object(Bucket=BUCKET, Key="key", Body=b"late")
    assert stall.reached.is_set()
    assert {} == bucket.objects
    stall.until.set()
    deadline = time.monotonic() + 5
    while not bucket.objects and time.monotonic() < deadline:
        time.sleep(0.01)

    assert b"late" == bucket.objects["key"].data
