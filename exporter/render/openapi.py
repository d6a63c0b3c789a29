"""What can be asked for: every route with its parameters, its document, and the problems that it may answer with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

import exporter
from exporter.render.tree import render_document
from exporter.tree import fields
from exporter.tree.documents import (
    SCHEMA_VERSION,
    AssetDetail,
    AssetHistory,
    AssetsPage,
    HistoryManifest,
    MarketList,
    MarketSummary,
    OpenApiDocument,
    ProtocolList,
    ProtocolSummary,
    RunManifest,
    SystemStatus,
    TokenDocument,
)
from exporter.tree.files import RenderedFile
from exporter.tree.headers import CONTENT_TYPES, PROBLEM_CONTENT_TYPE
from exporter.tree.problems import (
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
from exporter.tree.routes import (
    ASSETS_PARAMETERS,
    BUCKET_NAMES,
    DEFAULT_BUCKET,
    MARKETS_PARAMETERS,
    MAX_LIMIT,
    MISTAKABLE,
)

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
"""By their names here; a schema that is a bare name is that kind of value of `exporter.tree.fields`."""

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


# The OpenAPI 3.1 description of the API, made from the models that write and read back every file.
#
# It depends on nothing but the code, so it changes only with a version of the exporter.

OPENAPI_KEY = "v1/openapi.json"

_SCHEMAS = "#/components/schemas/"

_DESCRIPTION = (
    """Exact snapshots of every lending market on Soroban, at one ledger a run.

Token amounts, prices and money are decimal strings, because they exceed 2^53; basis points, decimals, ledgers and
counts are integers. Null is allowed only where the schema says so. Order everywhere is by market, then pool,
ascending bytes. Every document states the ledger that it was observed at.

Within a major version (`/v1`) fields are only added: clients must ignore fields that they do not know. Renaming,
removing, or changing the type or meaning of a field makes a new major version, beside which the old one stays.

Everything is a file. A path without an extension is also served under its name with `.json` at the end, but for two:
`/v1/assets` is `/v1/assets/index.json`, and a pool's `/history` is `/history/1d.json`, or another bucket's name.

On `/v1/assets` and `/v1/markets`, names that read like a filter, an order or a page but are none are refused with 400
where they have a value: """
    + ", ".join(f"`{name}`" for name in MISTAKABLE)
    + ". All other names that are not described are ignored everywhere."
)


def openapi_document() -> OpenApiDocument:
    """The description of the API."""
    return OpenApiDocument(
        openapi="3.1.0",
        info={
            "title": "Lending markets of Soroban",
            "version": f"{SCHEMA_VERSION}.0.0",
            "summary": "A static JSON API of exact lending market snapshots.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-exporter-version": exporter.__version__,
        },
        servers=[{"url": "..", "description": "Wherever this file is served from: its folder's parent."}],
        tags=[{"name": name, "description": description} for name, description in TAGS.items()],
        paths={operation.path: {"get": _operation(operation)} for operation in OPERATIONS},
        components={"schemas": _schemas(), "headers": _headers()},
    )


def render_openapi() -> RenderedFile:
    """The description as a file of the tree."""
    return render_document(OPENAPI_KEY, openapi_document())


def _operation(operation: Operation) -> dict[str, object]:
    result: dict[str, object] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.parameters:
        result["parameters"] = [_parameter(name) for name in operation.parameters]
    return result | {"responses": _responses(operation)}


def _parameter(name: str) -> dict[str, object]:
    parameter = dict(PARAMETERS[name])
    kind = parameter["schema"].get("$ref")
    if kind is not None:
        parameter["schema"] = _tolerant(msgspec.json.schema(getattr(fields, kind)))
    return parameter


def _responses(operation: Operation) -> dict[str, object]:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("ETag", "Cache-Control")}
    responses: dict[str, object] = {
        "200": {
            "description": operation.summary,
            "headers": headers,
            "content": {CONTENT_TYPES["json"]: {"schema": {"$ref": _SCHEMAS + operation.document.__name__}}},
        },
        "304": {"description": "`If-None-Match` names the file as it is.", "headers": headers},
    }
    for status, examples in problems_of(operation):
        responses[str(status)] = {
            "description": next(iter(examples.values())).title,
            "content": {
                PROBLEM_CONTENT_TYPE: {
                    "schema": {"$ref": f"{_SCHEMAS}Problem"},
                    "examples": {name: {"value": msgspec.to_builtins(problem)} for name, problem in examples.items()},
                }
            },
        }
    return responses


def _schemas() -> dict[str, object]:
    models = [*{operation.document: None for operation in OPERATIONS}, Problem]
    _, components = msgspec.json.schema_components(models, ref_template=_SCHEMAS + "{name}")
    return {name: _tolerant(components[name]) for name in sorted(components)}


def _tolerant(schema: Any) -> Any:
    """A schema that allows fields it does not know, as clients must, with its texts in one line each."""
    if isinstance(schema, dict):
        kept = {name: value for name, value in schema.items() if (name, value) != ("additionalProperties", False)}
        return {
            name: re.sub(r"\s*\n\s*", " ", value)
            if name == "description" and isinstance(value, str)
            else _tolerant(value)
            for name, value in kept.items()
        }
    if isinstance(schema, list):
        return [_tolerant(item) for item in schema]
    return schema


def _headers() -> dict[str, object]:
    return {
        "ETag": {
            "description": "A strong validator of the bytes, for `If-None-Match`.",
            "schema": {"type": "string"},
        },
        "Cache-Control": {
            "description": "How long the answer may be kept: pages of a run for good, documents for seconds.",
            "schema": {"type": "string"},
        },
    }
