"""History archives as the source of a run, which reads the state at a checkpoint that was proven before."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments.networks import network_id, network_of
from exporter.errors import ConfigError, NetworkMismatchError
from exporter.job.sources import OnRequest, OpenSource
from exporter.ledger.checkpoints import checkpoint_of
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.past.archive.archive_places import Archives, Deadline, forget_other_buckets
from exporter.past.archive.checkpoint import Checkpoint
from exporter.past.archive.checkpoint_proof import make_proof, newest_proof, unlisted_notice, unlisted_validators
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven, check_proof, sha256
from exporter.past.archive.trusted_organisations import trust_file, trust_of
from exporter.past.proof_entry import proof_entry
from exporter.protocols import storage_answers
from exporter.publishing.proof_list import add_proofs
from exporter.stores.folder import locked, reported
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock

BUCKET_CACHE = "./archive-buckets"


class FromArchive(Struct, frozen=True):
    """History archives from which a run reads.

    Attributes:
        uris: the archives, in the order in which they are tried.
        checkpoint: the ledger of the checkpoint; None for the newest one that can be proven.
        trust: the file with the list of trusted organisations; None for the packaged list of the network.
        bucket_cache: the folder that keeps archive buckets.
    """

    uris: tuple[str, ...]
    checkpoint: int | None = None
    trust: Path | None = None
    bucket_cache: Path = Path(BUCKET_CACHE)
    live: ClassVar[bool] = False

    def publish_proof(
        self, held: HeldStore, network: str, run_id: str, evidence_key: str, entries: int, content: bytes, now: Clock
    ) -> None:
        """Add the proof of the checkpoint that a run was read from. It confirms all entries of the run."""
        trust = trust_of(network, self.trust)
        proven = check_proof(content, trust)
        proof = proof_entry(run_id, evidence_key, content, proven, trust, now, entries=entries, confirmed=entries)
        add_proofs(held, network, trust_file(network, self.trust)[0], [(proof, content)])

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = lambda: None) -> AsyncIterator[OpenSource]:  # noqa: ARG002 - only RPCs have requests to report
        """Prove the checkpoint and open its state. Raises as `open_archive_state` does."""
        with open_archive_state(settings, self) as state:
            network = network_of(settings.passphrase)
            opened = OpenSource(state.source, network, state.instances, state.source.label, state)
            yield replace(opened, stored=True, proof=state.proof, notices=state.notices)


class ProvenState(Struct, frozen=True):
    """The proven state at a checkpoint.

    Attributes:
        source: the state as a run reads it.
        index: the state by key.
        instances: the address and the instance of every contract, without its storage.
        proof: the content of the proof file.
        proven: what the proof proves.
        trusted_since: the date of the list of trusted organisations.
        unlisted: the number of validators that trusted validators name, but the list lacks.
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
        """Notices about the proof for readers of the run."""
        return [unlisted_notice(self.unlisted, self.trusted_since)] if self.unlisted else []

    def as_dict(self) -> dict[str, object]:
        return {
            "proof_sha256": sha256(self.proof).hex(),
            "header": self.proven.hash.hex(),
            "signed_ledger": self.proven.signed_ledger,
            "signed": self.proven.signed,
            "trusted_since": self.trusted_since.isoformat(),
            "unlisted_validators": self.unlisted,
        }


@contextmanager
def open_archive_state(settings: Settings, archive: FromArchive) -> Iterator[ProvenState]:
    """Prove a checkpoint and open its state.

    Raises `ArchiveError` if it cannot be read or proven, `NetworkMismatchError` if it is of another network,
    `ConfigError` if it is no checkpoint, or nobody is trusted on this network, and `LostRaceError` if another job uses
    the bucket cache.
    """
    trust = trust_of(settings.passphrase, archive.trust)
    deadline = Deadline(settings.network.read_deadline.total_seconds(), "network.read_deadline")
    archives = Archives.open(archive.uris, archive.bucket_cache, deadline)
    ledger = archive.checkpoint
    if ledger is not None and ledger != checkpoint_of(ledger):
        raise ConfigError(
            f"--checkpoint: {ledger} is not a checkpoint; the next is {checkpoint_of(ledger)} (63, 127, …)"
        )
    checkpoint, proof = newest_proof(archives, trust) if ledger is None else make_proof(archives, ledger, trust)
    network = checkpoint.passphrase
    if network not in (None, settings.passphrase):
        raise NetworkMismatchError(
            f"the archive is of the network {network!r}, but the run is configured for {settings.passphrase!r}; set "
            "network.name or network.passphrase"
        )
    unlisted = unlisted_validators(archives, checkpoint.header.ledger, trust)
    with (
        private_folder(archive.bucket_cache) as folder,
        open_state(archives, checkpoint, folder, settings.passphrase) as (index, source),
    ):
        forget_other_buckets(archive.bucket_cache, (*checkpoint.live, *checkpoint.hot))
        bare = ((address, instance._replace(storage=None)) for address, instance in index.instances())
        instances = sorted(bare, key=lambda item: instance_key(item[0]))
        yield ProvenState(source, index, instances, proof, check_proof(proof, trust), trust.date, unlisted)


STATE_PREFIX = "state-"
"""The beginning of the name of the folder for a run's index, which is in the folder of the archive buckets."""


@contextmanager
def private_folder(bucket_cache: Path) -> Iterator[Path]:
    """A folder for this job alone, on the disk of the archive buckets. What killed jobs left behind is removed.

    Buckets are compared with their digests whenever they are read, so anybody may put them into the cache. An index of
    the state has no such digest, so nobody else may write to its folder.

    Raises `LostRaceError` if another job uses the cache: the two would append to one half-fetched bucket.
    """
    held_text = (
        f"another job reads archives with the bucket cache {bucket_cache}; let it finish and run again, or "
        "name another --bucket-cache"
    )
    with locked(bucket_cache, held_text):
        with reported("make a folder in", str(bucket_cache)):
            for leftover in bucket_cache.glob(f"{STATE_PREFIX}*"):
                if leftover.is_dir() and not leftover.is_symlink():
                    shutil.rmtree(leftover)
                else:
                    leftover.unlink()
            made = tempfile.TemporaryDirectory(prefix=STATE_PREFIX, dir=bucket_cache)
        with made as folder:
            yield Path(folder)


@contextmanager
def open_state(
    archives: Archives, checkpoint: Checkpoint, folder: Path, passphrase: str
) -> Iterator[tuple[StateIndex, SnapshotSource]]:
    """The state of a checkpoint by key, and as a source. The index is made in a folder that nobody else writes to."""
    index, header = StateIndex(archives, checkpoint, folder), checkpoint.header
    try:
        network, label = network_id(passphrase), f"checkpoint {header.ledger} of {archives.each[0].label}"
        snapshot = LedgerSnapshot(header.protocol_version, header.ledger, header.close_time, network, index)
        yield index, SnapshotSource(snapshot, storage_answers, label)
    finally:
        index.close()
