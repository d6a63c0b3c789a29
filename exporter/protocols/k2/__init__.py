"""K2 (Kinetic): a router has a list of reserves. Rates stay the same between actions, and indexes grow by them."""

from __future__ import annotations

from exporter.ledger.oracles import asset_config_key
from exporter.protocols.k2 import oracle_rule, reader
from exporter.protocols.k2.getters import GETTERS
from exporter.protocols.k2.math import ACCRUAL, RATE_MODEL, project
from exporter.protocols.k2.movement import moving_pools
from exporter.protocols.protocol import (
    Coverage,
    Discovery,
    OracleForm,
    PriceRule,
    Protocol,
    WithoutPrice,
    Words,
    not_older_than,
)

MAX_PRICE_AGE = 86_400
"""The longest price age, in seconds, to which a router can be set. A router that sets none takes prices of an hour."""

WORDS = Words(
    coverage=Coverage(
        title="K2 (Kinetic)",
        structure="a market is a router contract, and its pools are the router's reserves, one for each token",
        year_seconds=31_536_000,
        supply_yield="what supply grows by in a year in the contract: the rate itself, not compounded",
        borrow_yield="what debt grows by in a year in the contract: three terms of the rate compounded every second",
        supply_compounding="simple",
        borrow_compounding="31536000",
        rates="as stored at the last operation: what the contract charges until the next one",
        totals="scaled totals times the indexes, which are brought to the ledger's close time",
        prices=(
            "the oracle that the router names; refused if the oracle refuses it, if it is zero, later than the ledger, "
            "or older than the router's limit for the token or, without one, for all tokens or, without one, an hour"
        ),
    ),
    market_statuses={
        "active": "the router is open",
        "paused": "the router is paused, so nothing can be done with any reserve",
    },
    pool_statuses={
        "active": "the reserve is open",
        "borrowing_disabled": "nothing can be borrowed from the reserve",
        "frozen": "one can withdraw from the reserve, repay and liquidate, and open nothing new",
        "inactive": "the reserve is switched off, so nothing can be done with it",
        "paused": "the reserve is paused, so nothing can be done with it",
    },
    parameters={
        "base_variable_borrow_rate": "borrow rate at a utilization of 0",
        "optimal_utilization_rate": "utilization from which the rate rises faster",
        "variable_rate_slope1": "rate added up to the optimal utilization",
        "variable_rate_slope2": "rate added from the optimal utilization to 100 %",
        "ltv": "share of the collateral that counts for a new debt",
        "min_remaining_debt": "smallest debt that may remain",
    },
)

PRICES = PriceRule(
    failure=not_older_than(MAX_PRICE_AGE),
    without_price=WithoutPrice(
        {"can_supply": None, "can_withdraw": False, "can_borrow": False, "can_liquidate": False},
        "without one an account's first supply is refused, and a further one is not",
    ),
)

K2 = Protocol(
    name=reader.NAME,
    words=WORDS,
    read=reader.read_markets,
    project=project,
    prices=PRICES,
    rate_model=RATE_MODEL,
    discovery=Discovery(storage_names=frozenset({"PADMIN", "RCOUNT", "RLIST"})),
    accrual=ACCRUAL,
    getters=GETTERS,
    storage_rules=(oracle_rule,),
    oracle_forms=(
        OracleForm(
            names=frozenset({"NativeXlmAddress"}),
            sources=("ReflectorContract", "FallbackOracle"),
            token_key=asset_config_key,
        ),
    ),
    moving_pools=moving_pools,
    no_positions="a position is the balances of two tokens for each reserve, each a contract of its own",
)
