"""Peridot: a controller is a market, and its vaults are the pools. The rate model is Compound's.

docs/protocols/peridot.md has more.
"""

from __future__ import annotations

from exporter.protocols.peridot import reader
from exporter.protocols.peridot.getters import GETTERS
from exporter.protocols.peridot.layout import pool_list_key
from exporter.protocols.peridot.math import RATE_MODEL, RULE, project
from exporter.protocols.peridot.movement import moving_pools
from exporter.protocols.protocol import Coverage, Discovery, PriceRule, Protocol, WithoutPrice, Words, not_older_than

MAX_PRICE_AGE = 600
"""A price older than this many seconds is refused.

The controller takes prices of up to twice its oracle's resolution, which is 300 s for Reflector.
"""

WORDS = Words(
    coverage=Coverage(
        title="Peridot",
        structure="a market is a controller contract, and its pools are vault contracts, one for each token",
        year_seconds=31_536_000,
        supply_yield="simple: the annual rate of lending itself, not compounded",
        borrow_yield="simple: the annual rate itself, not compounded",
        supply_compounding="simple",
        borrow_compounding="simple",
        rates=(
            "from the stored utilization: what the contract charges until the next accrual. It follows from the "
            "vault's balance of the token and from boosted cash as the vault's code counts it; a vault of unknown code "
            "is unread if that makes a difference"
        ),
        totals=(
            "brought to the ledger's close time, as the contract would; supplied is cash + borrowed - reserves - "
            "admin fees, which is what the receipt tokens are worth"
        ),
        prices=(
            "the controller's SEP-40 oracle, by the symbol the controller keeps for a token; refused if not above "
            "zero, or older than 600 s; the controller's own fallback prices are not used"
        ),
        limits=(
            "what cash that is boosted in DeFindex or Aquarius earns there, and rewards, are not in the yields; what "
            "DeFindex deposits in a Blend market is counted there, too. A vault whose contract refuses "
            "every operation, because its receipt tokens have no value, is unread"
        ),
    ),
    market_statuses={
        "active": "nothing is paused",
        "partly_paused": "something is paused in some vault",
        "paused": "depositing and borrowing are paused in every vault",
    },
    pool_statuses={
        "active": "nothing is paused in the vault",
        "partly_paused": "something is paused in the vault",
        "paused": "depositing and borrowing are paused in the vault",
    },
    parameters={
        "base_rate": "borrow rate at a utilization of 0",
        "multiplier": "slope of the rate up to the kink",
        "jump_multiplier": "slope of the rate above the kink",
        "kink": "utilization from which the rate rises faster",
        "reserve_factor": "share of the interest that goes to the reserves",
        "liquidation_incentive": "what a liquidator gets for a debt of 1",
        "boosted": "whether cash is deposited elsewhere: 1 is yes",
    },
)

PRICES = PriceRule(
    failure=not_older_than(MAX_PRICE_AGE, takes_future=True),
    without_price=WithoutPrice(
        {"can_borrow": None, "can_liquidate": None},
        "whether the controller has a cached or a fallback price is not read",
    ),
)

PERIDOT = Protocol(
    name=reader.NAME,
    words=WORDS,
    read=reader.read_markets,
    project=project,
    prices=PRICES,
    rate_model=RATE_MODEL,
    discovery=Discovery(
        storage_names=frozenset({"MarketCF", "Oracle", "SupportedMarkets"}), pool_list_key=pool_list_key
    ),
    accrual=RULE,
    getters=GETTERS,
    moving_pools=moving_pools,
    no_positions="a position is spread over the vaults, each a contract of its own",
)
