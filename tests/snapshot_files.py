"""Ledger snapshot files of the embedded network, in the form that ``stellar snapshot create`` writes."""

from __future__ import annotations

from exporter.deployments.networks import network_id
from exporter.ledger.snapshot_file import HostSettings, LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.network import LocalNetwork


def snapshot_at(network: LocalNetwork, ledger: int) -> LedgerSnapshot:
    """The snapshot of a ledger that the chain still knows: all entries, and as in the tool's files no end of life."""
    entries = {
        key: RawEntry(entry.data, entry.last_modified, 2**32 - 1) for key, entry in network.chain.state(ledger).items()
    }
    settings = HostSettings(5_000_000, 4096, 16, 6_312_000)
    close_time = network.chain.close_time(ledger)
    return LedgerSnapshot(
        network.protocol_version, ledger, close_time, network_id(network.passphrase), entries, settings=settings
    )
