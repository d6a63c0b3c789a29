"""The same promises on a real S3 server, the Ceph RADOS Gateway; scripts/test-s3 starts it and runs these."""

from __future__ import annotations

import secrets
from contextlib import closing
from random import Random

import pytest

from tests.s3.bucket_objects import BUCKET
from tests.s3.places import RealPlace, assert_settled, open_place, publish_ledger
from tests.s3.radosgw import ENDPOINT_VARIABLE, given_gateway
from tests.s3.scenarios import (
    Observed,
    killed_at_random,
    publish_until_done,
    races,
    readers,
    sweep_now,
    two_at_once,
)

pytestmark = pytest.mark.skipif(
    given_gateway() is None, reason=f"{ENDPOINT_VARIABLE} names no S3 server; run scripts/test-s3"
)


@pytest.fixture
def place() -> RealPlace:
    """A place in a bucket of the real server that no other test uses."""
    variables = given_gateway()
    assert variables is not None
    return RealPlace(variables, f"test-{secrets.token_hex(4)}")


def test_a_deletion_ignores_its_condition(place: RealPlace) -> None:
    """The server removes an object though the condition of the deletion fails: why no deletion relies on one."""
    with closing(open_place(place, "")) as store:
        store.put("a", b"1")
    answer = place.client.delete_object(Bucket=BUCKET, Key=f"{place.prefix}/a", IfMatch=f'"{"0" * 32}"')

    assert 204 == answer["ResponseMetadata"]["HTTPStatusCode"]
    assert {} == place.objects()


def test_publish_and_sweep(place: RealPlace) -> None:
    """Runs follow each other and are swept; what is published is whole, and its aliases are equal to its documents."""
    observed = Observed()
    with closing(open_place(place, "")) as store:
        for ledger in (100, 102, 103, 105):
            publish_ledger(store, ledger)
            assert_settled(place, ledger)
    sweep_now(place, observed)

    assert 1 == observed.swept
    assert_settled(place, 105)


def test_two_processes_at_once(place: RealPlace) -> None:
    """Of two processes that publish the same ledger, exactly one wins; of an older and a newer one, at least one."""
    assert 6 == sum(races(place, 6).values())
    codes = two_at_once(place, 201, 202)
    assert 0 in codes
    assert_settled(place, 202 if codes[1] == 0 else 201)


def test_killed_processes_and_readers(place: RealPlace) -> None:
    """Processes killed at random moments leave the old run whole; three readers see nothing broken all the while."""
    observed = Observed()
    with readers(place, observed, 3):
        outcome = killed_at_random(place, Random(2), 4, 0.5)

    assert [] == observed.broken
    assert 4 == outcome.killed
    assert observed.rounds > 3


def test_readers_walk_all_the_time(place: RealPlace) -> None:
    """Three readers see nothing broken while runs are published and swept."""
    observed = Observed()
    publish_until_done(place, 99, observed)
    with readers(place, observed, 3):
        for ledger in range(100, 108):
            publish_until_done(place, ledger, observed)
            if ledger % 3 == 0:
                sweep_now(place, observed, retention=10.0)

    assert [] == observed.broken
    assert observed.walks > 10
    assert_settled(place, 107)
