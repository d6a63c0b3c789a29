"""Which markets are listed, and who says so.

Anybody can deploy a market, have a factory record it, and buy a place in a reward zone. So a market is listed only if
the package's lists say that its protocol shows it to people, or if the operator's configuration names it. How a run
came to read a market never counts: the answer follows from the lists and from what the evidence records as configured,
and a run that is repeated from its evidence gives the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.deployments import Deployment
from exporter.tree.values import ListedReason

CONFIGURED_SOURCE = "the publisher's configuration, [[markets]]"
"""The source of a market that is listed by configuration. It is the publisher's own statement."""


class Listing(NamedTuple):
    """Whether a market is listed: the reason, and the source that lists it, None for one that nothing lists."""

    reason: ListedReason
    source: str | None

    @property
    def listed(self) -> bool:
        return self.reason is not ListedReason.NOT_LISTED


UNLISTED = Listing(ListedReason.NOT_LISTED, None)


class MarketListings:
    """Says of every market whether it is listed. A market that both the lists and the operator name is the lists'."""

    def __init__(self, deployments: Iterable[Deployment], configured: Iterable[tuple[str, str]] = ()) -> None:
        """Take the package's lists of a network, and protocol and address of each configured market."""
        listings = {place: Listing(ListedReason.CONFIGURED, CONFIGURED_SOURCE) for place in configured}
        for deployment in deployments:
            for contract in deployment.listed_markets:
                place = deployment.protocol, contract.address
                listings[place] = Listing(ListedReason.PACKAGE_LIST, contract.listed_source)
        self._listings: Mapping[tuple[str, str], Listing] = listings

    def of(self, protocol: str, market: str) -> Listing:
        """The listing of a protocol's market, by its address."""
        return self._listings.get((protocol, market), UNLISTED)

    def is_listed(self, protocol: str, market: str) -> bool:
        return self.of(protocol, market).listed

    @property
    def any(self) -> bool:
        """Whether anything is listed at all."""
        return bool(self._listings)


NOTHING_LISTED = MarketListings(())
"""For numbers that are not published, such as those that are compared with a contract's own."""
