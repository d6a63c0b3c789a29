"""From a checkpoint of a history archive to a ledger snapshot, in memory or as a file."""

from __future__ import annotations

from collections.abc import Collection

from exporter.deployments.networks import network_id
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.past.archive.checkpoint import CheckpointState, HistoryArchive


def snapshot_of(state: CheckpointState) -> LedgerSnapshot:
    """The snapshot of what was read at a checkpoint of an archive that names its network."""
    header, passphrase = state.checkpoint.header, state.checkpoint.state.passphrase
    assert passphrase is not None
    return LedgerSnapshot(
        header.protocol_version, header.ledger, header.close_time, network_id(passphrase), dict(state.entries)
    )


def archive_snapshot(archive: HistoryArchive, ledger: int, contracts: Collection[str] | None = None) -> LedgerSnapshot:
    """The data of contracts at a checkpoint, or of all with their code, and when each entry's life ends."""
    return snapshot_of(archive.entries(archive.checkpoint(ledger), contracts))
