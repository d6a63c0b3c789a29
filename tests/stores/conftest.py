"""Buckets that log every call, publishers in them, and servers that others wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.stores.s3_store import S3Store
from tests.s3.wire_bucket import WireBucket
from tests.stores import s3_servers
from tests.stores.s3_servers import S3Server, wire_store


@pytest.fixture
def bucket() -> Iterator[WireBucket]:
    """A bucket that logs every call."""
    with WireBucket() as bucket:
        yield bucket


@pytest.fixture
def alice(bucket: WireBucket) -> Iterator[S3Store]:
    """A publisher's store."""
    store = wire_store(bucket, "alice")
    yield store
    store.close()


@pytest.fixture
def bob(bucket: WireBucket) -> Iterator[S3Store]:
    """Another publisher's store in the same place."""
    store = wire_store(bucket, "bob")
    yield store
    store.close()


@pytest.fixture(params=s3_servers.SERVERS)
def server(request: pytest.FixtureRequest) -> S3Server:
    """Each server that others wrote."""
    return s3_servers.server(request.param)
