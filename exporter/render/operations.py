"""The operations of the API: what its description says about each path.

`exporter.render.openapi` makes the OpenAPI document from these, from the table of families, and from the models of
documents. A path without an operation here is not described.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Operation(Struct, frozen=True):
    """What the description says about a path.

    Attributes:
        name: the id of the operation. Generated clients name a function after it.
        tag: one of `TAGS`.
        query: the names of its query parameters, in `exporter.render.openapi.PARAMETERS`. Parameters in the path follow
            from the path.
        problems: the names of the problems with which it may answer, in `exporter.render.openapi.PROBLEMS`.
        added_by: the command that adds the first file. None if the first run does.
    """

    name: str
    tag: str
    summary: str
    description: str
    query: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    added_by: str | None = None


TAGS: Final[Mapping[str, str]] = {
    "assets": "Pools: one token's pool in one market.",
    "markets": "Lending markets: contracts with pools.",
    "tokens": "Tokens that are lent.",
    "protocol": "Lending protocols.",
    "history": "All runs as Parquet files.",
    "system": "The published run, and this description.",
}

_BUCKETS = (
    "Closed buckets, ascending within a document: `data` is empty until one closes. `next_cursor` leads to older ones, "
    "which never change. Buckets begin at multiples of their length since 1970-01-01T00:00:00Z, weeks on Monday. A "
    "bucket in which nothing was observed is left out."
)


def _totals(name: str, tag: str, whose: str, problems: tuple[str, ...] = ()) -> Operation:
    """The operation of a history of totals. All of them describe a bucket in the same words."""
    return Operation(
        name,
        tag,
        f"The history of {whose} by day",
        "What is supplied and borrowed, the value, means of rates, the best rates, and of how many pools. " + _BUCKETS,
        ("day_bucket", "history_cursor"),
        (*problems, "invalid_day_bucket", "unknown_bucket_page"),
    )


def _pools_of(name: str, parameter: str) -> Operation:
    """The operation of the pools of one market or one token.

    The path of its file is described, because OpenAPI cannot say that query parameters exclude each other.
    """
    return Operation(
        name,
        "assets",
        f"Pools of a {parameter} in flat rows",
        f"The first page; `next_cursor` is a cursor of `/v1/pools`. `/v1/pools?{parameter}=` is the same.",
    )


def _yields(name: str, verb: str) -> Operation:
    """The operation of a document in the shape of another service."""
    return Operation(
        f"getYields{name.capitalize()}",
        "assets",
        f"Pools to {verb}, in DefiLlama's shape",
        "Amounts are US dollars and yields percent, as numbers. Pools without a price, and insolvent ones "
        "(`shortfall` of `/v1/pools`), are left out.",
        problems=(f"not_a_parameter_of_yields/{name}",),
    )


YIELDS_OPERATIONS: Final[Mapping[str, Operation]] = {
    "/v1/yields/pools": _yields("pools", "lend"),
    "/v1/yields/borrow": _yields("borrow", "borrow"),
}
"""The operations of documents that have the shape of another service."""

OPERATIONS: Final[Mapping[str, Operation]] = {
    "/v1": Operation(
        "getIndex",
        "system",
        "The endpoints of this API",
        "Each path with the parameters of its query and a sentence. `/v1/` answers with the same.",
    ),
    "/v1/assets": Operation(
        "listAssets",
        "assets",
        "All pools",
        "Pool snapshots by market and then pool, ascending. Follow `next_cursor` to its end: all pages are "
        "of one run, with no row twice and none missing, for as long as the retention time after a newer run"
        " was published. A well-formed `market` or `token` that matches nothing gives an empty page.",
        query=("market", "token", "cursor", "limit"),
        problems=("invalid_parameter", "not_a_parameter_of_assets", "unknown_cursor"),
    ),
    "/v1/pools": Operation(
        "listPools",
        "assets",
        "All pools in flat rows, with protocol, statuses, limits and rewards",
        "One request for everything that is needed to compare pools. `status=open` leaves the pools that let"
        " somebody supply now. A page has 500 rows; `next_cursor` leads on. `market` and `token` each "
        "stand alone, without any other parameter; their files are described as paths of their own.",
        query=("protocol", "status", "cursor"),
        problems=(
            "invalid_parameter",
            "not_a_parameter_of_pools",
            "mutually_exclusive",
            "unknown_protocol",
            "unknown_cursor",
        ),
    ),
    "/v1/pools/market/{market}/index.json": _pools_of("listPoolsOfMarket", "market"),
    "/v1/pools/token/{token}/index.json": _pools_of("listPoolsOfToken", "token"),
    "/v1/tokens": Operation(
        "listTokens",
        "tokens",
        "All tokens, with their best rates",
        "Best rates are those of open pools. With `symbol`, the tokens of that symbol in any case, identified ones "
        "first; `XLM` is the network's own asset.",
        ("symbol",),
        ("invalid_symbol", "not_a_parameter_of_tokens", "unknown_symbol"),
    ),
    "/v1/assets/{market}/{pool}": Operation(
        "getAsset",
        "assets",
        "One pool",
        "The pool snapshot, with rates, price, indexes, rate model and provenance.",
        problems=("invalid_parameter", "unknown_pool"),
    ),
    "/v1/assets/{market}/{pool}/history": Operation(
        "getAssetHistory",
        "assets",
        "The history of one pool in buckets",
        _BUCKETS + " The newest document holds up to 3 hours of `5m`, at least a week of `1h`, a year of `1d` and 144 "
        "weeks of `1w`, if observed. `5m` reaches back a day, the others to the beginning. The state now is "
        "in the document of the pool.",
        query=("bucket", "history_cursor"),
        problems=("invalid_bucket", "unknown_pool", "unknown_bucket_page"),
    ),
    "/v1/markets/{market}/history": _totals(
        "getMarketHistory", "markets", "one market", ("invalid_parameter", "unknown_market")
    ),
    "/v1/tokens/{address}/history": _totals(
        "getTokenHistory", "tokens", "one token", ("invalid_address", "unknown_token")
    ),
    "/v1/protocols/{protocol}/history": _totals("getProtocolHistory", "protocol", "one protocol"),
    "/v1/protocol/summary/history": _totals("getNetworkHistory", "protocol", "all markets together"),
    "/v1/markets": Operation(
        "listMarkets",
        "markets",
        "All markets",
        "Every market that was read, ascending by address. It has no parameters.",
        problems=("not_a_parameter_of_markets",),
    ),
    "/v1/markets/{market}": Operation(
        "getMarket",
        "markets",
        "One market with its pools",
        "Long lists of pools are cut (`truncated`); `/v1/assets?market=` has all of them.",
        problems=("invalid_parameter", "unknown_market"),
    ),
    "/v1/tokens/{address}": Operation(
        "getToken",
        "tokens",
        "One token and the pools that lend it",
        "Symbol and decimals are as the token's contract gives them.",
        problems=("invalid_address", "unknown_token"),
    ),
    "/v1/protocol/summary": Operation(
        "getProtocolSummary",
        "protocol",
        "Counts and value, together and by protocol",
        "Values are sums over the pools that have a price.",
    ),
    "/v1/protocols": Operation(
        "listProtocols",
        "protocol",
        "What is covered, and what is left out",
        "What the numbers of each protocol mean, the code of its contracts, and what is left out on purpose.",
        problems=("not_a_parameter_of_protocols",),
    ),
    "/v1/system/status": Operation(
        "getSystemStatus",
        "system",
        "The published run",
        "Which run is the published one, and what of it is missing, with the reason. It is written last.",
    ),
    "/v1/runs/{run_id}": Operation(
        "getRun",
        "system",
        "The files of a run",
        "How many files a run has, and the Parquet file that lists each with its size and SHA-256; runs that"
        " are past the retention time are gone.",
    ),
    "/v1/changes": Operation(
        "listChanges",
        "system",
        "What changed from run to run",
        "Statuses, new markets and pools, configurations, utilizations over 95 %, and what could not be "
        "read; the feeds are made of it.",
        problems=("not_a_parameter_of_changes",),
    ),
    "/v1/history": Operation(
        "getHistoryManifest",
        "history",
        "The Parquet files of the history",
        "Every file with its URL, rows, size, SHA-256 and ledgers. Read the files with any engine that reads Parquet.",
    ),
    "/v1/skipped": Operation(
        "listSkipped",
        "system",
        "Markets that the run did not read",
        "Anybody can deploy a market, so those that are not listed share a budget of time and pools. Here is"
        " every one for which there was no room, that the publisher excludes, or that changed while it was "
        "read, with the reason.",
    ),
    "/v1/proofs": Operation(
        "listProofs",
        "system",
        "Proofs of the newest runs",
        "What validators signed, held against the evidence of each run. There is none before `exporter prove` was run.",
        added_by="exporter prove",
    ),
    "/v1/census": Operation(
        "getCensus",
        "system",
        "What every contract of the network is",
        "Every contract of a proven checkpoint, counted by kind, and each lending contract that the run did "
        "not read. There is none before `exporter census` was run.",
        added_by="exporter census",
    ),
    "/v1/risk/{checkpoint}": Operation(
        "getRisk",
        "markets",
        "What borrowers of listed markets owe and hold, at a checkpoint",
        "Sums over all positions of a proven checkpoint, without naming anybody, and what falling prices would do. It "
        "never changes. `risk` of `/v1/markets/{market}` names the newest; there is none before `exporter census`.",
        added_by="exporter census",
    ),
    "/datapackage.json": Operation(
        "getDataPackage",
        "history",
        "The Parquet files as a Data Package",
        "The newest run and the whole history as tables with their columns, types and meanings (Data Package 2.0).",
    ),
    "/v1/latest.metadata.json": Operation(
        "getLatestMetadata",
        "history",
        "What v1/latest.csv holds",
        "The newest run as CSV, `/v1/latest.csv`: its ledger, and type, unit and meaning of each column.",
    ),
    "/v1/history.metadata.json": Operation(
        "getDaysMetadata",
        "history",
        "What each pool's history.csv holds",
        "The closed days of each pool as CSV, `/v1/assets/{market}/{pool}/history.csv`: type, unit and meaning of each "
        "column.",
    ),
    "/v1/openapi.json": Operation(
        "getOpenApi",
        "system",
        "This description",
        "OpenAPI 3.1.",
    ),
    **YIELDS_OPERATIONS,
}
"""The operations, by the path that the description names, in the order of the description."""
