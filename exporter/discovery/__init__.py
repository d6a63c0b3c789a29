"""Finds every market: by lists, earlier runs, events, and what the chain's own contracts list (docs/discovery.md).

A run uses it before, during and after its reading:

context = remembered(network, memory)              before: where to look
context = await discover_context(view, ...)        during: what events name, too
discovered = learn(memory, ...)                    after: what is new, and what the next run has to know
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from exporter.deployments import Deployment
from exporter.deployments.networks import Network
from exporter.discovery.candidates import candidates
from exporter.discovery.event_streams import MAX_SECONDS, follow_events
from exporter.discovery.known_markets import CandidateKey, KnownMarket, Memory, RoleKey
from exporter.errors import SourceError
from exporter.ledger.source import LedgerSource
from exporter.ledger.view import LedgerView
from exporter.protocols import base
from exporter.protocols.protocol import Protocol

__all__ = [
    "Discovered",
    "DiscoveryContext",
    "candidates",
    "completed_deployments",
    "discover_context",
    "learn",
    "remember_named",
    "remembered",
]


class DiscoveryContext(Struct):
    """Where a run looks, besides the operator's own list and the ledger itself: deployments, and candidates."""

    deployments: Sequence[Deployment]
    candidates: list[base.Candidate] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


class Discovered(Struct, frozen=True):
    """A market (``pool`` is None) or a pool that neither the lists nor an earlier run named."""

    protocol: str
    market: str
    pool: str | None
    origin: str


def remembered(network: Network, memory: Memory) -> DiscoveryContext:
    """The markets that the lists and earlier runs name."""
    return DiscoveryContext(_with_learned(network.deployments, memory), list(memory.candidates()))


async def completed_deployments(
    view: LedgerView, protocols: Mapping[str, Protocol], deployments: Sequence[Deployment]
) -> list[Deployment]:
    """The deployments of these protocols, with the contracts that only the ledger names. Raises `SourceError`."""
    completed = list[Deployment]()
    for name, protocol in protocols.items():
        completed += await protocol.discovery.complete(view, [item for item in deployments if item.protocol == name])
    return completed


async def discover_context(
    view: LedgerView,
    source: LedgerSource,
    network: Network,
    protocols: Mapping[str, Protocol],
    memory: Memory,
    deadline_seconds: float,
) -> DiscoveryContext:
    """The markets that earlier runs and events name. What is new is also added to the memory.

    Nothing is raised; what fails is a notice. Reading events takes at most a quarter of the time that a reading may
    take, because anybody can emit many events.
    """
    notices = list(memory.notices)
    deployments = _with_learned(network.deployments, memory)
    for name, protocol in protocols.items():
        own = [item for item in deployments if item.protocol == name]
        try:
            completed = await protocol.discovery.complete(view, own)
        except SourceError as error:
            notices.append(f"contracts of {name} that publish events could not be looked up: {error}")
            continue
        deployments = [*(item for item in deployments if item.protocol != name), *completed]
    notices += await follow_events(source, protocols, deployments, memory, min(MAX_SECONDS, deadline_seconds / 4))
    return DiscoveryContext(deployments, list(memory.candidates()), notices)


def learn(
    memory: Memory,
    readings: Sequence[base.ProtocolReading],
    candidates_read: Iterable[base.Candidate],
    known_before: Iterable[CandidateKey],
    ledger: int,
) -> list[Discovered]:
    """Remember the markets and pools that were read at a ledger, and return those that are new.

    New is what neither the lists, the operator nor ``known_before`` named. What only the operator or a file named is
    not remembered, unless a contract of the protocol vouches for it.
    """
    origins = {CandidateKey(item.protocol, item.address, item.pool): item.origin for item in candidates_read}
    before = set(known_before)
    discovered = []
    for reading in readings:
        for key in _markets_and_named_pools(reading, origins):
            protocol, address, pool = key
            origin = origins.get(key, base.Origin.NAMED_BY_CONTRACT)
            voucher = reading.verified.get(address)
            is_on_a_list = origin in (base.Origin.CONFIGURATION, base.Origin.DEPLOYMENT)
            if not is_on_a_list and key not in before:
                discovered.append(Discovered(protocol, address, pool, origin))
            if voucher is not None or origin not in (base.Origin.CONFIGURATION, base.Origin.SNAPSHOT):
                memory.learn(
                    KnownMarket(
                        protocol=protocol,
                        address=address,
                        pool=pool,
                        origin=origin,
                        first_seen_ledger=ledger,
                        voucher=voucher if pool is None else None,
                    )
                )
        for (label, role), address in reading.contracts.items():
            memory.contracts[RoleKey(reading.protocol, label, role)] = address
    return sorted(discovered, key=lambda item: (item.protocol, item.market, item.pool or ""))


def _markets_and_named_pools(reading: base.ProtocolReading, candidates: Iterable[CandidateKey]) -> list[CandidateKey]:
    """The markets of a reading, then those of the candidates that are pools of these markets."""
    members = {market.address: frozenset(market.members) for market in reading.markets}
    markets = [CandidateKey(reading.protocol, address) for address in members]
    pools = [key for key in candidates if key.protocol == reading.protocol and key.pool in members.get(key.market, ())]
    return markets + pools


def remember_named(memory: Memory, readings: Iterable[base.ProtocolReading], ledger: int) -> None:
    """Remember the ledger at which a contract of the protocol first named a market, whether that was read or not."""
    for reading in readings:
        for item in reading.named:
            memory.learn(
                KnownMarket(
                    protocol=item.protocol,
                    address=item.address,
                    origin=item.origin,
                    first_seen_ledger=ledger,
                    confirmed=False,
                )
            )


def _with_learned(deployments: Sequence[Deployment], memory: Memory) -> list[Deployment]:
    completed = []
    for deployment in deployments:
        for (protocol, label, role), address in memory.contracts.items():
            if (protocol, label) == (deployment.protocol, deployment.label) and deployment.address(role) is None:
                deployment = base.with_contract(deployment, role, address)
        completed.append(deployment)
    return completed
