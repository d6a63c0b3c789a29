"""The models of the published JSON documents, field for field.

A document is compact UTF-8 JSON without a newline at its end. Its fields have the order in which they are here, and
`exporter.tree.values` has the kinds of their values. The JSON Schema of the API follows from these models
(`exporter.render.openapi`), and every file is read back with them as it is written (`exporter.tree.read_back`).
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

import exporter
from exporter.tree.dates import DAY
from exporter.tree.pool_parts import NullableIdentity, PendingChange
from exporter.tree.pool_rows import MarketPool, PoolRow
from exporter.tree.pools import PoolSnapshot
from exporter.tree.risk_documents import MarketRisk
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
    ListedReasonName,
    ObjectKey,
    PoolId,
    Positive,
    Price,
    ProtocolName,
    PublicUrl,
    Reason,
    RewardReasonName,
    RunId,
    Scale,
    Scope,
    ScopeId,
    SkipReasonName,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Version,
    Words,
    doc,
)

EXPORTER_VERSION: str = exporter.__version__

CensusKind = Annotated[
    str,
    Meta(
        pattern="^(known_code|known_storage|lending_shaped|oracle|token|other)$",
        description="The kind of a contract, by its code or by the names in its storage (docs/discovery.md).",
        examples=["known_code"],
    ),
]

PAGE_TOKEN_LENGTH = 22
"""The number of characters of a page's token, which is the first 132 bits of the SHA-256 of the page's bytes."""

Passphrase = Annotated[str, doc("The passphrase of the network that was read.")]
Day = Annotated[
    str,
    Meta(pattern=f"^{DAY}$", min_length=10, max_length=10, description="A day, in UTC.", examples=["2026-11-18"]),
]
MarketAddress = Annotated[ContractAddress, doc("The market's contract, a strkey.")]
ObservedLedger = Annotated[Ledger, doc("The ledger at which this was observed.")]
PricedValue = Annotated[
    UsdCents | None, doc("Value of all pools that have a price, in US cents, rounded down; null when none has.")
]
PricedCount = Annotated[Count, doc("Pools that have a price, over which the values here are sums.")]
Listed = Annotated[
    bool,
    doc(
        "Whether the exporter's lists or the publisher vouch for the market. Anybody can create one that is not listed."
    ),
]
UnlistedMarkets = Annotated[
    Count, doc("Markets that are not listed. Only the fields that begin with `unlisted_` include them.")
]
UnlistedPools = Annotated[Count, doc("Pools of markets that are not listed.")]
UnlistedPriced = Annotated[Count, doc("Pools of markets that are not listed that have a price, by their own oracles.")]
UnlistedValue = Annotated[
    UsdCents | None,
    doc(
        "Value that the pools of markets that are not listed claim, in US cents, by their markets' own oracles; null "
        "when none has a price."
    ),
]
NextCursor = Annotated[
    Cursor | None, doc("Cursor of the next page, for `?cursor=` of the same path; null on the last page.")
]
OlderCursor = Annotated[
    Cursor | None, doc("Cursor of the page with older buckets, for `?cursor=` of the same path; null on the oldest.")
]


class AssetsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of pool snapshots, by market and then pool, ascending. `next_cursor` is null on the last page.

    An empty page has the observed ledger, too.
    """

    data: Annotated[list[PoolSnapshot], doc("The pools of this page.")]
    next_cursor: NextCursor
    observed_ledger: ObservedLedger


class MarketBackstop(Struct, frozen=True, forbid_unknown_fields=True):
    """The insurance of the suppliers of a market of Blend, as its contracts count it at the observed ledger.

    `lp_tokens` are shares of a pool of Comet, behind which are `blnd` and `usdc`. The fifth root of
    `threshold_product_bps` says how near the funds are to what the contract asks for. Only a call of `update_status`
    changes the market's status, and anybody may make it. A `backfill` is BLND that is not minted yet. If
    `emission_funded` is false, claims fail. What cannot be read is null.
    """

    backstop: Annotated[ContractAddress, doc("The backstop's contract, a strkey.")]
    lp_token: Annotated[
        ContractAddress | None, doc("The token that is deposited, a strkey; null when it could not be read.")
    ]
    shares: Annotated[
        Amount | None, doc("Shares of the market's deposits, queued ones among them, 7 decimals; null when unknown.")
    ]
    lp_tokens: Annotated[
        Amount | None, doc("Deposited tokens, queued ones among them, in base units of `lp_token`; null when unknown.")
    ]
    queued_shares: Annotated[Amount | None, doc("Shares queued for withdrawal, 7 decimals; null when unknown.")]
    queued_part: Annotated[
        FixedPoint | None, doc("Part of the shares that is queued, rounded up; 10000000 is all; null when unknown.")
    ]
    blnd: Annotated[Amount | None, doc("BLND behind `lp_tokens`, in its base units, 7 decimals; null when unknown.")]
    usdc: Annotated[Amount | None, doc("USDC behind `lp_tokens`, in its base units, 7 decimals; null when unknown.")]
    lp_price_usdc: Annotated[FixedPoint | None, doc("USDC for one `lp_token`, times 10^7; null when unknown.")]
    blnd_price_usdc: Annotated[FixedPoint | None, doc("USDC for one BLND, times 10^7; null when unknown.")]
    value_usd_cents: Annotated[
        UsdCents | None, doc("Worth of `lp_tokens` by the market's oracle, in US cents; null without a price of USDC.")
    ]
    threshold_product_bps: Annotated[
        BasisPoints | None, doc("BLND^4 * USDC in basis points of what the contract asks for; null when unknown.")
    ]
    threshold_met: Annotated[bool | None, doc("Whether the funds are what the contract asks for; null when unknown.")]
    status_after_update: Annotated[
        Words | None, doc("The status that `update_status` would set now; null when it sets none or not known.")
    ]
    emission_token: Annotated[
        ContractAddress | None, doc("The token that depositors are paid in, a strkey; null when unknown.")
    ]
    emission_decimals: Annotated[Scale, doc("Decimals of `emission_per_second` beyond base units.")]
    emission_per_second: Annotated[
        Amount | None,
        doc("Paid to depositors per second, in base units times 10^`emission_decimals`; null when unknown."),
    ]
    emission_per_year: Annotated[
        Amount | None, doc("Paid to depositors per year, in base units of `emission_token`; null when unknown.")
    ]
    emission_expiration: Annotated[Timestamp | None, doc("When the emission ends; null without one, or when unknown.")]
    emission_apr_bps: Annotated[
        BasisPoints | None,
        doc("Annual yield of depositors that have not queued, in basis points; null when `emission_reason` says why."),
    ]
    emission_reason: Annotated[RewardReasonName, doc("`valid`, or why the emission is 0 or its yield null.")]
    emission_source: Annotated[
        EmissionSourceName | None,
        doc("Where the BLND comes from that the backstop promises next; null when not known."),
    ]
    emission_funded: Annotated[
        bool | None, doc("Whether the backstop has the BLND that it promised; null when not known.")
    ]
    backfill_remaining: Annotated[
        Amount | None, doc("BLND left of the backfill, in base units, 7 decimals; null unless it is the source.")
    ]
    in_reward_zone: Annotated[
        bool | None, doc("Whether the backstop's reward zone lists the market; null when not known.")
    ]


class MarketSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """One market with its pools, ascending by id.

    `pool_count` counts all pools, also those that were cut from `pools` (`truncated`) and those that could not be read,
    which `/v1/system/status` names. `tvl_usd_cents` is the sum over the `priced_count` pools that have a price, cut or
    not, and null when none has. `config_hash` changes if and only if the market's configuration in the ledger does.
    """

    market: MarketAddress
    config_hash: ConfigHash
    observed_ledger: ObservedLedger
    pool_count: Annotated[Count, doc("The market's pools, read or not.")]
    pools: Annotated[
        list[MarketPool],
        doc("The pools that were read, ascending by id, at most as many as `market_pools_cap` of the status says."),
    ]
    truncated: Annotated[bool, doc("Whether pools were cut from the list.")]
    tvl_usd_cents: PricedValue
    priced_count: PricedCount
    listed: Listed
    listed_reason: ListedReasonName
    listed_source: Annotated[
        Words | None, doc("What shows the market to people, or who vouches for it; null where it is not listed.")
    ]
    backstop: Annotated[MarketBackstop | None, doc("What insures the market's suppliers; null without a backstop.")]
    pending: Annotated[list[PendingChange], doc("Changes that are queued for the market or its pools.")]
    risk: Annotated[
        MarketRisk | None,
        doc("What the market's borrowers owe and hold, at a proven checkpoint; null without a recent one."),
    ]


class MarketEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One market of the list. `/v1/markets/{market}` has its pools.

    The three values are sums over the `priced_count` pools that have a price, and null when none has. Means are over
    the same pools, weighted by what is supplied or borrowed in USD, rounded down, and null where that is nothing.
    """

    market: MarketAddress
    protocol: ProtocolName
    version: Annotated[Words, doc("Generation of the protocol's contracts, for example v2.")]
    name: Annotated[Words, doc("The market's name as its contract gives it.")]
    status: Annotated[Words, doc("The market's status in the protocol's own words.")]
    listed: Listed
    listed_reason: ListedReasonName
    observed_ledger: ObservedLedger
    pool_count: Annotated[Count, doc("The market's pools, read or not.")]
    tvl_usd_cents: PricedValue
    priced_count: PricedCount
    supplied_usd_cents: Annotated[
        UsdCents | None, doc("Supplied in all pools that have a price, in US cents; null when none has.")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, doc("Borrowed in all pools that have a price, in US cents; null when none has.")
    ]
    mean_supply_apy_bps: Annotated[
        BasisPoints | None, doc("Mean `supply_apy_bps`, in basis points; null where nothing is supplied.")
    ]
    mean_total_supply_apy_bps: Annotated[
        BasisPoints | None, doc("Mean `total_supply_apy_bps`, in basis points; null where nothing is supplied.")
    ]
    mean_borrow_apy_bps: Annotated[
        BasisPoints | None, doc("Mean `borrow_apy_bps`, in basis points; null where nothing is borrowed.")
    ]


class MarketList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every market that was read, ascending by address."""

    observed_ledger: ObservedLedger
    data: Annotated[list[MarketEntry], doc("The markets, ascending by address.")]


class PoolReference(Struct, frozen=True, forbid_unknown_fields=True):
    """The market and the id of a pool, whose document is `/v1/assets/{market}/{pool}`."""

    market: MarketAddress
    pool: PoolId
    listed: Listed


class TokenDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A token and the pools that lend it, by market and then pool, ascending.

    `symbol` and `decimals` are what the token's contract says. `issuer` is the account that issues a classic asset. It
    follows from the Stellar asset contract, which nobody can forge, and is null for every other token.
    `first_seen_ledger` does not change if a token vanishes and comes back.
    """

    address: Annotated[ContractAddress, doc("The token's contract, a strkey.")]
    symbol: TokenSymbol
    decimals: TokenDecimals
    first_seen_ledger: Annotated[Ledger, doc("The lowest ledger at which the history has a pool of this token.")]
    observed_ledger: ObservedLedger
    pools: Annotated[list[PoolReference], doc("The pools that lend the token.")]
    issuer: Annotated[
        AccountAddress | None, doc("The account that issues the classic asset, a strkey; null for any other token.")
    ]
    name: Annotated[Words | None, doc("What the token's contract calls it in full; null where it has no name.")]
    identity: NullableIdentity


class ProtocolTotals(Struct, frozen=True, forbid_unknown_fields=True):
    """One protocol's part of the summary."""

    protocol: ProtocolName
    market_count: Annotated[Count, doc("Listed markets of the protocol that were read.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    priced_count: PricedCount
    tvl_usd_cents: PricedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_tvl_usd_cents: UnlistedValue


class ProtocolSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """The totals of all listed markets, and of each protocol, ascending by name.

    Pools count whether they could be read or not. The value is the sum over the `priced_count` pools that have a price,
    and null when none has. What markets that are not listed claim is in the fields that begin with `unlisted_`.
    """

    observed_ledger: ObservedLedger
    market_count: Annotated[Count, doc("Listed markets that were read.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    priced_count: PricedCount
    tvl_usd_cents: PricedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_tvl_usd_cents: UnlistedValue
    protocols: Annotated[list[ProtocolTotals], doc("The totals of each protocol, ascending by name.")]


class HistoryFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file of the history, with its size and where it is.

    `key` is relative to the root of the tree. `url` is relative to this document, so it leads to the file wherever the
    tree is served.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    first_ledger: Annotated[Ledger, doc("The lowest ledger of its rows.")]
    last_ledger: Annotated[Ledger, doc("The highest ledger of its rows.")]


class HistoryRollup(Struct, frozen=True, forbid_unknown_fields=True):
    """A Parquet file with the last run of each closed day or hour, under a key that stays the same.

    It is replaced before this document, so a reader that finds another digest should read both again. It was made from
    files of the history that have `source_rows` rows.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    bucket: BucketName
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    ends: Annotated[Timestamp, doc("The time before which all buckets of the file close.")]
    last_ledger: Annotated[
        Count, doc("The highest ledger of the files that it was made from; 0 as long as no bucket has closed.")
    ]
    source_rows: Annotated[Count, doc("Rows of the files that it was made from.")]
    columns_sha256: Annotated[
        Digest,
        doc(
            "SHA-256 of the names, types and descriptions of its columns. A version of the exporter with other columns "
            "makes the file again."
        ),
    ]


class Transitions(Struct, frozen=True, forbid_unknown_fields=True):
    """How replayed accruals of a contract code compare with the exporter's math.

    An accrual is `confirmed` if the contract wrote what the exporter computes from the entries before, in every number
    that is compared. It is `differing` if not: the contract did more in the same call, or the math is wrong. It is
    `untried` if it could not be computed, because a configuration or a balance that it needs is not known.
    """

    protocol: ProtocolName
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of the contract code, 64 hex digits; null when not known.")]
    confirmed: Annotated[Count, doc("Accruals in which the contract wrote what is computed here.")]
    differing: Annotated[Count, doc("Accruals in which the contract wrote something else.")]
    untried: Annotated[Count, doc("Accruals that could not be computed.")]


class LedgerSpan(Struct, frozen=True, forbid_unknown_fields=True):
    """A range of ledgers without a gap."""

    first_ledger: Annotated[Ledger, doc("The first of the ledgers.")]
    last_ledger: Annotated[Ledger, doc("The last of the ledgers.")]


class LiquidationsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The Parquet file of auctions and bad debt in the network's own ledgers.

    It has every such event of the markets in the ledgers of `spans`, and nothing of other ledgers. It is replaced
    before this document.
    """

    key: Annotated[ObjectKey, doc("Key of the Parquet file, relative to the root of the tree.")]
    url: FileReference
    rows: Annotated[Count, doc("Rows in the file.")]
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Annotated[Digest, doc("SHA-256 of the file, 64 hex digits.")]
    spans: Annotated[list[LedgerSpan], doc("The ledgers that were replayed, ascending.")]


class HistoryManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every Parquet file of the history. A file that is not named here is not part of it.

    `rollups` have some of the same rows again. `transitions` is there if the past was replayed from the network's own
    ledgers. It counts those of the last backfill.
    """

    format: Version
    observed_ledger: ObservedLedger
    files: Annotated[list[HistoryFile], doc("Every file of the history.")]
    rollups: Annotated[list[HistoryRollup], doc("Files with some of the same rows again.")] = []
    transitions: Annotated[list[Transitions], doc("How replayed accruals compare, by protocol and code.")] = []
    liquidations: Annotated[
        LiquidationsFile | None, doc("Auctions, bad debt and claims; null or missing where no ledgers were replayed.")
    ] = None


class Proof(Struct, frozen=True, forbid_unknown_fields=True):
    """The proof of a run: its evidence compared with a checkpoint for whose header enough organisations signed.

    Entries that are not `confirmed`, and the results of `calls`, are only the RPC's word.
    """

    run_id: RunId
    observed_ledger: ObservedLedger
    evidence_key: Annotated[ObjectKey, doc("Key of the run's evidence.")]
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint.")]
    proof_key: Annotated[ObjectKey, doc("Key of the file by which the proof can be checked.")]
    proof_sha256: Annotated[Digest, doc("SHA-256 of the file of `proof_key`, 64 hex digits.")]
    entries: Annotated[Count, doc("Ledger entries in the evidence.")]
    confirmed: Annotated[Count, doc("Entries that the checkpoint has as they were at the run's ledger.")]
    changed_since: Annotated[Count, doc("Entries that changed between the two ledgers.")]
    not_looked_up: Annotated[Count, doc("Entries that were not looked for in the older buckets.")]
    short_lived: Annotated[Count, doc("Entries that left no trace at the checkpoint.")]
    absent: Annotated[Count, doc("Entries that are absent at the checkpoint.")]
    calls: Annotated[Count, doc("Results of calls in the evidence, which are only the RPC's word.")]
    organisations_signed: Annotated[Count, doc("Trusted organisations that signed for the checkpoint's header.")]
    organisations_trusted: Annotated[Positive, doc("Organisations that are trusted.")]
    organisations_needed: Annotated[Positive, doc("Trusted organisations that must sign.")]
    proven_at: Annotated[Timestamp, doc("When the run was proven.")]


class ProofList(Struct, frozen=True, forbid_unknown_fields=True):
    """The proofs of the newest runs, newest first.

    A run is listed when a checkpoint after it can be proven, about six to twelve minutes later.
    """

    network: Passphrase
    verifier: Annotated[ObjectKey, doc("Key of the program that checks the proofs.")]
    trust: Annotated[ObjectKey, doc("Key of the list of trusted organisations.")]
    proofs: Annotated[list[Proof], doc("The proofs, newest run first.")]


class CensusCode(Struct, frozen=True, forbid_unknown_fields=True):
    """The contracts that run one code and are of one kind."""

    kind: CensusKind
    protocol: Annotated[ProtocolName | None, doc("The lending protocol's short name; null where none is known.")]
    wasm_hash: Annotated[
        Digest | None, doc("SHA-256 of the code, 64 hex digits; null where contracts run another contract's code.")
    ]
    contracts: Annotated[Count, doc("Contracts that run the code.")]


class CensusContract(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that the run did not read, and why."""

    address: Annotated[ContractAddress, doc("The contract that was not read, a strkey.")]
    kind: CensusKind
    protocol: Annotated[ProtocolName | None, doc("The lending protocol's short name; null where none is known.")]
    wasm_hash: Annotated[
        Digest | None, doc("SHA-256 of its code, 64 hex digits; null where it runs another contract's code.")
    ]
    reason: Reason
    detail: Annotated[str, doc("Why the run did not read it, in words.")]


class Census(Struct, frozen=True, forbid_unknown_fields=True):
    """The kind of every contract of a checkpoint's state, and which lending contracts a run did not read."""

    network: Passphrase
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint.")]
    header: Annotated[Digest, doc("SHA-256 of the checkpoint's header, 64 hex digits.")]
    run_id: Annotated[RunId | None, doc("The run that was compared; null if none was.")]
    contract_count: Annotated[Count, doc("Contracts in the state.")]
    code_count: Annotated[Count, doc("Codes in the state.")]
    counts: Annotated[dict[CensusKind, Count], doc("How many contracts are of each kind.")]
    codes: Annotated[list[CensusCode], doc("Contracts of the first three kinds, by code.")]
    unread_count: Annotated[Count, doc("Contracts of the first three kinds that the run did not read.")]
    unread: Annotated[list[CensusContract], doc("The first contracts that the run did not read, by kind and address.")]


class TableColumn(Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a CSV file."""

    type: Annotated[Words, doc("Type of the column in a Table Schema.")]
    unit: Annotated[Words, doc("Unit of its numbers, such as basis points; empty where there is none.")]
    description: Annotated[Words, doc("What the column holds; an empty cell is null.")]


class TableMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """What a CSV file holds: its source, its time, and each of its columns."""

    title: Annotated[Words, doc("The table in a few words.")]
    description: Annotated[Words, doc("What a row is.")]
    csv: Annotated[FileReference, doc("Where the CSV file is, relative to this document.")]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    rows: Annotated[Count, doc("Rows in the file, without its head.")]
    columns: Annotated[dict[str, TableColumn], doc("The columns by name, in the order of the file.")]


class DaysMetadata(Struct, frozen=True, forbid_unknown_fields=True):
    """What each pool's `history.csv` holds: each of its columns by name."""

    title: Annotated[Words, doc("The tables in a few words.")]
    description: Annotated[Words, doc("What a row is, and which days the file has.")]
    csv: Annotated[Words, doc("Where the CSV file of a pool is, relative to this document, with its market and pool.")]
    columns: Annotated[dict[str, TableColumn], doc("The columns by name, in the order of the files.")]


class DataField(Struct, frozen=True, forbid_unknown_fields=True):
    """A column, as a data package describes it."""

    name: Annotated[Words, doc("Name of the column.")]
    type: Annotated[Words, doc("Type of the column in a Table Schema.")]
    description: Annotated[Words, doc("What the column holds, with its unit.")]
    constraints: Annotated[dict[str, bool], doc("`required`: whether it is never null.")]


class DataSchema(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The columns of a table, and which of them identify a row."""

    fields: Annotated[list[DataField], doc("The columns.")]
    primary_key: Annotated[list[Words], doc("Names of the columns that identify a row.")]


class DataResource(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a data package: one file, or several with the same columns and no row twice.

    `path` is relative to the root of the tree. Columns that an older file lacks are null in its rows.
    """

    name: Annotated[Words, doc("Name of the table.")]
    title: Annotated[Words, doc("The table in a few words.")]
    path: Annotated[list[ObjectKey], doc("Keys of the files, relative to the root of the tree.")]
    format: Annotated[Words, doc("The format of the files.")]
    mediatype: Annotated[Words, doc("The media type of the files.")]
    schema: Annotated[DataSchema, doc("The columns and the key of the table.")]


class DataPackage(Struct, frozen=True, forbid_unknown_fields=True):
    """The Parquet files in the form of a Data Package 2.0, for tools that read such packages.

    The table `latest` has only the newest run; `history` has every run up to it.
    """

    schema: Annotated[Words, doc("URL of the profile that this document follows.")] = field(name="$schema")
    name: Annotated[Words, doc("Name of the package.")]
    title: Annotated[Words, doc("The package in a few words.")]
    description: Annotated[Words, doc("What the package holds.")]
    created: Annotated[Timestamp, doc("When the package was written.")]
    observed_ledger: ObservedLedger
    resources: Annotated[list[DataResource], doc("The tables.")]


class RunChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a market or of one of its pools since the previous run.

    docs/api.md lists the kinds. The `id` of a change never changes.
    """

    id: Annotated[str, Meta(pattern="^urn:uuid:[0-9a-f-]{36}$", description="Identifies the change.")]
    kind: Annotated[Words, doc("What changed, such as new_market, paused, price or supply_rate.")]
    market: MarketAddress
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for a change of the market.")]
    listed: Annotated[bool, doc("Whether the market was listed at that run, or when it was last read.")]
    title: Annotated[Words, doc("The change in words.")]
    before: Annotated[Words | None, doc("The value before the change, as text; null if there was none.")]
    after: Annotated[Words | None, doc("The value after the change, as text; null if there is none.")]
    unit: Annotated[
        Words | None,
        doc("Unit of `before` and `after`: usd, basis_points or base_units of the token; null for words."),
    ]
    takes_effect: Annotated[
        Timestamp | None, doc("The time from which a queued change can be put into effect; null without one.")
    ]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    previous_ledger: Annotated[Ledger, doc("The ledger of the run that was compared.")]


class WatchedValue(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that decides over a market: an admin, a code or an oracle."""

    kind: Annotated[Words, doc("What is watched: admin, code or oracle.")]
    subject: Annotated[Words, doc("Which admin, or which contract.")]
    value: Annotated[Words, doc("The address, or the SHA-256 of the code; `none` without one.")]


class WatchedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a market that the next run compares with its own."""

    market: MarketAddress
    protocol: ProtocolName
    name: Annotated[Words, doc("The market's name as its contract gives it.")]
    status: Annotated[Words, doc("The market's status in the protocol's own words.")]
    config_hash: ConfigHash
    listed: Listed
    values: Annotated[list[WatchedValue], doc("Who decides, which code runs, and who gives the prices.")]


class WatchedPool(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a pool that the next run compares with its own. Null means that the value is not known."""

    market: MarketAddress
    pool: PoolId
    symbol: TokenSymbol
    status: Annotated[Words | None, doc("The pool's own status in the protocol's own words; null when it has none.")]
    utilization_bps: Annotated[BasisPoints, doc("What is borrowed of what is supplied, in basis points, rounded down.")]
    can_supply: Annotated[bool | None, doc("Whether anybody may supply; null when unknown.")]
    can_withdraw: Annotated[bool | None, doc("Whether anybody may withdraw; null when unknown.")]
    can_borrow: Annotated[bool | None, doc("Whether anybody may borrow; null when unknown.")]
    can_repay: Annotated[bool | None, doc("Whether anybody may repay; null when unknown.")]
    can_liquidate: Annotated[bool | None, doc("Whether anybody may liquidate debt of this pool; null when unknown.")]
    archived: Annotated[bool, doc("Whether an entry that the numbers follow from is archived.")]
    oracle_price_usd: Annotated[Price | None, doc("Price of one token, in USD; null without a valid price.")]
    supply_apy_bps: Annotated[
        BasisPoints | None, doc("Annual yield of suppliers, in basis points; null below 1,000 US dollars.")
    ]
    borrow_apy_bps: Annotated[
        BasisPoints | None, doc("Annual cost of borrowers, in basis points; null below 1,000 US dollars.")
    ]
    supply_reward: Annotated[
        Words | None, doc("The suppliers' reward: paid, ends_soon, not_funded or none; null when unknown.")
    ]
    borrow_reward: Annotated[
        Words | None, doc("The borrowers' reward: paid, ends_soon, not_funded or none; null when unknown.")
    ]
    supply_cap: Annotated[
        Words | None, doc("Most that may be supplied, in base units; `none` without a cap; null when unknown.")
    ]
    borrow_cap: Annotated[
        Words | None, doc("Most that may be borrowed, in base units; `none` without a cap; null when unknown.")
    ]
    total_supplied: Annotated[Amount, doc("Supplied, in base units.")]
    total_borrowed: Annotated[Amount, doc("Borrowed, in base units.")]
    parameters: Annotated[
        dict[str, str],
        doc("The parameters of its configuration by their names in the contract, with their decimals, or `no limit`."),
    ] = {}


class WatchedUnread(Struct, frozen=True, forbid_unknown_fields=True):
    """A market or pool that could not be read. The next run reports it only if that is new."""

    market: MarketAddress
    protocol: ProtocolName
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for the whole market.")]
    reason: Reason


class WatchedPending(PendingChange, frozen=True, forbid_unknown_fields=True):
    """A queued change, with its market."""

    market: MarketAddress


class WatchedValues(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a run that the next run compares with its own. They follow from the run's evidence."""

    observed_ledger: ObservedLedger
    exporter_version: Annotated[Words, doc("The version of the exporter that wrote this document.")]
    markets: Annotated[list[WatchedMarket], doc("The markets that were read.")]
    pools: Annotated[list[WatchedPool], doc("The pools that were read.")]
    unread: Annotated[list[WatchedUnread], doc("The markets and pools that could not be read.")]
    pending: Annotated[list[WatchedPending], doc("The changes that are queued.")]


class ChangeList(Struct, frozen=True, forbid_unknown_fields=True):
    """The newest changes, newest first.

    At most 300 changes are kept, and at most 25 of a market. A run that has nothing to compare with finds no changes.
    """

    observed_ledger: ObservedLedger
    data: Annotated[list[RunChange], doc("The changes, newest first.")]
    cut_count: Annotated[Count, doc("Changes of this run that are not in `data`, for which there was no room.")] = 0


class PoolsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """Pools in flat rows, by market and then pool, ascending, 500 at most. `next_cursor` is null on the last page."""

    data: Annotated[list[PoolRow], doc("The pools of this page.")]
    next_cursor: NextCursor
    observed_ledger: ObservedLedger


class BestRate(Struct, frozen=True, forbid_unknown_fields=True):
    """The best rate of a token, and its pool. It is the highest `total_apy_bps` to supply, or the lowest to borrow."""

    market: MarketAddress
    pool: PoolId
    protocol: ProtocolName
    market_name: Annotated[Words, doc("The market's name as its contract gives it.")]
    apy_bps: Annotated[BasisPoints, doc("Annual yield as the protocol computes it, in basis points, rounded down.")]
    comparable_apy_bps: Annotated[BasisPoints, doc("The annual rate compounded daily, in basis points, rounded down.")]
    reward_apr_bps: Annotated[
        BasisPoints | None, doc("Annual yield of the reward, in basis points; null when not funded or without a price.")
    ]
    total_apy_bps: Annotated[
        Change,
        doc(
            "`comparable_apy_bps` plus the reward if the rate is to supply, minus the reward if it is to borrow, in "
            "basis points."
        ),
    ]
    total_supplied: Annotated[Amount, doc("What the pool holds: lent into it, interest included, in base units.")]
    supplied_usd_cents: Annotated[UsdCents, doc("The same in US cents, rounded down.")]
    available_to_withdraw: Annotated[
        Amount | None, doc("What can leave the pool now, in base units; null when not known.")
    ]
    available_usd_cents: Annotated[UsdCents | None, doc("The same in US cents, rounded down; null when not known.")]
    room: Annotated[
        Amount | None,
        doc("How much more can be supplied or borrowed, in base units; null without a cap, or when not known."),
    ]
    room_usd_cents: Annotated[UsdCents | None, doc("The same in US cents, rounded down; null like `room`.")]


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A token with the totals of its pools in listed markets, and its best rates.

    The two sums are over the `priced_count` pools that have a price. A pool qualifies for a best rate if its market is
    listed, if the operation is open now, if its price is at most a day old and not far from those of other listed
    markets, if it holds at least 1,000 US dollars, and if it has room for as much. Pools of other markets are in the
    fields that begin with `unlisted_`.
    """

    address: Annotated[ContractAddress, doc("The token's contract, a strkey.")]
    symbol: TokenSymbol
    decimals: TokenDecimals
    market_count: Annotated[Count, doc("Listed markets that have a pool of the token.")]
    pool_count: Annotated[Count, doc("Pools of the token in these markets.")]
    open_pool_count: Annotated[Count, doc("Pools of the token in listed markets that let anybody supply.")]
    priced_count: PricedCount
    supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in all pools of listed markets that have a price, in US cents; null when none has."),
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in all pools of listed markets that have a price, in US cents; null when none has."),
    ]
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in markets that are not listed, by their own prices, in US cents; null when none has a price."),
    ]
    unlisted_borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in markets that are not listed, by their own prices, in US cents; null when none has a price."),
    ]
    best_supply: Annotated[BestRate | None, doc("The highest rate to supply; null when no pool qualifies.")]
    best_borrow: Annotated[BestRate | None, doc("The lowest rate to borrow; null when no pool qualifies.")]
    issuer: Annotated[
        AccountAddress | None, doc("The account that issues the classic asset, a strkey; null for any other token.")
    ]
    name: Annotated[Words | None, doc("What the token's contract calls it in full; null where it has no name.")]
    identity: NullableIdentity


class TokenList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every token that a pool lends, ascending by address; those of one symbol with the identified ones first."""

    observed_ledger: ObservedLedger
    data: Annotated[list[TokenEntry], doc("The tokens, ascending by address; with a symbol, identified ones first.")]


class HistoryBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """The observations of a pool from `start_time` (inclusive) to `end_time` (exclusive).

    Amounts and the value are averages over the observations, rounded down. Rates and the price are medians: the middle
    value or, if their number is even, the mean of the two in the middle, rounded down. A price is rounded at the most
    decimals that a price of the bucket has. The value and the price are computed from the `priced_count` observations
    that have a price, and null when none has.
    """

    start_time: Annotated[Timestamp, doc("When the bucket begins.")]
    end_time: Annotated[Timestamp, doc("When it ends; this time is not part of it.")]
    total_supplied: Annotated[Amount, doc("Mean of what was lent into the pool, in token base units, rounded down.")]
    total_borrowed: Annotated[Amount, doc("Mean of what was owed to the pool, in token base units, rounded down.")]
    supply_apy_bps: Annotated[
        BasisPoints,
        doc("Median annual yield of suppliers, compounded as the protocol does it, in basis points, rounded down."),
    ]
    realized_supply_apy_bps: Annotated[
        Change | None,
        doc(
            "What a supply share gained from the first to the last observation, as the annual yield of a year with the "
            "same growth, in basis points, rounded down; null with one observation."
        ),
    ]
    realized_supply_reward: Annotated[
        Price | None,
        doc(
            "What one token that was supplied at the first observation was paid until the last, in whole reward "
            "tokens, rounded down; null with one observation, and when unknown."
        ),
    ]
    borrow_apy_bps: Annotated[
        BasisPoints,
        doc("Median annual cost of borrowers, compounded as the protocol does it, in basis points, rounded down."),
    ]
    realized_borrow_apy_bps: Annotated[
        Change | None,
        doc(
            "What a debt grew from the first to the last observation, as the annual cost of a year with the same "
            "growth, in basis points, rounded down; null with one observation."
        ),
    ]
    comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Median annual yield of suppliers compounded daily, alike for every protocol, in basis points, rounded "
            "down; null where rows of that time do not have it."
        ),
    ]
    comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Median annual cost of borrowers compounded daily, alike for every protocol, in basis points, rounded "
            "down; null where rows of that time do not have it."
        ),
    ]
    interest_paid: Annotated[
        Amount | None,
        doc(
            "Interest of borrowers since the pool's observation before the bucket, in token base units: at each "
            "observation, what was owed at the one before times the growth of the borrow index, rounded down; null "
            "for the pool's first observation."
        ),
    ]
    interest_paid_usd_cents: Annotated[
        UsdCents | None, doc("`interest_paid` at `oracle_price_usd`, in US cents, rounded down; null without a price.")
    ]
    interest_to_protocol: Annotated[
        Amount | None,
        doc(
            "The part of `interest_paid` that suppliers did not get, by the growth of the supply index, in token base "
            "units; 0 where suppliers got more, null where they shared a loss."
        ),
    ]
    interest_to_protocol_usd_cents: Annotated[
        UsdCents | None,
        doc("`interest_to_protocol` at `oracle_price_usd`, in US cents, rounded down; null without a price."),
    ]
    utilization_bps: Annotated[BasisPoints, doc("Median utilization, in basis points, rounded down.")]
    tvl_usd_cents: Annotated[
        UsdCents | None, doc("Mean value of the pool, in US cents, rounded down; null when no observation has a price.")
    ]
    oracle_price_usd: Annotated[
        Price | None, doc("Median price of one token, in USD; null when no observation has one.")
    ]
    observation_count: Annotated[Positive, doc("Observations in the bucket.")]
    priced_count: Annotated[Count, doc("Observations that have a price.")]
    listed: Annotated[bool, doc("Whether the market was listed at the last observation.")]
    first_ledger: Annotated[Ledger, doc("The first ledger observed in the bucket.")]
    last_ledger: Annotated[Ledger, doc("The last ledger observed in the bucket.")]


class AssetHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """The closed time buckets of one pool and one length, ascending. A bucket without observations is left out.

    `data` is empty until a bucket closes; `/v1/assets/{market}/{pool}` has the present state. `next_cursor` leads to
    the page with older buckets, which never changes, and is null on the oldest page. `observed_ledger` is the last
    ledger in the buckets, or without buckets the first ledger at which the pool was observed.
    """

    market: MarketAddress
    pool: PoolId
    bucket: BucketName
    observed_ledger: ObservedLedger
    data: Annotated[list[HistoryBucket], doc("The buckets, ascending.")]
    next_cursor: OlderCursor


class TotalsBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """The totals of a market, or of the listed markets of a token, a protocol or the network, in a time bucket.

    A market counts as listed in a bucket if it was listed at its last observation there. Markets that were not are only
    in the fields that begin with `unlisted_`. The totals of a market are those of all its pools. A pool counts with the
    mean of its observations in the bucket, as in its own history. The three values are sums over the `priced_count`
    pools that had a price, and null when none had; a pool that was not observed in the bucket is in no sum. Means of
    rates are weighted by what is supplied or borrowed in USD, rounded down, and null where that is nothing. The best
    rates are those of pools worth at least 1,000 USD in listed markets that were open for lending and borrowing at
    every observation. The best rate to borrow is the lowest one among the pools that are not lent out completely. Best
    rates are null when no pool counts.
    """

    start_time: Annotated[Timestamp, doc("When the bucket begins.")]
    end_time: Annotated[Timestamp, doc("When it ends; this time is not part of it.")]
    supplied_usd_cents: Annotated[
        UsdCents | None, doc("Supplied in all pools that had a price, in US cents; null when none had.")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, doc("Borrowed in all pools that had a price, in US cents; null when none had.")
    ]
    tvl_usd_cents: Annotated[
        UsdCents | None, doc("Value of all pools that had a price, in US cents; null when none had.")
    ]
    mean_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield, compounded as each protocol does it, weighted by USD supplied, in basis points; null "
            "where that is nothing."
        ),
    ]
    mean_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost, compounded as each protocol does it, weighted by USD borrowed, in basis points; null "
            "where that is nothing."
        ),
    ]
    mean_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield, compounded daily, alike for every protocol, weighted by USD supplied, in basis points; "
            "null where that is nothing, and where rows of that time do not have it."
        ),
    ]
    mean_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost, compounded daily, alike for every protocol, weighted by USD borrowed, in basis points; "
            "null where that is nothing, and where rows of that time do not have it."
        ),
    ]
    best_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The highest annual yield to supply, compounded as its protocol does it, in basis points; null when no "
            "pool counts."
        ),
    ]
    best_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The lowest annual cost to borrow, compounded as its protocol does it, in basis points; null when no "
            "pool counts."
        ),
    ]
    best_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The highest annual yield to supply, compounded daily, alike for every protocol, in basis points; null "
            "when no pool counts, and where rows of that time do not have it."
        ),
    ]
    best_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The lowest annual cost to borrow, compounded daily, alike for every protocol, in basis points; null "
            "when no pool counts, and where rows of that time do not have it."
        ),
    ]
    market_count: Annotated[Count, doc("Markets that were observed.")]
    pool_count: Annotated[Count, doc("Pools that were observed.")]
    priced_count: Annotated[Count, doc("Pools that had a price.")]
    listed: Annotated[bool | None, doc("Whether the market was listed; null for other totals.")]
    unlisted_supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in markets that were not listed, by their own prices, in US cents; null when none had a price."),
    ]
    unlisted_borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in markets that were not listed, by their own prices, in US cents; null when none had a price."),
    ]
    unlisted_tvl_usd_cents: UnlistedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    first_ledger: Annotated[Ledger, doc("The first ledger observed in the bucket.")]
    last_ledger: Annotated[Ledger, doc("The last ledger observed in the bucket.")]


class TotalsHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """The closed time buckets of a market, a token, a protocol or the network, of one length, ascending.

    `scope` says which of these it is, and `id` is an address, a protocol's name, or `network`. As in the history of a
    pool, a bucket without observations is left out, `next_cursor` leads to older buckets, and `observed_ledger` is the
    last ledger in the buckets, or without buckets the first ledger at which one of the pools was observed.
    """

    scope: Scope
    id: ScopeId
    bucket: BucketName
    observed_ledger: ObservedLedger
    data: Annotated[list[TotalsBucket], doc("The buckets, ascending.")]
    next_cursor: OlderCursor

    @property
    def market(self) -> str | None:
        """The market's address, which the key has; None for other scopes."""
        return self.id if self.scope == "market" else None

    @property
    def address(self) -> str | None:
        """The token's address, which the key has; None for other scopes."""
        return self.id if self.scope == "token" else None

    @property
    def protocol(self) -> str | None:
        """The protocol's name, which the key has; None for other scopes."""
        return self.id if self.scope == "protocol" else None


class ContractVersion(Struct, frozen=True, forbid_unknown_fields=True):
    """The markets that were read and run the same code."""

    version: Annotated[Words, doc("Generation of the protocol's contracts, for example v2.")]
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of their code, 64 hex digits; null if they have no code.")]
    market_count: Annotated[Count, doc("Markets that run this code.")]


class KnownAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that was known beforehand: what it is to the protocol, and where its address was taken from."""

    deployment: Annotated[Words, doc("The list that names the contract.")]
    role: Annotated[Words, doc("What the contract is to the protocol.")]
    address: Annotated[ContractAddress, doc("The contract, a strkey.")]
    name: Annotated[Words, doc("The contract's name.")]
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of its code, 64 hex digits; null where the list has none.")]
    source: Annotated[Words, doc("Where the address was taken from.")]
    date: Day
    listed: Annotated[bool, doc("Whether it is a market that the exporter's lists vouch for.")]
    listed_source: Annotated[Words | None, doc("What shows the market to people; null where it is not listed.")]


class ProtocolCoverage(Struct, frozen=True, forbid_unknown_fields=True):
    """The coverage of a protocol, and the meaning of its numbers, in which protocols differ."""

    protocol: ProtocolName
    title: Annotated[Words, doc("The protocol's name.")]
    structure: Annotated[Words, doc("What a market and a pool of the protocol are.")]
    year_seconds: Annotated[Positive, doc("The length of the year in its annual rates, in seconds.")]
    supply_yield: Annotated[Words, doc("How suppliers' yield follows from the annual rate.")]
    borrow_yield: Annotated[Words, doc("How borrowers' cost follows from the annual rate.")]
    supply_compounding: Annotated[
        Compounding, doc("Times a year that the suppliers' yield is compounded, such as 365 for daily; or simple.")
    ]
    borrow_compounding: Annotated[
        Compounding, doc("Times a year that the borrowers' cost is compounded, such as 365 for daily; or simple.")
    ]
    rates: Annotated[Words, doc("The state from which the rates follow.")]
    totals: Annotated[Words, doc("The state from which the totals follow, and what is part of them.")]
    prices: Annotated[Words, doc("Where the price comes from.")]
    limits: Annotated[Words, doc("What is not in the numbers.")]
    market_count: Annotated[Count, doc("Markets of the protocol that were read.")]
    listed_market_count: Annotated[Count, doc("Markets of the protocol that were read and are listed.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    unread_count: Annotated[Count, doc("Markets and pools that could not be read.")]
    unpriced_count: Annotated[Count, doc("Pools that have no price.")]
    absent_count: Annotated[Count, doc("Known market addresses that have no contract.")]
    contract_versions: Annotated[list[ContractVersion], doc("Markets that were read, by the code that they run.")]
    known_contracts: Annotated[list[KnownAddress], doc("Contracts that were known beforehand.")]


class Excluded(Struct, frozen=True, forbid_unknown_fields=True):
    """A protocol that is left out on purpose, and why."""

    name: Annotated[Words, doc("What is left out.")]
    kind: Annotated[Words, doc("What sort of thing it is.")]
    reason: Annotated[Words, doc("Why it is left out, in words.")]


class ProtocolList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every protocol that a run looks for, also those of which it found nothing, and what is left out on purpose.

    `/v1/system/status` names what could not be read and what has no price.
    """

    observed_ledger: ObservedLedger
    data: Annotated[list[ProtocolCoverage], doc("The protocols, ascending by name.")]
    excluded: Annotated[list[Excluded], doc("What is left out on purpose.")]


class Unread(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool, or a whole market (then `pool` is null), that could not be read, and why."""

    market: MarketAddress
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for the whole market.")]
    protocol: ProtocolName
    reason: Reason
    detail: Annotated[str, doc("Why it could not be read, in words.")]


class Unpriced(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool whose price is null, and why."""

    market: MarketAddress
    pool: PoolId
    reason: Reason


class UnpricedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """A market in which pools have no price, with their number and their share."""

    market: MarketAddress
    pool_count: Annotated[Count, doc("Pools of the market that were read.")]
    unpriced_count: Annotated[Count, doc("Pools that were read and have no price.")]
    unpriced_bps: Annotated[BasisPoints, doc("Share of the pools that have no price, in basis points, rounded down.")]


class Bounded(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of a pool that is too large for its column and is published as the column's bound.

    The true number is the bound or more.
    """

    market: MarketAddress
    pool: PoolId
    field: Annotated[str, doc("The name of the number's column in the Parquet history.")]
    bound: Annotated[Amount, doc("The published number: the most that the column can hold, in its unit.")]


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A known market address at which there is no contract at this ledger."""

    market: MarketAddress
    protocol: ProtocolName
    reason: Reason


class SkippedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """A market that a run did not read, or did not read to the end, and why."""

    market: MarketAddress
    protocol: ProtocolName
    reason: SkipReasonName


class SkippedCounts(Struct, frozen=True, forbid_unknown_fields=True):
    """How many markets a run did not read, or not to the end, by the reason."""

    excluded: Annotated[Count, doc("Markets that the publisher's configuration excludes.")]
    pools: Annotated[Count, doc("Unlisted markets for whose pools there was no room.")]
    time: Annotated[Count, doc("Unlisted markets for which there was no time.")]
    changed: Annotated[Count, doc("Unlisted markets that changed while they were read; they are unread.")]
    failed: Annotated[Count, doc("Unlisted markets about which the source gave no usable answer; they are unread.")]


class SkippedList(Struct, frozen=True, forbid_unknown_fields=True):
    """Markets that the run did not read, or not to the end, by address, ascending; 500 a page."""

    observed_ledger: ObservedLedger
    page: Annotated[Positive, doc("The number of this page, from 1.")]
    page_count: Annotated[Positive, doc("The number of pages. The next ones are at /v1/skipped/2 and so on.")]
    data: Annotated[list[SkippedMarket], doc("The markets of this page.")]


class SystemStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """The status document, which says which run is published. It is written last, so all files of that run exist.

    The network `local` runs on a single machine, as that of `exporter demo` does. Until `/v1/proofs` lists the run, its
    numbers are the RPC's word. `proof_checkpoint` can be proven when the network has published the checkpoint after it,
    64 ledgers later.
    """

    run_id: RunId
    format: Version
    network: Passphrase
    network_name: Annotated[Words, doc("mainnet, testnet, local, or custom for any other.")]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    generated_at: Annotated[Timestamp, doc("When the run was made.")]
    next_expected_at: Annotated[
        Timestamp | None, doc("When a newer run should have replaced this one; null when not known.")
    ]
    market_count: Annotated[Count, doc("Markets that were read.")]
    listed_market_count: Annotated[Count, doc("Markets that were read and are listed.")]
    pool_count: Annotated[Count, doc("Pools of the markets that were read, whether these were read or not.")]
    token_count: Annotated[Count, doc("Different tokens of the pools that were read.")]
    unread_count: Annotated[Count, doc("Entries of `unread`.")]
    unpriced_count: Annotated[Count, doc("Entries of `unpriced`.")]
    unread: Annotated[list[Unread], doc("The markets and pools that could not be read, each with the reason.")]
    unpriced: Annotated[list[Unpriced], doc("Pools whose price is null.")]
    bounded: Annotated[list[Bounded], doc("Numbers that are published as the most that their column can hold.")]
    absent: Annotated[list[Absent], doc("Known market addresses at which there is no contract.")]
    notices: Annotated[list[str], doc("What else people should know about the run.")]
    page_sizes: Annotated[list[Positive], doc("The sizes in which pages are rendered, in rows, ascending.")]
    default_page_size: Annotated[Positive, doc("Rows of a page without a limit.")]
    retention_hours: Annotated[Count, doc("How long files of earlier runs are kept, in hours.")]
    manifest_key: Annotated[ObjectKey, doc("Key of the run's manifest.")]
    manifest_sha256: Annotated[Digest, doc("SHA-256 of the run's manifest, 64 hex digits.")]
    previous_run_id: Annotated[RunId | None, doc("The id of the previous run; null for the first run.")]
    evidence_key: Annotated[ObjectKey, doc("Key of the file with everything that the run's numbers come from.")]
    market_pools_cap: Annotated[Positive, doc("Largest number of pools in the document of a market.")]
    proof_checkpoint: Annotated[Ledger, doc("The ledger with whose state the run can be compared.")]
    risk_key: Annotated[ObjectKey | None, doc("Key of the risk document that markets show; null if none is recent.")]
    risk_sha256: Annotated[Digest | None, doc("SHA-256 of that risk document, 64 hex digits; null without one.")]
    unpriced_bps: Annotated[
        BasisPoints, doc("Share of the pools read in listed markets that have no price, in basis points, rounded down.")
    ]
    unpriced_markets: Annotated[list[UnpricedMarket], doc("Markets with pools that have no price, ascending.")]
    skipped_counts: Annotated[SkippedCounts, doc("Markets that were not read, or not to the end, by the reason.")]
    skipped: Annotated[list[SkippedMarket], doc("The first 20 skipped markets; all are at `/v1/skipped`.")]


class ManifestFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a run: a row of the Parquet file `files_key`, in which `kind` is page, history or document."""

    key: Annotated[ObjectKey, doc("Key of the file, relative to the root of the tree.")]
    kind: FileKindName
    bytes: Annotated[Count, doc("Size of the file in bytes.")]
    sha256: Digest


class RunSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a run on which its files depend."""

    network: Passphrase
    page_sizes: Annotated[list[Positive], doc("The sizes in which pages are rendered, in rows, ascending.")]
    default_page_size: Annotated[Positive, doc("Rows of a page without a limit.")]
    market_pools_cap: Annotated[Positive, doc("Largest number of pools in the document of a market.")]
    public_url: Annotated[
        PublicUrl | None, doc("The public URL of the tree, which web pages name; null if they name none.")
    ] = None


InputName = Literal["evidence", "risk", "watched", "history"]
"""What a file is to the run that was made from it.

It is the run's evidence, the risk that it shows, the watched values of the previous run, or a file of the history.
"""


class RunInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a run was made from.

    The `evidence` is everything that its numbers come from. `risk` is the document of a census. `watched` has the
    values of the previous run, with which this one was compared; a run without it was not compared. A file of the
    `history` may have been joined into another one since.
    """

    name: Annotated[InputName, doc("What the file is to the run: evidence, risk, watched or history.")]
    key: Annotated[ObjectKey, doc("Key of the file, relative to the root of the tree.")]
    sha256: Digest


class RunManifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run was made from, and the list of every file that it wrote or relies on.

    The same `inputs` and `settings` give the same files. The list is the Parquet file `files_key`. Its columns are
    `key`, `kind` (page, history or document), `bytes` and `sha256` (32 bytes); rows ascend by key.
    """

    run_id: RunId
    observed_ledger: ObservedLedger
    published_at: Annotated[Timestamp, doc("When the run was published.")]
    file_count: Annotated[Count, doc("Files that are listed.")]
    bytes: Annotated[Count, doc("Size of all these files, in bytes.")]
    files_key: Annotated[ObjectKey, doc("Key of the Parquet file that lists them.")]
    files_sha256: Annotated[Digest, doc("SHA-256 of the file of `files_key`, 64 hex digits.")]
    settings: Annotated[RunSettings, doc("The settings on which the files depend.")]
    inputs: Annotated[list[RunInput], doc("The files from which the run was made, those of the history ascending.")]


class Endpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A path of the API, with a sentence about it."""

    path: Annotated[str, doc("The path, with names in braces that a client replaces by values.")]
    parameters: Annotated[list[Words], doc("Names of the parameters that the path's query may have.")]
    summary: Annotated[str, doc("What the path answers with.")]


class LaterEndpoint(Endpoint, frozen=True, forbid_unknown_fields=True):
    """A path that answers 404 until a command has added its first file."""

    added_by: Annotated[str, doc("The command that adds it, such as `exporter prove`.")]


class ApiIndex(Struct, frozen=True, forbid_unknown_fields=True):
    """The endpoints of the API. `/v1/openapi.json` describes them in full."""

    endpoints: Annotated[list[Endpoint], doc("The endpoints that every tree has, in the order of the description.")]
    later: Annotated[list[LaterEndpoint], doc("Endpoints that a tree has once a command added their files.")]
    openapi: Annotated[FileReference, doc("Where the description is, relative to this document.")]


class OpenApiDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """The description of the API itself (OpenAPI 3.1)."""

    openapi: Annotated[str, doc("The version of OpenAPI.")]
    info: Annotated[dict[str, Any], doc("The API's title, version and description.")]
    servers: Annotated[list[dict[str, Any]], doc("The URLs at which the API is served.")]
    tags: Annotated[list[dict[str, Any]], doc("The groups of paths.")]
    paths: Annotated[dict[str, dict[str, Any]], doc("The paths that a client can ask for.")]
    components: Annotated[dict[str, dict[str, Any]], doc("The schemas of all documents.")]
    security: Annotated[list[dict[str, Any]], doc("Empty, because nobody needs a key.")]


_ENCODER = msgspec.json.Encoder()


def encode(document: object) -> bytes:
    """The bytes of a document: compact UTF-8 JSON with the fields in the model's order, and no newline at the end."""
    return _ENCODER.encode(document)


def page_token(data: bytes) -> str:
    """The token of a page file. It names the page by its content, so it always means the same bytes."""
    return token_of(hashlib.sha256(data).digest())


def token_of(digest: bytes) -> str:
    """The token of the page file with this SHA-256."""
    return base64.urlsafe_b64encode(digest)[:PAGE_TOKEN_LENGTH].decode("ascii")


@lru_cache(maxsize=1 << 13)
def timestamp(seconds: int) -> str:
    """A time (unix seconds) as documents write it: RFC 3339, UTC, to the second, with a Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Intent(Struct, frozen=True):
    """The record that a run writes before it replaces its first document.

    As long as it names a later ledger than the status document, that run has not finished. Some documents may already
    have its ledger, so a run at an earlier ledger would move them backwards.

    Attributes:
        history_key: the run's Parquet file, which is written next. If the run dies, no manifest may ever name it.
        history_ledger: the newest ledger of the history without this run; 0 if it is empty. A history that ends earlier
            has lost files.
        replaced_ledger: the first ledger that the run replaces, if it replaces published runs.
    """

    run_id: str
    observed_ledger: Annotated[int, Meta(ge=1)]
    started_at: str
    history_key: str | None = None
    history_ledger: Annotated[int, Meta(ge=0)] = 0
    replaced_ledger: Annotated[int, Meta(ge=1)] | None = None
