"""The memory of earlier runs into the same output: every market, and how far the events were read.

A factory's event that names a new market is forgotten by the RPCs within days, and a list on the chain may be emptied.
So everything that was found once is kept, and no run takes anything away from it (`exporter.job.known_markets_file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from exporter.protocols.base import Candidate, Origin

MAX_MARKETS = 50_000

Name = Annotated[str, Meta(pattern="^[a-z0-9_-]{1,40}$")]
PoolId = Annotated[str, Meta(pattern="^[A-Za-z0-9_:.-]{1,200}$")]
Topic = Annotated[str, Meta(pattern="^[A-Za-z0-9_]{1,32}$")]
LedgerNumber = Annotated[int, Meta(ge=0, le=2**32 - 1)]
NetworkId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class KnownMarket(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A market, or with ``pool`` a pool that nothing on the chain lists.

    ``origin`` is how it was first found; ``confirmed`` says that it was read, and ``voucher`` is the contract that has,
    or that should have, a record of it, None where none is known.
    """

    protocol: Name
    address: str
    pool: PoolId | None = None
    origin: Origin
    first_seen_ledger: LedgerNumber
    confirmed: bool = True
    voucher: str | None = None

    def candidate(self) -> Candidate:
        """A market that a run tries. One that only an event named, and that was never read, is no more than that."""
        origin = Origin.REMEMBERED if self.confirmed else self.origin
        return Candidate(self.protocol, self.address, origin, self.pool, self.voucher, self.first_seen_ledger)


class EventStream(Struct, frozen=True, kw_only=True):
    """Events that were read up to the ledger before ``next_ledger``: of a contract, with these first topics."""

    protocol: Name
    contract: str
    topics: tuple[Topic, ...]
    next_ledger: LedgerNumber


class LearnedContract(Struct, frozen=True, kw_only=True):
    """A contract of a deployment that no list has, as the chain named it."""

    protocol: Name
    label: Annotated[str, Meta(max_length=100)]
    role: Name
    address: str


MarketPlace = tuple[str, str, str | None]
StreamPlace = tuple[str, str, tuple[str, ...]]


@dataclass(slots=True)
class Memory:
    """The memory of one network. ``notices`` say what was wrong with what was kept."""

    network_id: str
    markets: dict[MarketPlace, KnownMarket] = field(default_factory=dict)
    streams: dict[StreamPlace, int] = field(default_factory=dict)
    contracts: dict[tuple[str, str, str], str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    rewound: int | None = None

    def rewind(self, ledger: int) -> None:
        """Forget what runs at this ledger and later ones found: it is found again, and events are read again."""
        self.rewound = ledger
        self.markets = {place: item for place, item in self.markets.items() if item.first_seen_ledger < ledger}
        self.streams = {place: following for place, following in self.streams.items() if following <= ledger}

    def candidates(self) -> Iterator[Candidate]:
        return (market.candidate() for market in self.markets.values())

    def confirmed(self) -> set[MarketPlace]:
        return {place for place, market in self.markets.items() if market.confirmed}

    def learn(self, market: KnownMarket) -> bool:
        """Remember a market; gives whether it was not known. One that is known keeps how it was found first."""
        place = market.protocol, market.address, market.pool
        known = self.markets.get(place)
        if known is None:
            if len(self.markets) >= MAX_MARKETS:
                self.notices.append(f"{MAX_MARKETS} markets are remembered already; {market.address} is not added")
                return False
            self.markets[place] = market
        else:
            confirmed, voucher = known.confirmed or market.confirmed, market.voucher or known.voucher
            self.markets[place] = msgspec.structs.replace(known, confirmed=confirmed, voucher=voucher)
        return known is None

    def absorb(self, other: Memory) -> None:
        """Take in what another run remembered meanwhile; of what both read, what is further."""
        for place, market in other.markets.items():
            if place in self.markets or self.rewound is None or market.first_seen_ledger < self.rewound:
                self.learn(market)
        for stream, ledger in other.streams.items():
            if self.rewound is None or ledger <= self.rewound:
                self.streams[stream] = max(ledger, self.streams.get(stream, 0))
        self.contracts = other.contracts | self.contracts
