"""The messages if a bucket refuses (exporter/stores/s3_errors.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError
from msgspec.structs import replace

from exporter.errors import ConfigError, ExporterError, StoreError
from exporter.stores import s3_client
from exporter.stores.s3_errors import CUT_OFF, NO_CREDENTIALS, NOT_S3, TIMEOUT, UNREACHABLE, explained, refusal_of
from exporter.stores.s3_store import S3Store
from tests.s3.clients import OPTIONS, store_at
from tests.s3.wire_bucket import BUCKET, Answer, Cut, Reset, WireBucket

THREE_TRIES = replace(OPTIONS, tries=3)


@pytest.fixture
def store(bucket: WireBucket) -> Iterator[S3Store]:
    """A store in the bucket."""
    made = store_in(bucket)
    yield made
    made.close()


def store_in(bucket: WireBucket, name: str = BUCKET, **bounds: float) -> S3Store:
    options = replace(THREE_TRIES, **bounds)
    return store_at(bucket.environment("alice"), "p", bucket=name, options=options)


def puts(bucket: WireBucket) -> list[int]:
    return [call.status for call in bucket.calls if call.operation == "PUT"]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (Answer(403, "AccessDenied"), StoreError, r"s3://bucket/p/a: access is denied; allow s3:PutObject"),
        (Answer(403, "SignatureDoesNotMatch"), ConfigError, r"refused \(SignatureDoesNotMatch\); set AWS_"),
        (Answer(403, "InvalidAccessKeyId"), ConfigError, r"refused \(InvalidAccessKeyId\)"),
        (Answer(400, "ExpiredToken"), ConfigError, r"refused \(ExpiredToken\)"),
        (Answer(403, "QuotaExceeded"), StoreError, r"s3://bucket/p/a: the bucket is full \(QuotaExceeded\); raise its"),
        (Answer(400, "XMinioAdminBucketQuotaExceeded"), StoreError, "the bucket is full"),
        (Answer(403, "RequestTimeTooSkewed"), ConfigError, "clock of this machine"),
        (Answer(400, "AuthorizationHeaderMalformed"), ConfigError, "in another region .*AWS_REGION"),
        (Answer(501, "NotImplemented"), ConfigError, "does not implement"),
        (Answer(400, "EntityTooLarge"), StoreError, r"s3://bucket/p/a: .*status 400 EntityTooLarge; run again"),
    ],
)
def test_a_lasting_refusal_is_not_tried_again(
    bucket: WireBucket, store: S3Store, answer: Answer, error: type[ExporterError], text: str
) -> None:
    """A refusal that will not pass is not tried again, and its message says what to do."""
    bucket.disturb_next("alice", answer)
    with pytest.raises(error, match=text) as refused:
        store.put_new("a", b"1")

    assert "127.0.0.1" not in str(refused.value)
    assert [answer.status] == puts(bucket)


def test_no_such_bucket(bucket: WireBucket) -> None:
    """A bucket that is not there is an error of the configuration, whichever request finds it out."""
    store = store_in(bucket, "another-bucket")
    for request in (
        lambda: store.get("a"),
        lambda: list(store.list("")),
        lambda: store.put_new("v1/pages/x.json", b"1"),
        lambda: store.swap("a", b"1", None),
        lambda: store.put_many([("a", b"1")]),
        store.try_writing,
    ):
        with pytest.raises(ConfigError, match="there is no bucket another-bucket"):
            request()
    store.close()


@pytest.mark.parametrize(
    "fault",
    [
        *(Answer(503), Answer(500), Answer(429), Answer(409, "ConditionalRequestConflict")),
        *(Reset(), Reset(after=True), Cut()),
    ],
    ids=str,
)
def test_what_passes_is_tried_again(bucket: WireBucket, store: S3Store, fault: Answer | Reset | Cut) -> None:
    """A failure that passes goes unnoticed; a write that took effect unanswered is known by its bytes."""
    assert store.put_new("y", b"1")
    writes: dict[str, Callable[[str], object]] = {
        "v1/pages/x.json": lambda key: store.put_new(key, b"1"),
        "y": lambda key: store.swap(key, b"2", hashlib.md5(b"1", usedforsecurity=False).hexdigest()),
        "z": lambda key: store.swap(key, b"3", None),
    }
    for key, write in writes.items():
        bucket.disturb_next("alice", fault)
        assert write(key)
        bucket.calm()

    assert {"v1/pages/x.json": b"1", "y": b"2", "z": b"3"} == bucket.data()


@pytest.mark.parametrize(
    ("fault", "text"),
    [(Answer(503), r"status 503 SlowDown \(3 tries\)"), (Reset(), r"not reached \(3 tries\)")],
    ids=str,
)
def test_tries_are_bounded(bucket: WireBucket, store: S3Store, fault: Answer | Reset, text: str) -> None:
    """A lasting failure is an error after the last try, which names the object."""
    bucket.disturb_next("alice", fault, more=20)
    with pytest.raises(StoreError, match=r"cannot write s3://bucket/p/a: .*" + text):
        store.put_new("a", b"1")

    assert 3 == len(puts(bucket))


def test_time_is_bounded(bucket: WireBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """No try begins after the deadline, by a clock that only the pauses move."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("exporter.stores.s3_client.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    store = store_in(bucket, tries=100, pause_seconds=0.05, longest_pause_seconds=0.1, deadline_seconds=0.3)
    bucket.disturb_next("alice", Answer(503), more=100)
    with pytest.raises(StoreError, match="503"):
        store.get("a")
    store.close()

    # Pauses of 0.05, 0.1, 0.1, ... seconds, each up to 30 % shorter or longer.
    assert 3 <= len(bucket.calls) <= 5
    assert now <= 0.3 + 0.3 * 0.1


@pytest.mark.parametrize(
    ("error", "code", "passing", "text"),
    [
        (botocore.EndpointConnectionError(endpoint_url="x"), UNREACHABLE, True, "the server is not reached"),
        (botocore.ConnectTimeoutError(endpoint_url="x"), TIMEOUT, True, "no answer in time"),
        (botocore.ReadTimeoutError(endpoint_url="x"), TIMEOUT, True, "no answer in time"),
        (botocore.ConnectionClosedError(endpoint_url="x"), UNREACHABLE, True, "the server is not reached"),
        (botocore.ProxyConnectionError(proxy_url="x"), UNREACHABLE, True, "the server is not reached"),
        (botocore.IncompleteReadError(actual_bytes=1, expected_bytes=2), CUT_OFF, True, "the answer broke off"),
        (botocore.NoCredentialsError(), NO_CREDENTIALS, False, "no credentials for"),
        (botocore.SSLError(endpoint_url="x", error=ValueError()), "Untrusted", False, "certificate is not trusted"),
        (botocore.ClientError({}, "AssumeRoleWithWebIdentity"), NO_CREDENTIALS, False, "no credentials for"),
        (botocore.NoRegionError(), "NoRegionError", False, "run again"),
        (ResponseParserError("invalid XML"), NOT_S3, True, "the answer is none that S3 gives"),
        (KeyError("ETag"), NOT_S3, True, "the answer is none that S3 gives"),
        (ValueError("Invalid timestamp"), NOT_S3, True, "the answer is none that S3 gives"),
        (RecursionError("a redirect to itself"), NOT_S3, True, "the answer is none that S3 gives"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_of_boto3(error: Exception, code: str, passing: bool, text: str) -> None:
    """Each error of boto3 is classified by what it means for the request."""
    refused = refusal_of(error)

    assert refused is not None
    assert (code, passing) == (refused.code, refused.may_pass)
    assert text in str(explained(refused, "read", "bucket", "key", "right"))


GOOD_ENTRY = {"Key": "p/a", "Size": 1, "LastModified": datetime(2026, 11, 29, tzinfo=UTC), "ETag": '"e"'}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ({}, "the answer is none that S3 gives"),
        ({"IsTruncated": False, "Contents": [{"Key": "p/a"}]}, "the answer is none that S3 gives"),
        ({"IsTruncated": False, "Contents": [GOOD_ENTRY | {"Key": "another/a"}]}, "the answer is none that S3 gives"),
        ({"IsTruncated": True}, "the server's listing does not advance"),
        ({"IsTruncated": True, "NextContinuationToken": "t", "Contents": [GOOD_ENTRY]}, "does not advance"),
    ],
    ids=["no listing", "no size", "another key", "no token", "one token for ever"],
)
def test_what_is_no_listing_is_no_empty_bucket(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, page: dict[str, Any], text: str
) -> None:
    """A page of a proxy, with status 200, is an error, because an empty listing says that nothing is there."""
    monkeypatch.setattr(store._client, "_boto", SimpleNamespace(list_objects_v2=lambda **_: page, close=lambda: None))
    with pytest.raises(StoreError, match=text):
        list(store.list(""))


def test_a_listing_ends(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always has another page is left after a bounded number of pages."""
    pages = count()

    def page(**_: Any) -> dict[str, Any]:
        return {"IsTruncated": True, "NextContinuationToken": str(next(pages))}

    monkeypatch.setattr(s3_client, "MAX_LISTED_PAGES", 5)
    monkeypatch.setattr(store._client, "_boto", SimpleNamespace(list_objects_v2=page, close=lambda: None))
    with pytest.raises(StoreError, match="the server's listing does not advance"):
        list(store.list(""))

    assert 5 == next(pages)
