"""Slender: a pool contract is a market, and its reserves are the pools. It has been dormant since ledger 60,749,975."""

from __future__ import annotations

from exporter.protocols.protocol import Coverage, Discovery, PriceRule, Protocol, WithoutPrice, Words, not_older_than
from exporter.protocols.slender import reader
from exporter.protocols.slender.getters import GETTERS
from exporter.protocols.slender.layout import VERSION, WASM_HASH
from exporter.protocols.slender.math import ACCRUAL, project
from exporter.protocols.slender.movement import moving_pools

MAX_PRICE_AGE = 86_400
"""A price older than this many seconds is refused, however long the pool's own limit is."""

WORDS = Words(
    coverage=Coverage(
        title="Slender",
        structure="a market is a pool contract, and its pools are the contract's reserves, one for each token",
        year_seconds=31_557_600,
        supply_yield="simple: the lenders' stored rate on the lent share of what they own, not compounded",
        borrow_yield="simple: the stored annual rate, not compounded",
        supply_compounding="simple",
        borrow_compounding="simple",
        rates="as stored at the last operation: what the contract's own coefficients grow by until the next one",
        totals="brought to the ledger's close time by the contract's own coefficients, in whole windows of time",
        prices=(
            "the last price of the reserve's first feed, taken as US dollars; refused if not above zero, later than "
            "the ledger, or older than the pool's own limit for the feed; the contract itself weighs several records "
            "by time and takes the median of its feeds, in its base asset"
        ),
    ),
    market_statuses={"active": "the pool is open", "paused": "the pool is paused, so nothing can be done with it"},
    pool_statuses={
        "active": "the reserve is open",
        "borrowing_disabled": "nothing can be borrowed from the reserve",
        "grace": "a pause has just ended; until the grace period is over, one can only supply and repay",
        "inactive": "the reserve is switched off, so nothing can be done with it",
    },
    parameters={
        "liquidity_cap": "most that may be supplied",
        "util_cap": "utilization that no loan may exceed",
        "discount": "share of the value that counts as collateral",
    },
)

PRICES = PriceRule(
    failure=not_older_than(MAX_PRICE_AGE),
    without_price=WithoutPrice(
        {"can_borrow": None, "can_liquidate": None}, "the contract asks other feeds, too, which are not read"
    ),
)

SLENDER = Protocol(
    name=reader.NAME,
    words=WORDS,
    read=reader.read_markets,
    project=project,
    prices=PRICES,
    discovery=Discovery(
        market_code={WASM_HASH: VERSION},
        storage_names=frozenset({"PoolConfig", "ReserveAssetKey", "Reserves"}),
    ),
    accrual=ACCRUAL,
    getters=GETTERS,
    moving_pools=moving_pools,
    no_positions="a position is the balances of two tokens for each reserve, which the pool keeps",
)
