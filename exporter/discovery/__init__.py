"""Finding every market: lists, earlier runs, events, and what the chain's own contracts list (docs/discovery.md).

known = remembered(network, memory)         before the reading: where to look
around = await discover_context(view, ...)       at the same time: what events name further
... the reading, which verifies ...
discovered = learn(memory, ...)             after it: what is new, and what to remember
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporter.deployments import Deployment
from exporter.deployments.networks import Network
from exporter.discovery.candidates import candidates
from exporter.discovery.event_streams import MAX_SECONDS, follow_events
from exporter.discovery.known_markets import KnownMarket, MarketPlace, Memory
from exporter.errors import SourceError
from exporter.ledger.source import LedgerSource
from exporter.ledger.view import LedgerView
from exporter.protocols import base
from exporter.protocols.protocol import Protocol

__all__ = ["Discovered", "DiscoveryContext", "candidates", "discover_context", "learn", "remember_named", "remembered"]


@dataclass(slots=True)
class DiscoveryContext:
    """Where a run looks beyond the operator's own list and the ledger itself."""

    deployments: Sequence[Deployment]
    found: list[base.Candidate] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Discovered:
    """A market (``pool`` None) or pool that no list and no earlier run knew."""

    protocol: str
    market: str
    pool: str | None
    origin: str


def remembered(network: Network, memory: Memory) -> DiscoveryContext:
    """The markets that the lists and earlier runs name."""
    return DiscoveryContext(_with_learned(network.deployments, memory), list(memory.candidates()))


async def discover_context(
    view: LedgerView,
    source: LedgerSource,
    network: Network,
    protocols: Mapping[str, Protocol],
    memory: Memory,
    deadline_seconds: float,
) -> DiscoveryContext:
    """The markets that earlier runs and events name. It never raises; what is new is in the memory.

    Events take a quarter of the time that a reading may take at most: anybody can make many.
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
    tried: Iterable[base.Candidate],
    known_before: Iterable[tuple[str, str, str | None]],
    ledger: int,
) -> list[Discovered]:
    """Remember what was read at a ledger; returns what neither the lists, the operator nor ``known_before`` knew.

    What only the operator, or a file, named is not remembered unless a contract of the protocol vouches for it.
    """
    origins = {(item.protocol, item.address, item.pool): item.origin for item in tried}
    before = set(known_before)
    discovered = []
    for reading in readings:
        read = {market.address: frozenset(market.members) for market in reading.markets}
        places: list[MarketPlace] = [(reading.protocol, address, None) for address in read]
        places += [place for place in origins if place[0] == reading.protocol and place[2] in read.get(place[1], ())]
        for place in places:
            origin = origins.get(place, base.Origin.NAMED_BY_CONTRACT)
            voucher = reading.verified.get(place[1])
            if place not in before and origin not in (base.Origin.CONFIGURATION, base.Origin.DEPLOYMENT):
                discovered.append(Discovered(*place, origin))
            if voucher is not None or origin not in (base.Origin.CONFIGURATION, base.Origin.SNAPSHOT):
                protocol, address, pool = place
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
            memory.contracts[reading.protocol, label, role] = address
    return sorted(discovered, key=lambda item: (item.protocol, item.market, item.pool or ""))


def remember_named(memory: Memory, readings: Iterable[base.ProtocolReading], ledger: int) -> None:
    """Remember since when the protocols' contracts name a market, whether it was read or not."""
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
