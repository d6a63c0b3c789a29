"""What a run reads from: RPC endpoints, or a stored ledger (a snapshot file, or the evidence of an earlier run).

History archives are a source too, which `exporter.past` defines and the command line hands over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct

from exporter.clocks import UNNOTICED_CLOCK_ERROR
from exporter.config import Settings
from exporter.deployments.networks import NETWORKS, Network, network_id, network_of
from exporter.errors import AllEndpointsFailedError, ConfigError, NetworkMismatchError, SourceError, lasting
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

if TYPE_CHECKING:  # this module would load pyarrow, which a reading does not need
    from exporter.job.run_report import JsonObject

OnRequest = Callable[[], None]


class SourceFacts(Protocol):
    """What a source counts or proves while it is read, for the run report."""

    def as_dict(self) -> dict[str, object]:
        """The facts as plain values."""
        ...


class OpenSource(Struct):
    """A source that is open for reading, and what the run has to know of it.

    Attributes:
        source: answers requests for ledger entries and calls.
        network: the network that the settings name.
        instances: the contracts that a snapshot file or an archive has, by address; empty for other sources.
        label: the name for the report and for messages; it has no URL.
        facts: what the run report says of the source; None if that is only its name.
        has_all_contracts: False for a file that has only some contracts of the ledger.
        stored: calls are not run; their results are derived from stored entries.
        evidence: the evidence that is read again, if it is the source.
        proof: the content of the proof file, if the source is an archive.
        notices: what the operator should know. The source adds to it while it is read.
    """

    source: LedgerSource
    network: Network
    instances: Sequence[tuple[str, ContractInstance]]
    label: str
    facts: SourceFacts | None = None
    has_all_contracts: bool = True
    stored: bool = False
    evidence: Evidence | None = None
    proof: bytes | None = None
    notices: Sequence[str] = ()

    def discovers(self, settings: Settings) -> bool:
        """Whether to look for markets that nobody named. Evidence already has what its run discovered."""
        return settings.discovery.enabled and self.evidence is None

    def report(self) -> JsonObject:
        """The source's name and facts as plain values, for the run report. There is no URL among them."""
        return {"source": self.label, **(self.facts.as_dict() if self.facts is not None else {})}


class Source(Protocol):
    """What a run reads from. ``live`` says whether its ledger should be the network's newest."""

    @property
    def live(self) -> bool: ...

    def open(self, settings: Settings, on_request: OnRequest = ...) -> AbstractAsyncContextManager[OpenSource]:
        """Open the source, and close it when the block ends.

        Raises `ConfigError`, `SnapshotFileError`, `ArchiveError`, or `NetworkMismatchError`.
        """
        ...

    def publish_proof(
        self, held: HeldStore, network: str, run_id: str, evidence_key: str, entries: int, content: bytes, now: Clock
    ) -> None:
        """Publish the proof (`OpenSource.proof`) of what a run was read from. Most sources have none."""
        ...


class WithoutProof:
    """The part of a source that cannot prove what it answers."""

    def publish_proof(
        self, held: HeldStore, network: str, run_id: str, evidence_key: str, entries: int, content: bytes, now: Clock
    ) -> None:
        """Do nothing, because there is no proof."""


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
                said = None if isinstance(error, AllEndpointsFailedError) else source.failed_requests
                causes = [*source.notices, *(each for each in (source.rate_limits, said) if each is not None)]
                if causes:  # these most probably explain the error
                    error.args = ("; ".join([str(error).rstrip("."), *causes]), *error.args[1:])
                raise


class StoredLedger(WithoutProof, Struct, frozen=True):
    """A file that holds a ledger's entries: a ledger snapshot file, or the evidence that an earlier run left."""

    path: Path
    live: ClassVar[bool] = False

    @asynccontextmanager
    async def open(self, settings: Settings, on_request: OnRequest = lambda: None) -> AsyncIterator[OpenSource]:  # noqa: ARG002 - a file takes no requests
        content = read_snapshot_bytes(self.path)
        if content.startswith(MAGIC):
            yield open_evidence(settings, Evidence.decode(content, self.path.name))
        else:
            yield open_snapshot(settings, LedgerSnapshot.of(content, self.path.name), self.path.name)


def check_rpc_urls(settings: Settings) -> None:
    """Check, without a request, that the settings name RPC endpoints by valid URLs. Raises `ConfigError`."""
    if not settings.network.rpc_urls:
        raise ConfigError(
            "network.rpc_urls: no Stellar RPC is given; name one with --rpc-url, EXPORTER_RPC_URLS or in the "
            "configuration, or read a file with --snapshot"
        )
    parse_endpoints(settings.network.rpc_urls, settings.network.rpc_headers)


def open_snapshot(settings: Settings, snapshot: LedgerSnapshot, name: str) -> OpenSource:
    """A ledger snapshot as a source. Raises `NetworkMismatchError` if it is of another network."""
    label = f"ledger snapshot file {name}"
    _refuse_other_network(settings, snapshot.network_id, label)
    source, instances = SnapshotSource(snapshot, storage_answers), list(snapshot.contract_instances())
    return OpenSource(source, network_of(settings.passphrase), instances, label, has_all_contracts=False, stored=True)


def open_evidence(settings: Settings, evidence: Evidence) -> OpenSource:
    """Evidence as a source. Raises `NetworkMismatchError` if it is of another network."""
    _refuse_other_network(settings, evidence.network_id, f"evidence of ledger {evidence.ledger}")
    source, network = EvidenceSource(evidence), network_of(settings.passphrase)
    return OpenSource(
        source,
        network,
        [],
        source.label,
        has_all_contracts=evidence.has_all_contracts,
        stored=evidence.stored,
        evidence=evidence,
    )


def _refuse_other_network(settings: Settings, network: str, what: str) -> None:
    if network != network_id(settings.passphrase):
        names = {network_id(network.passphrase): network.name for network in NETWORKS.values()}
        raise NetworkMismatchError(
            f"{what} is of network {names.get(network, f'with id {network}')}, but the run is configured for "
            f"{network_of(settings.passphrase).name}; set network.name or network.passphrase"
        )


def check_ledger_clock(settings: Settings, ledger: int, close_time: int, now: datetime) -> str | None:
    """Compare a ledger's close time (unix seconds) with this machine's clock.

    Returns the text of a warning if they differ by more than `UNNOTICED_CLOCK_ERROR`. Raises `SourceError` if the
    ledger is in the future, or older than ``network.max_ledger_age`` allows.
    """
    behind = now - datetime.fromtimestamp(close_time, UTC)
    seconds, longest = int(abs(behind).total_seconds()), int(settings.max_ledger_age.total_seconds())
    closed = f"ledger {ledger} closed at {timestamp(close_time)}, {lasting(seconds)}"
    if behind < -UNNOTICED_CLOCK_ERROR:
        raise SourceError(
            f"{closed} after the time of this machine's clock, {timestamp(int(now.timestamp()))}, and at most "
            f"{lasting(int(UNNOTICED_CLOCK_ERROR.total_seconds()))} are allowed. Nothing was published. One of the two "
            "clocks is wrong: correct this machine's, or use another rpc_url"
        )
    if behind <= UNNOTICED_CLOCK_ERROR or not longest:
        return None
    if seconds > longest:
        raise SourceError(
            f"{closed} ago, and network.max_ledger_age allows {lasting(longest)}: the RPC does not follow the network, "
            "or this machine's clock is wrong. Nothing was published; use another rpc_url, or correct the clock"
        )
    if settings.network.prefer_checkpoint:  # the run reads up to 63 ledgers before the newest one, on purpose
        return None
    return f"{closed} ago: the RPC lags behind the network, or this machine's clock is fast"
