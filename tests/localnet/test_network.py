"""The embedded server over ledger snapshot files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import SnapshotFileError
from exporter.ledger.codec import entries
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.network import snapshot_network
from tests.localnet.rpc_client import LocalRpc, text

POOL = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"


def test_the_mainnet_snapshot_is_served(mainnet_snapshot_path: Path) -> None:
    """The real file becomes mainnet at its one ledger, with its close time, entries and lives."""
    snapshot = LedgerSnapshot.load(mainnet_snapshot_path)
    rpc = LocalRpc(snapshot_network(snapshot))

    assert {"passphrase": NETWORKS["mainnet"].passphrase, "protocolVersion": 22} == rpc.result("getNetwork")
    health = rpc.result("getHealth")
    assert (55261759, 55261759, "1736780911") == (
        health["oldestLedger"],
        health["latestLedger"],
        health["latestLedgerCloseTime"],
    )
    (ledger,) = rpc.result("getLedgers", startLedger=55261759)["ledgers"]
    assert "1736780911" == ledger["ledgerCloseTime"]
    keys = list(snapshot.entries)
    answered = [
        entry
        for start in range(0, len(keys), 200)
        for entry in rpc.result("getLedgerEntries", keys=[text(key) for key in keys[start : start + 200]])["entries"]
    ]
    assert [text(key) for key in keys] == [entry["key"] for entry in answered]
    assert [text(snapshot.entries[key].data) for key in keys] == [entry["xdr"] for entry in answered]
    assert {4294967295} == {entry["liveUntilLedgerSeq"] for entry in answered}
    assert 55261759 == snapshot_network(snapshot).advance()


def _snapshot(passphrase: str) -> LedgerSnapshot:
    key = entries.code_key(bytes(32))
    return LedgerSnapshot(23, 63, 1_700_000_000, network_id(passphrase), {key: RawEntry(b"", 5, None)})


def test_the_network_is_recognized_by_its_hash() -> None:
    """Known networks are recognized; others need their passphrase, and only the right one is taken."""
    for network in NETWORKS.values():
        assert network.passphrase == snapshot_network(_snapshot(network.passphrase)).passphrase
    private = _snapshot("A private network")
    assert "A private network" == snapshot_network(private, "A private network").passphrase
    with pytest.raises(SnapshotFileError, match="not known here: give its passphrase"):
        snapshot_network(private)
    with pytest.raises(SnapshotFileError, match="of another network"):
        snapshot_network(dataclasses.replace(private, ledger=127), "Another network")
