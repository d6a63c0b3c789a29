"""The source of a run: RPC endpoints, a stored ledger (a snapshot file, or a run's evidence), or an archive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol

from exporter.config import Settings
from exporter.deployments.networks import NETWORKS, Network, network_id, network_of
from exporter.errors import ConfigError, NetworkMismatchError, SourceError, lasting
from exporter.job.evidence import MAGIC, Evidence, EvidenceSource
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import CALL_SECONDS, RpcLimits, parse_endpoints
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource, read_snapshot_bytes
from exporter.ledger.source import LedgerSource
from exporter.protocols import storage_answers
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock
from exporter.tree.documents import timestamp

TOLERANCE = timedelta(minutes=5)
"""How far a ledger's close time may lie ahead of this machine's clock, and behind it without a warning."""

OnRequest = Callable[[], None]


@dataclass(slots=True)
class OpenSource:
    """An open source, its network, and for a snapshot file or an archive the contracts in it.

    ``facts`` are for the run report. ``has_all_contracts`` is False for a file with some contracts only. ``stored``
    says that calls are answered from entries. ``proof`` is the content of the proof file of an archive's ledger.
    """

    source: LedgerSource
    network: Network
    instances: Sequence[tuple[str, ContractInstance]]
    label: str
    facts: Any = None
    has_all_contracts: bool = True
    stored: bool = False
    evidence: Evidence | None = None
    proof: bytes | None = None
    notices: Sequence[str] = ()

    def discovers(self, settings: Settings) -> bool:
        """Whether to look for markets that nobody named; evidence has what its run found."""
        return settings.discovery.enabled and self.evidence is None

    def report(self) -> dict[str, Any]:
        """The counters of the source, as plain values without any URL."""
        return {"source": self.label, **(self.facts.as_dict() if self.facts is not None else {})}


class Source(Protocol):
    """The source of a run. ``live`` says whether its ledger should be the network's newest."""

    @property
    def live(self) -> bool: ...

    def open(self, settings: Settings, on_request: OnRequest = ...) -> AbstractAsyncContextManager[OpenSource]:
        """Raises `ConfigError`, `SnapshotFileError`, `ArchiveError`, and `NetworkMismatchError`."""
        ...

    def publish_proof(
        self, held: HeldStore, network: str, run_id: str, evidence_key: str, entries: int, content: bytes, now: Clock
    ) -> None:
        """Add the proof (`OpenSource.proof`) of what a published run was read from. Most sources have none."""
        ...


class WithoutProof:
    """A source that proves nothing of what it gives."""

    def publish_proof(
        self, held: HeldStore, network: str, run_id: str, evidence_key: str, entries: int, content: bytes, now: Clock
    ) -> None:
        """Do nothing: there is no proof."""


class RpcEndpoints(WithoutProof):
    """The Stellar RPCs that the settings name."""

    live: ClassVar[bool] = True

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = lambda: None) -> AsyncIterator[OpenSource]:
        check_rpc_urls(settings)
        limits = RpcLimits(
            max_in_flight=settings.network.max_in_flight,
            requests_per_second=settings.network.requests_per_second,
            request_timeout_s=settings.network.request_timeout.total_seconds(),
            total_deadline_s=max(CALL_SECONDS, settings.network.read_deadline.total_seconds()),
        )
        async with RpcSource(
            settings.network.rpc_urls,
            settings.passphrase,
            headers=settings.network.rpc_headers,
            limits=limits,
            on_request=on_request,
        ) as source:
            label = ", ".join(source.endpoints)
            opened = OpenSource(
                source, network_of(settings.passphrase), [], label, source.counters, notices=source.notices
            )
            try:
                yield opened
            except SourceError as error:
                causes = [*source.notices, *([] if source.rate_limits is None else [source.rate_limits])]
                if causes:  # most probably
                    error.args = ("; ".join([str(error).rstrip("."), *causes]), *error.args[1:])
                raise


@dataclass(frozen=True, slots=True)
class StoredLedger(WithoutProof):
    """A ledger snapshot file, or the evidence that an earlier run left."""

    path: Path
    live: ClassVar[bool] = False

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = lambda: None) -> AsyncIterator[OpenSource]:  # noqa: ARG002 - it makes none
        content = read_snapshot_bytes(self.path)
        if content.startswith(MAGIC):
            yield open_evidence(settings, Evidence.decode(content, self.path.name))
        else:
            yield open_snapshot(settings, LedgerSnapshot.of(content, self.path.name), self.path.name)


def check_rpc_urls(settings: Settings) -> None:
    """Raise `ConfigError` unless RPC endpoints are named, each by a URL that can be one; asks none of them."""
    if not settings.network.rpc_urls:
        raise ConfigError(
            "network.rpc_urls: no Stellar RPC is given; name one with --rpc-url, EXPORTER_RPC_URLS or in the "
            "configuration, or read a file with --snapshot"
        )
    parse_endpoints(settings.network.rpc_urls, settings.network.rpc_headers)


def open_snapshot(settings: Settings, snapshot: LedgerSnapshot, name: str) -> OpenSource:
    """Raises `NetworkMismatchError`."""
    label = f"ledger snapshot file {name}"
    _refuse_other_network(settings, snapshot.network_id, label)
    source, instances = SnapshotSource(snapshot, storage_answers), list(snapshot.contract_instances())
    return OpenSource(source, network_of(settings.passphrase), instances, label, has_all_contracts=False, stored=True)


def open_evidence(settings: Settings, evidence: Evidence) -> OpenSource:
    """Raises `NetworkMismatchError`."""
    _refuse_other_network(settings, evidence.network_id, f"evidence of ledger {evidence.ledger}")
    source, network = EvidenceSource(evidence), network_of(settings.passphrase)
    return OpenSource(
        source,
        network,
        [],
        source.label,
        has_all_contracts=evidence.whole,
        stored=evidence.stored,
        evidence=evidence,
    )


def _refuse_other_network(settings: Settings, network: str, what: str) -> None:
    if network != network_id(settings.passphrase):
        known = {network_id(network.passphrase): network.name for network in NETWORKS.values()}
        raise NetworkMismatchError(
            f"{what} is of network {known.get(network, f'with id {network}')}, but the run is configured for "
            f"{network_of(settings.passphrase).name}; set network.name or network.passphrase"
        )


def check_ledger_clock(settings: Settings, ledger: int, close_time: int, now: datetime) -> str | None:
    """Compare a close time (unix seconds) with this machine's clock; gives a warning, if any. Raises `SourceError`."""
    behind = now - datetime.fromtimestamp(close_time, UTC)
    seconds, longest = int(abs(behind).total_seconds()), int(settings.max_ledger_age.total_seconds())
    closed = f"ledger {ledger} closed at {timestamp(close_time)}, {lasting(seconds)}"
    if behind < -TOLERANCE:
        raise SourceError(
            f"{closed} after the time of this machine's clock, {timestamp(int(now.timestamp()))}, and at most "
            f"{lasting(int(TOLERANCE.total_seconds()))} are allowed. Nothing was published. One of the two clocks is "
            "wrong: correct this machine's, or use another rpc_url"
        )
    if behind <= TOLERANCE or not longest:
        return None
    if seconds > longest:
        raise SourceError(
            f"{closed} ago, and network.max_ledger_age allows {lasting(longest)}: the RPC does not follow the network, "
            "or this machine's clock is wrong. Nothing was published; use another rpc_url, or correct the clock"
        )
    if settings.network.prefer_checkpoint:  # up to 63 ledgers before the newest, on purpose
        return None
    return f"{closed} ago: the RPC lags behind the network, or this machine's clock is fast"
