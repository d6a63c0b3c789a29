"""K2 (Kinetic): one router with a list of reserves, rates that stay between actions, indexes that grow by them.

The published yields are those of the stored rates, which is what is charged now; totals and indexes are brought to
the ledger's close time (docs/protocols/k2.md).
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

MAX_PRICE_AGE_SECONDS = 86_400
"""The longest limit that a router can be set to; its own, which is in the reading, is an hour unless it is set."""


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
            "the oracle that the router names, all reserves in one call; refused by the oracle, when zero or of after "
            "the ledger, or when older than the router's own limit: the asset's, else that for all, else an hour"
        ),
    )

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates; the deployments say which contracts to read along."""
        return await reader.read_markets(view, candidates, deployments)

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
        """The published numbers of the reserves at the close time (see `exporter.protocols.k2.math`)."""
        from exporter.protocols.k2.math import project_reserves

        return project_reserves(columns, close_time)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """There is a price, above zero, not of the future, and no older than any router takes it."""
        return price_failure(quote, close_time, MAX_PRICE_AGE_SECONDS, future=False)
