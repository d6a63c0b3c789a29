"""What is on the wire: the JSON documents, field for field, apart from the tables they are made from.

A document is compact UTF-8 JSON without a newline at its end, its fields in the order in which they are here (the
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
from exporter.tree.pools import AssetDetail, MarketPool, PoolRow, PoolSnapshot
from exporter.tree.problems import Problem
from exporter.tree.values import (
    AccountAddress,
    Amount,
    BasisPoints,
    BucketName,
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
    ObjectKey,
    PoolId,
    Positive,
    Price,
    ProtocolName,
    Reason,
    RewardReasonName,
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

CensusKind = Annotated[
    str,
    Meta(
        pattern="^(known_code|known_storage|lending_shaped|oracle|token|other)$",
        description="What a contract is, by its code, or by the names in its storage (docs/discovery.md).",
        examples=["known_code"],
    ),
]

PAGE_TOKEN_LENGTH = 22
"""Characters of a page's token: the first 132 bits of the SHA-256 of its bytes."""

Passphrase = Annotated[str, Meta(description="The passphrase of the network that was read.")]
Day = Annotated[
    str,
    Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="A day, in UTC.", examples=["2026-11-18"]),
]


class AssetsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of pool snapshots, by market and then pool, ascending. `next_cursor` is null on the last page."""

    data: list[PoolSnapshot]
    next_cursor: Cursor | None


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
    threshold_met: Annotated[bool | None, Meta(description="Whether the funds are what the contract asks for.")]
    status_after_update: Words | None
    emission_token: ContractAddress | None
    emission_decimals: Scale
    emission_per_second: Amount | None
    emission_per_year: Amount | None
    emission_expiration: Timestamp | None
    emission_apr_bps: BasisPoints | None
    emission_reason: RewardReasonName
    emission_source: EmissionSourceName | None
    emission_funded: Annotated[bool | None, Meta(description="Whether the backstop has what it promised.")]
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
    truncated: Annotated[bool, Meta(description="Whether pools were cut from the list.")]
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

    `symbol` and `decimals` are as the token's contract gives them. `issuer` is the account that issues a classic asset,
    by its Stellar asset contract, which nobody can forge; null for every other token. `first_seen_ledger` is the lowest
    ledger at which the history has a pool of this token; a token that vanishes and comes back keeps it.
    """

    address: ContractAddress
    symbol: TokenSymbol
    decimals: TokenDecimals
    first_seen_ledger: Ledger
    observed_ledger: Ledger
    pools: list[PoolReference]
    issuer: AccountAddress | None


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
    ones could not be computed, because something that they need (a configuration, a balance) is not known.
    """

    protocol: ProtocolName
    wasm_hash: Digest | None
    confirmed: Count
    differing: Count
    untried: Count


class HistoryManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every Parquet file of the history. A file that is not named here is not part of it.

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

    A run is listed once a checkpoint after it can be proven, some six to twelve minutes later.
    """

    network: Passphrase
    verifier: ObjectKey
    trust: ObjectKey
    proofs: list[Proof]


class CensusCode(Struct, frozen=True, forbid_unknown_fields=True):
    """Contracts of one code and kind; `wasm_hash` is null for those that run another contract's code."""

    kind: CensusKind
    protocol: ProtocolName | None
    wasm_hash: Digest | None
    contracts: Count


class CensusContract(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that the run did not read: `reason` in a word, `detail` in words."""

    address: ContractAddress
    kind: CensusKind
    protocol: ProtocolName | None
    wasm_hash: Digest | None
    reason: Reason
    detail: Annotated[str, Meta(description="Why, in words.")]


class Census(Struct, frozen=True, forbid_unknown_fields=True):
    """What every contract of a checkpoint's state is, and which lending contracts a run did not read.

    `header` is the hash of the checkpoint's header. `counts` has the contracts of each kind, and `codes` those of the
    first three kinds by code. `run_id` is the run that they were compared with, null for none. `unread_count` counts
    the contracts of the first three kinds that it did not read, `unread` has the first of them, by kind and address.
    """

    network: Passphrase
    checkpoint: Ledger
    header: Digest
    run_id: RunId | None
    contract_count: Count
    code_count: Count
    counts: Annotated[dict[CensusKind, Count], Meta(description="How many contracts are of each kind.")]
    codes: list[CensusCode]
    unread_count: Count
    unread: list[CensusContract]


class DataField(Struct, frozen=True, forbid_unknown_fields=True):
    """A column, as a data package describes it."""

    name: Words
    type: Words
    description: Words
    constraints: Annotated[dict[str, bool], Meta(description="`required`: whether it is never null.")]


class DataSchema(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The columns of a table, and those that identify a row."""

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
    """A change of a market or of one of its pools since the previous run.

    `kind` is new_market, new_pool, removed_pool, status, configuration, utilization (above 95 %) or unread. `id` never
    changes.
    """

    id: Annotated[str, Meta(pattern="^urn:uuid:[0-9a-f-]{36}$", description="Identifies the change.")]
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


class PoolsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """Pools in flat rows, by market and then pool, ascending, 500 at most. `next_cursor` is null on the last page."""

    data: list[PoolRow]
    next_cursor: Cursor | None


class BestRate(Struct, frozen=True, forbid_unknown_fields=True):
    """The best rate of a token, and the pool that has it: the highest `total_apy_bps` to supply, the lowest to borrow.

    `apy_bps` is the protocol's own yield, and `comparable_apy_bps` the rate compounded daily. `total_apy_bps` is that
    plus the reward to supply, and less it to borrow; a `reward_apr_bps` of null (not funded, no price) counts nothing.
    """

    market: ContractAddress
    pool: PoolId
    protocol: ProtocolName
    market_name: Words
    apy_bps: BasisPoints
    comparable_apy_bps: BasisPoints
    reward_apr_bps: BasisPoints | None
    total_apy_bps: Change


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A token, its pools counted and added up, and its best rates among pools that are open.

    The best are among pools that are open for it now, have a price of at most a day, hold at least 1,000 US dollars and
    have room for as much; null when none is. `open_pool_count` counts pools that let somebody supply. Values are sums
    over the pools that have a price, and null when none has.
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
    issuer: AccountAddress | None


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
    detail: Annotated[str, Meta(description="Why, in words.")]


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
    field: Annotated[str, Meta(description="The name of its column.")]
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
    network: Passphrase
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
    notices: Annotated[list[str], Meta(description="What else people should know of the run.")]
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

    openapi: Annotated[str, Meta(description="The version of OpenAPI.")]
    info: Annotated[dict[str, Any], Meta(description="What is described.")]
    servers: Annotated[list[dict[str, Any]], Meta(description="Where it is served from.")]
    tags: Annotated[list[dict[str, Any]], Meta(description="Groups of paths.")]
    paths: Annotated[dict[str, dict[str, Any]], Meta(description="What can be asked for.")]
    components: Annotated[dict[str, dict[str, Any]], Meta(description="The schemas of all documents.")]


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
    | Census
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
