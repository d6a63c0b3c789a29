"""Whether a run has every market of its checkpoint: all instances and all records of factories are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.deployments.networks import network_id, network_of
from exporter.discovery.census import Classifier, Found, Kind
from exporter.errors import ArchiveError, RefutedError, pluralize
from exporter.job.census import RunRead, document_of, recorded_markets
from exporter.job.unproven import Reason, Unproven
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.tree.documents import Census


@dataclass(frozen=True, slots=True)
class Complete:
    """``markets`` are in the run, read or named; ``excluded`` have a market's code, and no factory has their record.

    ``census`` is the document that a census of the checkpoint gives.
    """

    contracts: int
    markets: int
    excluded: Sequence[str]
    census: Census

    def line(self) -> str:
        left_out = f": {', '.join(self.excluded[:5])}" if self.excluded else ""
        return (
            f"{self.contracts} contracts: {pluralize(self.markets, 'market')} of them in the run; excluded, with the "
            f"code or storage of a market and no factory's record: {len(self.excluded)}{left_out}"
        )


def check_complete(
    archives: Archives, proven: Proven, folder: Path, network: str, run: RunRead, unproven: Unproven
) -> Complete:
    """Compare a run with all contracts of its checkpoint.

    Args:
        archives: where the buckets are.
        proven: the checkpoint.
        folder: an empty one, for the index of the state.
        network: the passphrase.
        run: what the run read.
        unproven: gets markets that are newer than the run, and contracts of unknown code with a market's storage.

    Raises:
        RefutedError: a market is not in the run.
        ArchiveError: the buckets cannot be had.
    """
    checkpoint = archives.first(lambda archive: archive.checkpoint(proven.ledger))
    if checkpoint.header.hash != proven.hash:
        raise ArchiveError(f"the archives have another header of ledger {proven.ledger} than the proven one")
    folder.mkdir()
    index = StateIndex(archives, checkpoint, folder)
    try:
        header = checkpoint.header
        snapshot = LedgerSnapshot(header.protocol_version, header.ledger, header.close_time, network_id(network), index)
        recorded, vouching = recorded_markets(SnapshotSource(snapshot, storage_answers), index, network)
        taken = Classifier(PROTOCOLS, network_of(network).deployments).take(
            (data for _, data in index.contract_data()), index.instances()
        )
        looked_at = {item.address: item for item in taken.lending if item.protocol is not None}
        for address, (protocol, _) in recorded.items():
            if instance_key(address) in index:
                looked_at.setdefault(address, Found(address, Kind.KNOWN_CODE, protocol, None))
        markets, excluded = 0, list[str]()
        for found in looked_at.values():
            if found.address in run.markets or found.address in run.reasons:
                markets += 1
            elif found.address not in recorded and found.protocol in vouching:
                excluded.append(found.address)
            else:
                _left_out(found, recorded, index, run, unproven)
        return Complete(sum(taken.counts.values()), markets, sorted(excluded), document_of(network, proven, taken, run))
    finally:
        index.close()


def _left_out(
    found: Found, recorded: Mapping[str, tuple[str, int]], index: StateIndex, run: RunRead, unproven: Unproven
) -> None:
    """Judge a contract that the run neither read nor named."""
    ledger = run.status.observed_ledger
    what = f"{found.address} of {found.protocol}"
    if found.address in recorded:
        why, changed = "a factory has a record of it", recorded[found.address][1]
    elif found.kind == Kind.KNOWN_CODE:
        why, changed = "it has the code of a market", index[instance_key(found.address)].last_modified
    else:
        unproven.add(Reason.MARKETS, [f"{what}: its storage is that of a market, its code is unknown"])
        return
    if changed <= ledger:
        raise RefutedError(f"the run left out {what}: {why} since ledger {changed}, and the run is of {ledger}")
    unproven.add(Reason.MARKETS, [f"{what}: {why} since ledger {changed}, after the run"])
