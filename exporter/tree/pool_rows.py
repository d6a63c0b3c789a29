"""The rows of pools in lists. ``python -m tools.pool_rows`` writes this module from `exporter/tree/pools.py`.

Each field repeats one of a class there, or of `exporter.tree.pool_periods.RecentMeans`: change it there.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.columns import derived, optional, required
from exporter.tree.pools import PoolOfMarket
from exporter.tree.values import (
    Amount,
    BasisPoints,
    ContractAddress,
    LiquidationKind,
    PoolId,
    Price,
    RewardReasonName,
    RiskScope,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Words,
    doc,
)


class MarketPool(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool snapshot inside its market. It lacks `market` and `observed_ledger`, which the market's document has."""

    pool: Annotated[
        PoolId, required(2, "pool id inside the market; the token's address if the market has one pool for each token")
    ]
    token_address: Annotated[ContractAddress, required(3, "token contract, a strkey")]
    symbol: Annotated[TokenSymbol, derived(4, "token symbol as the token contract gives it")]
    decimals: Annotated[TokenDecimals, required(5, "decimals of the token: 10^decimals base units are one token")]
    supply_apy_bps: Annotated[
        BasisPoints,
        required(
            10,
            "annual yield of suppliers, compounded or simple as the protocol does it, floor to basis points; to "
            "compare protocols take comparable_supply_apy_bps",
        ),
    ]
    borrow_apy_bps: Annotated[
        BasisPoints,
        required(
            11,
            "annual cost of borrowers, compounded or simple as the protocol does it, floor to basis points; to compare "
            "protocols take comparable_borrow_apy_bps",
        ),
    ]
    utilization_bps: Annotated[
        BasisPoints, required(12, "floor(total_borrowed * 10000 / total_supplied); 0 when nothing is supplied")
    ]
    total_supplied: Annotated[Amount, required(13, "amount lent into the pool, interest included, in token base units")]
    total_borrowed: Annotated[Amount, required(14, "amount owed to the pool, interest included, in token base units")]
    oracle_price_usd: Annotated[
        Price | None,
        derived(
            21,
            "price of one whole token in USD by the market's own oracle, with all of its decimals; null without a "
            "valid price",
        ),
    ]
    tvl_usd_cents: Annotated[
        UsdCents | None,
        derived(22, "floor((total_supplied + total_collateral) * price * 100) in US cents; null without a valid price"),
    ]


class PoolRow(PoolOfMarket, frozen=True, forbid_unknown_fields=True):
    """One pool in one flat row: the snapshot, then what is needed to compare it with other pools.

    Each field has the meaning that it has in `/v1/assets/{market}/{pool}`, in its `operations`, `liquidity`, `risk`,
    `rewards` and `periods`. The means are those of the last 7 and 30 days.
    """

    pool_status: Annotated[
        Words | None, optional(47, "the pool's own status in the protocol's own words; null when it has none")
    ]
    can_supply: Annotated[
        bool | None, optional(41, "whether the contract lets anybody supply; a cap may still leave no room")
    ]
    can_withdraw: Annotated[bool | None, optional(42, "whether the contract lets anybody withdraw")]
    can_borrow: Annotated[bool | None, optional(43, "whether the contract lets anybody borrow")]
    can_repay: Annotated[bool | None, optional(44, "whether the contract lets anybody repay")]
    can_liquidate: Annotated[
        bool | None,
        optional(45, "whether the contract lets anybody liquidate debt of this pool"),
    ]
    can_reason: Annotated[
        Words | None,
        optional(
            46,
            "why one of the five operations is not known, or is closed because there is no price; null if none is",
        ),
    ]
    archived: Annotated[
        bool,
        derived(
            99,
            "whether an entry from which the numbers follow is archived: it was not used or extended for a long time, "
            "and the next call that needs it restores it",
        ),
    ]
    available_to_withdraw: Annotated[
        Amount | None,
        optional(
            48, "most that the pool can pay out to its suppliers, in token base units; 0 when can_withdraw is false"
        ),
    ]
    available_to_borrow: Annotated[
        Amount | None, optional(49, "most that can be borrowed, in token base units; 0 when can_borrow is false")
    ]
    available_to_supply: Annotated[
        Amount | None,
        optional(50, "most that the cap lets in, in token base units; 0 when can_supply is false; null without a cap"),
    ]
    min_first_supply: Annotated[
        Amount | None,
        optional(51, "smallest first supply of an account, in token base units; null without a minimum"),
    ]
    shortfall: Annotated[
        Amount | None,
        optional(
            100,
            "how much more suppliers are owed than the pool has in tokens and loans, in token base units; above 0 the "
            "pool is insolvent; 0 if rounding explains it; null when the pool's tokens are not counted",
        ),
    ]
    supplied_usd_cents: Annotated[
        UsdCents | None, derived(64, "floor(total_supplied * price * 100); null without a valid price")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, derived(65, "floor(total_borrowed * price * 100); null without a valid price")
    ]
    available_usd_cents: Annotated[
        UsdCents | None, derived(66, "floor(available_to_withdraw * price * 100); null without a valid price")
    ]
    available_to_supply_usd_cents: Annotated[
        UsdCents | None,
        derived(89, "floor(available_to_supply * price * 100); null without a cap or a valid price"),
    ]
    available_to_borrow_usd_cents: Annotated[
        UsdCents | None, derived(90, "floor(available_to_borrow * price * 100); null without a valid price")
    ]
    risk_scope: Annotated[
        RiskScope | None,
        optional(52, "what the factors and caps apply to: market, reserve or spoke; null when they are unknown"),
    ]
    collateral_factor_bps: Annotated[
        BasisPoints | None, optional(53, "share of the value of collateral that counts when a debt is opened")
    ]
    liquidation_threshold_bps: Annotated[
        BasisPoints | None, optional(54, "share of the value of collateral that counts against liquidation")
    ]
    liability_factor_bps: Annotated[
        BasisPoints | None,
        optional(
            55,
            "factor on the value of a debt, rounded up; 10000 leaves the value as it is; null when not set or unknown",
        ),
    ]
    liquidation_bonus_bps: Annotated[
        BasisPoints | None, optional(56, "what a liquidator gets above the debt; null when it is not fixed")
    ]
    liquidation_kind: Annotated[
        LiquidationKind | None, optional(57, "how the bonus is set: fixed, range, auction or dynamic")
    ]
    supply_cap: Annotated[
        Amount | None, optional(58, "most that may be supplied, in token base units; null is no cap, 0 is closed")
    ]
    borrow_cap: Annotated[
        Amount | None, optional(59, "most that may be borrowed, in token base units; null is no cap, 0 is closed")
    ]
    supply_cap_usd_cents: Annotated[
        UsdCents | None, derived(92, "floor(supply_cap * price * 100); null without a cap or a valid price")
    ]
    borrow_cap_usd_cents: Annotated[
        UsdCents | None, derived(93, "floor(borrow_cap * price * 100); null without a cap or a valid price")
    ]
    max_utilization_bps: Annotated[
        BasisPoints | None, optional(60, "highest utilization that borrowing may lead to; null without a limit")
    ]
    reserve_factor_bps: Annotated[
        BasisPoints | None, optional(61, "share of the borrowers' interest that suppliers do not get")
    ]
    can_be_collateral: Annotated[
        bool | None, optional(62, "whether the pool's configuration lets its supply secure a debt")
    ]
    can_be_borrowed: Annotated[bool | None, optional(63, "whether the pool's configuration lets it be borrowed")]
    reward_token: Annotated[
        ContractAddress | None, optional(67, "token contract of the reward, a strkey; null without one")
    ]
    reward_symbol: Annotated[
        TokenSymbol | None,
        derived(68, "symbol of the reward token as its contract gives it; null without a reward token"),
    ]
    reward_token_decimals: Annotated[
        TokenDecimals | None, derived(69, "decimals of the reward token; null without a reward token")
    ]
    supply_reward_per_year: Annotated[
        Amount | None,
        derived(
            73, "paid per year to all suppliers together, floor to base units of the reward token; null when unknown"
        ),
    ]
    supply_reward_expiration: Annotated[
        Timestamp | None, optional(75, "when the suppliers' reward ends; null without an end")
    ]
    supply_reward_apr_bps: Annotated[
        BasisPoints | None,
        derived(
            77,
            "annual yield of the suppliers' reward, not compounded and not part of another rate, floor to basis "
            "points; null when supply_reward_reason says why",
        ),
    ]
    supply_reward_reason: Annotated[
        RewardReasonName, optional(79, "valid, or why the suppliers' reward is 0 or its yield null")
    ]
    borrow_reward_per_year: Annotated[
        Amount | None,
        derived(
            74, "paid per year to all borrowers together, floor to base units of the reward token; null when unknown"
        ),
    ]
    borrow_reward_expiration: Annotated[
        Timestamp | None, optional(76, "when the borrowers' reward ends; null without an end")
    ]
    borrow_reward_apr_bps: Annotated[
        BasisPoints | None,
        derived(
            78,
            "annual yield of the borrowers' reward, which borrowers get, floor to basis points; null when "
            "borrow_reward_reason says why",
        ),
    ]
    borrow_reward_reason: Annotated[
        RewardReasonName, optional(80, "valid, or why the borrowers' reward is 0 or its yield null")
    ]
    mean_supply_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 7 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps_7d`; null while the history is too short."
        ),
    ]
    mean_supply_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 30 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps_30d`; null while the history is too short."
        ),
    ]
    mean_borrow_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 7 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps_7d`; null while the history is too short."
        ),
    ]
    mean_borrow_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 30 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps_30d`; null while the history is too short."
        ),
    ]
    mean_comparable_supply_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 7 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_supply_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 30 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_borrow_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 7 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_borrow_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 30 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
