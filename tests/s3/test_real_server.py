"""The promises of a bucket, tested on real S3 servers, which scripts/suite s3 starts."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from botocore.exceptions import ClientError

from exporter.errors import ExitCode
from exporter.history.manifest import file_ledgers, read_history_manifest
from exporter.localnet.player import RecordedNetwork
from exporter.publishing.published_state import manifest_keys
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import lacks_extension
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V1, only
from tests.publishing.held import sweep
from tests.publishing.published_tree import TestClock
from tests.s3.clients import ENDPOINT_VARIABLE, OBEY_DELETION, gateway_name, given_gateway
from tests.s3.places import (
    PATIENT,
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
    given_gateway() is None, reason=f"{ENDPOINT_VARIABLE} names no S3 server; run scripts/suite s3"
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


def test_the_condition_of_a_deletion(place: RealPlace) -> None:
    """Some servers remove an object though the condition of the deletion fails: why no deletion relies on one."""
    with closing(open_place(place, "", PATIENT)) as store:  # the first write of a new server takes its time
        store.put("a", b"1")
    with suppress(ClientError):
        place.client.delete_object(Bucket=BUCKET, Key=f"{place.prefix}/a", IfMatch=f'"{"0" * 32}"')

    assert OBEY_DELETION[gateway_name()] == bool(place.objects())


def test_runs_over_two_days_are_whole_compacted_and_expire(place: RealPlace) -> None:
    """Runs of the job, five hours apart over two days: each is whole, days are compacted, and what expired is gone."""
    network, codes = RecordedNetwork(close_seconds=5 * 3600), list[int]()
    manifest: HistoryManifest | None = None
    with closing(open_place(place, "job", PATIENT)) as store:
        for number in range(12):
            # The server's clock stands still: the days pass for the job alone.
            clock = TestClock()
            clock.now = datetime.now(UTC) + timedelta(hours=5 * number)
            codes.append(run(settings_for(None, **only(BLEND_V1)), store, now=clock.now, network=network)[0])
            swept = sweep(store, timedelta(hours=24), now=clock)
            assert (None, ()) == (swept.refused, swept.unnamed)
            network.advance()
        manifest = read_history_manifest(store)
        assert manifest is not None
        runs, there = manifest_keys(store), {info.key for info in store.list("history/pools/")}

    named, parquet = {file.key for file in manifest.files}, {key for key in there if file_ledgers(key) is not None}
    assert [0] * 12 == codes
    assert len(named) < 12
    assert 12 * manifest.files[-1].rows == sum(file.rows for file in manifest.files)
    assert len(runs) < 8
    assert named <= parquet
    assert len(parquet) < 12
    assert [] == [key for key in place.objects() if lacks_extension(key)]


def test_two_at_once(place: RealPlace) -> None:
    """Exactly one of two publishers of the same ledger wins; of an older and a newer ledger, at least one."""
    for ledger in range(100, 106):
        assert_one_wins(place, ledger, 2)
    codes = at_once(place, 201, 202)
    assert 0 in codes
    assert_settled(place, 202 if codes[1] == 0 else 201)


def test_killed_processes_leave_a_whole_run(place: RealPlace) -> None:
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
