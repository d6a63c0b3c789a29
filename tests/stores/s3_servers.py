"""S3 servers for tests: a simulated bucket in this process, and a real one where the environment names it.

::

    server = simulated()                  # or real_server(), which skips the test where there is none
    store = server.store()                # below a prefix of its own; its bounds suit tests
    server.client.list_objects_v2(...)    # what is really there
    server.keys(store)                    # and under which keys

``scripts/radosgw run COMMAND`` starts a real server and runs a command with it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from boto3.session import Session

from exporter.stores.s3_client import S3Options
from exporter.stores.s3_lease import monotonic
from exporter.stores.s3_store import S3Store
from tests.s3.bucket_objects import BUCKET
from tests.s3.wire_bucket import WireBucket

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client as BotoClient

ENDPOINT_VARIABLE = "EXPORTER_TEST_S3_ENDPOINT"
# Read now: ``clean_environment`` takes it away before a test runs.
_REAL_ENDPOINT = os.environ.get(ENDPOINT_VARIABLE, "")

REGION = "us-east-1"
SERVERS = ("simulated bucket", "real server")

OPTIONS = S3Options(
    concurrency=8,
    connect_seconds=2,
    read_seconds=8,
    tries=4,
    pause_seconds=0.01,
    longest_pause_seconds=0.05,
    lease_seconds=60,
)
"""Bounds for tests: the same as elsewhere, but nobody waits long."""


@dataclass(frozen=True)
class S3Server:
    """A server with one bucket."""

    endpoint: str
    session: Session
    bucket: str

    @property
    def client(self) -> BotoClient:
        """A client that looks at what is really there."""
        return _client(self.session, self.endpoint)

    def store(self, prefix: str | None = None, **more: Any) -> S3Store:
        """A store; below a new prefix unless one is given."""
        prefix = f"test-{secrets.token_hex(6)}" if prefix is None else prefix
        more = {"options": OPTIONS, "session": self.session, "endpoint_url": self.endpoint, **more}
        return S3Store(self.bucket, prefix, **more)

    def keys(self, store: S3Store) -> list[str]:
        """Every key below a store's prefix, aliases and hidden ones too."""
        prefix = store.uri.removeprefix(f"s3://{self.bucket}").lstrip("/") + "/"
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", ())]


def wire_store(
    bucket: WireBucket,
    client: str,
    name: str = BUCKET,
    *,
    options: S3Options = OPTIONS,
    clock: Callable[[], float] = monotonic,
) -> S3Store:
    """A store in a bucket that logs every call, seen there as this client."""
    return S3Store(name, "p", options=options, session=_session(client), endpoint_url=bucket.endpoint, clock=clock)


def sent(bucket: WireBucket, operation: str = "PUT") -> list[str]:
    """The keys that calls of a kind named, lease aside."""
    return [
        call.key.removeprefix("p/")
        for call in bucket.calls
        if call.operation == operation and ".exporter" not in call.key
    ]


def data_in(bucket: WireBucket) -> dict[str, bytes]:
    """What is in the bucket, but for the lease."""
    return {key.removeprefix("p/"): stored.data for key, stored in bucket.objects.items() if ".exporter" not in key}


def server(name: str) -> S3Server:
    """One of SERVERS."""
    return simulated() if name == SERVERS[0] else real_server()


@cache
def simulated() -> S3Server:
    """A bucket in this process, which ends with it."""
    return S3Server(WireBucket().__enter__().endpoint, _session("test"), BUCKET)


@cache
def _session(client: str) -> Session:
    return Session(aws_access_key_id=client, aws_secret_access_key="unchecked", region_name=REGION)


def real_server() -> S3Server:
    """The server that the environment names; skips the test where it names none."""
    if not _REAL_ENDPOINT:
        pytest.skip(f"no real S3 server: {ENDPOINT_VARIABLE} is not set (scripts/radosgw run COMMAND sets it)")
    return _real_server()


@cache
def _real_server() -> S3Server:
    session, bucket = Session(region_name=REGION), f"exporter-test-{secrets.token_hex(4)}"
    _client(session, _REAL_ENDPOINT).create_bucket(Bucket=bucket)
    return S3Server(_REAL_ENDPOINT, session, bucket)


@cache
def _client(session: Session, endpoint: str) -> BotoClient:
    from botocore.config import Config

    config = Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required")
    return session.client("s3", endpoint_url=endpoint, config=config)
