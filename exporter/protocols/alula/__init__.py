"""Alula: one pool a token, all state of a pool in one entry, stored state and no accrual.

What is published is what the contract's own view gives: its yields come from the utilization rounded up and from the
stored rate modifier, and its totals are those of the last accrual (docs/protocols/alula.md, "Views"). The published
utilization is rounded down, as in Alula's own service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exporter.deployments import Deployment
from exporter.ledger.oracles import Quote
from exporter.ledger.view import LedgerView
from exporter.protocols.alula import reader
from exporter.protocols.base import Candidate, Coverage, NotAnnounced, ProtocolReading
from exporter.protocols.price_age import price_failure

if TYPE_CHECKING:
    import polars as pl

MAX_PRICE_AGE_SECONDS = 360
"""A price older than this is refused; one of exactly this age is good (docs/protocols/alula.md, "Prices")."""


class Alula(NotAnnounced):
    """The Alula module, as `exporter.protocols.base.ProtocolModule` describes one."""

    name = reader.NAME
    coverage = Coverage(
        title="Alula",
        structure="a market is a contract, its pools one a token",
        year_seconds=31_556_926,
        supply_yield="the contract's own: the rate compounded every second",
        borrow_yield="the contract's own: the rate compounded every second",
        supply_compounding="31556926",
        borrow_compounding="31556926",
        rates="the stored utilization and rate modifier, as the contract's get_apy",
        totals="as stored at the last accrual; plain collateral is apart from what is supplied",
        prices=(
            "the market's own SEP-40 oracle; refused when not above zero, older than 360 s, or later than the ledger"
        ),
    )

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates; a market manager does not list its markets, and deployments only tell known code."""
        return await reader.read_markets(view, candidates, deployments)

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:  # noqa: ARG002
        """The published numbers of the pools as they are stored (see `exporter.protocols.alula.math`)."""
        from exporter.protocols.alula.math import project_pools

        return project_pools(columns)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """The contract's own rule, in its order: there is a price, above zero, not too old and not of the future."""
        return price_failure(quote, close_time, MAX_PRICE_AGE_SECONDS, future=False)
