"""Alula: one pool a token, all state of a pool in one entry, stored state and no accrual.

What is published is what the contract's own view gives: its yields come from the utilization rounded up and from the
stored rate modifier, and its totals are those of the last accrual (facts/alula.md 3 and 4). The published
utilization is rounded down, as in Alula's own service (6.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from exporter.ledger.oracles import Quote
from exporter.ledger.view import LedgerView
from exporter.networks import Deployment
from exporter.protocols.alula import reader
from exporter.protocols.base import Candidate, ProtocolReading

if TYPE_CHECKING:
    import polars as pl

MAX_PRICE_AGE_SECONDS = 360
"""A price older than this is refused; one of exactly this age is good (facts/alula.md 5)."""


class Alula:
    """The Alula module, as `exporter.protocols.base.ProtocolModule` describes one."""

    name = reader.NAME

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """None: of the deployed code's hash only the two ends are published, 76e60d02…78b6 (facts/alula.md)."""
        return {}

    async def read(
        self,
        view: LedgerView,
        candidates: Sequence[Candidate],
        deployments: Sequence[Deployment],  # noqa: ARG002 - their markets are candidates, and they list no others
    ) -> ProtocolReading:
        """Read the candidates; a market manager does not list its markets."""
        return await reader.read_markets(view, candidates)

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:  # noqa: ARG002
        """The published numbers of the pools as they are stored (see `exporter.protocols.alula.table`)."""
        from exporter.protocols.alula.table import project_pools

        return project_pools(columns)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """The contract's own rule, in its order: there is a price, above zero, not too old and not of the future."""
        if quote.price is None or quote.timestamp is None:
            return quote.failure or "the oracle gave no price"
        if quote.price <= 0:
            return f"the price is {quote.price}, not above zero"
        age = close_time - quote.timestamp
        if age > MAX_PRICE_AGE_SECONDS:
            return f"the price is {age} s old, more than {MAX_PRICE_AGE_SECONDS} s"
        if age < 0:
            return f"the price is of {-age} s after the ledger"
        return None
