"""Reading a checkpoint of history archives instead of an RPC: the newest that can be proven, or one that is named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

from exporter.config import Settings
from exporter.deployments.networks import network_id, network_of
from exporter.errors import ConfigError, NetworkMismatchError, pluralize
from exporter.job.sources import OnRequest, OpenSource, ignore_requests
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.past.archive.archive_files import checkpoint_of
from exporter.past.archive.archive_places import Archives, Deadline, forget_other_buckets
from exporter.past.archive.checkpoint_proof import make_proof, newest_proof, unlisted_validators
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven, check_proof, sha256
from exporter.past.archive.trusted_organisations import trust_of
from exporter.protocols import storage_answers

BUCKET_CACHE = "./archive-buckets"


@dataclass(frozen=True, slots=True)
class FromArchive:
    """Which archives to read, each tried in turn, and whom to trust (None: those that are known for the network).

    ``bucket_cache`` is the folder for the buckets that are fetched.
    """

    uris: tuple[str, ...]
    checkpoint: int | None = None
    trust: Path | None = None
    bucket_cache: Path = Path(BUCKET_CACHE)
    live: ClassVar[bool] = False

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = ignore_requests) -> AsyncIterator[OpenSource]:  # noqa: ARG002 - of RPCs
        """See `exporter.job.sources.Source`."""
        with open_archive_state(settings, self) as state:
            network = replace(network_of(settings.passphrase), router=None)  # nothing is run
            opened = OpenSource(state.source, network, state.instances, state.source.label, state)
            yield replace(opened, stored=True, proof=state.proof, notices=state.notices)


@dataclass(frozen=True, slots=True)
class ProvenState:
    """The state at a checkpoint, its proof file's content, and what that proves.

    ``instances`` have every contract's code and no storage: of all of mainnet's contracts that would be gigabytes.
    ``unlisted`` counts the validators that the trusted ones trust themselves, and the list does not have.
    """

    source: SnapshotSource
    index: StateIndex
    instances: list[tuple[str, ContractInstance]]
    proof: bytes
    proven: Proven
    trusted_since: date
    unlisted: int

    @property
    def notices(self) -> list[str]:
        """Remarks on the proof for readers of the rows."""
        if not self.unlisted:
            return []
        return [
            f"the trusted organisations' own quorum sets name {pluralize(self.unlisted, 'validator')} that the list of "
            f"{self.trusted_since}, by which the ledger was proven, does not have; there may be a newer list"
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "proof_sha256": sha256(self.proof).hex(),
            "header": self.proven.hash.hex(),
            "signed_ledger": self.proven.signed_ledger,
            "signed": self.proven.signed,
            "trusted_since": self.trusted_since.isoformat(),
            "unlisted_validators": self.unlisted,
        }


@contextmanager
def open_archive_state(settings: Settings, given: FromArchive) -> Iterator[ProvenState]:
    """Prove a checkpoint and open its state.

    Raises:
        ArchiveError: no archive has it, or it cannot be proven.
        NetworkMismatchError: the archives are of another network.
        ConfigError: an address is not an archive's, or no organisation is known to trust.
    """
    trust = trust_of(settings.passphrase, given.trust)
    deadline = Deadline(settings.network.read_deadline_seconds, "network.read_deadline_seconds")
    archives = Archives.open(given.uris, given.bucket_cache, deadline)
    ledger = given.checkpoint
    if ledger is not None and ledger != checkpoint_of(ledger):
        raise ConfigError(
            f"--checkpoint: {ledger} is not a checkpoint; the next is {checkpoint_of(ledger)} (63, 127, …)"
        )
    checkpoint, proof = newest_proof(archives, trust) if ledger is None else make_proof(archives, ledger, trust)
    named = checkpoint.state.passphrase
    if named not in (None, settings.passphrase):
        raise NetworkMismatchError(
            f"the archive is of the network {named!r}, but the run is configured for {settings.passphrase!r}; set "
            "network.name or network.passphrase"
        )
    header = checkpoint.header
    unlisted = unlisted_validators(archives, header.ledger, trust)
    index = StateIndex(archives, checkpoint, given.bucket_cache)
    try:
        forget_other_buckets(given.bucket_cache, (*checkpoint.state.live, *checkpoint.state.hot))
        snapshot = LedgerSnapshot(
            header.protocol_version, header.ledger, header.close_time, network_id(settings.passphrase), index
        )
        source = SnapshotSource(snapshot, storage_answers, f"checkpoint {header.ledger} of {archives.each[0].label}")
        bare = ((address, instance._replace(storage=None)) for address, instance in index.instances())
        instances = sorted(bare, key=lambda item: instance_key(item[0]))
        yield ProvenState(source, index, instances, proof, check_proof(proof, trust), trust.date, unlisted)
    finally:
        index.close()
