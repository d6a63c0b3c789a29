"""Says which markets are listed, and who lists them.

Anybody can deploy a market, have a factory record it, and buy a place in a reward zone. So a market is listed only if
the package's lists say that its protocol shows it to people, or if the operator's configuration names it. How a run
came to read a market never counts. The answer follows from the lists, and from what the evidence records as configured,
so a run that is repeated from its evidence has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.deployments import Deployment
from exporter.tree.values import ListedReason

CONFIGURED_SOURCE = "the publisher's configuration, [[markets]]"
"""The ``listed_source`` of a market that the configuration lists. It is the publisher's own statement."""


class MarketKey(NamedTuple):
    """What identifies a market: its protocol's name and its address. An address may be tried for several protocols."""

    protocol: str
    market: str


class Listing(NamedTuple):
    """Why a market is listed or not, and the source that lists it; None if nothing does."""

    reason: ListedReason
    source: str | None

    @property
    def listed(self) -> bool:
        return self.reason is not ListedReason.NOT_LISTED


UNLISTED = Listing(ListedReason.NOT_LISTED, None)


class MarketListings:
    """Says for every market whether it is listed.

    If both the package's lists and the operator name a market, the lists are its source.
    """

    def __init__(self, deployments: Iterable[Deployment], configured: Iterable[MarketKey] = ()) -> None:
        """Take the package's lists of a network, and the configured markets."""
        listings = {market: Listing(ListedReason.CONFIGURED, CONFIGURED_SOURCE) for market in configured}
        for deployment in deployments:
            for contract in deployment.listed_markets:
                market = MarketKey(deployment.protocol, contract.address)
                listings[market] = Listing(ListedReason.PACKAGE_LIST, contract.listed_source)
        self._listings: Mapping[MarketKey, Listing] = listings
        protocols: dict[str, set[str]] = {}
        for market in listings:
            protocols.setdefault(market.market, set()).add(market.protocol)
        self._protocols: Mapping[str, set[str]] = protocols

    def of(self, protocol: str, market: str) -> Listing:
        """The listing of a protocol's market, by its address."""
        return self._listings.get(MarketKey(protocol, market), UNLISTED)

    def is_listed(self, protocol: str, market: str) -> bool:
        """Whether a protocol's market is listed, by its address."""
        return self.of(protocol, market).listed

    def protocols_of(self, address: str) -> set[str]:
        """The names of the protocols for which an address is listed as a market."""
        return set(self._protocols.get(address, ()))

    @property
    def any(self) -> bool:
        """Whether anything is listed at all."""
        return bool(self._listings)


NOTHING_LISTED = MarketListings(())
"""Listings for numbers that are not published, such as those that are compared with a contract's own."""
