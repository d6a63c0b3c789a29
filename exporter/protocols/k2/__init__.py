"""K2 (Kinetic): one router with a list of reserves, rates that stay between actions, indexes that grow by them.

The published yields are those of the stored rates, which is what is charged now; totals and indexes are brought to
the ledger's close time (docs/adr/0015-k2.md; facts/other-protocols.md 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exporter.deployments import Deployment
from exporter.ledger.oracles import Quote
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Coverage, NotAnnounced, ProtocolReading
from exporter.protocols.k2 import reader
from exporter.protocols.price_age import price_failure

if TYPE_CHECKING:
    import polars as pl

MAX_PRICE_AGE_SECONDS = 3_600
"""The oracle's own bound unless it is set otherwise, for prices that it did not judge; exactly this age is good."""

MAX_FRESH_PRICE_AGE_SECONDS = 86_400
"""The bound for prices that the oracle found fresh by its own limit for the asset: no rule of K2's, a sane end."""


class K2(NotAnnounced):
    """The K2 module, as `exporter.protocols.base.ProtocolModule` describes one."""

    name = reader.NAME
    coverage = Coverage(
        title="K2 (Kinetic)",
        structure="a market is a router contract, its pools the router's reserves, one a token",
        year_seconds=31_536_000,
        supply_yield="the contract's own growth of supply over a year: the rate itself, not compounded",
        borrow_yield="the contract's own growth of debt over a year: three terms of the rate compounded every second",
        supply_compounding="simple",
        borrow_compounding="31536000",
        rates="the rates as stored at the last action, which are charged until the next one",
        totals="scaled totals times the indexes, which are brought to the ledger's close time",
        prices=(
            "the oracle that the router names, all reserves in one call, refused when the oracle refuses it by its own "
            "limit of age for the asset; without that call, when older than the hour of its default"
        ),
        limits="a price of more than a day is refused even where an oracle is set to accept it",
    )

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates; the deployments say which contracts to read along."""
        return await reader.read_markets(view, candidates, deployments)

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
        """The published numbers of the reserves at the close time (see `exporter.protocols.k2.table`)."""
        from exporter.protocols.k2.table import project_reserves

        return project_reserves(columns, close_time)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """The oracle's own rule: there is a price, above zero, not too old and not of the future.

        Whether a price is too old the oracle itself has judged where the quote is ``fresh``; then only a day bounds it.
        """
        limit = MAX_FRESH_PRICE_AGE_SECONDS if quote.fresh else MAX_PRICE_AGE_SECONDS
        return price_failure(quote, close_time, limit, future=False)
