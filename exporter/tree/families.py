"""The table of the tree: every kind of key, once.

All that depends on the kind of a key follows from it. A new family of documents is a model in
`exporter/tree/documents.py`, a row here, and what renders it, in `exporter/render/run_documents.py` or near it. A URL
with parameters in its path or query needs a rule in `exporter/tree/routes.py` and its ports at the edge; one without is
found by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property, lru_cache

from msgspec import Struct

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
    """``query`` and ``problems`` are names of `exporter.render.openapi`'s tables; the path has its own parameters."""

    name: str
    tag: str
    summary: str
    description: str
    query: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Family:
    """One kind of key. A new one becomes a row of the table.

    Attributes:
        template: the key, with the names of `PLACES` in braces.
        model: the document that it holds; None for what is not a document.
        url: the public URL that it answers in addition to its own name.
        kind: None for what no run lists, because the publisher writes it for itself or apart from runs.
        public: whether anybody but the publisher has a use for it.
        says: what its keys say of the document in addition to their places, by field.
    """

    template: str
    model: type[Struct] | None = None
    url: str | None = None
    operation: Operation | None = None
    kind: FileKind | None = FileKind.DOCUMENT
    sweep: Sweep = Sweep.WITH_ITS_RUN
    public: bool = True
    says: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        FAMILIES.append(self)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.template)
        return re.compile(
            "".join(f"(?P<{part}>{PLACES[part]})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
        )

    @cached_property
    def prefix(self) -> str:
        return self.template.partition("{")[0]

    @property
    def path(self) -> str:
        """The path that the description names: the public one, or that of the file where the public one is a query."""
        return f"/{self.template}" if self.url is None or "?" in self.url else self.url

    def key(self, **places: object) -> str:
        return self.template.format(**places)


FAMILIES: list[Family] = []
"""The table, in the order of the description of the API."""

# The site.

Family("index.html", url="/")
Family("404.html")
Family("{about}.html")
Family("{list}.html")
Family("{list}-{number}.html")
Family("markets/{market}.html")
Family("markets/{market}-{number}.html")
Family("tokens/{address}.html")
Family("tokens/{address}-{number}.html")
Family("pools/{market}/{pool}.html")
Family("static/{file}")

# Pools, in pages.

Family(
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
)
for _filter, _query in (
    ("", ""),
    ("/market/{market}", "market={market}"),
    ("/token/{token}", "token={token}"),
    ("/market/{market}/token/{token}", "market={market}&token={token}"),
):
    if _filter:
        Family(f"v1/assets{_filter}/index.json", documents.AssetsPage, f"/v1/assets?{_query}")
    _limit = "&".join(filter(None, (_query, "limit={limit}")))
    Family(f"v1/assets{_filter}/limit/{{limit}}.json", documents.AssetsPage, f"/v1/assets?{_limit}")

EMPTY_PAGE = Family("v1/assets/empty.json", documents.AssetsPage, says={"empty": ""})
"""Answers whatever filter matches nothing."""

PAGE = Family(
    "v1/pages/{cursor}.json",
    documents.AssetsPage,
    "/v1/assets?cursor={cursor}",
    kind=FileKind.PAGE,
    sweep=Sweep.AFTER_RETENTION,
)
POOLS = Family(
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
)
OPEN_POOLS = Family("v1/pools/open/index.json", documents.PoolsPage, "/v1/pools?status=open")
POOLS_OF_PROTOCOL = Family(
    "v1/pools/protocol/{protocol}/index.json", documents.PoolsPage, "/v1/pools?protocol={protocol}"
)
OPEN_POOLS_OF_PROTOCOL = Family(
    "v1/pools/protocol/{protocol}/open/index.json", documents.PoolsPage, "/v1/pools?protocol={protocol}&status=open"
)
# Described by their files: a description cannot say of query parameters that each is taken alone.
_FIRST_PAGE = "The first page; `next_cursor` is a cursor of `/v1/pools`. `/v1/pools?{0}=` is the same."
POOLS_OF_MARKET = Family(
    "v1/pools/market/{market}/index.json",
    documents.PoolsPage,
    "/v1/pools?market={market}",
    Operation("listPoolsOfMarket", "assets", "Pools of a market in flat rows", _FIRST_PAGE.format("market")),
)
POOLS_OF_TOKEN = Family(
    "v1/pools/token/{token}/index.json",
    documents.PoolsPage,
    "/v1/pools?token={token}",
    Operation("listPoolsOfToken", "assets", "Pools of a token in flat rows", _FIRST_PAGE.format("token")),
)
POOLS_PAGE = Family(
    "v1/pool-pages/{cursor}.json",
    documents.PoolsPage,
    "/v1/pools?cursor={cursor}",
    kind=FileKind.PAGE,
    sweep=Sweep.AFTER_RETENTION,
)
Family(
    "v1/tokens.json",
    documents.TokenList,
    "/v1/tokens",
    Operation(
        "listTokens",
        "markets",
        "All tokens, with their best rates",
        "Best rates are those of open pools. It has no parameters.",
        problems=("not_a_parameter_of_tokens",),
    ),
)
YIELDS = Family("v1/yields/{yields}.json")
"""In the shape of another service: no model of ours."""

EVIDENCE = Family("v1/evidence/{sha256}.jsonl.gz", kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION)
"""The evidence of a run's numbers; named by its bytes."""

# One pool.

ASSET = Family(
    "v1/assets/{market}/{pool}.json",
    AssetDetail,
    "/v1/assets/{market}/{pool}",
    Operation(
        "getAsset",
        "assets",
        "One pool",
        "The pool snapshot, with rates, price, indexes, rate model and provenance.",
        problems=("invalid_parameter", "unknown_pool"),
    ),
)
_BUCKETS = (
    "Closed buckets, ascending within a document: `data` is empty until one closes. `next_cursor` leads to older ones, "
    "which never change. Buckets begin at multiples of their length since 1970-01-01T00:00:00Z, weeks on Monday. A "
    "bucket in which nothing was observed is left out."
)
Family(
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
        ("bucket", "history_cursor"),
        ("invalid_bucket", "unknown_pool", "unknown_bucket_page"),
    ),
    says={"bucket": DEFAULT_BUCKET},
)
HISTORY = Family(
    "v1/assets/{market}/{pool}/history/{bucket}.json",
    documents.AssetHistory,
    "/v1/assets/{market}/{pool}/history?bucket={bucket}",
)
RECENT = "5m-"
"""Put before the cursors of pages that are published for a day only; it makes them longer than all others."""

Family(
    f"v1/buckets/{RECENT}{{recent}}.json",
    documents.AssetHistory,
    f"/v1/assets/{{market}}/{{pool}}/history?cursor={RECENT}{{recent}}",
    kind=FileKind.PAGE,
    sweep=Sweep.AFTER_RETENTION,
)
BUCKET_PAGE = Family(
    "v1/buckets/{cursor}.json",
    documents.AssetHistory,
    "/v1/assets/{market}/{pool}/history?cursor={cursor}",
    kind=FileKind.PAGE,
    sweep=Sweep.NEVER,  # newest pages of any later run lead to it
)

# Totals over time.

for _scope, _folder, _name, _tag, _of in (
    ("market", "v1/markets/{market}/history", "getMarketHistory", "markets", "one market"),
    ("token", "v1/tokens/{address}/history", "getTokenHistory", "tokens", "one token"),
    ("protocol", "v1/protocols/{protocol}/history", "getProtocolHistory", "protocol", "one protocol"),
    ("network", "v1/protocol/summary/history", "getNetworkHistory", "protocol", "all markets together"),
):
    _unknown = ("invalid_parameter", f"unknown_{_scope}") if _scope in ("market", "token") else ()
    Family(
        f"{_folder}/{DEFAULT_BUCKET}.json",
        documents.TotalsHistory,
        f"/{_folder}",
        Operation(
            _name,
            _tag,
            f"The history of {_of} by day",
            "What is supplied and borrowed, the value, means of rates, the best rates, and of how many pools. "
            + _BUCKETS,
            ("day_bucket", "history_cursor"),
            (*_unknown, "invalid_day_bucket", "unknown_bucket_page"),
        ),
        says={"scope": _scope, "bucket": DEFAULT_BUCKET},
    )

TOTALS_PAGE = Family(
    "v1/buckets/totals/{cursor}.json",
    documents.TotalsHistory,
    "/v1/protocol/summary/history?cursor={cursor}",  # and likewise for a market, a token and a protocol
    kind=FileKind.PAGE,
    sweep=Sweep.NEVER,
)

# The other documents.

Family(
    "v1/markets.json",
    documents.MarketList,
    "/v1/markets",
    Operation(
        "listMarkets",
        "markets",
        "All markets",
        "Every market that was read, ascending by address. It has no parameters.",
        problems=("not_a_parameter_of_markets",),
    ),
)
MARKET = Family(
    "v1/markets/{market}.json",
    documents.MarketSummary,
    "/v1/markets/{market}",
    Operation(
        "getMarket",
        "markets",
        "One market with its pools",
        "Long lists of pools are cut (`truncated`); `/v1/assets?market=` has all of them.",
        problems=("invalid_parameter", "unknown_market"),
    ),
)
TOKEN = Family(
    "v1/tokens/{address}.json",
    documents.TokenDocument,
    "/v1/tokens/{address}",
    Operation(
        "getToken",
        "tokens",
        "One token and the pools that lend it",
        "Symbol and decimals are as the token's contract gives them.",
        problems=("invalid_parameter", "unknown_token"),
    ),
)
Family(
    "v1/protocol/summary.json",
    documents.ProtocolSummary,
    "/v1/protocol/summary",
    Operation(
        "getProtocolSummary",
        "protocol",
        "Counts and value, together and by protocol",
        "Values are sums over the pools that have a price.",
    ),
)
Family(
    "v1/protocols.json",
    documents.ProtocolList,
    "/v1/protocols",
    Operation(
        "listProtocols",
        "protocol",
        "What is covered, and what is left out",
        "What the numbers of each protocol mean, the code of its contracts, and what is left out on purpose.",
        problems=("not_a_parameter_of_protocols",),
    ),
)
ERROR = Family("v1/errors/{status}.json", Problem, "/v1/errors/{status}")

# The runs and the history.

POINTER = Family(
    "v1/system/status.json",
    documents.SystemStatus,
    "/v1/system/status",
    Operation(
        "getSystemStatus",
        "system",
        "The published run",
        "Which run is the published one, and what of it is missing, with the reason. It is written last.",
    ),
    kind=FileKind.POINTER,
    sweep=Sweep.NEVER,
)
RUN = Family(
    "v1/runs/{run_id}.json",
    documents.RunManifest,
    "/v1/runs/{run_id}",
    Operation(
        "getRun",
        "system",
        "The files of a run",
        "How many files a run has, and the Parquet file that lists each with its size and SHA-256; runs that are past "
        "the retention time are gone.",
    ),
    sweep=Sweep.AFTER_RETENTION,
)
RUN_FILES = Family("v1/runs/{run_id}.parquet", sweep=Sweep.AFTER_RETENTION)

CHANGES = Family(
    "v1/changes.json",
    documents.ChangeList,
    "/v1/changes",
    Operation(
        "listChanges",
        "system",
        "What changed from run to run",
        "Statuses, new markets and pools, configurations, utilizations over 95 %, and what could not be read; the "
        "feeds are made of it.",
        problems=("not_a_parameter_of_changes",),
    ),
)
FEED = Family("feed.atom")
MARKET_FEED = Family("markets/{market}.atom")
METRICS = Family("metrics.txt")
LLMS = Family("llms.txt")
HISTORY_MANIFEST = Family(
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
SKIPPED = Family(
    "v1/skipped.json",
    documents.SkippedList,
    "/v1/skipped",
    Operation(
        "listSkipped",
        "system",
        "Markets that the run did not read",
        "Anybody can deploy a market, so those that are not listed share a budget of time and pools. Here is every one "
        "for which there was no room, that the publisher excludes, or that changed while it was read, with the reason.",
    ),
)
SKIPPED_PAGE = Family("v1/skipped/{number}.json", documents.SkippedList, "/v1/skipped/{number}")
PROOFS = Family(
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
CENSUS = Family(
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
PROOF = Family("v1/proofs/{sha256}.json", kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION)
VERIFIER = Family("v1/verifier/stellar_proof.py", sweep=Sweep.NEVER)
"""The program that checks proofs, and needs nothing of ours."""

TRUST = Family("v1/verifier/trust.json", sweep=Sweep.NEVER)
DATA_PACKAGE = Family(
    "datapackage.json",
    documents.DataPackage,
    operation=Operation(
        "getDataPackage",
        "history",
        "The Parquet files as a Data Package",
        "The newest run and the whole history as tables with their columns, types and meanings (Data Package 2.0).",
    ),
)
LATEST_PARQUET = Family("v1/latest.parquet")
"""The Parquet file of the published run once more, under a name that stays."""

DAILY_ROLLUP = Family("history/daily.parquet", sweep=Sweep.NEVER)
HOURLY_ROLLUP = Family("history/hourly.parquet", sweep=Sweep.NEVER)
MONTH_ROLLUP = Family("history/hourly-{month}.parquet", sweep=Sweep.NEVER)
"""The last run of each closed day and hour; the publisher writes them before the manifest."""

HISTORY_NOTES = Family("history/README.txt"), Family("history/pools/README.txt")
"""The marker that makes readers refuse a whole folder, in which some rows are twice."""

LIQUIDATIONS = Family("history/liquidations.parquet", sweep=Sweep.NEVER)
"""Auctions, bad debt and claims in the ledgers that were replayed; a backfill writes it before the manifest."""

RUN_PARQUET = Family("history/pools/date={day}/{ledger}.parquet", kind=FileKind.HISTORY, sweep=Sweep.AFTER_RETENTION)
Family("history/pools/date={day}/{ledger}-{last}-{digest}.parquet", kind=FileKind.HISTORY, sweep=Sweep.AFTER_RETENTION)
Family("history/pools/month={month}/{ledger}-{last}-{digest}.parquet", kind=FileKind.HISTORY, sweep=Sweep.NEVER)
OPENAPI = Family(
    "v1/openapi.json",
    documents.OpenApiDocument,
    operation=Operation("getOpenApi", "system", "This description", "OpenAPI 3.1."),
)

# The publisher's own records, and its hold on a bucket or folder.

for _record in ("v1/system/intent.json", "v1/system/superseded.json", "state/{file}"):
    Family(_record, kind=None, sweep=Sweep.NEVER, public=False)
for _hold in (".exporter.lease", ".exporter.lock"):
    Family(_hold, kind=None, sweep=Sweep.NEVER, public=False)

POINTER_KEY = POINTER.template

HISTORY_PAGE = "data.html"
"""The web page that lists the files of the history."""

INTENT_KEY = "v1/system/intent.json"
"""Which run began to replace documents last. The publisher's own record, no part of the API."""

JOURNAL_KEY = "state/backfill-lake.journal"

HISTORY_MANIFEST_KEY = HISTORY_MANIFEST.template
OPENAPI_KEY = OPENAPI.template

EMPTY_PAGE_KEY = EMPTY_PAGE.template

ROOT_FILES = (
    *(family.template for family in FAMILIES if family.public and not set("{/") & set(family.template)),
    *(f"{name}.html" for place in ("about", "list") for name in PLACES[place].split("|")),
)
"""The files that every tree has at its root, where others may have files of the same names."""

HISTORY_PREFIX = "history/pools/"
ROLLUPS_PREFIX = "history/"

_BY_SLASHES = [[family for family in FAMILIES if family.template.count("/") == slashes] for slashes in range(9)]
"""No place has any."""


@lru_cache(maxsize=1024)
def parse_key(key: str) -> tuple[Family, Mapping[str, str]] | None:
    """The family of a key, and its places by name; None for a key that this version never writes."""
    for family in _BY_SLASHES[min(key.count("/"), 8)]:
        if match := family.pattern.fullmatch(key):
            return family, {**match.groupdict(), **family.says}
    return None


def family_of(key: str) -> Family | None:
    """The family of a key; None for a key that this version never writes."""
    found = parse_key(key)
    return None if found is None else found[0]


def key_of(document: Struct) -> str:
    """The key of a document, from its model and its fields; of any but pages, which are named by their bytes."""
    for family in _holding(type(document)):
        if all(getattr(document, name) == said for name, said in family.says.items()):
            return family.key(**{place: getattr(document, place) for place in family.pattern.groupindex})
    raise ValueError(f"no file has a {type(document).__name__} that says what this one says")


@cache
def _holding(model: type[Struct]) -> tuple[Family, ...]:
    return tuple(family for family in FAMILIES if family.model is model and family.kind is not FileKind.PAGE)


def prefixes(kind: FileKind) -> tuple[str, ...]:
    """The starts of the keys of a kind, ascending; none of them begins with another."""
    found = {family.prefix for family in FAMILIES if family.kind is kind}
    return tuple(sorted(one for one in found if not any(one != other and one.startswith(other) for other in found)))


_BEGINNINGS = tuple((prefixes(kind), kind) for kind in (FileKind.POINTER, FileKind.PAGE, FileKind.HISTORY))


def kind_of(key: str) -> FileKind:
    """The kind of a file, by the beginning of its key; a document for a key that this version never writes."""
    for beginnings, kind in _BEGINNINGS:
        if key.startswith(beginnings):
            return kind
    return FileKind.DOCUMENT


def lacks_extension(key: str) -> bool:
    """Whether a key below ``v1/`` has no extension. No file of a tree has such a key.

    Earlier versions kept copies of a few documents there. Where keys are paths of files, such a key is also the folder
    of the keys below it, so many servers and every copy into a folder refuse one of the two.
    """
    return key.startswith("v1/") and "." not in key.rpartition("/")[2]


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
    if protocol is None:
        return (OPEN_POOLS if only_open else POOLS).template
    return (OPEN_POOLS_OF_PROTOCOL if only_open else POOLS_OF_PROTOCOL).key(protocol=protocol)


def pools_of_key(market: str | None, token: str | None) -> str:
    """The key of the first page of a market's pools in flat rows, or of a token's."""
    return POOLS_OF_TOKEN.key(token=token) if market is None else POOLS_OF_MARKET.key(market=market)
