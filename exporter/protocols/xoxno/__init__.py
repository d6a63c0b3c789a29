"""XOXNO Lending: a market is a controller, and a pool is a token in a hub of its pool contract.

docs/protocols/xoxno.md has more.
"""

from __future__ import annotations

from exporter.protocols.protocol import (
    Coverage,
    Discovery,
    MarketEvents,
    OracleForm,
    PoolEntries,
    PriceRule,
    Protocol,
    WithoutPrice,
    Words,
)
from exporter.protocols.xoxno import layout, oracle_rule, prices, reader
from exporter.protocols.xoxno.getters import GETTERS
from exporter.protocols.xoxno.math import ACCRUAL, RATE_MODEL, project
from exporter.protocols.xoxno.movement import moving_pools

WORDS = Words(
    coverage=Coverage(
        title="XOXNO Lending",
        structure="a market is a controller, with a pool for each hub and token: a token in two hubs has two pools",
        year_seconds=31_556_926,
        supply_yield="the annual rate compounded 365 times, a day's part of it each time, as XOXNO's own API shows it",
        borrow_yield="the annual rate compounded 365 times, a day's part of it each time, as XOXNO's own API shows it",
        supply_compounding="365",
        borrow_compounding="365",
        rates="from the stored utilization: what the contract charges until the next operation, and its views give",
        totals="brought to the ledger's close time, as the contract would; the protocol's own revenue is in them",
        prices="the price aggregator that the controller names; refused if it says not valid, or by its limit of age",
        limits="a pool that no list has is found only by its events; limits belong to spokes, and a pool has their sum",
    ),
    market_statuses={
        "active": "the controller is open",
        "paused": "the controller is paused; one can withdraw, repay and liquidate, and open nothing new",
    },
    pool_statuses={
        "active": "the hub is active and a spoke lists the token",
        "hub_inactive": "the hub is switched off; one can withdraw, repay and liquidate, and open nothing new",
        "insolvent": "what suppliers are owed is more than cash and debt, so nobody can supply",
        "unlisted": "no spoke lists the token, so nothing new can be opened",
    },
    parameters={
        "hub_id": "hub that the pool belongs to",
        "base_borrow_rate": "borrow rate at a utilization of 0",
        "max_borrow_rate": "highest borrow rate",
        "mid_utilization": "utilization at the first bend",
        "optimal_utilization": "utilization at the second bend",
        "slope1": "rate added up to the first bend",
        "slope2": "rate added from the first bend to the second",
        "slope3": "rate added from the second bend to 100 %",
        "max_utilization": "utilization that no borrower may exceed",
    },
)

PRICES = PriceRule(
    failure=prices.price_failure,
    without_price=WithoutPrice({"can_borrow": False, "can_liquidate": False}),
)

XOXNO = Protocol(
    name=reader.PROTOCOL,
    words=WORDS,
    read=reader.read_markets,
    project=project,
    prices=PRICES,
    rate_model=RATE_MODEL,
    discovery=Discovery(
        storage_names=frozenset({"PositionLimits", "PriceAggregator", "SpokeAsset"}),
        events=MarketEvents(filters=reader.event_filters, candidates=reader.candidates_in),
        pool_entries=PoolEntries(contract=layout.pool_contract, pool=layout.pool_in),
    ),
    accrual=ACCRUAL,
    getters=GETTERS,
    storage_rules=(oracle_rule,),
    oracle_forms=(OracleForm(names=frozenset({"OracleKeys"}), token_key=layout.oracle_key),),
    moving_pools=moving_pools,
    no_positions="an account has an entry for each hub market that it uses, with the factors of the day it was opened",
)
