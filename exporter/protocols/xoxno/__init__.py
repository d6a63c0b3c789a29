"""XOXNO Lending: one pool contract for all tokens, parted into hubs; a pool is a token in a hub.

What is published (docs/protocols/xoxno.md, docs/adr/0014-xoxno.md): totals and indexes accrued to the ledger's close
time, to the last digit as the contract would; rates of the stored state, which are those it charges until its next
operation. The market is the controller, the contract that users call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import polars as pl

from exporter.deployments import Deployment
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.oracles import Quote
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Coverage, ProtocolModule, ProtocolReading
from exporter.protocols.xoxno import events, prices, reader
from exporter.protocols.xoxno.math import project_pools
from exporter.protocols.xoxno.views import XoxnoViews


class Xoxno(ProtocolModule):
    """XOXNO Lending."""

    name = reader.PROTOCOL
    coverage = Coverage(
        title="XOXNO Lending",
        structure="a market is a controller, its pools one for each hub and token: a token in two hubs has two pools",
        year_seconds=31_556_926,
        supply_yield="the annual rate compounded 365 times, a day's part of it each time, as XOXNO's own API shows it",
        borrow_yield="the annual rate compounded 365 times, a day's part of it each time, as XOXNO's own API shows it",
        supply_compounding="365",
        borrow_compounding="365",
        rates="the stored utilization: what the contract charges until the next operation, and what its own views give",
        totals="brought to the ledger's close time, as the contract would; the protocol's own revenue is in them",
        prices="the price aggregator that the controller names; refused when it says not valid, or by its limit of age",
        limits="a pool that no list has is found by its events only; limits belong to spokes, and a pool sums them up",
    )
    statuses: ClassVar = {
        "active": "the controller is open",
        "paused": "the controller is paused: one can withdraw, repay and liquidate, and open nothing new",
    }
    pool_statuses: ClassVar = {
        "active": "the hub is active and a spoke lists the token",
        "hub_inactive": "the hub is switched off: one can withdraw, repay and liquidate, and open nothing new",
        "insolvent": "what suppliers are owed is more than cash and debt: nobody can supply",
        "unlisted": "no spoke lists the token: nothing new can be opened",
    }
    views = XoxnoViews()

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """None: of the deployed code's hash only the two ends are published, 52ed959d…fd9b."""
        return {}

    def event_filters(self, deployments: Sequence[Deployment]) -> Sequence[EventFilter]:
        """The controller's creations, and the pool contract's updates of parameters and states."""
        return events.event_filters(deployments)

    def candidates_in(self, event: ContractEvent) -> Sequence[Candidate]:
        """The pools that an event names and no list of the package has. Raises `DecodeError`."""
        return events.candidates_in(event)

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates, with the pools that deployments and candidates name: the chain lists none."""
        return await reader.read_markets(view, candidates, deployments)

    def project(self, columns: Mapping[str, list[object]]) -> pl.DataFrame:
        return project_pools(columns)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """The aggregator's own verdict, then its limit of age for the token (see `exporter.protocols.xoxno.prices`)."""
        return prices.price_failure(quote, close_time)
