"""The protocols of a made network besides Blend and Alula: how much of each, and how they move on together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.peridot_made import PeridotMarkets
from exporter.localnet.slender_made import SlenderMarkets
from exporter.localnet.token_contract import Token
from exporter.localnet.xoxno_made import XoxnoMarkets


@dataclass(frozen=True, slots=True)
class Others:
    """How much there is of each protocol: XOXNO's hub markets, and the markets of the rest."""

    xoxno_pools: int = 0
    k2_markets: int = 0
    peridot_markets: int = 0
    slender_markets: int = 0


NONE = Others()
SOME = Others(xoxno_pools=8, k2_markets=3, peridot_markets=1, slender_markets=1)
"""What a demonstration has: what the lists of the local network know, and no more."""


class OtherMarkets:
    """The made markets of these protocols. The rest of a network is the same with and without them."""

    def __init__(self, others: Others, seed: int, tokens: list[Token], start_time: int) -> None:
        """Make them as of ``start_time`` (unix seconds)."""
        self.xoxno = XoxnoMarkets(seed, others.xoxno_pools, tokens, start_time)
        self.k2 = K2Markets(seed, others.k2_markets, tokens, start_time)
        self.peridot = PeridotMarkets(seed, others.peridot_markets, tokens, start_time)
        self.slender = SlenderMarkets(seed, others.slender_markets, tokens, start_time)
        self._parts = (self.xoxno, self.k2, self.peridot, self.slender)

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:
        """All entries as of the first ledger, closed at ``time``."""
        for part in self._parts:
            yield from part.first_entries(ledger, time)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:
        """What changes in the ledger that closes next."""
        for part in self._parts:
            yield from part.advance(chain, ledger, time)

    def events_of(self, ledger: int) -> list[ContractEvent]:
        """What their contracts published in a ledger that was just advanced to."""
        return [event for event in self.xoxno.events if event.ledger == ledger]
