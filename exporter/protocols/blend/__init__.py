"""Blend, contract generations v1 and v2. Each reserve of a Blend pool is a pool here.

What people call v2.1 is the v2 contract, deployed again.
"""

from __future__ import annotations

from exporter.ledger.oracles import asset_config_key
from exporter.protocols.blend import aggregator_rule, reader, records
from exporter.protocols.blend.getters import GETTERS
from exporter.protocols.blend.layout import GENERATIONS, SETUP
from exporter.protocols.blend.liquidations import liquidations_in
from exporter.protocols.blend.math import ACCRUAL, RATE_MODEL, project
from exporter.protocols.blend.movement import moving_pools
from exporter.protocols.blend.positions import POSITION_RULES
from exporter.protocols.protocol import (
    Coverage,
    Discovery,
    MarketEvents,
    OracleForm,
    PriceRule,
    Protocol,
    WithoutPrice,
    Words,
    not_older_than,
)

MAX_PRICE_AGE = 86_400
"""The contract refuses a price that is more than this many seconds old."""

WORDS = Words(
    coverage=Coverage(
        title="Blend",
        structure="a market is a pool contract, and its pools are the contract's reserves, one for each token",
        year_seconds=31_536_000,
        supply_yield="the annual rate compounded 52 times, as Blend's own site shows it",
        borrow_yield="the annual rate compounded 365 times, as Blend's own site shows it",
        supply_compounding="52",
        borrow_compounding="365",
        rates="from the stored utilization and rate modifier: what the contract charges until the next operation",
        totals="brought to the ledger's close time, as the contract would compute them",
        prices="the market's own SEP-40 oracle; refused if not above zero, or older than a day",
        limits="emissions of BLND are not in the yields; they are under rewards",
    ),
    market_statuses={
        "admin_active": "everything is open, by the admin",
        "active": "everything is open",
        "admin_on_ice": "no borrowing, by the admin",
        "on_ice": "no borrowing, because too little is in the backstop or too much of it is queued",
        "admin_frozen": "no borrowing or supplying, by the admin",
        "frozen": "no borrowing or supplying, because too little is in the backstop or too much of it is queued",
        SETUP: "just deployed; nothing is open, and reserves are added without the week's delay",
    },
    pool_statuses={
        "enabled": "the reserve is open, as far as its market is",
        "disabled": "no borrowing or supplying of this reserve, by the admin",
    },
    reward_price_sources={"comet_spot": "by the Comet pool {contract} in USDC, and USDC's price by {oracle}"},
    defillama_projects={"v1": "blend-pools", "v2": "blend-pools-v2", "v2.1": "blend-pools-v2"},
    parameters={
        "util": "utilization that the contract aims at",
        "r_base": "borrow rate at a utilization of 0",
        "r_one": "rate added up to the utilization util",
        "r_two": "rate added from util to 95 %",
        "r_three": "rate added from 95 to 100 %",
        "reactivity": "how fast the rate modifier moves",
        "max_util": "utilization that no borrower may exceed",
        "c_factor": "collateral factor",
        "l_factor": "what the value of a debt is divided by",
        "enabled": "whether the pool is open: 1 is yes",
        "bstop_rate": "the backstop's share of the interest",
        "max_positions": "most positions of an account",
    },
)

PRICES = PriceRule(
    failure=not_older_than(MAX_PRICE_AGE, takes_future=True),
    without_price=WithoutPrice({"can_borrow": False, "can_liquidate": False}),
)

AGGREGATOR = OracleForm(names=frozenset({"Base", "Decimals", "MaxAge"}), sources=("Oracles",))
ORACLE_OF_2024 = OracleForm(names=frozenset({"IsInit"}), token_key=asset_config_key, is_read_late=True)

BLEND = Protocol(
    name=reader.NAME,
    words=WORDS,
    read=reader.read_pools,
    project=project,
    prices=PRICES,
    rate_model=RATE_MODEL,
    discovery=Discovery(
        market_code=GENERATIONS,
        storage_names=frozenset({"BLNDTkn", "Backstop", "Config", "bstop_rate", "oracle"}),
        events=MarketEvents(filters=records.event_filters, candidates=records.candidates_in),
        complete=records.with_factories,
        recorded_market=records.recorded_pool,
    ),
    accrual=ACCRUAL,
    getters=GETTERS,
    liquidations=liquidations_in,
    storage_rules=(aggregator_rule,),
    oracle_forms=(AGGREGATOR, ORACLE_OF_2024),
    positions=POSITION_RULES,
    moving_pools=moving_pools,
)
