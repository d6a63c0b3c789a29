"""Alula: a market is a contract, and each of its pools has one token and keeps all its state in one entry.

The published numbers are those of the contract's own getter, which adds no interest: yields follow from the
utilization, rounded up, and from the stored rate modifier; totals are those of the last accrual
(docs/protocols/alula.md, "Getters").
The published utilization is rounded down, as in Alula's own service.
"""

from __future__ import annotations

from exporter.protocols.alula import reader
from exporter.protocols.alula.getters import GETTERS
from exporter.protocols.alula.layout import FROZEN, NAME
from exporter.protocols.alula.math import POOL_STATUSES, RATE_MODEL, RULE, project
from exporter.protocols.alula.movement import moving_pools
from exporter.protocols.protocol import Coverage, Discovery, PriceRule, Protocol, WithoutPrice, Words, not_older_than

MAX_PRICE_AGE = 360
"""The contract refuses a price that is more than this many seconds old (docs/protocols/alula.md, "Prices")."""

WORDS = Words(
    coverage=Coverage(
        title="Alula",
        structure="a market is a contract, with a pool for each token",
        year_seconds=31_556_926,
        supply_yield="the contract's own: the rate compounded every second",
        borrow_yield="the contract's own: the rate compounded every second",
        supply_compounding="31556926",
        borrow_compounding="31556926",
        rates="from the stored utilization and rate modifier, as in the contract's get_apy",
        totals="as stored at the last accrual; plain collateral is not in what is supplied",
        prices=(
            "the market's own SEP-40 oracle; refused if not above zero, older than 360 s, or later than the ledger"
        ),
    ),
    market_statuses={
        "active": "everything is open",
        "borrow_frozen": "no borrowing, by the market's owner",
        "borrow_frozen_by_admin": "no borrowing, by the admin",
        "deposit_frozen": "no depositing or borrowing, by the market's owner",
        "deposit_frozen_by_admin": "no depositing or borrowing, by the admin",
        FROZEN: "nothing can be opened; a market begins like this",
        "frozen_by_admin": "nothing can be opened, by the admin",
    },
    pool_statuses=POOL_STATUSES,
    parameters={
        "base_apr_bps": "borrow rate at a utilization of 0",
        "kink1_apr_bps": "borrow rate at the first bend",
        "kink1_ur_bps": "utilization at the first bend",
        "kink2_apr_bps": "borrow rate at the second bend",
        "kink2_ur_bps": "utilization at the second bend",
        "max_apr_bps": "borrow rate at a utilization of 100 %",
        "take_rate_bps": "share of the interest that suppliers do not get",
        "target_utilization_ratio_bps": "utilization that the contract aims at",
        "ir_reactivity_constant": "how fast the rate modifier moves",
        "open_ltv_bps": "share of the collateral that counts for a new debt",
        "close_ltv_bps": "share of the collateral that counts against liquidation",
        "liability_factor_bps": "what the value of a debt is multiplied by",
        "utilization_ratio_limit_bps": "utilization that no borrower may exceed",
        "max_liquidation_incentive_bps": "most that a liquidator gets on top of a debt",
        "flags": "which operations are open, as bits",
    },
)

PRICES = PriceRule(
    failure=not_older_than(MAX_PRICE_AGE),
    without_price=WithoutPrice({"can_borrow": False, "can_liquidate": False}),
)

ALULA = Protocol(
    name=NAME,
    words=WORDS,
    read=reader.read_markets,
    project=project,
    prices=PRICES,
    rate_model=RATE_MODEL,
    discovery=Discovery(storage_names=frozenset({"AllPools", "MarketStatus", "Oracle"})),
    accrual=RULE,
    getters=GETTERS,
    moving_pools=moving_pools,
    no_positions="what an account owes and holds is an entry whose form this version does not read",
)
