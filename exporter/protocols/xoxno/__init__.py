"""XOXNO Lending: a market is a controller, a pool a token in a hub of its pool contract (docs/protocols/xoxno.md)."""

from __future__ import annotations

from typing import ClassVar

from exporter.ledger.observation import Entry
from exporter.protocols.base import Coverage, ProtocolModule, WithoutPrice
from exporter.protocols.xoxno import layout, oracle_rule, prices, reader
from exporter.protocols.xoxno.math import ACCRUAL, RATE_MODEL, project
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
    without_price = WithoutPrice({"can_borrow": False, "can_liquidate": False})
    views = XoxnoViews()
    accrual = ACCRUAL
    storage_rules = (oracle_rule,)
    market_names = frozenset({"PositionLimits", "PriceAggregator", "SpokeAsset"})
    read = staticmethod(reader.read_markets)
    project = staticmethod(project)
    pool_in = staticmethod(layout.pool_in)
    rate_model = RATE_MODEL
    event_filters = staticmethod(reader.event_filters)
    candidates_in = staticmethod(reader.candidates_in)
    price_failure = staticmethod(prices.price_failure)

    def pools_kept_by(self, instance: Entry) -> str | None:
        """The pool contract, under whose entries alone the hub markets can be found."""
        return layout.decode_controller(instance).pool
