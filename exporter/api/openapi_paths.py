"""What can be asked for: every route with its parameters, its document, and the problems that it may answer with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from exporter.api.asset_documents import AssetDetail, AssetHistory
from exporter.api.coverage_documents import ProtocolList
from exporter.api.documents import (
    AssetsPage,
    HistoryManifest,
    MarketList,
    MarketSummary,
    OpenApiDocument,
    ProtocolSummary,
    RunManifest,
    SystemStatus,
    TokenDocument,
)
from exporter.api.problems import (
    Problem,
    invalid_parameter,
    not_a_parameter,
    not_found,
    nothing_published,
    problem,
    unknown_bucket_page,
    unknown_cursor,
    unknown_market,
    unknown_pool,
    unknown_token,
)
from exporter.api.routes import ASSETS_PARAMETERS, BUCKET_NAMES, DEFAULT_BUCKET, MARKETS_PARAMETERS, MAX_LIMIT

MARKET = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
POOL = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
"""Well-formed addresses for the examples."""

_CURSOR_PATTERN = "^[A-Za-z0-9_-]+$"


@dataclass(frozen=True, slots=True)
class Operation:
    """One route: what it answers, and what it takes by the names of `PARAMETERS`."""

    path: str
    name: str
    tag: str
    summary: str
    description: str
    document: type[Struct]
    parameters: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "/v1/assets",
        "listAssets",
        "assets",
        "All pools",
        "Pool snapshots by market and then pool, ascending. Follow `next_cursor` to its end: all pages are of one run, "
        "with no row twice and none missing, for as long as the retention time after a newer run was published. A "
        "well-formed `market` or `token` that matches nothing gives an empty page.",
        AssetsPage,
        ("market", "token", "cursor", "limit"),
        ("invalid_parameter", "not_a_parameter", "unknown_cursor"),
    ),
    Operation(
        "/v1/assets/{market}/{pool}",
        "getAsset",
        "assets",
        "One pool",
        "The pool snapshot, with rates, price, indexes, rate model and provenance beside it.",
        AssetDetail,
        ("market_path", "pool_path"),
        ("invalid_parameter", "unknown_pool"),
    ),
    Operation(
        "/v1/assets/{market}/{pool}/history",
        "getAssetHistory",
        "assets",
        "The history of one pool in buckets",
        "Buckets ascend within a page; the newest page ends with the bucket that is still open, and `next_cursor` "
        "leads to older ones, which never change and do not expire. Buckets begin at multiples of their length since "
        "1970-01-01T00:00:00Z, weeks on Monday. A bucket in which nothing was observed is left out.",
        AssetHistory,
        ("market_path", "pool_path", "bucket", "history_cursor"),
        ("invalid_bucket", "unknown_pool", "unknown_bucket_page"),
    ),
    Operation(
        "/v1/markets",
        "listMarkets",
        "markets",
        "All markets",
        "Every market that was read, ascending by address. It has no parameters.",
        MarketList,
        (),
        ("not_a_parameter_of_markets",),
    ),
    Operation(
        "/v1/markets/{market}",
        "getMarket",
        "markets",
        "One market with its pools",
        "Long lists of pools are cut (`truncated`); `/v1/assets?market=` has all of them.",
        MarketSummary,
        ("market_path",),
        ("invalid_parameter", "unknown_market"),
    ),
    Operation(
        "/v1/tokens/{address}",
        "getToken",
        "tokens",
        "One token and the pools that lend it",
        "Symbol and decimals are as the token's contract gives them.",
        TokenDocument,
        ("address_path",),
        ("invalid_parameter", "unknown_token"),
    ),
    Operation(
        "/v1/protocol/summary",
        "getProtocolSummary",
        "protocol",
        "Counts and value, together and by protocol",
        "Values are sums over the pools that have a price.",
        ProtocolSummary,
    ),
    Operation(
        "/v1/protocols",
        "listProtocols",
        "protocol",
        "What is covered, and what is left out",
        "What the numbers of each protocol mean, the code of its contracts, and what is left out on purpose.",
        ProtocolList,
    ),
    Operation(
        "/v1/system/status",
        "getSystemStatus",
        "system",
        "The published run",
        "Which run is the published one, and what of it is missing, with the reason. It is written last.",
        SystemStatus,
    ),
    Operation(
        "/v1/runs/{run_id}",
        "getRun",
        "system",
        "The files of a run",
        "Every file of a run with its size and SHA-256; runs that are past the retention time are gone.",
        RunManifest,
        ("run_id_path",),
        ("not_found",),
    ),
    Operation(
        "/v1/history",
        "getHistoryManifest",
        "history",
        "The Parquet files of the history",
        "Every file with its URL, rows, size, SHA-256 and ledgers. Read the files with any engine that reads Parquet.",
        HistoryManifest,
    ),
    Operation(
        "/v1/openapi.json",
        "getOpenApi",
        "system",
        "This description",
        "OpenAPI 3.1.",
        OpenApiDocument,
    ),
)

TAGS: Mapping[str, str] = {
    "assets": "Pools: one token's pool in one market.",
    "markets": "Lending markets: contracts with pools.",
    "tokens": "Tokens that are lent.",
    "protocol": "Lending protocols.",
    "history": "All runs as Parquet files.",
    "system": "The published run, and this description.",
}

PARAMETERS: Mapping[str, dict[str, Any]] = {
    "market": {
        "name": "market",
        "in": "query",
        "description": "Only pools of this market.",
        "allowEmptyValue": True,
        "schema": {"$ref": "ContractAddress"},
    },
    "token": {
        "name": "token",
        "in": "query",
        "description": "Only pools of this token.",
        "allowEmptyValue": True,
        "schema": {"$ref": "ContractAddress"},
    },
    "cursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `next_cursor` of a page. It fixes the run, the filter and the page size; the other "
        "parameters are ignored beside it.",
        "allowEmptyValue": True,
        "schema": {"type": "string", "pattern": _CURSOR_PATTERN, "maxLength": 128},
    },
    "limit": {
        "name": "limit",
        "in": "query",
        "description": "The most rows wanted. Pages are rendered in a few sizes (`page_sizes` of `/v1/system/status`); "
        "the largest that is not above the limit is served. 0: no rows, and a cursor to the first. Without a limit: "
        "`default_page_size` of the status.",
        "allowEmptyValue": True,
        "schema": {"type": "integer", "format": "int32", "minimum": 0, "maximum": MAX_LIMIT},
    },
    "bucket": {
        "name": "bucket",
        "in": "query",
        "description": "The length of the buckets.",
        "allowEmptyValue": True,
        "schema": {"type": "string", "enum": list(BUCKET_NAMES), "default": DEFAULT_BUCKET},
    },
    "history_cursor": {
        "name": "cursor",
        "in": "query",
        "description": "The `next_cursor` of a page of a history. It fixes the pool, the bucket and the page; "
        "`bucket` is ignored beside it.",
        "allowEmptyValue": True,
        "schema": {"type": "string", "pattern": _CURSOR_PATTERN, "maxLength": 128},
    },
    "market_path": {
        "name": "market",
        "in": "path",
        "required": True,
        "description": "The market's contract.",
        "schema": {"$ref": "ContractAddress"},
    },
    "pool_path": {
        "name": "pool",
        "in": "path",
        "required": True,
        "description": "The pool's id inside the market.",
        "schema": {"$ref": "PoolId"},
    },
    "address_path": {
        "name": "address",
        "in": "path",
        "required": True,
        "description": "The token's contract.",
        "schema": {"$ref": "ContractAddress"},
    },
    "run_id_path": {
        "name": "run_id",
        "in": "path",
        "required": True,
        "description": "The id of a run: `run_id` of `/v1/system/status`.",
        "schema": {"$ref": "RunId"},
    },
}
"""By their names here; a schema that is a bare name is that kind of value of `exporter.api.fields`."""

PROBLEMS: Mapping[str, Problem] = {
    "invalid_parameter": invalid_parameter("market", "usdc", "a contract address: C and 55 characters of A-Z and 2-7"),
    "not_a_parameter": not_a_parameter("sort", "/v1/assets", ASSETS_PARAMETERS),
    "not_a_parameter_of_markets": not_a_parameter("protocol", "/v1/markets", MARKETS_PARAMETERS),
    "invalid_bucket": invalid_parameter("bucket", "2h", f"one of {', '.join(BUCKET_NAMES)}"),
    "unknown_cursor": unknown_cursor(),
    "unknown_bucket_page": unknown_bucket_page(),
    "unknown_market": unknown_market(MARKET),
    "unknown_pool": unknown_pool(MARKET, POOL),
    "unknown_token": unknown_token(POOL),
    "not_found": not_found(),
    "method_not_allowed": problem(405, "This is a read-only API; the methods are GET, HEAD, OPTIONS."),
    "url_too_long": problem(414, "A URL may have 8192 bytes at most."),
    "range_not_satisfiable": problem(416, "The file has 2448 bytes; no byte of the range is among them."),
    "nothing_published": nothing_published("There is no published run here: v1/system/status.json is missing."),
}
"""An example of each problem, by name. A host other than the preview server may answer 405 to 503 with its own body."""

ALWAYS = ("method_not_allowed", "url_too_long", "range_not_satisfiable", "nothing_published")
"""The problems that every route may answer with."""


def problems_of(operation: Operation) -> Iterator[tuple[int, dict[str, Problem]]]:
    """The problems of a route by HTTP status, ascending; each with its examples by name."""
    by_status: dict[int, dict[str, Problem]] = {}
    # Where a tree has no such document at all, any path is a 404.
    for name in (*operation.problems, "not_found", *ALWAYS):
        by_status.setdefault(PROBLEMS[name].status, {})[name] = PROBLEMS[name]
    yield from sorted(by_status.items())
