"""What is on the wire: the JSON documents, field for field, apart from the tables they are made from.

A document is compact UTF-8 JSON without a newline at its end, its fields in the order in which they stand here (the
kinds of values: `exporter.api.fields`). The documents of a single asset are in `exporter.api.asset_documents`.

The same models give the JSON Schema of the API (`exporter.api.openapi`) and read every file back as it is written
(`exporter.api.parse_back`).
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from exporter.api.asset_documents import AssetDetail, AssetHistory
from exporter.api.coverage_documents import ProtocolList
from exporter.api.fields import (
    Amount,
    BasisPoints,
    ConfigHash,
    ContractAddress,
    Count,
    Cursor,
    Digest,
    FileKindName,
    FileReference,
    Ledger,
    ObjectKey,
    PoolId,
    Positive,
    Price,
    ProtocolName,
    Reason,
    RunId,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Version,
    Words,
)
from exporter.api.problems import Problem

SCHEMA_VERSION = 1
"""The version of these documents: raised when a field is renamed, removed or given another meaning."""

PAGE_TOKEN_LENGTH = 22
"""Characters of a page's token: the first 132 bits of the SHA-256 of its bytes."""


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


class MarketSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """One market with its pools, ascending by id.

    `pool_count` counts all member pools, also those that were cut from `pools` (`truncated`) or could not be
    read (listed in `/v1/system/status`). `tvl_usd_cents` sums all pools that have a price, cut or not; it is null
    when none has. `config_hash` changes if and only if the market's configuration in the ledger does.
    """

    market: ContractAddress
    config_hash: ConfigHash
    observed_ledger: Ledger
    pool_count: Count
    pools: list[MarketPool]
    truncated: bool
    tvl_usd_cents: UsdCents | None


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
    schema_version: Version


class HistoryManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """Every Parquet file of the history. A file that is not named here is no part of it."""

    schema_version: Version
    observed_ledger: Ledger
    files: list[HistoryFile]


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
    """

    run_id: RunId
    schema_version: Version
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


class ManifestFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a run: `kind` is page, history, document or pointer, `bytes` its size."""

    key: ObjectKey
    kind: FileKindName
    bytes: Count
    sha256: Digest


class RunManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """Every file that a run wrote or relies on, with its digest."""

    run_id: RunId
    observed_ledger: Ledger
    published_at: Timestamp
    files: list[ManifestFile]


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
    | MarketList
    | MarketSummary
    | TokenDocument
    | ProtocolSummary
    | ProtocolList
    | HistoryManifest
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
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest())[:PAGE_TOKEN_LENGTH].decode("ascii")


def timestamp(seconds: int) -> str:
    """Unix seconds as the documents write a time: RFC 3339, UTC, to the second, with a Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
