"""Opening what a run reads its ledger from: Stellar RPC endpoints, or a ledger snapshot file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.config import Settings
from exporter.deployments.networks import NETWORKS, Network, network_id, network_of
from exporter.errors import ConfigError, NetworkMismatchError
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.source import LedgerSource

if TYPE_CHECKING:
    from exporter.ledger.snapshot_file import LedgerSnapshot
import asyncio
from collections.abc import Coroutine, Mapping

from exporter.discovery import Surroundings, candidates
from exporter.discovery.candidates import check_lists
from exporter.errors import SourceError
from exporter.ledger.router import Router
from exporter.ledger.view import LedgerView, ViewLimits
from exporter.protocols.base import ProtocolModule, ProtocolReading
from exporter.protocols.containment import read_contained


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
    check_rpc_urls(settings)
    from exporter.ledger.rpc.client import RpcSource
    from exporter.ledger.rpc.endpoints import RpcLimits

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


def check_rpc_urls(settings: Settings) -> None:
    """Raise `ConfigError` unless RPC endpoints are named, each by a URL that can be one; asks none of them."""
    from exporter.ledger.rpc.endpoints import parse_endpoints

    if not settings.network.rpc_urls:
        raise ConfigError(
            "network.rpc_urls: no Stellar RPC is given; name one with --rpc-url, EXPORTER_RPC_URLS or in the "
            "configuration, or read a file with --snapshot"
        )
    parse_endpoints(settings.network.rpc_urls)


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


# Reading all protocols from an open source, within the time that the settings allow.


async def read_protocols(
    view: LedgerView,
    settings: Settings,
    opened: OpenSource,
    modules: Mapping[str, ProtocolModule],
    around: Surroundings | None = None,
) -> list[ProtocolReading]:
    """All protocols, each all its markets, and whether the lists still hold. Raises `SourceError`.

    A program, or a part of one, for `exporter.ledger.view`: it may run several times. ``around`` has what earlier runs
    and events name; without it only lists and the ledger itself name markets.
    """
    listed = opened.network.deployments if settings.discovery.enabled else ()
    deployments = listed if around is None else around.deployments
    found = candidates(settings, opened.network, modules, opened.instances, () if around is None else around.found)
    checked = check_lists(view, [item for item in listed if item.protocol in modules], whole=opened.whole)
    readings = [
        read_contained(module, view, found[name], [item for item in deployments if item.protocol == name])
        for name, module in modules.items()
    ]
    drifts, *read = await _all(checked, *readings)
    for reading in read:
        reading.notices += [
            drift.notice
            for drift in drifts
            if drift.protocol == reading.protocol and drift.address not in reading.unknown_code  # said already
        ]
    return read


async def _all(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run parts side by side; when one fails, none of the others goes on."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def view_limits(settings: Settings) -> ViewLimits:
    """The bounds of the read transaction."""
    network = settings.network
    return ViewLimits(max_rounds=network.max_rounds, max_seconds=network.read_deadline_seconds)


def router_for(settings: Settings, opened: OpenSource) -> Router | None:
    """The router to put calls together with; None if none is wanted or known, and for a file, which runs no code."""
    known = opened.network.router
    if known is None or not settings.network.router or not opened.whole:
        return None
    return Router(known.address, known.wasm_hash)


@asynccontextmanager
async def reading_deadline(settings: Settings) -> AsyncIterator[None]:
    """Bound everything inside by ``network.read_deadline_seconds``. Raises `SourceError` when it takes longer."""
    seconds = settings.network.read_deadline_seconds
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise SourceError(
            f"reading took longer than network.read_deadline_seconds = {seconds:g}; use a faster endpoint, "
            "or raise that, network.max_in_flight or network.requests_per_second"
        ) from None
