"""Makes a state and a ledger snapshot from a checkpoint of a history archive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from exporter.deployments.networks import network_id
from exporter.ledger.codec import strkey
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import Checkpoint, HistoryArchive
from exporter.past.archive.state_index import DEAD, StateIndex


@dataclass(frozen=True)
class CheckpointState:
    """Contract data and code by LedgerKey, and LedgerEntry XDR of other kinds."""

    checkpoint: Checkpoint
    entries: dict[bytes, RawEntry]
    others: dict[bytes, bytes]


def state_at(
    archive: HistoryArchive, ledger: int, contracts: Collection[str] | None = None, others: Collection[bytes] = ()
) -> CheckpointState:
    """The data of contracts at a checkpoint, or of all with their code, and entries of other kinds that are there."""
    checkpoint = archive.checkpoint(ledger)
    ids = None if contracts is None else {strkey.decode_contract(contract) for contract in contracts}
    with TemporaryDirectory() as folder:
        index = StateIndex(Archives([archive]), checkpoint, Path(folder), lambda key: ids is None or key[8:40] in ids)
        entries = dict(index)
        index.close()
    found: dict[bytes, bytes] = {}
    for digest in filter(any, checkpoint.live if others else ()):
        for record in archive.bucket(digest):
            if record[:4] != DEAD:
                found |= {key: record[4:] for key in others if key not in found and record[8 : 8 + len(key)] == key}
    return CheckpointState(checkpoint, entries, found)


def snapshot_of(state: CheckpointState) -> LedgerSnapshot:
    """A snapshot of the entries that were read at a checkpoint of an archive that names its network."""
    header, passphrase = state.checkpoint.header, state.checkpoint.passphrase
    assert passphrase is not None
    return LedgerSnapshot(
        header.protocol_version, header.ledger, header.close_time, network_id(passphrase), dict(state.entries)
    )


def archive_snapshot(archive: HistoryArchive, ledger: int, contracts: Collection[str] | None = None) -> LedgerSnapshot:
    """The data of contracts at a checkpoint, or of all with their code, and when each entry's life ends."""
    return snapshot_of(state_at(archive, ledger, contracts))
