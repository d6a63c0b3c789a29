"""A lake that the embedded network writes, read by Stellar's own Go SDK (tests/past/lake/go_sdk)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.localnet.lake_writer import LakeWriter, live_through
from exporter.localnet.player import RecordedNetwork

PROGRAM = Path(__file__).parent / "go_sdk"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that reads a lake with the SDK."""
    program = tmp_path_factory.mktemp("go") / "lake_reader"
    ready = subprocess.run(["go", "mod", "download"], cwd=PROGRAM, capture_output=True, text=True, check=False)
    if ready.returncode:
        pytest.skip(f"the modules of the Go SDK cannot be had: {ready.stderr[-200:]}")
    built = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=PROGRAM, capture_output=True, text=True, check=False
    )
    assert 0 == built.returncode, built.stderr
    return program


@pytest.mark.parametrize(("per_batch", "protocol"), [(1, 28), (4, 28)])
def test_the_go_sdk_reads_the_lake(reader: Path, tmp_path: Path, per_batch: int, protocol: int) -> None:
    """The Go SDK accepts .config.json, and finds each ledger, its transactions by hash, and their changes."""
    network = RecordedNetwork()
    chain, closed = network.chain, {}
    with LakeWriter(chain, network.passphrase, tmp_path, ledgers_per_batch=per_batch, protocol=protocol):
        first = -(-(chain.latest + 1) // per_batch) * per_batch
        while chain.latest + 1 < first + 8:
            live_through(network, 1)
            closed[chain.latest] = chain.close_time(chain.latest)
    ran = subprocess.run(
        [reader, tmp_path, network.passphrase, str(first), str(first + 7)],
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": str(tmp_path)},
        timeout=300,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    ledgers = [json.loads(line) for line in ran.stdout.splitlines()]

    assert list(range(first, first + 8)) == [ledger["sequence"] for ledger in ledgers]
    assert [closed[ledger["sequence"]] for ledger in ledgers] == [ledger["close_time"] for ledger in ledgers]
    assert {1} == {len(ledger["hashes"]) for ledger in ledgers}
    assert 8 == len({ledger["hashes"][0] for ledger in ledgers})
    assert all(ledger["changes"] > 0 for ledger in ledgers)
