"""Buckets that log every call, publishers in them, and a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.stores.s3_store import S3Store
from tests.s3.clients import SERVERS, Variables, store_at, variables_of
from tests.s3.wire_bucket import WireBucket


@pytest.fixture
def bucket() -> Iterator[WireBucket]:
    """A bucket that logs every call."""
    with WireBucket() as bucket:
        yield bucket


@pytest.fixture
def alice(bucket: WireBucket) -> Iterator[S3Store]:
    """A publisher's store."""
    store = store_at(bucket.environment("alice"), "p")
    yield store
    store.close()


@pytest.fixture
def bob(bucket: WireBucket) -> Iterator[S3Store]:
    """Another publisher's store in the same place."""
    store = store_at(bucket.environment("bob"), "p")
    yield store
    store.close()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Variables:
    """How to find each server."""
    return variables_of(request.param)
