"""What is on the wire: the JSON documents, field for field, apart from the tables they are made from.

A document is compact UTF-8 JSON without a newline at its end, its fields in the order in which they stand here (the
kinds of values: `exporter.tree.values`). The same models give the JSON Schema of the API (`exporter.render.openapi`)
and read every file back as it is written (`exporter.tree.read_back`).
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

import exporter
from exporter.tree.problems import Problem
from exporter.tree.values import (
    Amount,
    BasisPoints,
    BucketName,
    CentsChange,
    Change,
    Compounding,
    ConfigHash,
    ContractAddress,
    Count,
    Cursor,
    Digest,
    EmissionSourceName,
    FileKindName,
    FileReference,
    FixedPoint,
    Ledger,
    LiquidationKind,
    ObjectKey,
    PeriodName,
    PoolId,
    Positive,
    Price,
    ProtocolName,
    Reason,
    RewardReasonName,
    RiskScope,
    RunId,
    Scale,
    Scope,
    ScopeId,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Version,
    Words,
)

EXPORTER_VERSION: str = exporter.__version__
"""What every file that names its maker names."""

PAGE_TOKEN_LENGTH = 22
"""Characters of a page's token: the first 132 bits of the SHA-256 of its bytes."""

Day = Annotated[
    str,
    Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="A day, in UTC.", examples=["2026-11-18"]),
]


class PoolSnapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """One token's pool in one market at the observed ledger.

    Totals are in base units of the token, rates in basis points a year rounded down. How yields
    follow from the annual rates (compounded, or simple), and whether totals are of the ledger's close or of the last
    action, is the protocol's own: `/v1/protocols` tells it. `oracle_price_usd` is null
    when the market's oracle has no price that is valid under the market's own rules; `tvl_usd_cents`,
    floor((total_supplied + plain collateral) * price * 100), is null with it.
    """

    market: ContractAddress
    pool: PoolId
    token_address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    supply_apy_bps: BasisPoints
    borrow_apy_bps: BasisPoints
    utilization_bps: BasisPoints
    total_supplied: Amount
    total_borrowed: Amount
    oracle_price_usd: Price | None
    tvl_usd_cents: UsdCents | None
    observed_ledger: Ledger


class AssetsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of pool snapshots, by market and then pool, ascending. `next_cursor` is null on the last page."""

    data: list[PoolSnapshot]
    next_cursor: Cursor | None


class MarketPool(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool snapshot inside its market: without `market` and `observed_ledger`, which the summary states."""

    pool: PoolId
    token_address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    supply_apy_bps: BasisPoints
    borrow_apy_bps: BasisPoints
    utilization_bps: BasisPoints
    total_supplied: Amount
    total_borrowed: Amount
    oracle_price_usd: Price | None
    tvl_usd_cents: UsdCents | None


class MarketBackstop(Struct, frozen=True, forbid_unknown_fields=True):
    """What insures the suppliers of a market of Blend, as its contracts count it at the observed ledger.

    `lp_tokens` are tokens of a pool of Comet, of which `blnd` and `usdc` are the parts, all in base units of 7
    decimals; `value_usd_cents` is their worth by the market's own oracle. `queued_part` (7 decimals) of the `shares` is
    queued for withdrawal. `threshold_product_bps` compares BLND^4 * USDC with what the contract asks for: its fifth
    root says how far the funds are. `status_after_update` is what a call of `update_status`, which anybody may make,
    would make of the market now; the status itself changes by such a call alone. The emission is what depositors who
    have not queued are paid, in base units of `emission_token` times 10^`emission_decimals` a second; its reason is one
    of those of the `rewards` of a pool, or `no_backstop`. `emission_source` says where its next promises come from: the
    `emitter`, a `backfill` of which nothing is minted yet and `backfill_remaining` is left, or `none`. Where
    `emission_funded` is false, the backstop has less than it promised, and claims fail. What cannot be read is null.
    """

    backstop: ContractAddress
    lp_token: ContractAddress | None
    shares: Amount | None
    lp_tokens: Amount | None
    queued_shares: Amount | None
    queued_part: FixedPoint | None
    blnd: Amount | None
    usdc: Amount | None
    lp_price_usdc: FixedPoint | None
    blnd_price_usdc: FixedPoint | None
    value_usd_cents: UsdCents | None
    threshold_product_bps: BasisPoints | None
    threshold_met: bool | None
    status_after_update: Words | None
    emission_token: ContractAddress | None
    emission_decimals: Scale
    emission_per_second: Amount | None
    emission_per_year: Amount | None
    emission_expiration: Timestamp | None
    emission_apr_bps: BasisPoints | None
    emission_reason: RewardReasonName
    emission_source: EmissionSourceName | None
    emission_funded: bool | None
    backfill_remaining: Amount | None


class MarketSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """One market with its pools, ascending by id.

    `pool_count` counts all member pools, also those that were cut from `pools` (`truncated`) or could not be
    read (listed in `/v1/system/status`). `tvl_usd_cents` sums all pools that have a price, cut or not; it is null
    when none has. `config_hash` changes if and only if the market's configuration in the ledger does. `backstop` is
    null where the market has none.
    """

    market: ContractAddress
    config_hash: ConfigHash
    observed_ledger: Ledger
    pool_count: Count
    pools: list[MarketPool]
    truncated: bool
    tvl_usd_cents: UsdCents | None
    backstop: MarketBackstop | None


class MarketEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One market of the list; `/v1/markets/{market}` has its pools. The value is null when no pool has a price."""

    market: ContractAddress
    protocol: ProtocolName
    version: Words
    name: Words
    status: Words
    observed_ledger: Ledger
    pool_count: Count
    tvl_usd_cents: UsdCents | None


class MarketList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every market that was read, ascending by address."""

    observed_ledger: Ledger
    data: list[MarketEntry]


class PoolReference(Struct, frozen=True, forbid_unknown_fields=True):
    """Which pool: `/v1/assets/{market}/{pool}`."""

    market: ContractAddress
    pool: PoolId


class TokenDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A token and the pools that lend it, by market and then pool, ascending.

    `symbol` and `decimals` are as the token's contract gives them. `first_seen_ledger` is the lowest ledger at which
    the history has a pool of this token; a token that vanishes and comes back keeps it.
    """

    address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    first_seen_ledger: Ledger
    observed_ledger: Ledger
    pools: list[PoolReference]


class ProtocolTotals(Struct, frozen=True, forbid_unknown_fields=True):
    """One protocol's part of the summary."""

    protocol: ProtocolName
    market_count: Count
    pool_count: Count
    tvl_usd_cents: UsdCents | None


class ProtocolSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """All markets together, and by protocol, ascending by name.

    Pools are counted read or not; the value is the sum over the pools that have a price, null when none has.
    """

    observed_ledger: Ledger
    market_count: Count
    pool_count: Count
    tvl_usd_cents: UsdCents | None
    protocols: list[ProtocolTotals]


class HistoryFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file of the history, with its size and where it is.

    `key` is relative to the root of the tree, `url` to this document, so that it leads to the file wherever the tree
    is served from.
    """

    key: ObjectKey
    url: FileReference
    rows: Count
    bytes: Count
    sha256: Digest
    first_ledger: Ledger
    last_ledger: Ledger


class HistoryRollup(Struct, frozen=True, forbid_unknown_fields=True):
    """A Parquet file with the last run of each closed day or hour, under a key that stays.

    It is replaced before this document, so a reader that finds another digest reads both again. Its buckets close
    before `ends`. It was made of files of the history with `source_rows` rows up to `last_ledger`, which is 0 where no
    bucket closed yet.
    """

    key: ObjectKey
    url: FileReference
    bucket: BucketName
    rows: Count
    bytes: Count
    sha256: Digest
    ends: Timestamp
    last_ledger: Count
    source_rows: Count


class Transitions(Struct, frozen=True, forbid_unknown_fields=True):
    """How often the chain itself tried the math of a protocol's contract code: at each accrual that was replayed.

    In `confirmed` ones, what the contract wrote is what is computed here from the entries before, in every number that
    is compared. In `differing` ones it is not: the contract did more in the same call, or the math is wrong. `untried`
    ones could not be computed, because what they need besides (a configuration, a balance) is not known.
    """

    protocol: ProtocolName
    wasm_hash: Digest | None
    confirmed: Count
    differing: Count
    untried: Count


class HistoryManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every Parquet file of the history. A file that is not named here is no part of it.

    `rollups` hold some of the same rows again. `transitions` is there where a past was replayed from the network's own
    ledgers.
    """

    format: Version
    observed_ledger: Ledger
    files: list[HistoryFile]
    rollups: list[HistoryRollup] = []
    transitions: list[Transitions] = []


class Proof(Struct, frozen=True, forbid_unknown_fields=True):
    """What is proven of a run: its evidence held against a checkpoint whose header enough organisations signed for.

    Of `entries` in the evidence, `confirmed` are in the state of the checkpoint as they were at the run's ledger;
    `changed_since` were changed between the two, `not_looked_up` were not looked for in the older buckets,
    `short_lived` left no trace at the checkpoint, and `absent` are absent there: of all these, and of the results of
    `calls`, there is only the RPC's word. `organisations_signed` of `organisations_trusted`
    signed, where `organisations_needed` must. `proof_key` is the file to check it by.
    """

    run_id: RunId
    observed_ledger: Ledger
    evidence_key: ObjectKey
    checkpoint: Ledger
    proof_key: ObjectKey
    proof_sha256: Digest
    entries: Count
    confirmed: Count
    changed_since: Count
    not_looked_up: Count
    short_lived: Count
    absent: Count
    calls: Count
    organisations_signed: Count
    organisations_trusted: Positive
    organisations_needed: Positive
    proven_at: Timestamp


class ProofList(Struct, frozen=True, forbid_unknown_fields=True):
    """The proofs of the newest runs, newest first. `verifier` is the program that checks them, `trust` whom it trusts.

    A run stands here once a checkpoint after it can be proven, some six to twelve minutes later.
    """

    network: str
    verifier: ObjectKey
    trust: ObjectKey
    proofs: list[Proof]


class DataField(Struct, frozen=True, forbid_unknown_fields=True):
    """A column, as a data package describes it."""

    name: Words
    type: Words
    description: Words
    constraints: dict[str, bool]


class DataSchema(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The columns of a table, and those that tell one row from another."""

    fields: list[DataField]
    primary_key: list[Words]


class DataResource(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a data package: one file, or several with the same columns and no row twice.

    `path` is relative to the root of the tree. Columns that an older file lacks are null in its rows.
    """

    name: Words
    title: Words
    path: list[ObjectKey]
    format: Words
    mediatype: Words
    schema: DataSchema


class DataPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """What the Parquet files are, in the form of a Data Package 2.0, for tools that read those.

    `latest` is the newest run alone, `history` every run up to it.
    """

    schema: Words = field(name="$schema")
    name: Words
    title: Words
    description: Words
    created: Timestamp
    observed_ledger: Ledger
    resources: list[DataResource]


class RunChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that is otherwise at a run than at the one before it, of a market or of one of its pools.

    `kind` is new_market, new_pool, removed_pool, status, configuration, utilization (above 95 %) or unread. `id` never
    changes.
    """

    id: Annotated[str, Meta(pattern="^urn:uuid:[0-9a-f-]{36}$", description="Tells the change from all others.")]
    kind: Words
    market: ContractAddress
    pool: PoolId | None
    title: Words
    before: Words | None
    after: Words | None
    observed_ledger: Ledger
    ledger_close_time: Timestamp
    previous_ledger: Ledger


class WatchedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """What the next run compares of a market."""

    market: ContractAddress
    protocol: ProtocolName
    name: Words
    status: Words
    config_hash: ConfigHash


class WatchedPool(Struct, frozen=True, forbid_unknown_fields=True):
    """What the next run compares of a pool. Null: not known."""

    market: ContractAddress
    pool: PoolId
    symbol: TokenSymbol
    status: Words | None
    utilization_bps: BasisPoints
    can_supply: bool | None
    can_withdraw: bool | None
    can_borrow: bool | None
    can_repay: bool | None
    can_liquidate: bool | None


class WatchedUnread(Struct, frozen=True, forbid_unknown_fields=True):
    """What could not be read, so that the next run knows that it is not new."""

    market: ContractAddress
    pool: PoolId | None
    reason: Reason


class ChangeList(Struct, frozen=True, forbid_unknown_fields=True):
    """The newest changes, newest first, and what the next run compares with.

    At most 1,000 are kept, and 50 of a market. Where a run has nothing to compare with, nothing changed.
    """

    observed_ledger: Ledger
    exporter_version: Words
    data: list[RunChange]
    markets: list[WatchedMarket]
    pools: list[WatchedPool]
    unread: list[WatchedUnread]


class AssetPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """Where `oracle_price_usd` comes from, or why there is none.

    `value`, divided by 10^`decimals`, is the price of one token in USD as the contract `oracle` gave it, and `time` the
    time that it gave with it (null also beyond the year 9999). `validity` is `valid`, or says why the market itself
    would refuse to use a price; then the other three are null.
    """

    oracle: ContractAddress | None
    validity: Words
    value: FixedPoint | None
    decimals: Scale | None
    time: Timestamp | None


class AssetRates(Struct, frozen=True, forbid_unknown_fields=True):
    """Annual rates without compounding, and the utilization and modifier that they follow from.

    `stored` ones follow from the state as the contract has stored it, `accrued` ones from the state brought to the
    close time of the ledger; the two are equal where a protocol's own view does not accrue.
    """

    apr_decimals: Scale
    stored_supply_apr: FixedPoint
    stored_borrow_apr: FixedPoint
    accrued_supply_apr: FixedPoint
    accrued_borrow_apr: FixedPoint
    utilization_decimals: Scale
    stored_utilization: FixedPoint
    accrued_utilization: FixedPoint
    rate_modifier_decimals: Scale
    rate_modifier: FixedPoint


class AssetIndexes(Struct, frozen=True, forbid_unknown_fields=True):
    """What one share of supply and one share of debt are worth, in base units of the token."""

    decimals: Scale
    supply: FixedPoint
    borrow: FixedPoint


class RateModelParameter(Struct, frozen=True, forbid_unknown_fields=True):
    """One parameter of the pool's configuration, under the name that the contract has for it.

    `value` is to be divided by 10^`decimals`; a yes or no is 1 or 0. With `no_limit` the contract takes this value to
    mean that there is no limit.
    """

    name: Words
    value: FixedPoint
    decimals: Scale
    no_limit: bool


class AssetOperations(Struct, frozen=True, forbid_unknown_fields=True):
    """What the contract lets somebody do in the pool now, before caps, balances and health.

    `can_liquidate` is of debt in this pool. One that is null is not known, or is not the same for everybody;
    `can_reason` says why, and why the market's missing price of the token closes others.
    `pool_status` is the pool's own status, null where it has none beside its market's; the two meanings say in words
    what the statuses mean, null where the status has no known meaning.
    """

    can_supply: bool | None
    can_withdraw: bool | None
    can_borrow: bool | None
    can_repay: bool | None
    can_liquidate: bool | None
    can_reason: Words | None
    market_status_meaning: Words | None
    pool_status: Words | None
    pool_status_meaning: Words | None


class AssetLiquidity(Struct, frozen=True, forbid_unknown_fields=True):
    """How much can be done, in base units, and what the pool is worth in US cents, each rounded down.

    `available_to_withdraw` and `available_to_borrow` are the most that the contract pays out, `available_to_supply` the
    most that its cap lets in (null without a cap); each is "0" where its gate is closed and null where that is not
    known. An account's first supply of less than `min_first_supply` fails; null where any amount is taken.
    `available_usd_cents` is the worth of `available_to_withdraw`. Values are null without a valid price.
    """

    available_to_withdraw: Amount | None
    available_to_borrow: Amount | None
    available_to_supply: Amount | None
    min_first_supply: Amount | None
    supplied_usd_cents: UsdCents | None
    borrowed_usd_cents: UsdCents | None
    available_usd_cents: UsdCents | None


class AssetSpoke(Struct, frozen=True, forbid_unknown_fields=True):
    """What one spoke allows with a pool: a set of limits of its own, for the accounts that belong to it.

    Its terms are those of `operations`, `liquidity` and `risk` for this spoke alone. It takes nothing new while it is
    `deprecated` or the pool is `frozen` in it, and nothing at all but liquidations of what secures a debt while it is
    `paused`; what cannot be seized secures no liquidation. "0" is a closed cap. Null where it is not known whether the
    market has a price.
    """

    spoke: Count
    deprecated: bool
    paused: bool
    frozen: bool
    can_supply: bool
    can_withdraw: bool
    can_borrow: bool | None
    can_repay: bool
    can_liquidate: bool | None
    can_be_seized: bool
    available_to_supply: Amount
    available_to_borrow: Amount | None
    collateral_factor_bps: BasisPoints
    liquidation_threshold_bps: BasisPoints
    liquidation_bonus_bps: BasisPoints
    supply_cap: Amount
    borrow_cap: Amount
    can_be_collateral: bool
    can_be_borrowed: bool


class AssetRisk(Struct, frozen=True, forbid_unknown_fields=True):
    """What the pool's configuration says of collateral, debt and limits, in the same words for every protocol.

    `risk_scope` says what it holds for: `market`, `reserve` or `spoke`; it is null where nothing of this is known.
    Collateral of this pool lets one borrow collateral_factor_bps / liability_factor_bps of its value, with the
    liability factor of the pool that the debt is in. `liquidation_kind` is `fixed`, `range` (the bonus depends on the
    position, and the number is the one that the protocol's page names), `auction` or `dynamic` (then it is null).
    Of the two caps null is none, and "0" closed; null is none for `max_utilization_bps` too. The raw numbers are in
    `rate_model`. `spokes` has what each of them says of the pool, where the scope is `spoke`; the fields above then sum
    their caps up, and have the factors of the spoke with the highest.
    """

    risk_scope: RiskScope | None
    collateral_factor_bps: BasisPoints | None
    liquidation_threshold_bps: BasisPoints | None
    liability_factor_bps: BasisPoints | None
    liquidation_bonus_bps: BasisPoints | None
    liquidation_kind: LiquidationKind | None
    supply_cap: Amount | None
    borrow_cap: Amount | None
    max_utilization_bps: BasisPoints | None
    reserve_factor_bps: BasisPoints | None
    can_be_collateral: bool | None
    can_be_borrowed: bool | None
    spokes: list[AssetSpoke]


class AssetRewards(Struct, frozen=True, forbid_unknown_fields=True):
    """What is paid beside the interest, in a token of its own; it is in no other rate, and not compounded.

    A yield is what is paid a year at the pace of now over all that is supplied, or borrowed: borrowers get theirs. Its
    reason is `valid`; `none` (the protocol pays none), `no_emissions` or `expired`, and the yield is 0; or the yield is
    null: `nothing_supplied`, `nothing_borrowed`, `no_token_price`, `no_reward_price`, `several_tokens`, `unread` (the
    entry is archived, or of no known form) or `not_read` (nobody looked). Amounts a second are in base units of
    `reward_token` times 10^`reward_decimals`, amounts a year in base units. `reward_price` / 10^`reward_price_decimals`
    is the price of one whole token in USD, and `reward_price_source` says what it follows from: `comet_spot` is the
    momentary price of a pool that a single trade can move.
    """

    reward_token: ContractAddress | None
    reward_symbol: TokenSymbol | None
    reward_token_decimals: TokenDecimals | None
    reward_decimals: Scale | None
    supply_reward_per_second: Amount | None
    supply_reward_per_year: Amount | None
    supply_reward_expiration: Timestamp | None
    supply_reward_apr_bps: BasisPoints | None
    supply_reward_reason: RewardReasonName
    borrow_reward_per_second: Amount | None
    borrow_reward_per_year: Amount | None
    borrow_reward_expiration: Timestamp | None
    borrow_reward_apr_bps: BasisPoints | None
    borrow_reward_reason: RewardReasonName
    reward_price: FixedPoint | None
    reward_price_decimals: Scale | None
    reward_price_source: Words | None


class AssetPeriod(Struct, frozen=True, forbid_unknown_fields=True):
    """How a pool did over a `period` that ends where the hour that is open began (of `30d`: the quarter of a day).

    Means are over the `observed_count` closed buckets of the period in which the pool was observed, each counting once,
    rounded down: buckets of an hour for `24h` and `7d`, of 6 hours for `30d`. A change is the number in this document
    less that of the newest bucket before the period. Everything is null, and the count 0, as long as the history does
    not reach that far: where no bucket ended within a quarter of the period before its begin. The value and its change
    are also null without a price.
    """

    period: PeriodName
    observed_count: Count
    mean_supply_apy_bps: BasisPoints | None
    mean_borrow_apy_bps: BasisPoints | None
    mean_utilization_bps: BasisPoints | None
    mean_tvl_usd_cents: UsdCents | None
    supply_apy_bps_change: Change | None
    borrow_apy_bps_change: Change | None
    utilization_bps_change: Change | None
    tvl_usd_cents_change: CentsChange | None


class AssetDetail(PoolSnapshot, frozen=True, forbid_unknown_fields=True):
    """The pool snapshot, with what an analyst wants beside it.

    The first 13 fields are those of the snapshot in `/v1/assets`. `total_collateral` is plain collateral outside
    `total_supplied`, and `backstop_credit` what is set aside for the backstop or the protocol; both in base units.
    `contract_wasm_hash` is the SHA-256 of the market contract's code, null when it has none of its own.
    `supply_compounding` and `borrow_compounding` say how the two yields follow from the annual rates. `periods` are a
    day, a week and a month, as far as the history reaches.
    """

    ledger_close_time: Timestamp
    protocol: ProtocolName
    version: Words
    market_name: Words
    market_status: Words
    contract_wasm_hash: Digest | None
    total_collateral: Amount
    backstop_credit: FixedPoint
    last_accrual_time: Timestamp
    price: AssetPrice
    rates: AssetRates
    indexes: AssetIndexes
    rate_model: list[RateModelParameter]
    supply_compounding: Compounding
    borrow_compounding: Compounding
    operations: AssetOperations
    liquidity: AssetLiquidity
    risk: AssetRisk
    rewards: AssetRewards
    periods: list[AssetPeriod]


class PoolRow(PoolSnapshot, frozen=True, forbid_unknown_fields=True):
    """One pool in one flat row: the snapshot, then what is needed to compare it with others.

    Each field has the meaning that it has in `/v1/assets/{market}/{pool}`, in its `operations`, `liquidity`, `risk`,
    `rewards` and `periods`; the means are those of the last 7 and 30 days.
    """

    ledger_close_time: Timestamp
    protocol: ProtocolName
    version: Words
    market_name: Words
    market_status: Words
    pool_status: Words | None
    can_supply: bool | None
    can_withdraw: bool | None
    can_borrow: bool | None
    can_repay: bool | None
    can_liquidate: bool | None
    can_reason: Words | None
    available_to_withdraw: Amount | None
    available_to_borrow: Amount | None
    available_to_supply: Amount | None
    min_first_supply: Amount | None
    supplied_usd_cents: UsdCents | None
    borrowed_usd_cents: UsdCents | None
    available_usd_cents: UsdCents | None
    risk_scope: RiskScope | None
    collateral_factor_bps: BasisPoints | None
    liquidation_threshold_bps: BasisPoints | None
    liability_factor_bps: BasisPoints | None
    liquidation_bonus_bps: BasisPoints | None
    liquidation_kind: LiquidationKind | None
    supply_cap: Amount | None
    borrow_cap: Amount | None
    max_utilization_bps: BasisPoints | None
    reserve_factor_bps: BasisPoints | None
    can_be_collateral: bool | None
    can_be_borrowed: bool | None
    reward_token: ContractAddress | None
    reward_symbol: TokenSymbol | None
    supply_reward_apr_bps: BasisPoints | None
    supply_reward_reason: RewardReasonName
    borrow_reward_apr_bps: BasisPoints | None
    borrow_reward_reason: RewardReasonName
    mean_supply_apy_bps_7d: BasisPoints | None
    mean_supply_apy_bps_30d: BasisPoints | None
    mean_borrow_apy_bps_7d: BasisPoints | None
    mean_borrow_apy_bps_30d: BasisPoints | None


class PoolsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """Pools in flat rows, by market and then pool, ascending, 500 at most. `next_cursor` is null on the last page."""

    data: list[PoolRow]
    next_cursor: Cursor | None


class BestRate(Struct, frozen=True, forbid_unknown_fields=True):
    """The best rate of a token, and the pool that has it. Rewards are beside it, and count in no comparison."""

    market: ContractAddress
    pool: PoolId
    protocol: ProtocolName
    market_name: Words
    apy_bps: BasisPoints
    reward_apr_bps: BasisPoints | None


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A token, its pools counted and added up, and its best rates among pools that are open.

    `best_supply` is the highest yield among the pools whose contract lets somebody supply now, `best_borrow` the lowest
    among those that let somebody borrow, and have something left to lend. `open_pool_count` counts pools that let
    somebody supply. Values are sums over the pools that have a price, and null when none has.
    """

    address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    pool_count: Count
    open_pool_count: Count
    supplied_usd_cents: UsdCents | None
    borrowed_usd_cents: UsdCents | None
    best_supply: BestRate | None
    best_borrow: BestRate | None


class TokenList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every token that a pool lends, ascending by address."""

    observed_ledger: Ledger
    data: list[TokenEntry]


class HistoryBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """What was observed from `start_time` to before `end_time`.

    Amounts and the value are averages over the observations, rounded down. Rates and the price are medians: the middle
    value, or for an even number the mean of the two in the middle, rounded down (a price at the most decimals that
    any price of the bucket has). The value and the price are over the `priced_count` observations that have a price,
    and null when none has.
    """

    start_time: Timestamp
    end_time: Timestamp
    total_supplied: Amount
    total_borrowed: Amount
    supply_apy_bps: BasisPoints
    borrow_apy_bps: BasisPoints
    utilization_bps: BasisPoints
    tvl_usd_cents: UsdCents | None
    oracle_price_usd: Price | None
    observation_count: Positive
    priced_count: Count
    first_ledger: Ledger
    last_ledger: Ledger


class AssetHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """Closed buckets of one length in one pool, ascending; a bucket in which nothing was observed is left out.

    `/v1/assets/{market}/{pool}` has the state now; until a bucket closes, `data` is empty. `next_cursor` leads to the
    page before, which holds older buckets, and which never changes; it is null on the oldest. `observed_ledger` is the
    last ledger in its buckets; of a document without any, the first at which the pool was observed.
    """

    market: ContractAddress
    pool: PoolId
    bucket: BucketName
    observed_ledger: Ledger
    data: list[HistoryBucket]
    next_cursor: Cursor | None


class TotalsBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """What all pools of a market, token or protocol, or of the network, had together in a bucket.

    A pool counts with the mean of its own observations in the bucket, as its own history has it. `pool_count` pools of
    `market_count` markets were observed; the three values are sums over the `priced_count` of them that had a price,
    and null when none had. A pool that was not observed, or had no price, in the whole bucket is in no sum. Means of
    rates are weighted by what is supplied or borrowed in USD, rounded down, and null where that is nothing. The best
    rates are those of pools worth 1,000 USD and more in markets open for lending and borrowing at every observation;
    the best rate to borrow is the lowest, among those that are not lent out wholly. They are null when no pool counts.
    """

    start_time: Timestamp
    end_time: Timestamp
    supplied_usd_cents: UsdCents | None
    borrowed_usd_cents: UsdCents | None
    tvl_usd_cents: UsdCents | None
    mean_supply_apy_bps: BasisPoints | None
    mean_borrow_apy_bps: BasisPoints | None
    best_supply_apy_bps: BasisPoints | None
    best_borrow_apy_bps: BasisPoints | None
    market_count: Positive
    pool_count: Positive
    priced_count: Count
    first_ledger: Ledger
    last_ledger: Ledger


class TotalsHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """Closed buckets of one length of a market, token, protocol or of the network, ascending.

    `scope` says which of these, and `id` whose: an address, a protocol's name, or `network`. All else is as in the
    history of a pool: a bucket in which nothing was observed is left out, `next_cursor` leads to older buckets, and
    `observed_ledger` is the last ledger in the buckets, or without any the first at which a pool of it was observed.
    """

    scope: Scope
    id: ScopeId
    bucket: BucketName
    observed_ledger: Ledger
    data: list[TotalsBucket]
    next_cursor: Cursor | None

    @property
    def market(self) -> str | None:
        """What the key calls the id of a market; so do the next two those of a token and a protocol."""
        return self.id if self.scope == "market" else None

    @property
    def address(self) -> str | None:
        return self.id if self.scope == "token" else None

    @property
    def protocol(self) -> str | None:
        return self.id if self.scope == "protocol" else None


class ContractVersion(Struct, frozen=True, forbid_unknown_fields=True):
    """Markets that were read and run the same code; `wasm_hash` is null for those that have none."""

    version: Words
    wasm_hash: Digest | None
    market_count: Count


class KnownAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that was known beforehand: what it is to the protocol, and where its address was taken from."""

    deployment: Words
    role: Words
    address: ContractAddress
    name: Words
    wasm_hash: Digest | None
    source: Words
    date: Day


class ProtocolCoverage(Struct, frozen=True, forbid_unknown_fields=True):
    """What is read of a protocol, and what its numbers mean.

    `year_seconds` is the year that the protocol's annual rates are of; the texts say what is a market and a pool of
    it, how the yields follow from the rates, of which state rates and totals are and what is part of them, where the
    price comes from, and what is not in the numbers. In these the protocols differ. The counts are those of the
    published run.
    """

    protocol: ProtocolName
    title: Words
    structure: Words
    year_seconds: Positive
    supply_yield: Words
    borrow_yield: Words
    supply_compounding: Compounding
    borrow_compounding: Compounding
    rates: Words
    totals: Words
    prices: Words
    limits: Words
    market_count: Count
    pool_count: Count
    unread_count: Count
    unpriced_count: Count
    absent_count: Count
    contract_versions: list[ContractVersion]
    known_contracts: list[KnownAddress]


class Excluded(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out on purpose, and why."""

    name: Words
    kind: Words
    reason: Words


class ProtocolList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every protocol that a run looks for, also where it found nothing of it, and what is left out on purpose.

    What could not be read, and what has no price, is named in `/v1/system/status`.
    """

    observed_ledger: Ledger
    data: list[ProtocolCoverage]
    excluded: list[Excluded]


class Unread(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool, or with `pool` null a whole market, that could not be read: `reason` in a word, `detail` in words."""

    market: ContractAddress
    pool: PoolId | None
    protocol: ProtocolName
    reason: Reason
    detail: str


class Unpriced(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool whose price is null, and why."""

    market: ContractAddress
    pool: PoolId
    reason: Reason


class UnpricedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """A market in which pools have no price: how many of those that were read, and their share."""

    market: ContractAddress
    pool_count: Count
    unpriced_count: Count
    unpriced_bps: BasisPoints


class Bounded(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of a pool that is published as `bound`, the most it can be there: the true one is that or more.

    `field` is the name of its column in the Parquet history.
    """

    market: ContractAddress
    pool: PoolId
    field: str
    bound: Amount


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A known market address at which there is no contract at this ledger."""

    market: ContractAddress
    protocol: ProtocolName
    reason: Reason


class SystemStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """The pointer: which run is the published one. It is written last, so all that it implies is there.

    `network` is the passphrase of the network that was read, and `network_name` what it is called: `mainnet`,
    `testnet`, `local` (a network of one machine, as the made one of `exporter demo`), or `custom` for any other.
    `ledger_close_time` is the close time of the observed ledger, `generated_at` the time of the run, and
    `next_expected_at` the time by which a newer run should have replaced this one (null when nobody knows).
    `pool_count` counts all member pools of the markets that were read, those in `unread` among them; `token_count`
    the different tokens of the pools that were read; `unread_count` and `unpriced_count` the entries of those lists.
    `unpriced_bps` is the share of the pools that were read which have no price, and `unpriced_markets` has each market
    with such pools, ascending.
    `evidence_key` is the file with everything that the run's numbers come from.
    Until `/v1/proofs` lists the run, its numbers are the RPC's word; `proof_checkpoint` is the ledger whose state they
    can be held against; it can be proven when the network has published the checkpoint after it, 64 ledgers later.
    """

    run_id: RunId
    format: Version
    network: str
    network_name: Words
    observed_ledger: Ledger
    ledger_close_time: Timestamp
    generated_at: Timestamp
    next_expected_at: Timestamp | None
    market_count: Count
    pool_count: Count
    token_count: Count
    unread_count: Count
    unpriced_count: Count
    unread: list[Unread]
    unpriced: list[Unpriced]
    bounded: list[Bounded]
    absent: list[Absent]
    notices: list[str]
    page_sizes: list[Positive]
    default_page_size: Positive
    retention_hours: Count
    manifest_key: ObjectKey
    manifest_sha256: Digest
    previous_run_id: RunId | None
    evidence_key: ObjectKey
    market_pools_cap: Positive
    proof_checkpoint: Ledger
    unpriced_bps: BasisPoints
    unpriced_markets: list[UnpricedMarket]


class ManifestFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a run, a row of its `files_key`: `kind` is page, history, document or pointer, `bytes` its size."""

    key: ObjectKey
    kind: FileKindName
    bytes: Count
    sha256: Digest


class RunManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where every file that a run wrote or relies on is listed with its digest: in the Parquet file `files_key`.

    Its columns are `key`, `kind` (page, history or document), `bytes` and `sha256` (32 bytes), ascending by key.
    """

    run_id: RunId
    observed_ledger: Ledger
    published_at: Timestamp
    file_count: Count
    bytes: Count
    files_key: ObjectKey
    files_sha256: Digest


class OpenApiDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """The description of the API itself (OpenAPI 3.1)."""

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    tags: list[dict[str, Any]]
    paths: dict[str, dict[str, Any]]
    components: dict[str, dict[str, Any]]


Document: TypeAlias = (
    AssetsPage
    | AssetDetail
    | AssetHistory
    | TotalsHistory
    | MarketList
    | MarketSummary
    | TokenDocument
    | ProtocolSummary
    | ProtocolList
    | HistoryManifest
    | ProofList
    | PoolsPage
    | TokenList
    | DataPackage
    | ChangeList
    | SystemStatus
    | RunManifest
    | OpenApiDocument
    | Problem
)
"""The documents that are files of their own."""

_ENCODER = msgspec.json.Encoder()


def encode(document: Struct) -> bytes:
    """The bytes of a document: compact UTF-8 JSON, fields in the model's order, no newline at the end."""
    return _ENCODER.encode(document)


def page_token(data: bytes) -> str:
    """The token of a page file: it names the page by its content, so it can never come to mean other bytes."""
    return token_of(hashlib.sha256(data).digest())


def token_of(digest: bytes) -> str:
    """The token of the page file with this SHA-256."""
    return base64.urlsafe_b64encode(digest)[:PAGE_TOKEN_LENGTH].decode("ascii")


@lru_cache(maxsize=1 << 13)
def timestamp(seconds: int) -> str:
    """Unix seconds as the documents write a time: RFC 3339, UTC, to the second, with a Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Intent(Struct, frozen=True):
    """Written before a run replaces its first document.

    While it names a later ledger than the pointer, that run has not finished: some documents may be of its ledger
    already, so a run at an earlier ledger would take them backwards.
    """

    run_id: str
    observed_ledger: Annotated[int, Meta(ge=1)]
    started_at: str
