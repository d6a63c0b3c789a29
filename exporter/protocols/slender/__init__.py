"""Slender: one pool contract is the market, its reserves are the pools, one a token. Dormant since ledger 60,749,975.

Its instance is often archived; what then becomes of it is in docs/adr/0016-peridot-slender.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exporter.deployments import Deployment
from exporter.ledger.oracles import Quote
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Coverage, NotAnnounced, ProtocolReading
from exporter.protocols.price_age import price_failure
from exporter.protocols.slender import reader
from exporter.protocols.slender.layout import VERSION, WASM_HASH

if TYPE_CHECKING:
    import polars as pl

MAX_PRICE_AGE_SECONDS = 86_400
"""A price older than this is refused, however long the pool's own limit is."""


class Slender(NotAnnounced):
    """The Slender module, as `exporter.protocols.base.ProtocolModule` describes one."""

    name = reader.NAME
    coverage = Coverage(
        title="Slender",
        structure="a market is the pool contract, its pools are the reserves, one a token",
        year_seconds=31_557_600,
        supply_yield="simple: the lenders' stored rate on the lent share of what they own, not compounded",
        borrow_yield="simple: the stored annual rate, not compounded",
        supply_compounding="simple",
        borrow_compounding="simple",
        rates="as stored at the last update: what the contract's own coefficients grow by until the next",
        totals="brought to the ledger's close time by the contract's own coefficients, in whole windows of time",
        prices=(
            "the last price of the reserve's first feed, taken as US dollars; refused when not above zero, of after "
            "the ledger, or older than the pool's own limit for the feed; the contract itself weighs several records "
            "by time and takes the median of its feeds, in its base asset"
        ),
        limits=(
            "dormant: an archived pool of the published list is named as absent, and fails no run; a reserve "
            "whose cash is archived is unread"
        ),
    )

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """The code that the one pool was deployed with."""
        return {WASM_HASH: VERSION}

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates; the deployments only tell which code is known."""
        return await reader.read_markets(view, candidates, deployments)

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
        """The published numbers of the reserves (see `exporter.protocols.slender.math`)."""
        from exporter.protocols.slender.math import project_pools

        return project_pools(columns, close_time)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """There is a price, above zero, not of the future, a day old at most; the pool's own limit is read."""
        return price_failure(quote, close_time, MAX_PRICE_AGE_SECONDS, future=False)
