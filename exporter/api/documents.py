"""What is on the wire: the JSON documents, field for field, apart from the tables they are made from.

A document is compact UTF-8 JSON without a newline at its end, its fields in the order in which they stand
here. Token amounts, prices and money are decimal strings, because they exceed 2^53; basis points, decimals,
ledgers and counts are integers. None of these is ever negative: totals, debts and collateral are sums of
positions that only exist above zero, prices count only above zero, and yields follow from them.

The same models give the JSON Schema of the API (`msgspec.json.schema`) and read every file back as it is
written (`exporter.api.parse_back`).
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

SCHEMA_VERSION = 1
"""The version of these documents: raised when a field is renamed, removed or given another meaning."""

PAGE_TOKEN_LENGTH = 22
"""Characters of a page's token: the first 132 bits of the SHA-256 of its bytes."""

ContractAddress: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^C[A-Z2-7]{55}$",
        min_length=56,
        max_length=56,
        description="A contract's address as a strkey.",
        examples=["CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"],
    ),
]
PoolId: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$",
        min_length=1,
        max_length=128,
        description="The pool's id inside its market; the token's address wherever a market has one pool a token.",
        examples=["CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"],
    ),
]
TokenSymbol: TypeAlias = Annotated[
    str,
    Meta(
        description="The token's symbol as its contract gives it: any text. The native asset's is `native`.",
        examples=["native", "USDC"],
    ),
]
TokenDecimals: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**32 - 1, description="The decimals of the token: 7 means 10^7 base units.", examples=[7])
]
BasisPoints: TypeAlias = Annotated[
    int, Meta(ge=0, description="A rate in basis points (1/10,000), rounded down.", examples=[610])
]
Amount: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]*)$",
        description="An amount in base units of the token, an exact integer in digits. Never negative.",
        examples=["126430667051058"],
    ),
]
Price: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(0|[1-9][0-9]*)(\.[0-9]+)?$",
        description="The price of one whole token in USD by the market's own oracle, with all of its decimals.",
        examples=["1.00000000000000"],
    ),
]
UsdCents: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]*)$",
        description="Money in US cents, an exact integer in digits, rounded down. Never negative.",
        examples=["329670245"],
    ),
]
Ledger: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1, description="A ledger's number.", examples=[55261759])]
Count: TypeAlias = Annotated[int, Meta(ge=0, description="A count.", examples=[12])]
Positive: TypeAlias = Annotated[int, Meta(ge=1, description="A count above zero.", examples=[50])]
Version: TypeAlias = Annotated[int, Meta(ge=1, description="The version of the documents' schema.", examples=[1])]
Digest: TypeAlias = Annotated[
    str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64, description="SHA-256 in lowercase hex digits.")
]
ConfigHash: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{16}$",
        min_length=16,
        max_length=16,
        description="The start of SHA-256 over the market's configuration in the ledger, in lowercase hex digits.",
        examples=["0f1e2d3c4b5a6978"],
    ),
]
RunId: TypeAlias = Annotated[
    str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$", min_length=1, max_length=128, description="The id of a run.")
]
ObjectKey: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_=~+@,-][A-Za-z0-9_=~+@,.-]*(/[A-Za-z0-9_=~+@,-][A-Za-z0-9_=~+@,.-]*)*$",
        max_length=1024,
        description="The key of a file, relative to the root of the tree.",
        examples=["v1/assets/index.json"],
    ),
]
Timestamp: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
        min_length=20,
        max_length=20,
        description="A time in UTC, to the second (RFC 3339).",
        examples=["2026-11-21T10:55:00Z"],
    ),
]
Cursor: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_-]+$",
        max_length=128,
        description="The opaque cursor of the next page, for `/v1/assets?cursor=`.",
    ),
]
ProtocolName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=64, description="The lending protocol's short name.", examples=["blend"])
]
Reason: TypeAlias = Annotated[
    str, Meta(min_length=1, description="Why, as a fixed word that a program can tell apart.", examples=["archived"])
]
FileKindName: TypeAlias = Annotated[
    str, Meta(pattern="^(page|history|document|pointer)$", description="What may happen to the file later.")
]


class PoolSnapshot(Struct, frozen=True, forbid_unknown_fields=True):
    """One token's pool in one market at the observed ledger.

    Totals are in base units of the token, rates in basis points a year rounded down. `oracle_price_usd` is null
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


class HistoryFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file of the history; `key` is relative to the root of the tree, `bytes` its size."""

    key: ObjectKey
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


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A known market address at which there is no contract at this ledger."""

    market: ContractAddress
    protocol: ProtocolName
    reason: Reason


class SystemStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """The pointer: which run is the published one. It is written last, so all that it implies is there.

    `ledger_close_time` is the close time of the observed ledger, `generated_at` the time of the run, and
    `next_expected_at` the time by which a newer run should have replaced this one (null when nobody knows).
    `pool_count` counts all member pools of the markets that were read, those in `unread` among them.
    """

    run_id: RunId
    schema_version: Version
    network: str
    observed_ledger: Ledger
    ledger_close_time: Timestamp
    generated_at: Timestamp
    next_expected_at: Timestamp | None
    market_count: Count
    pool_count: Count
    unread: list[Unread]
    unpriced: list[Unpriced]
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


Document: TypeAlias = AssetsPage | MarketSummary | HistoryManifest | SystemStatus | RunManifest
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
