"""From a checkpoint of a history archive to a ledger snapshot, in memory or as a file."""

from __future__ import annotations

from collections.abc import Collection

from exporter.deployments.networks import network_id
from exporter.errors import ArchiveError
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.past.archive.checkpoint import CheckpointState, HistoryArchive


def snapshot_of(state: CheckpointState, passphrase: str | None = None) -> LedgerSnapshot:
    """The snapshot of what was read at a checkpoint.

    ``passphrase`` is needed where the archive does not name its network, and must agree with it where it does.
    """
    header, named = state.checkpoint.header, state.checkpoint.state.passphrase
    if named is not None and passphrase not in (None, named):
        raise ArchiveError(f"the archive is of the network {named!r}, not of {passphrase!r}")
    known = named or passphrase
    if known is None:
        raise ArchiveError("the archive does not name its network; give the network's passphrase")
    return LedgerSnapshot(
        header.protocol_version,
        header.ledger,
        header.close_time,
        network_id(known),
        dict(state.entries),
    )


def archive_snapshot(
    archive: HistoryArchive, ledger: int, contracts: Collection[str] | None = None, passphrase: str | None = None
) -> LedgerSnapshot:
    """The contracts' entries at a checkpoint, with the code they run, and when each entry's life ends."""
    return snapshot_of(archive.entries(archive.checkpoint(ledger), contracts), passphrase)
