"""Stores in a simulated bucket or on a real server: both are found by the usual variables of AWS."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import pytest
from boto3.session import Session

from exporter.stores.s3_client import S3Options
from exporter.stores.s3_lease import monotonic
from exporter.stores.s3_store import S3Store
from tests.s3.wire_bucket import BUCKET, WireBucket

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client as BotoClient

Variables = Mapping[str, str]

ENDPOINT_VARIABLE = "EXPORTER_TEST_S3_ENDPOINT"
NAME_VARIABLE = "EXPORTER_TEST_S3_SERVER"
# Read now: the tests take every EXPORTER_* variable away before they run.
_given = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "EXPORTER_TEST_S3_"))}

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


def given_gateway() -> Variables | None:
    """The environment of the server that ``scripts/radosgw run`` gave to this process; None where there is none."""
    return _given if ENDPOINT_VARIABLE in _given else None


def gateway_name() -> str:
    """The kind of the server: radosgw, minio, versitygw or seaweedfs."""
    return _given.get(NAME_VARIABLE, "radosgw")


OBEY_DELETION = {"radosgw": False, "minio": False, "versitygw": True, "seaweedfs": True}
"""Whether a server heeds the condition of a deletion."""

ATOMIC = {"radosgw": True, "minio": True, "versitygw": False, "seaweedfs": True}
"""Whether a server looks at a condition and writes in one step."""

SERVERS = ("simulated bucket", "real server")


def session_of(variables: Variables) -> Session:
    """A session with the keys of a client."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
    key, secret, region = (variables[name] for name in names)
    return Session(aws_access_key_id=key, aws_secret_access_key=secret, region_name=region)


def store_at(
    variables: Variables,
    prefix: str | None = None,
    *,
    bucket: str = BUCKET,
    options: S3Options = OPTIONS,
    clock: Callable[[], float] = monotonic,
) -> S3Store:
    """A store, below a new prefix unless one is given; close it afterwards."""
    prefix = f"test-{secrets.token_hex(6)}" if prefix is None else prefix
    endpoint = variables["AWS_ENDPOINT_URL_S3"]
    return S3Store(bucket, prefix, options=options, session=session_of(variables), endpoint_url=endpoint, clock=clock)


def variables_of(server: str) -> Variables:
    """How to find one of SERVERS; skips the test if the environment names no real one."""
    if server == SERVERS[0]:
        return _simulated().environment("test")
    given = given_gateway()
    if given is None:
        pytest.skip(f"no real S3 server: {ENDPOINT_VARIABLE} is not set (scripts/radosgw run COMMAND sets it)")
    real_client()
    return given


@cache
def _simulated() -> WireBucket:
    """A bucket in this process, which ends with it."""
    return WireBucket().__enter__()


@cache
def real_client() -> BotoClient:
    """A client that looks at what is on the real server, in a bucket that is made if need be."""
    given = given_gateway()
    assert given is not None
    client = session_of(given).client("s3", endpoint_url=given["AWS_ENDPOINT_URL_S3"])
    client.create_bucket(Bucket=BUCKET)
    return client
