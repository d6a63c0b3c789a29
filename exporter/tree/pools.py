"""The published numbers of a pool. Each column of the pools frame is one field here, and nowhere else.

The frames (`exporter.tables`), the Parquet files and their data package (`exporter.history.parquet`), the JSON
documents, their description (`exporter.render.openapi`) and the table in docs/history.md all follow from the fields of
`AssetDetail` and its parts. A field states its name, its type, whether it can be null, and its meaning. Its class says
where documents have it (docs/architecture.md has a table): the fields of `AssetOperations`, `AssetLiquidity`,
`AssetRisk` and `PoolRewards` are also in the rows of ``/v1/pools``. `exporter.tree.pool_rows`, which is generated,
repeats these.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from exporter.tree.columns import derived, optional, required
from exporter.tree.pool_parts import AssetSpoke, PendingChange, RateModelParameter, RatePoint, TokenIdentity
from exporter.tree.pool_periods import AssetPeriod
from exporter.tree.values import (
    AccountAddress,
    Amount,
    BasisPoints,
    Compounding,
    ContractAddress,
    Digest,
    FixedPoint,
    Ledger,
    LiquidationKind,
    ListedReasonName,
    PoolId,
    Price,
    PriceTime,
    ProtocolName,
    RewardReasonName,
    RiskScope,
    Scale,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Words,
    doc,
)


class PoolSnapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """One token's pool in one market at the observed ledger.

    Totals are in base units of the token, and rates are in basis points a year, rounded down. Protocols differ in how
    yields follow from the annual rates (compounded, or simple), and in whether totals are those of the ledger's close
    or of the last action; `/v1/protocols` says it. `oracle_price_usd` is null when the market's oracle has no price
    that is valid under the market's own rules. Then `tvl_usd_cents`, which is floor((total_supplied + plain collateral)
    * price * 100), is null, too.
    """

    market: Annotated[ContractAddress, required(1, "market contract, a strkey; rows ascend by market, then pool")]
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
    observed_ledger: Annotated[Ledger, derived(23, "the ledger at which every value of this row was observed")]


class PoolOfMarket(PoolSnapshot, frozen=True, forbid_unknown_fields=True):
    """The snapshot with its time, its market, and its yields on one basis.

    Protocols compound in different ways: `supply_compounding` and `borrow_compounding` say how `supply_apy_bps` and
    `borrow_apy_bps` follow from the annual rates. To compare pools, take the three yields that are compounded daily.
    """

    ledger_close_time: Annotated[Timestamp, derived(24, "close time of the observed ledger")]
    protocol: Annotated[ProtocolName, required(6, "lending protocol, for example blend")]
    version: Annotated[Words, required(7, "generation of the protocol's contracts, for example v2")]
    market_name: Annotated[Words, required(8, "the market's name as its contract gives it")]
    market_status: Annotated[Words, required(9, "the market's status in the protocol's own words")]
    pool_label: Annotated[
        Words | None,
        optional(
            91, "tells several pools of one token in a market apart, for example Hub 1; null if the token has one pool"
        ),
    ]
    listed: Annotated[
        bool,
        derived(
            97,
            "whether the market is listed: the exporter's lists or the publisher vouch for it. Anybody can create a "
            "market that is not listed",
        ),
    ]
    listed_reason: Annotated[
        ListedReasonName, derived(98, "package_list or configured says who lists the market; not_listed if nobody does")
    ]
    app_url: Annotated[str | None, doc("Where the protocol's own app shows the pool; null if no such app is known.")]
    token_name: Annotated[Words | None, doc("The full name of the pool's token, by its contract; null without a name.")]
    token_issuer: Annotated[
        AccountAddress | None,
        doc("The account that issues the pool's token, a strkey; null if it is not a classic asset."),
    ]
    token_identity: Annotated[
        TokenIdentity | None,
        doc("Who stands behind the pool's token; null if it is not on the list of identified tokens."),
    ]
    supply_compounding: Annotated[
        Compounding, derived(87, "times a year that supply_apy_bps is compounded, such as 365 for daily; or simple")
    ]
    borrow_compounding: Annotated[
        Compounding, derived(88, "times a year that borrow_apy_bps is compounded, such as 365 for daily; or simple")
    ]
    comparable_supply_apy_bps: Annotated[
        BasisPoints, derived(84, "stored_supply_apr compounded daily, alike for every protocol, floor to basis points")
    ]
    comparable_borrow_apy_bps: Annotated[
        BasisPoints, derived(85, "stored_borrow_apr compounded daily, alike for every protocol, floor to basis points")
    ]
    total_supply_apy_bps: Annotated[
        BasisPoints,
        derived(
            86,
            "comparable_supply_apy_bps plus supply_reward_apr_bps; a reward that is null (no price, not funded) adds 0",
        ),
    ]


class AssetPrice(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={
        "price_reason": "validity",
        "oracle_price": "value",
        "oracle_decimals": "decimals",
        "price_timestamp": "time",
    },
):
    """Where `oracle_price_usd` comes from, or why there is none.

    `value` divided by 10^`decimals` is the price of one token in USD, as the contract `oracle` gave it. `time` is the
    time that the oracle gave with it, or null if that is beyond the year 9999. `validity` is `valid`, or says why the
    market itself would refuse to use a price. Then the other three are null.
    """

    oracle: Annotated[ContractAddress | None, required(16, "the market's oracle contract; null when it has none")]
    price_reason: Annotated[Words, derived(20, "valid, or why there is no price")]
    oracle_price: Annotated[
        FixedPoint | None,
        derived(18, "USD for one token, times 10^oracle_decimals; null without a valid price"),
        doc("USD for one token, times 10^`decimals`; null without a valid price."),
    ]
    oracle_decimals: Annotated[
        Scale | None,
        derived(17, "decimals of oracle_price; null without a valid price"),
        doc("Decimals of `value`; null without a valid price."),
    ]
    price_timestamp: Annotated[
        PriceTime | None,
        derived(
            19,
            "time of the price, by the oracle, in unix seconds (in JSON a date and time, null beyond the year 9999); "
            "null without a valid price",
        ),
        doc("Time of the price, by the oracle; null without a valid price, and beyond the year 9999."),
    ]


class AssetRates(Struct, frozen=True, forbid_unknown_fields=True):
    """Annual rates without compounding, and the utilization and modifier from which they follow.

    Rates that begin with `stored` follow from the state that the contract has stored. Those that begin with `accrued`
    follow from the state at the close time of the ledger. The two are equal if the contract's getter adds no interest.
    """

    apr_decimals: Annotated[Scale, required(33, "decimals of the four rates")]
    stored_supply_apr: Annotated[
        FixedPoint, required(29, "annual rate of suppliers, from the stored state, times 10^apr_decimals")
    ]
    stored_borrow_apr: Annotated[
        FixedPoint, required(30, "annual rate of borrowers, from the stored state, times 10^apr_decimals")
    ]
    accrued_supply_apr: Annotated[
        FixedPoint, required(31, "annual rate of suppliers, accrued to ledger_close_time, times 10^apr_decimals")
    ]
    accrued_borrow_apr: Annotated[
        FixedPoint, required(32, "annual rate of borrowers, accrued to ledger_close_time, times 10^apr_decimals")
    ]
    utilization_decimals: Annotated[Scale, required(36, "decimals of the two utilizations")]
    stored_utilization: Annotated[
        FixedPoint,
        required(34, "share of supply that is lent out, from the stored state, times 10^utilization_decimals"),
    ]
    accrued_utilization: Annotated[
        FixedPoint,
        required(35, "share of supply that is lent out, accrued to ledger_close_time, times 10^utilization_decimals"),
    ]
    rate_modifier_decimals: Annotated[Scale, required(38, "decimals of rate_modifier")]
    rate_modifier: Annotated[
        FixedPoint,
        required(
            37, "factor by which the rate model reacts to past utilization, accrued, times 10^rate_modifier_decimals"
        ),
    ]


class AssetIndexes(
    Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"index_decimals": "decimals", "supply_index": "supply", "borrow_index": "borrow"},
):
    """The worth of one share of supply and of one share of debt, in base units of the token, and the share's token."""

    index_decimals: Annotated[
        Scale,
        required(28, "decimals of supply_index and borrow_index"),
        doc("Decimals of `supply` and `borrow`."),
    ]
    supply_index: Annotated[
        FixedPoint,
        required(26, "base units of the token for one share of supply, accrued, times 10^index_decimals"),
        doc("Base units of the token for one share of supply, accrued to the close time, times 10^`decimals`."),
    ]
    borrow_index: Annotated[
        FixedPoint,
        required(27, "base units of the token for one share of debt, accrued, times 10^index_decimals"),
        doc("Base units of the token for one share of debt, accrued to the close time, times 10^`decimals`."),
    ]
    share_token: Annotated[
        ContractAddress | None, optional(94, "the token that suppliers get, a strkey; null if shares are not tokens")
    ]
    share_supply: Annotated[
        Amount | None, optional(95, "total supply of the share token, in its base units; null without such a token")
    ]


class AssetOperations(Struct, frozen=True, forbid_unknown_fields=True):
    """The operations that the contract allows in the pool now, before caps, balances and health are looked at.

    `can_liquidate` is about debt in this pool. An operation is null if it is not known, or if it is not the same for
    everybody. `can_reason` says why, and why other operations are closed if the market has no price of the token.
    `archived` closes nothing: since protocol 23 the call itself restores the entries that it needs, for a higher fee.
    Before protocol 23, that took a transaction of its own. `pool_status` is the pool's own status, and null if only its
    market has one. The two meanings explain the statuses in words, and are null if a status has no known meaning.
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
    market_status_meaning: Annotated[
        Words | None, doc("What the market's status means, in words; null when not known.")
    ]
    pool_status_meaning: Annotated[
        Words | None, doc("What the pool's status means, in words; null when it has none or it is not known.")
    ]


class AssetLiquidity(Struct, frozen=True, forbid_unknown_fields=True):
    """The most that one operation can move, in base units, and the pool's worth, in US cents. All are rounded down."""

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


class AssetRisk(Struct, frozen=True, forbid_unknown_fields=True):
    """Collateral, debt and limits of the pool's configuration, in the same words for every protocol.

    `risk_scope` says what the numbers apply to: `market`, `reserve` or `spoke`; it is null if nothing is known.
    Collateral of this pool lets somebody borrow collateral_factor_bps / liability_factor_bps of its value, where the
    liability factor is that of the pool with the debt. `liquidation_kind` is `fixed`, `range` (the bonus depends on the
    position, and docs/protocols says which bonus the number is), `auction` or `dynamic`; then the bonus is null. A cap
    of null is no cap, and a cap of "0" is closed. A `max_utilization_bps` of null is no limit. The raw numbers are in
    `rate_model`. If the scope is `spoke`, `spokes` has the terms of each spoke; the caps above are then sums over the
    spokes, and the factors are those of the spoke with the highest collateral factor.
    """

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
    spokes: Annotated[list[AssetSpoke], doc("The terms of each spoke for the pool; empty unless the scope is spoke.")]


class PoolRewards(Struct, frozen=True, forbid_unknown_fields=True):
    """The yearly rewards of a pool, which are paid in another token. A row of pools has this part of `AssetRewards`."""

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


class AssetRewards(PoolRewards, frozen=True, forbid_unknown_fields=True):
    """The rewards of a pool, which are paid in another token. They are not compounded, and not part of another rate.

    The yield of a reward is what is paid in a year at the present pace, divided by all that is supplied or borrowed.
    Borrowers are paid theirs. The reason is `valid`, or says why the yield is 0 or null. It is 0 for `none` (the
    protocol pays no rewards), `no_emissions` and `expired`. It is null for `nothing_supplied`, `nothing_borrowed`,
    `no_token_price`, `no_reward_price`, `several_tokens`, `not_funded`, `unread` (the entry has an unknown form) and
    `not_read` (the exporter does not read it). Amounts per second are in base units of `reward_token` times
    10^`reward_decimals`; amounts per year are in base units. `reward_price` / 10^`reward_price_decimals` is the price
    of one whole token in USD. `reward_price_source` says where it comes from: `comet_spot` is the present price in a
    pool, which a single trade can move.
    """

    reward_decimals: Annotated[
        Scale | None,
        optional(72, "decimals that the two amounts per second have beyond base units of the reward token"),
    ]
    supply_reward_per_second: Annotated[
        Amount | None,
        optional(
            70,
            "paid per second to all suppliers together, in base units of the reward token times 10^reward_decimals",
        ),
    ]
    supply_reward_index: Annotated[
        FixedPoint | None,
        optional(
            96,
            "rewards that 10^decimals shares of supply were paid since the first one, accrued, in base units of the "
            "reward token times 10^reward_decimals",
        ),
    ]
    borrow_reward_per_second: Annotated[
        Amount | None,
        optional(
            71,
            "paid per second to all borrowers together, in base units of the reward token times 10^reward_decimals",
        ),
    ]
    reward_price: Annotated[
        FixedPoint | None, derived(81, "USD for one reward token, times 10^reward_price_decimals; null when not known")
    ]
    reward_price_decimals: Annotated[Scale | None, derived(82, "decimals of reward_price; null when reward_price is")]
    reward_price_source: Annotated[
        Words | None, derived(83, "where the price of the reward token comes from; null when reward_price is")
    ]


class AssetDetail(PoolOfMarket, frozen=True, forbid_unknown_fields=True):
    """The pool snapshot with everything else that is known of the pool.

    The first 13 fields are those of the snapshot in `/v1/assets`. `total_collateral` is plain collateral outside
    `total_supplied`. `backstop_credit` is set aside for the backstop or the protocol. Both are in base units.
    """

    wasm_hash: Annotated[
        Digest | None, required(40, "SHA-256 of the market contract's code, 64 hex digits; null when unknown")
    ] = field(name="contract_wasm_hash")
    total_collateral: Annotated[
        Amount, required(15, "collateral that is not lent out and not part of total_supplied, in token base units")
    ]
    backstop_credit: Annotated[
        FixedPoint, required(39, "interest set aside for the backstop, accrued, in token base units")
    ]
    last_accrual_time: Annotated[Timestamp, required(25, "when the contract last added interest to this pool")]
    first_seen_ledger: Annotated[Ledger, doc("The lowest ledger at which the history has this pool.")]
    price: Annotated[AssetPrice, doc("Where `oracle_price_usd` comes from, or why there is none.")]
    rates: Annotated[AssetRates, doc("Annual rates without compounding, and what they follow from.")]
    indexes: Annotated[AssetIndexes, doc("What one share of supply and of debt is worth.")]
    rate_model: Annotated[list[RateModelParameter], doc("The parameters of the pool's configuration.")]
    rate_curve: Annotated[
        list[RatePoint],
        doc("Base rate, kinks, the rate now, and the rate at full utilization; empty if it is not computed."),
    ]
    operations: Annotated[AssetOperations, doc("The operations that the contract allows in the pool now.")]
    liquidity: Annotated[AssetLiquidity, doc("The most that one operation can move, and what the pool is worth.")]
    risk: Annotated[AssetRisk, doc("The terms of collateral, debt and limits in the configuration.")]
    rewards: Annotated[AssetRewards, doc("What is paid in addition to interest, in another token.")]
    periods: Annotated[list[AssetPeriod], doc("How the pool did over the last day, week and 30 days.")]
    pending: Annotated[list[PendingChange], doc("Changes that are queued for the pool or its market.")]
