"""The memory of earlier runs into the same output: every market that was found, and how far the events were read.

RPCs forget within days the event with which a factory names a new market, and a list on the chain may be emptied. So
every market that was found once is remembered, and no run removes one (`exporter.job.known_markets_file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from exporter.protocols.base import Candidate, Origin

MAX_MARKETS = 50_000

Name = Annotated[str, Meta(pattern="^[a-z0-9_-]{1,40}$")]
_RememberedPool = Annotated[str, Meta(pattern="^[A-Za-z0-9_:.-]{1,200}$")]
Topic = Annotated[str, Meta(pattern="^[A-Za-z0-9_]{1,32}$")]
LedgerNumber = Annotated[int, Meta(ge=0, le=2**32 - 1)]
NetworkId = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class KnownMarket(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A market or, if it has a ``pool``, a pool that nothing on the chain lists.

    ``origin`` says how it was first found, and ``confirmed`` that a run has read it. ``voucher`` is the contract that
    has, or should have, a record of it; None if no such contract is known.
    """

    protocol: Name
    address: str
    pool: _RememberedPool | None = None
    origin: Origin
    first_seen_ledger: LedgerNumber
    confirmed: bool = True
    voucher: str | None = None

    def candidate(self) -> Candidate:
        """The market as a candidate of a run. If it was never read, its origin is still the event that named it."""
        origin = Origin.REMEMBERED if self.confirmed else self.origin
        return Candidate(self.protocol, self.address, origin, self.pool, self.voucher, self.first_seen_ledger)


class EventStream(Struct, frozen=True, kw_only=True):
    """The events of a contract that begin with these topics. They were read up to the ledger before ``next_ledger``."""

    protocol: Name
    contract: str
    topics: tuple[Topic, ...]
    next_ledger: LedgerNumber


class LearnedContract(Struct, frozen=True, kw_only=True):
    """A contract that belongs to a deployment because the chain says so; no list has it."""

    protocol: Name
    label: Annotated[str, Meta(max_length=100)]
    role: Name
    address: str


class CandidateKey(NamedTuple):
    """What identifies a candidate: its protocol, a market's address, and a pool of it; None for the market itself."""

    protocol: str
    market: str
    pool: str | None = None


class StreamKey(NamedTuple):
    """What identifies a stream of events: its protocol, the contract that emits them, and their first topics."""

    protocol: str
    contract: str
    topics: tuple[str, ...]


class RoleKey(NamedTuple):
    """What identifies a contract of a deployment: the protocol, the deployment's label, and the contract's role."""

    protocol: str
    label: str
    role: str


class Memory(Struct):
    """The memory of one network.

    Attributes:
        network_id: the SHA-256 of the network's passphrase, in hex digits.
        markets: every market and pool that was found.
        streams: the ledger from which on each stream of events is still to be read.
        contracts: the contracts that the chain added to deployments, keyed by what identifies them.
        notices: what was wrong with the stored memory, or did not fit into it.
        rewound: the ledger given to `rewind`.
    """

    network_id: str
    markets: dict[CandidateKey, KnownMarket] = field(default_factory=dict)
    streams: dict[StreamKey, int] = field(default_factory=dict)
    contracts: dict[RoleKey, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    rewound: int | None = None

    def rewind(self, ledger: int) -> None:
        """Forget what was found at this ledger and later. The events of these ledgers are then read again.

        Since when a contract belongs to a deployment is not known, so all of these are forgotten. Each run learns them
        from the chain anyhow.
        """
        self.rewound = ledger
        self.markets = {key: market for key, market in self.markets.items() if market.first_seen_ledger < ledger}
        self.streams = {key: next_ledger for key, next_ledger in self.streams.items() if next_ledger <= ledger}
        self.contracts = {}

    def candidates(self) -> Iterator[Candidate]:
        """All remembered markets and pools, as candidates of a run."""
        return (market.candidate() for market in self.markets.values())

    def confirmed(self) -> set[CandidateKey]:
        """The markets and pools that a run has read."""
        return {key for key, market in self.markets.items() if market.confirmed}

    def learn(self, market: KnownMarket) -> bool:
        """Remember a market. Returns whether it is new. A market that is not new keeps how it was first found."""
        key = CandidateKey(market.protocol, market.address, market.pool)
        before = self.markets.get(key)
        if before is None:
            if len(self.markets) >= MAX_MARKETS:
                self.notices.append(f"{MAX_MARKETS} markets are remembered already; {market.address} is not added")
                return False
            self.markets[key] = market
        else:
            confirmed, voucher = before.confirmed or market.confirmed, market.voucher or before.voucher
            self.markets[key] = msgspec.structs.replace(before, confirmed=confirmed, voucher=voucher)
        return before is None

    def absorb(self, other: Memory) -> None:
        """Add what another run remembered in the meantime. A stream then is where the run that read further stopped.

        What is forgotten by `rewind` does not come back.
        """
        for key, market in other.markets.items():
            if key in self.markets or self.rewound is None or market.first_seen_ledger < self.rewound:
                self.learn(market)
        for stream, ledger in other.streams.items():
            if self.rewound is None or ledger <= self.rewound:
                self.streams[stream] = max(ledger, self.streams.get(stream, 0))
        if self.rewound is None:
            self.contracts = other.contracts | self.contracts
