"""The same promises on a real S3 server, the Ceph RADOS Gateway; scripts/test-s3 starts it and runs these."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest

from exporter.errors import ExitCode
from tests.s3.clients import ENDPOINT_VARIABLE, given_gateway
from tests.s3.places import (
    RealPlace,
    assert_one_wins,
    assert_readable,
    assert_settled,
    at_once,
    open_place,
    publish_in,
    sweep_in,
)
from tests.s3.wire_bucket import BUCKET

pytestmark = pytest.mark.skipif(
    given_gateway() is None, reason=f"{ENDPOINT_VARIABLE} names no S3 server; run scripts/test-s3"
)

CHILD = """
import sys
from exporter.errors import LostRaceError
from exporter.stores.s3_client import S3Options
from exporter.stores.s3_store import S3Store
from tests.s3.places import publish_ledger

options = S3Options(connect_seconds=1.0, read_seconds=1.0, deadline_seconds=8, lease_seconds=4.6)
store = S3Store(sys.argv[1], sys.argv[2], options=options)
print("ready", flush=True)
try:
    publish_ledger(store, int(sys.argv[3]))
except LostRaceError as error:
    sys.exit(error.exit_code)
"""


@pytest.fixture
def place() -> RealPlace:
    """A place in a bucket of the real server that no other test uses."""
    return RealPlace(f"test-{secrets.token_hex(4)}")


def publish_in_process(place: RealPlace, ledger: int, killed_after: float = 60.0) -> int:
    """Publish in a process of its own, whose hold is short, and kill it after some seconds; gives the exit code."""
    command = [sys.executable, "-c", CHILD, BUCKET, place.prefix, str(ledger)]
    environment = {**os.environ, **place.environment("")}
    folder = Path(__file__).parents[2]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            child.wait(killed_after)
        child.kill()
        return child.wait()


def test_a_deletion_ignores_its_condition(place: RealPlace) -> None:
    """The server removes an object though the condition of the deletion fails: why no deletion relies on one."""
    with closing(open_place(place, "")) as store:
        store.put("a", b"1")
    answer = place.client.delete_object(Bucket=BUCKET, Key=f"{place.prefix}/a", IfMatch=f'"{"0" * 32}"')

    assert 204 == answer["ResponseMetadata"]["HTTPStatusCode"]
    assert {} == place.objects()


def test_two_at_once(place: RealPlace) -> None:
    """Of two that publish the same ledger, exactly one wins; of an older and a newer one, at least one."""
    for ledger in range(100, 106):
        assert_one_wins(place, ledger, 2)
    codes = at_once(place, 201, 202)
    assert 0 in codes
    assert_settled(place, 202 if codes[1] == 0 else 201)


def test_killed_processes(place: RealPlace) -> None:
    """Processes killed at random moments leave a whole run, and the next one completes."""
    random, killed, ledger = Random(2), 0, 100
    publish_in(place, "first", ledger)
    while killed < 4:
        killed += publish_in_process(place, ledger + 1, random.uniform(0.0, 0.5)) < 0
        assert_readable(place, ledger, ledger + 1)
        ledger += 2
        while code := publish_in_process(place, ledger):  # the hold of the dead has to lapse
            assert ExitCode.LOST_RACE == code
        assert_settled(place, ledger)
        sweep_in(place, retention=10.0)
