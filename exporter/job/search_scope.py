"""Where a run looks for markets: which addresses may be markets, and which of these it reads first, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from exporter.deployments import MARKET, Deployment
from exporter.deployments.listing import MarketKey, MarketListings
from exporter.protocols.base import Candidate
from exporter.tree.documents import SkippedMarket
from exporter.tree.values import SkipReason


class SearchScope(Struct, frozen=True):
    """Where a run looks for markets.

    Attributes:
        candidates: the addresses that should be markets or pools, by protocol.
        deployments: the deployments of the package's lists, with the contracts that the chain added to them.
        compared_lists: the deployments of the lists that the run compares with the chain. Empty if it compares none.
        listings: says which markets are listed.
        excluded: the addresses that the operator excluded.
        skipped: the markets that are not read because they are excluded, or because the evidence says so.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    deployments: Sequence[Deployment]
    compared_lists: Sequence[Deployment]
    listings: MarketListings
    excluded: frozenset[str] = frozenset()
    skipped: Sequence[SkippedMarket] = ()

    def without(self, excluded: Iterable[str]) -> SearchScope:
        """This scope without the excluded markets; those among the candidates count as skipped."""
        excluded = frozenset(excluded)
        candidates = dict[str, Sequence[Candidate]]()
        skipped = dict[MarketKey, SkippedMarket]()
        for name, own in self.candidates.items():
            candidates[name] = [item for item in own if item.address not in excluded]
            for item in own:
                if item.address in excluded:
                    skipped[MarketKey(name, item.address)] = SkippedMarket(item.address, name, SkipReason.EXCLUDED)
        return replace(self, candidates=candidates, excluded=excluded, skipped=[*self.skipped, *skipped.values()])

    def admits(self, candidate: Candidate) -> bool:
        """Whether a run may read this market: it is neither excluded nor skipped."""
        skipped = {MarketKey(item.protocol, item.market) for item in self.skipped}
        return (
            candidate.address not in self.excluded and MarketKey(candidate.protocol, candidate.address) not in skipped
        )

    def listed_alone(self) -> SearchScope:
        """The scope of the listed markets. The lists' markets that are not listed are not compared with the chain."""
        listed = {
            name: [item for item in own if self.listings.is_listed(name, item.address)]
            for name, own in self.candidates.items()
        }
        lists = [
            replace(item, contracts=tuple(each for each in item.contracts if each.role != MARKET or each.listed))
            for item in self.compared_lists
        ]
        return replace(self, candidates=listed, compared_lists=lists)

    def others(self) -> list[Candidate]:
        """The candidates that are not listed."""
        return [
            item
            for name, own in self.candidates.items()
            for item in own
            if not self.listings.is_listed(name, item.address)
        ]

    def with_more(self, more: Iterable[Candidate]) -> SearchScope:
        """This scope with more candidates."""
        candidates = {name: list(own) for name, own in self.candidates.items()}
        for item in more:
            candidates[item.protocol].append(item)
        return replace(self, candidates=candidates)
