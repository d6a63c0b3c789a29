"""The table of the tree: every kind of key, once.

A row says how the key is written, which document it holds, by which URL it is read, and what becomes of it. All else
follows: what parses a file, its kind and headers, its copy in a bucket, the policy of the bucket, what the sweep may
remove, the public URLs that the check asks for, and the description of the API. A file of no family is a mistake.

A new family of documents touches three files:

1. `exporter/tree/documents.py`: the model of the document, which also joins the union `Document`.
2. This table: its row; with an `Operation` the description of the API has it too.
3. `exporter/render/run_documents.py`: what makes the document, in `render_overview` or near it.

What one file can say against itself goes to `exporter/tree/read_back.py`, what it must agree in with the rest of the
tree to `exporter/check/documents.py`; neither is needed. A URL with parameters in its path or query needs a rule in
`exporter/tree/routes.py` and its ports at the edge; one without is found by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache

from exporter.tree import documents
from exporter.tree.files import FileKind
from exporter.tree.pools import AssetDetail
from exporter.tree.problems import Problem
from exporter.tree.values import BUCKET_NAMES, CONTRACT, CURSOR, DEFAULT_BUCKET, POOL, PROTOCOL, RUN_ID

_TOKEN = f"[A-Za-z0-9_-]{{{documents.PAGE_TOKEN_LENGTH}}}"

PLACES = {
    "market": CONTRACT,
    "token": CONTRACT,
    "address": CONTRACT,
    "pool": POOL,
    "protocol": PROTOCOL,
    "cursor": rf"(?!5m-{_TOKEN}\.){CURSOR}",
    "recent": _TOKEN,
    "limit": "0|[1-9][0-9]*",
    "bucket": "|".join(name for name in BUCKET_NAMES if name != DEFAULT_BUCKET),
    "run_id": RUN_ID,
    "status": "[45][0-9]{2}",
    "day": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "month": "[0-9]{4}-[0-9]{2}",
    "ledger": "[1-9][0-9]*",
    "version": "[0-9]{20}",
    "last": "[1-9][0-9]*",
    "digest": "[0-9a-f]{12}",
    "sha256": "[0-9a-f]{64}",
    "number": "[2-9]|[1-9][0-9]+",
    "about": "about|api|data|problems",
    "list": "markets|pools|tokens",
    "yields": "borrow|pools",
    "file": r"[A-Za-z0-9_-]+(?:\.[a-z0-9]+)+",
}
"""The values that each place of a template may have, as a regular expression. Places have the names of the API's
parameters and of the documents' fields."""


class Sweep(StrEnum):
    """When a file is removed."""

    NEVER = "never"
    WITH_ITS_RUN = "as soon as the published run has none"
    AFTER_RETENTION = "after the retention time, once nothing that is published names it"


@dataclass(frozen=True)
class Operation:
    """The entry of a family's URL in the description of the API.

    ``parameters`` and ``problems`` are names of `exporter.render.openapi`'s tables.
    """

    name: str
    tag: str
    summary: str
    description: str
    parameters: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """One kind of key.

    Attributes:
        template: the key, with the names of `PLACES` in braces.
        kind: what may happen to a key after it was written; None for what no run lists, because the
            publisher writes it for itself or apart from runs.
        model: the document that it holds; None for what is not a document.
        url: the public URL that it answers in addition to its own name; None where there is no other.
        sweep: when it is removed.
        aliased: whether a bucket has a copy under the path of ``url``, which then holds no query; for the few documents
            that a bare bucket answers by their public path.
        public: whether anybody but the publisher has a use for it.
        says: what its keys say of the document in addition to their places, by field.
        operation: its part of the description of the API.
    """

    template: str
    kind: FileKind | None
    model: type[documents.Document] | None = None
    url: str | None = None
    sweep: Sweep
    aliased: bool = False
    public: bool = True
    says: dict[str, str] = field(default_factory=dict)
    operation: Operation | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the keys of the family, whole; its groups are the places by name."""
        parts = re.split(r"\{(\w+)\}", self.template)
        return re.compile(
            "".join(f"(?P<{part}>{PLACES[part]})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
        )

    @cached_property
    def prefix(self) -> str:
        """The start of all keys of the family; the whole key where there is only one."""
        return self.template.partition("{")[0]

    @property
    def path(self) -> str:
        """The path that the description names: the public one, or that of the file where the public one is a query."""
        return f"/{self.template}" if self.url is None or "?" in self.url else self.url

    def key(self, **places: object) -> str:
        return self.template.format(**places)


def _document(
    template: str,
    model: type[documents.Document] | None = None,
    url: str | None = None,
    operation: Operation | None = None,
    *,
    aliased: bool = False,
    sweep: Sweep = Sweep.WITH_ITS_RUN,
    says: dict[str, str] | None = None,
) -> Family:
    return Family(
        template=template,
        kind=FileKind.DOCUMENT,
        model=model,
        url=url,
        sweep=sweep,
        aliased=aliased,
        says=says or {},
        operation=operation,
    )


def _record(template: str) -> Family:
    return Family(template=template, kind=None, sweep=Sweep.NEVER, public=False)


_BUCKETS = (
    "Closed buckets, ascending within a document: `data` is empty until one closes. `next_cursor` leads to older ones, "
    "which never change. Buckets begin at multiples of their length since 1970-01-01T00:00:00Z, weeks on Monday. A "
    "bucket in which nothing was observed is left out."
)


def _totals(scope: str, folder: str, operation: Operation) -> Family:
    """The history of a scope, in buckets of a day."""
    says = {"scope": scope, "bucket": DEFAULT_BUCKET}
    return _document(f"{folder}/{DEFAULT_BUCKET}.json", documents.TotalsHistory, f"/{folder}", operation, says=says)


def _totals_operation(
    name: str, tag: str, of: str, parameters: tuple[str, ...] = (), problems: tuple[str, ...] = ()
) -> Operation:
    return Operation(
        name,
        tag,
        f"The history of {of} by day",
        "What is supplied and borrowed, the value, means of rates, the best rates, and of how many pools. " + _BUCKETS,
        (*parameters, "day_bucket", "history_cursor"),
        (*problems, "invalid_day_bucket", "unknown_bucket_page"),
    )


RECENT = "5m-"
"""Put before the cursors of pages that are published for a day only; it makes them longer than all others."""

PAGE = Family(
    template="v1/pages/{cursor}.json",
    kind=FileKind.PAGE,
    model=documents.AssetsPage,
    url="/v1/assets?cursor={cursor}",
    sweep=Sweep.AFTER_RETENTION,
)
RECENT_PAGE = Family(
    template=f"v1/buckets/{RECENT}{{recent}}.json",
    kind=FileKind.PAGE,
    model=documents.AssetHistory,
    url=f"/v1/assets/{{market}}/{{pool}}/history?cursor={RECENT}{{recent}}",
    sweep=Sweep.AFTER_RETENTION,
)
"""A page of five-minute buckets."""

BUCKET_PAGE = Family(
    template="v1/buckets/{cursor}.json",
    kind=FileKind.PAGE,
    model=documents.AssetHistory,
    url="/v1/assets/{market}/{pool}/history?cursor={cursor}",
    sweep=Sweep.NEVER,  # newest pages of any later run lead to it
)
TOTALS_PAGE = Family(
    template="v1/buckets/totals/{cursor}.json",
    kind=FileKind.PAGE,
    model=documents.TotalsHistory,
    url="/v1/protocol/summary/history?cursor={cursor}",  # and likewise for a market, a token and a protocol
    sweep=Sweep.NEVER,
)
EVIDENCE = Family(
    template="v1/evidence/{sha256}.jsonl.gz",
    kind=FileKind.PAGE,
    sweep=Sweep.AFTER_RETENTION,
)
"""The evidence of a run's numbers; named by its bytes."""
POOLS_PAGE = Family(
    template="v1/pool-pages/{cursor}.json",
    kind=FileKind.PAGE,
    model=documents.PoolsPage,
    url="/v1/pools?cursor={cursor}",
    sweep=Sweep.AFTER_RETENTION,
)
OPEN = {"status": "open"}
POOL_LISTS = (
    _document(
        "v1/pools/index.json",
        documents.PoolsPage,
        "/v1/pools",
        Operation(
            "listPools",
            "assets",
            "All pools in flat rows, with protocol, statuses, limits and rewards",
            "One request for everything that is needed to compare pools. `status=open` leaves the pools that let "
            "somebody supply now. A page has 500 rows; `next_cursor` leads on. `?market=` and `?token=`, each alone, "
            "answer with the files of one market or token, or an empty page.",
            ("protocol", "status", "cursor"),
            ("invalid_parameter", "not_a_parameter_of_pools", "mutually_exclusive", "unknown_cursor"),
        ),
    ),
    _document("v1/pools/open/index.json", documents.PoolsPage, "/v1/pools?status=open", says=OPEN),
    _document("v1/pools/protocol/{protocol}/index.json", documents.PoolsPage, "/v1/pools?protocol={protocol}"),
    _document(
        "v1/pools/protocol/{protocol}/open/index.json",
        documents.PoolsPage,
        "/v1/pools?protocol={protocol}&status=open",
        says=OPEN,
    ),
)
_FIRST_PAGE = "The first page; `next_cursor` is a cursor of `/v1/pools`. `/v1/pools?{0}=` is the same."
# Described by their files: a description cannot say of query parameters that each is taken alone.
POOLS_OF_MARKET = _document(
    "v1/pools/market/{market}/index.json",
    documents.PoolsPage,
    "/v1/pools?market={market}",
    Operation(
        "listPoolsOfMarket", "assets", "Pools of a market in flat rows", _FIRST_PAGE.format("market"), ("market_path",)
    ),
)
POOLS_OF_TOKEN = _document(
    "v1/pools/token/{token}/index.json",
    documents.PoolsPage,
    "/v1/pools?token={token}",
    Operation(
        "listPoolsOfToken", "assets", "Pools of a token in flat rows", _FIRST_PAGE.format("token"), ("token_path",)
    ),
)
TOKEN_LIST = _document(
    "v1/tokens.json",
    documents.TokenList,
    "/v1/tokens",
    Operation(
        "listTokens",
        "markets",
        "All tokens, with their best rates",
        "Best rates are those of open pools. It has no parameters.",
        (),
        ("not_a_parameter_of_tokens",),
    ),
)
YIELDS = _document("v1/yields/{yields}.json")
"""In the shape of another service: no model of ours."""
EMPTY_PAGE = _document("v1/assets/empty.json", documents.AssetsPage, says={"empty": ""})
"""Answers whatever filter matches nothing."""
ASSET = _document(
    "v1/assets/{market}/{pool}.json",
    AssetDetail,
    "/v1/assets/{market}/{pool}",
    Operation(
        "getAsset",
        "assets",
        "One pool",
        "The pool snapshot, with rates, price, indexes, rate model and provenance.",
        ("market_path", "pool_path"),
        ("invalid_parameter", "unknown_pool"),
    ),
)
HISTORY = _document(
    "v1/assets/{market}/{pool}/history/{bucket}.json",
    documents.AssetHistory,
    "/v1/assets/{market}/{pool}/history?bucket={bucket}",
)
MARKET = _document(
    "v1/markets/{market}.json",
    documents.MarketSummary,
    "/v1/markets/{market}",
    Operation(
        "getMarket",
        "markets",
        "One market with its pools",
        "Long lists of pools are cut (`truncated`); `/v1/assets?market=` has all of them.",
        ("market_path",),
        ("invalid_parameter", "unknown_market"),
    ),
    aliased=True,
)
TOKEN = _document(
    "v1/tokens/{address}.json",
    documents.TokenDocument,
    "/v1/tokens/{address}",
    Operation(
        "getToken",
        "tokens",
        "One token and the pools that lend it",
        "Symbol and decimals are as the token's contract gives them.",
        ("address_path",),
        ("invalid_parameter", "unknown_token"),
    ),
)
OPENAPI = _document(
    "v1/openapi.json",
    documents.OpenApiDocument,
    operation=Operation("getOpenApi", "system", "This description", "OpenAPI 3.1."),
)
ERROR = _document("v1/errors/{status}.json", Problem, "/v1/errors/{status}")
POINTER = Family(
    template="v1/system/status.json",
    kind=FileKind.POINTER,
    model=documents.SystemStatus,
    url="/v1/system/status",
    sweep=Sweep.NEVER,
    aliased=True,
    operation=Operation(
        "getSystemStatus",
        "system",
        "The published run",
        "Which run is the published one, and what of it is missing, with the reason. It is written last.",
    ),
)
RUN = _document(
    "v1/runs/{run_id}.json",
    documents.RunManifest,
    "/v1/runs/{run_id}",
    Operation(
        "getRun",
        "system",
        "The files of a run",
        "How many files a run has, and the Parquet file that lists each with its size and SHA-256; runs that are past "
        "the retention time are gone.",
        ("run_id_path",),
        ("not_found",),
    ),
    sweep=Sweep.AFTER_RETENTION,
)
RUN_FILES = _document("v1/runs/{run_id}.parquet", sweep=Sweep.AFTER_RETENTION)
"""The files of a run, as rows."""
HISTORY_MANIFEST = _document(
    "v1/history.json",
    documents.HistoryManifest,
    "/v1/history",
    Operation(
        "getHistoryManifest",
        "history",
        "The Parquet files of the history",
        "Every file with its URL, rows, size, SHA-256 and ledgers. Read the files with any engine that reads Parquet.",
    ),
    sweep=Sweep.NEVER,
)
CHANGES = _document(
    "v1/changes.json",
    documents.ChangeList,
    "/v1/changes",
    Operation(
        "listChanges",
        "system",
        "What changed from run to run",
        "Statuses, new markets and pools, configurations, utilizations over 95 %, and what could not be read; the "
        "feeds are made of it.",
        (),
        ("not_a_parameter_of_changes",),
    ),
    aliased=True,
)
FEED = _document("feed.atom")
MARKET_FEED = _document("markets/{market}.atom")
METRICS = _document("metrics.txt")
LLMS = _document("llms.txt")
PROOFS = _document(
    "v1/proofs.json",
    documents.ProofList,
    "/v1/proofs",
    Operation(
        "listProofs",
        "system",
        "Proofs of the newest runs",
        "What validators signed, held against the evidence of each run. There is none before `exporter prove` was run.",
    ),
    sweep=Sweep.NEVER,
)
CENSUS = _document(
    "v1/census.json",
    documents.Census,
    "/v1/census",
    Operation(
        "getCensus",
        "system",
        "What every contract of the network is",
        "Every contract of a proven checkpoint, counted by kind, and each lending contract that the run did not read. "
        "There is none before `exporter census` was run.",
    ),
    sweep=Sweep.NEVER,
)
PROOF = Family(template="v1/proofs/{sha256}.json", kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION)
VERIFIER = _document("v1/verifier/stellar_proof.py", sweep=Sweep.NEVER)
"""The program that checks proofs, and needs nothing of ours."""
TRUST = _document("v1/verifier/trust.json", sweep=Sweep.NEVER)
LATEST_PARQUET = _document("v1/latest.parquet")
"""The Parquet file of the published run once more, under a name that stays."""
DATA_PACKAGE = _document(
    "datapackage.json",
    documents.DataPackage,
    operation=Operation(
        "getDataPackage",
        "history",
        "The Parquet files as a Data Package",
        "The newest run and the whole history as tables with their columns, types and meanings (Data Package 2.0).",
    ),
)
DAILY_ROLLUP = _document("history/daily.parquet", sweep=Sweep.NEVER)
HOURLY_ROLLUP = _document("history/hourly.parquet", sweep=Sweep.NEVER)
MONTH_ROLLUP = _document("history/hourly-{month}.parquet", sweep=Sweep.NEVER)
"""The last run of each closed day and hour; the publisher writes them before the manifest."""
HISTORY_NOTES = _document("history/README.txt"), _document("history/pools/README.txt")
"""The marker that makes readers refuse a whole folder, in which some rows are twice."""
LIQUIDATIONS = _document("history/liquidations.parquet", sweep=Sweep.NEVER)
"""Auctions, bad debt and claims in the ledgers that were replayed; a backfill writes it before the manifest."""
RUN_PARQUET = Family(
    template="history/pools/date={day}/{ledger}.parquet", kind=FileKind.HISTORY, sweep=Sweep.AFTER_RETENTION
)

FAMILIES = (
    # The site.
    _document("index.html", url="/"),
    _document("404.html"),
    _document("{about}.html"),
    _document("{list}.html"),
    _document("{list}-{number}.html"),
    _document("markets/{market}.html"),
    _document("markets/{market}-{number}.html"),
    _document("tokens/{address}.html"),
    _document("tokens/{address}-{number}.html"),
    _document("pools/{market}/{pool}.html"),
    _document("static/{file}"),
    # Pools, in pages.
    _document(
        "v1/assets/index.json",
        documents.AssetsPage,
        "/v1/assets",
        Operation(
            "listAssets",
            "assets",
            "All pools",
            "Pool snapshots by market and then pool, ascending. Follow `next_cursor` to its end: all pages are of one "
            "run, with no row twice and none missing, for as long as the retention time after a newer run was "
            "published. A well-formed `market` or `token` that matches nothing gives an empty page.",
            ("market", "token", "cursor", "limit"),
            ("invalid_parameter", "not_a_parameter_of_assets", "unknown_cursor"),
        ),
        aliased=True,
    ),
    _document("v1/assets/limit/{limit}.json", documents.AssetsPage, "/v1/assets?limit={limit}"),
    _document("v1/assets/market/{market}/index.json", documents.AssetsPage, "/v1/assets?market={market}"),
    _document(
        "v1/assets/market/{market}/limit/{limit}.json", documents.AssetsPage, "/v1/assets?market={market}&limit={limit}"
    ),
    _document("v1/assets/token/{token}/index.json", documents.AssetsPage, "/v1/assets?token={token}"),
    _document(
        "v1/assets/token/{token}/limit/{limit}.json", documents.AssetsPage, "/v1/assets?token={token}&limit={limit}"
    ),
    _document(
        "v1/assets/market/{market}/token/{token}/index.json",
        documents.AssetsPage,
        "/v1/assets?market={market}&token={token}",
    ),
    _document(
        "v1/assets/market/{market}/token/{token}/limit/{limit}.json",
        documents.AssetsPage,
        "/v1/assets?market={market}&token={token}&limit={limit}",
    ),
    EMPTY_PAGE,
    PAGE,
    *POOL_LISTS,
    POOLS_OF_MARKET,
    POOLS_OF_TOKEN,
    POOLS_PAGE,
    TOKEN_LIST,
    YIELDS,
    EVIDENCE,
    # One pool.
    ASSET,
    _document(
        "v1/assets/{market}/{pool}/history/1d.json",
        documents.AssetHistory,
        "/v1/assets/{market}/{pool}/history",
        Operation(
            "getAssetHistory",
            "assets",
            "The history of one pool in buckets",
            f"{_BUCKETS} The newest document holds up to 3 hours of `5m`, at least a week of `1h`, a year of `1d` and "
            "144 weeks of `1w`, if observed. `5m` reaches back a day, the others to the beginning. The "
            "state now is in the document of the pool.",
            ("market_path", "pool_path", "bucket", "history_cursor"),
            ("invalid_bucket", "unknown_pool", "unknown_bucket_page"),
        ),
        says={"bucket": DEFAULT_BUCKET},
    ),
    HISTORY,
    RECENT_PAGE,
    BUCKET_PAGE,
    # Totals over time.
    _totals(
        "market",
        "v1/markets/{market}/history",
        _totals_operation(
            "getMarketHistory", "markets", "one market", ("market_path",), ("invalid_parameter", "unknown_market")
        ),
    ),
    _totals(
        "token",
        "v1/tokens/{address}/history",
        _totals_operation(
            "getTokenHistory", "tokens", "one token", ("address_path",), ("invalid_parameter", "unknown_token")
        ),
    ),
    _totals(
        "protocol",
        "v1/protocols/{protocol}/history",
        _totals_operation("getProtocolHistory", "protocol", "one protocol", ("protocol_path",)),
    ),
    _totals(
        "network",
        "v1/protocol/summary/history",
        _totals_operation("getNetworkHistory", "protocol", "all markets together"),
    ),
    TOTALS_PAGE,
    # The other documents.
    _document(
        "v1/markets.json",
        documents.MarketList,
        "/v1/markets",
        Operation(
            "listMarkets",
            "markets",
            "All markets",
            "Every market that was read, ascending by address. It has no parameters.",
            (),
            ("not_a_parameter_of_markets",),
        ),
        aliased=True,
    ),
    MARKET,
    TOKEN,
    _document(
        "v1/protocol/summary.json",
        documents.ProtocolSummary,
        "/v1/protocol/summary",
        Operation(
            "getProtocolSummary",
            "protocol",
            "Counts and value, together and by protocol",
            "Values are sums over the pools that have a price.",
        ),
    ),
    _document(
        "v1/protocols.json",
        documents.ProtocolList,
        "/v1/protocols",
        Operation(
            "listProtocols",
            "protocol",
            "What is covered, and what is left out",
            "What the numbers of each protocol mean, the code of its contracts, and what is left out on purpose.",
            (),
            ("not_a_parameter_of_protocols",),
        ),
    ),
    ERROR,
    # The runs and the history.
    POINTER,
    RUN,
    RUN_FILES,
    CHANGES,
    FEED,
    MARKET_FEED,
    METRICS,
    LLMS,
    HISTORY_MANIFEST,
    PROOFS,
    CENSUS,
    PROOF,
    VERIFIER,
    TRUST,
    DATA_PACKAGE,
    LATEST_PARQUET,
    DAILY_ROLLUP,
    HOURLY_ROLLUP,
    MONTH_ROLLUP,
    *HISTORY_NOTES,
    LIQUIDATIONS,
    RUN_PARQUET,
    Family(
        template="history/pools/date={day}/{ledger}-{last}-{digest}.parquet",
        kind=FileKind.HISTORY,
        sweep=Sweep.AFTER_RETENTION,
    ),
    Family(
        template="history/pools/month={month}/{ledger}-{last}-{digest}.parquet",
        kind=FileKind.HISTORY,
        sweep=Sweep.NEVER,
    ),
    OPENAPI,
    # The publisher's own records, and its hold on a bucket or folder.
    _record("v1/system/intent.json"),
    _record("v1/system/superseded.json"),
    _record("state/{file}"),
    _record(".exporter.lease"),
    _record(".exporter.lock"),
)

POINTER_KEY = POINTER.template
"""The file that is written last by every run."""

HISTORY_PAGE = "data.html"
"""The web page that lists the files of the history."""

INTENT_KEY = "v1/system/intent.json"
"""Which run began to replace documents last. The publisher's own record, no part of the API."""

JOURNAL_KEY = "state/backfill-lake.journal"
"""The progress of a backfill from a ledger lake."""

HISTORY_MANIFEST_KEY = HISTORY_MANIFEST.template
OPENAPI_KEY = OPENAPI.template

EMPTY_PAGE_KEY = EMPTY_PAGE.template
"""The assets page without rows, for a well-formed filter that matches nothing."""

HISTORY_PREFIX = "history/pools/"
"""The start of the keys of all Parquet files."""

REMEMBERED_KEYS = 1024
"""A key is asked about several times while its file is rendered, read back, checked and listed."""


@lru_cache(maxsize=REMEMBERED_KEYS)
def parse_key(key: str) -> tuple[Family, Mapping[str, str]] | None:
    """The family of a key, and what the key says: its places by name. None for a key that this version never writes."""
    for family in _beginning_with(key[: key.find("/", 3) + 1], key.count("/")):
        if match := family.pattern.fullmatch(key):
            return family, match.groupdict() | family.says
    return None


@lru_cache(maxsize=256)
def _beginning_with(start: str, slashes: int) -> tuple[Family, ...]:
    """The families of which a key may be that begins so, and has this many slashes; no place has any."""
    return tuple(
        family
        for family in FAMILIES
        if family.template.count("/") == slashes
        and (family.prefix.startswith(start) or start.startswith(family.prefix))
    )


def family_of(key: str) -> Family | None:
    """The family of a key; None for a key that this version never writes."""
    found = parse_key(key)
    return None if found is None else found[0]


def key_of(document: documents.Document) -> str:
    """The key of a document, from its model and its fields; of any but pages, which are named by their bytes."""
    for family in _holding(type(document)):
        for name, said in family.says.items():
            if getattr(document, name) != said:
                break
        else:
            return family.key(**{place: getattr(document, place) for place in family.pattern.groupindex})
    raise ValueError(f"no file has a {type(document).__name__} that says what this one says")


@cache
def _holding(model: type[documents.Document]) -> tuple[Family, ...]:
    """The families of such documents that are no pages."""
    return tuple(family for family in FAMILIES if family.model is model and family.kind is not FileKind.PAGE)


def prefixes(kind: FileKind) -> tuple[str, ...]:
    """The starts of the keys of a kind, ascending; none of them begins with another."""
    found = {family.prefix for family in FAMILIES if family.kind is kind}
    return tuple(sorted(one for one in found if not any(one != other and one.startswith(other) for other in found)))


_BEGINNINGS = tuple((prefixes(kind), kind) for kind in (FileKind.POINTER, FileKind.PAGE, FileKind.HISTORY))


@lru_cache(maxsize=REMEMBERED_KEYS)
def kind_of(key: str) -> FileKind:
    """The kind of a file, by the beginning of its key; a document for a key that this version never writes."""
    for beginnings, kind in _BEGINNINGS:
        if key.startswith(beginnings):
            return kind
    return FileKind.DOCUMENT


def alias_of(key: str) -> str | None:
    """The key under which a bucket has a document once more; None where it has none.

    It is the path of its public URL. A folder behind nginx finds ``v1/markets.json`` for ``/v1/markets`` by a rule. A
    bare bucket has no rules, so there the document is also under ``v1/markets``, with the same bytes and headers.
    """
    found = parse_key(key)
    if found is None or not found[0].aliased or found[0].url is None or "?" in found[0].url:
        return None
    copy = found[0].path.format(**found[1])[1:]
    return copy if is_alias(copy) else None


def is_alias(key: str) -> bool:
    """Say whether a key can only be that of an alias: below ``v1/``, and without an extension."""
    return key.startswith("v1/") and "." not in key.rpartition("/")[2]


def may_be_kept(key: str) -> bool:
    """Whether a run may keep the file that an earlier one rendered: a web page, but for the list of the history."""
    return key.endswith(".html") and key != HISTORY_PAGE


def is_listing(key: str) -> bool:
    """Say whether a key is that of a listing without a limit, which answers for limits that are left out."""
    return key.startswith("v1/assets/") and key.endswith("/index.json")


def assets_folder(market: str | None, token: str | None) -> str:
    """The folder that holds the first pages of a filter, without a slash at its end."""
    return "v1/assets" + (f"/market/{market}" if market else "") + (f"/token/{token}" if token else "")


def totals_key(scope: str, name: str) -> str:
    """The key of the newest document of a history of totals."""
    return key_of(documents.TotalsHistory(scope, name, DEFAULT_BUCKET, 1, [], None))


def pools_key(protocol: str | None, *, only_open: bool) -> str:
    """The key of the first page of a listing of pools in flat rows."""
    return POOL_LISTS[2 * (protocol is not None) + only_open].key(protocol=protocol)


def pools_of_key(market: str | None, token: str | None) -> str:
    """The key of the first page of a market's pools in flat rows, or of a token's."""
    return POOLS_OF_TOKEN.key(token=token) if market is None else POOLS_OF_MARKET.key(market=market)
