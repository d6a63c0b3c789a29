"""Opening what a run reads its ledger from: Stellar RPC endpoints, or a ledger snapshot file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.config import Settings
from exporter.errors import ConfigError, NetworkMismatchError
from exporter.ledger.scval import ContractInstance
from exporter.ledger.source import LedgerSource
from exporter.networks import NETWORKS, Network, network_id, network_of

if TYPE_CHECKING:
    from exporter.ledger.snapshot_file import LedgerSnapshot


@dataclass(slots=True)
class OpenSource:
    """An open source, the network it is of, and for a snapshot file the contracts in it.

    ``facts`` are for the run report; for RPC endpoints they grow while the source is used. ``whole`` is False for a
    file, which has some contracts of its ledger only.
    """

    source: LedgerSource
    network: Network
    instances: list[tuple[str, ContractInstance]]
    label: str
    facts: Any
    whole: bool = True

    def report(self) -> dict[str, Any]:
        """What the source did, as plain values without any URL."""
        return {"source": self.label, **(self.facts.as_dict() if self.facts is not None else {})}


@asynccontextmanager
async def open_source(
    settings: Settings, snapshot: Path | None, on_request: Callable[[], None] = lambda: None
) -> AsyncIterator[OpenSource]:
    """Open the snapshot file if one is given, else the configured endpoints; ``on_request`` is told of each request.

    Raises `ConfigError`, `SnapshotFileError`, and `NetworkMismatchError` for a file of another network.
    """
    if snapshot is not None:
        from exporter.ledger.snapshot_file import LedgerSnapshot

        yield open_snapshot(settings, LedgerSnapshot.load(snapshot), snapshot.name)
        return
    if not settings.network.rpc_urls:
        raise ConfigError(
            "network.rpc_urls: no Stellar RPC is given; name one with --rpc-url, EXPORTER_RPC_URLS or in the "
            "configuration, or read a file with --snapshot"
        )
    from exporter.ledger.rpc import RpcSource
    from exporter.ledger.rpc_limits import RpcLimits

    limits = RpcLimits(
        max_in_flight=settings.network.max_in_flight,
        requests_per_second=settings.network.requests_per_second,
        request_timeout_s=settings.network.request_timeout_seconds,
    )
    async with RpcSource(
        settings.network.rpc_urls, settings.passphrase, limits=limits, on_event=lambda _: on_request()
    ) as source:
        label = ", ".join(source.endpoints)
        yield OpenSource(source, network_of(settings.passphrase), [], label, source.counters)


def open_snapshot(settings: Settings, snapshot: LedgerSnapshot, name: str) -> OpenSource:
    """Open what a ledger snapshot file of this name holds. Raises `NetworkMismatchError` for another network's."""
    from exporter.ledger.snapshot_file import SnapshotSource

    expected = network_id(settings.passphrase)
    if snapshot.network_id != expected:
        known = {network_id(network.passphrase): network.name for network in NETWORKS.values()}
        found = known.get(snapshot.network_id, f"with id {snapshot.network_id}")
        raise NetworkMismatchError(
            f"ledger snapshot file {name} is of network {found}, but the run is configured for "
            f"{network_of(settings.passphrase).name}; set network.name or network.passphrase"
        )
    instances = list(snapshot.contract_instances())
    return OpenSource(
        SnapshotSource(snapshot), network_of(settings.passphrase), instances, f"ledger snapshot file {name}", None,
        whole=False,
    )  # fmt: skip
