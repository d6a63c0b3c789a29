"""The table of the tree: every kind of key, once.

A family is all files whose keys have one form. Everything that depends on the kind of a key follows from `FAMILIES`.

To add a family of documents, write a model in `exporter/tree/documents`, a row here, the code that renders it (in
`exporter/render/run_documents.py` or near it), and its description in `exporter/render/operations.py`. If its URL has
parameters in its path or query, it also needs a rule in `exporter/tree/routes.py` and the ports of that rule at the
edge. A URL without parameters is found by the file's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import Final

from msgspec import Struct, field

from exporter.tree import documents
from exporter.tree.dates import DAY, MONTH
from exporter.tree.documents import AssetHistory, AssetsPage, PoolsPage, TotalsHistory
from exporter.tree.files import FileKind
from exporter.tree.pools import AssetDetail
from exporter.tree.problems import Problem
from exporter.tree.risk_documents import RiskDocument
from exporter.tree.values import BUCKET_NAMES, CONTRACT, CURSOR, DEFAULT_BUCKET, POOL, PROTOCOL, RUN_ID, SYMBOL

_TOKEN = f"[A-Za-z0-9_-]{{{documents.PAGE_TOKEN_LENGTH}}}"

RECENT = "5m-"
"""The start of the cursors of pages that are kept for a day only. It makes them longer than all other cursors."""

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "market": CONTRACT,
    "token": CONTRACT,
    "address": CONTRACT,
    "pool": POOL,
    "protocol": PROTOCOL,
    "symbol": SYMBOL.replace("A-Z", ""),
    "token_symbol": SYMBOL,
    "cursor": rf"(?!{RECENT}{_TOKEN}\.){CURSOR}",
    "recent": _TOKEN,
    "limit": "0|[1-9][0-9]*",
    "bucket": "|".join(name for name in BUCKET_NAMES if name != DEFAULT_BUCKET),
    "run_id": RUN_ID,
    "status": "[45][0-9]{2}",
    "day": f"(?!9999){DAY}",  # so that the end of the day or month is a date, too
    "month": f"(?!9999){MONTH}",
    "ledger": "[1-9][0-9]*",
    "checkpoint": "[1-9][0-9]*",
    "last": "[1-9][0-9]*",
    "digest": "[0-9a-f]{12}",
    "sha256": "[0-9a-f]{64}",
    "number": "[2-9]|[1-9][0-9]+",
    "about": "about|api|changes|data|problems",
    "tag": "assets|history|markets|protocol|system|tokens",
    "list": "markets|pools|tokens",
    "yields": "borrow|pools",
    "file": r"[A-Za-z0-9_-]+(?:\.[a-z0-9]+)+",
}
"""The regular expression of the values that each placeholder of a template can have.

No value has a slash. Placeholders have the names of the API's parameters and of the documents' fields.
"""


class Sweep(StrEnum):
    """When a file is removed."""

    NEVER = "never"
    WITH_ITS_RUN = "as soon as the published run has none"
    AFTER_RETENTION = "after the retention time, once nothing that is published names it"


class Family(Struct, frozen=True, eq=False, dict=True):
    """One kind of key: a row of the table.

    Attributes:
        template: the key, with the names of `PLACEHOLDERS` in braces.
        model: the model of the document in the file; None if the file has no document of ours.
        url: the public URL that the file answers, in addition to its own name.
        kind: the kind of the file; None if no run lists it, because the publisher writes it for itself or apart from
            runs.
        sweep: when the file is removed.
        public: whether the file is of use to anybody but the publisher.
        implied: fields of the document whose values follow from the template, with these values.
    """

    template: str
    model: type[Struct] | None = None
    url: str | None = None
    kind: FileKind | None = FileKind.DOCUMENT
    sweep: Sweep = Sweep.WITH_ITS_RUN
    public: bool = True
    implied: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression of the family's keys, with a named group for each placeholder."""
        parts = re.split(r"\{(\w+)\}", self.template)
        literals = map(re.escape, parts[0::2])
        groups = [f"(?P<{name}>{PLACEHOLDERS[name]})" for name in parts[1::2]]
        return re.compile("".join(literal + group for literal, group in zip(literals, [*groups, ""], strict=True)))

    @cached_property
    def prefix(self) -> str:
        """The beginning of all keys of the family."""
        return self.template.partition("{")[0]

    @property
    def path(self) -> str:
        """The path that the API's description names: that of the public URL, or the file's if that URL has a query."""
        return f"/{self.template}" if self.url is None or "?" in self.url else self.url

    @property
    def only_key(self) -> str:
        """The key of a family that has no placeholder, and so one file. Raises `ValueError` if it has one."""
        if "{" in self.template:
            raise ValueError(f"{self.template} is the form of many keys; give the values of its placeholders")
        return self.template

    def key(self, **values: object) -> str:
        """The key in which the placeholders have these values."""
        return self.template.format(**values)


FAMILIES: Final[tuple[Family, ...]] = (
    # The site.
    Family("index.html", url="/"),
    Family("404.html"),
    Family("{about}.html"),
    API_PAGE := Family("api-{tag}.html"),
    Family("{list}.html"),
    Family("{list}-{number}.html"),
    Family("markets/{market}.html"),
    Family("markets/{market}-{number}.html"),
    Family("tokens/{address}.html"),
    Family("tokens/{address}-{number}.html"),
    SYMBOL_PAGE := Family("tokens/{token_symbol}.html"),
    Family("pools/{market}/{pool}.html"),
    Family("static/{file}"),
    # Lists of pools. A page is named by its bytes. The empty page answers every filter that matches nothing.
    Family("v1/assets/index.json", AssetsPage, "/v1/assets"),
    Family("v1/assets/limit/{limit}.json", AssetsPage, "/v1/assets?limit={limit}"),
    Family("v1/assets/market/{market}/index.json", AssetsPage, "/v1/assets?market={market}"),
    Family("v1/assets/market/{market}/limit/{limit}.json", AssetsPage, "/v1/assets?market={market}&limit={limit}"),
    Family("v1/assets/token/{token}/index.json", AssetsPage, "/v1/assets?token={token}"),
    Family("v1/assets/token/{token}/limit/{limit}.json", AssetsPage, "/v1/assets?token={token}&limit={limit}"),
    Family(
        "v1/assets/market/{market}/token/{token}/index.json", AssetsPage, "/v1/assets?market={market}&token={token}"
    ),
    Family(
        "v1/assets/market/{market}/token/{token}/limit/{limit}.json",
        AssetsPage,
        "/v1/assets?market={market}&token={token}&limit={limit}",
    ),
    EMPTY_PAGE := Family("v1/assets/empty.json", AssetsPage, implied={"empty": ""}),
    PAGE := Family(
        "v1/pages/{cursor}.json",
        AssetsPage,
        "/v1/assets?cursor={cursor}",
        kind=FileKind.PAGE,
        sweep=Sweep.AFTER_RETENTION,
    ),
    POOLS := Family("v1/pools/index.json", PoolsPage, "/v1/pools"),
    OPEN_POOLS := Family("v1/pools/open/index.json", PoolsPage, "/v1/pools?status=open"),
    POOLS_OF_PROTOCOL := Family("v1/pools/protocol/{protocol}/index.json", PoolsPage, "/v1/pools?protocol={protocol}"),
    OPEN_POOLS_OF_PROTOCOL := Family(
        "v1/pools/protocol/{protocol}/open/index.json", PoolsPage, "/v1/pools?protocol={protocol}&status=open"
    ),
    POOLS_OF_MARKET := Family("v1/pools/market/{market}/index.json", PoolsPage, "/v1/pools?market={market}"),
    POOLS_OF_TOKEN := Family("v1/pools/token/{token}/index.json", PoolsPage, "/v1/pools?token={token}"),
    POOLS_PAGE := Family(
        "v1/pool-pages/{cursor}.json",
        PoolsPage,
        "/v1/pools?cursor={cursor}",
        kind=FileKind.PAGE,
        sweep=Sweep.AFTER_RETENTION,
    ),
    Family("v1/tokens.json", documents.TokenList, "/v1/tokens"),
    TOKENS_OF_SYMBOL := Family("v1/tokens/symbol/{symbol}.json", documents.TokenList, "/v1/tokens?symbol={symbol}"),
    YIELDS := Family("v1/yields/{yields}.json"),  # in the form of another service, so there is no model of ours
    EVIDENCE := Family("v1/evidence/{sha256}.jsonl.gz", kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION),
    WATCHED := Family(
        "v1/watched/{sha256}.json", documents.WatchedValues, kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION
    ),
    # One pool and its history.
    POOL_DOCUMENT := Family("v1/assets/{market}/{pool}.json", AssetDetail, "/v1/assets/{market}/{pool}"),
    Family(
        "v1/assets/{market}/{pool}/history/1d.json",
        AssetHistory,
        "/v1/assets/{market}/{pool}/history",
        implied={"bucket": DEFAULT_BUCKET},
    ),
    HISTORY := Family(
        "v1/assets/{market}/{pool}/history/{bucket}.json",
        AssetHistory,
        "/v1/assets/{market}/{pool}/history?bucket={bucket}",
    ),
    HISTORY_CSV := Family("v1/assets/{market}/{pool}/history.csv"),
    DAYS_METADATA := Family("v1/history.metadata.json", documents.DaysMetadata),
    Family(
        f"v1/buckets/{RECENT}{{recent}}.json",
        AssetHistory,
        f"/v1/assets/{{market}}/{{pool}}/history?cursor={RECENT}{{recent}}",
        kind=FileKind.PAGE,
        sweep=Sweep.AFTER_RETENTION,
    ),
    BUCKET_PAGE := Family(
        "v1/buckets/{cursor}.json",
        AssetHistory,
        "/v1/assets/{market}/{pool}/history?cursor={cursor}",
        kind=FileKind.PAGE,
        sweep=Sweep.NEVER,  # the newest pages of later runs link to it
    ),
    # Totals by day.
    Family(
        "v1/markets/{market}/history/1d.json",
        TotalsHistory,
        "/v1/markets/{market}/history",
        implied={"scope": "market", "bucket": DEFAULT_BUCKET},
    ),
    Family(
        "v1/tokens/{address}/history/1d.json",
        TotalsHistory,
        "/v1/tokens/{address}/history",
        implied={"scope": "token", "bucket": DEFAULT_BUCKET},
    ),
    Family(
        "v1/protocols/{protocol}/history/1d.json",
        TotalsHistory,
        "/v1/protocols/{protocol}/history",
        implied={"scope": "protocol", "bucket": DEFAULT_BUCKET},
    ),
    Family(
        "v1/protocol/summary/history/1d.json",
        TotalsHistory,
        "/v1/protocol/summary/history",
        implied={"scope": "network", "bucket": DEFAULT_BUCKET},
    ),
    TOTALS_PAGE := Family(
        "v1/buckets/totals/{cursor}.json",
        TotalsHistory,
        "/v1/protocol/summary/history?cursor={cursor}",  # answers the histories of markets, tokens and protocols, too
        kind=FileKind.PAGE,
        sweep=Sweep.NEVER,
    ),
    API_INDEX := Family("v1/index.json", documents.ApiIndex, "/v1"),
    # Markets, tokens and protocols.
    Family("v1/markets.json", documents.MarketList, "/v1/markets"),
    MARKET := Family("v1/markets/{market}.json", documents.MarketSummary, "/v1/markets/{market}"),
    TOKEN := Family("v1/tokens/{address}.json", documents.TokenDocument, "/v1/tokens/{address}"),
    Family("v1/protocol/summary.json", documents.ProtocolSummary, "/v1/protocol/summary"),
    Family("v1/protocols.json", documents.ProtocolList, "/v1/protocols"),
    ERROR := Family("v1/errors/{status}.json", Problem, "/v1/errors/{status}"),
    # Runs.
    STATUS := Family(
        "v1/system/status.json",
        documents.SystemStatus,
        "/v1/system/status",
        kind=FileKind.STATUS,
        sweep=Sweep.NEVER,
    ),
    RUN := Family("v1/runs/{run_id}.json", documents.RunManifest, "/v1/runs/{run_id}", sweep=Sweep.AFTER_RETENTION),
    RUN_FILES := Family("v1/runs/{run_id}.parquet", sweep=Sweep.AFTER_RETENTION),
    CHANGES := Family("v1/changes.json", documents.ChangeList, "/v1/changes"),
    FEED := Family("feed.atom"),
    MARKET_FEED := Family("markets/{market}.atom"),
    SITE_MAP := Family("sitemap.xml"),
    METRICS := Family("metrics.txt"),
    LLMS := Family("llms.txt"),
    HISTORY_MANIFEST := Family("v1/history.json", documents.HistoryManifest, "/v1/history", sweep=Sweep.NEVER),
    SKIPPED := Family("v1/skipped.json", documents.SkippedList, "/v1/skipped"),
    SKIPPED_PAGE := Family("v1/skipped/{number}.json", documents.SkippedList, "/v1/skipped/{number}"),
    # Files that `exporter prove` and `exporter census` add. The verifier checks proofs and needs no package of ours.
    PROOFS := Family("v1/proofs.json", documents.ProofList, "/v1/proofs", sweep=Sweep.NEVER),
    CENSUS := Family("v1/census.json", documents.Census, "/v1/census", sweep=Sweep.NEVER),
    RISK := Family(
        "v1/risk/{checkpoint}.json", RiskDocument, "/v1/risk/{checkpoint}", kind=FileKind.PAGE, sweep=Sweep.NEVER
    ),
    PROOF := Family("v1/proofs/{sha256}.json", kind=FileKind.PAGE, sweep=Sweep.AFTER_RETENTION),
    VERIFIER := Family("v1/verifier/stellar_proof.py", sweep=Sweep.NEVER),
    TRUST := Family("v1/verifier/trust.json", sweep=Sweep.NEVER),
    # Tables. The publisher writes the last run of each closed day and hour before the manifest that lists them.
    DATA_PACKAGE := Family("datapackage.json", documents.DataPackage),
    LATEST_PARQUET := Family("v1/latest.parquet"),  # the published run's Parquet file, under a name that stays
    LATEST_CSV := Family("v1/latest.csv"),
    LATEST_METADATA := Family("v1/latest.metadata.json", documents.TableMetadata),
    DAILY_ROLLUP := Family("history/daily.parquet", sweep=Sweep.NEVER),
    HOURLY_ROLLUP := Family("history/hourly.parquet", sweep=Sweep.NEVER),
    MONTH_ROLLUP := Family("history/hourly-{month}.parquet", sweep=Sweep.NEVER),
    HISTORY_NOTE := Family("history/README.txt"),
    POOLS_NOTE := Family("history/pools/README.txt"),
    LIQUIDATIONS := Family("history/liquidations.parquet", sweep=Sweep.NEVER),
    CHANGES_TABLE := Family("history/changes.parquet"),
    RISK_TABLE := Family("history/risk.parquet", sweep=Sweep.NEVER),
    RUN_PARQUET := Family(
        "history/pools/date={day}/{ledger}.parquet", kind=FileKind.HISTORY, sweep=Sweep.AFTER_RETENTION
    ),
    Family(
        "history/pools/date={day}/{ledger}-{last}-{digest}.parquet",
        kind=FileKind.HISTORY,
        sweep=Sweep.AFTER_RETENTION,
    ),
    Family("history/pools/month={month}/{ledger}-{last}-{digest}.parquet", kind=FileKind.HISTORY, sweep=Sweep.NEVER),
    OPENAPI := Family("v1/openapi.json", documents.OpenApiDocument),
    # The publisher's private files, and its hold on a bucket or folder.
    INTENT := Family("v1/system/intent.json", kind=None, sweep=Sweep.NEVER, public=False),
    Family("v1/system/superseded.json", kind=None, sweep=Sweep.NEVER, public=False),
    Family("state/{file}", kind=None, sweep=Sweep.NEVER, public=False),
    Family(".exporter.lease", kind=None, sweep=Sweep.NEVER, public=False),
    Family(".exporter.lock", kind=None, sweep=Sweep.NEVER, public=False),
)
"""The table, in the order of the API's description."""

HISTORY_NOTES = (HISTORY_NOTE, POOLS_NOTE)
"""Files that make readers refuse to read a whole folder, in which some rows occur twice."""

STATUS_KEY = STATUS.only_key
HISTORY_MANIFEST_KEY = HISTORY_MANIFEST.only_key
OPENAPI_KEY = OPENAPI.only_key
EMPTY_PAGE_KEY = EMPTY_PAGE.only_key

POOLS_KEY = POOLS.only_key
"""The key of the first page of all pools in flat rows."""

INTENT_KEY = INTENT.only_key
"""The key of the document that says which run last began to replace documents."""

JOURNAL_KEY = "state/backfill-lake.journal"

HISTORY_PAGE = "data.html"
"""The key of the web page that lists the files of the history."""

HISTORY_FILES_PREFIX = "history/pools/"
"""The beginning of the keys of history files, which have the rows of runs."""

ALL_HISTORY_PREFIX = "history/"
"""The beginning of the keys of everything that belongs to the history: its files, rollups and tables."""

_FILES_WITHOUT_FOLDER = [family for family in FAMILIES if family.public and "/" not in family.template]

ROOT_FILES = (
    *(family.template for family in _FILES_WITHOUT_FOLDER if "{" not in family.template),
    *(
        family.key(**{placeholder: name})
        for family in _FILES_WITHOUT_FOLDER
        for placeholder in ("about", "list", "tag")
        if [placeholder] == list(family.pattern.groupindex)
        for name in PLACEHOLDERS[placeholder].split("|")
    ),
)
"""The keys of files at a tree's root. A folder that is not a tree may have files of the same names."""

_MAX_SLASHES = max(family.template.count("/") for family in FAMILIES)

_BY_SLASHES = [
    [family for family in FAMILIES if family.template.count("/") == slashes] for slashes in range(_MAX_SLASHES + 1)
]
"""The families by the number of slashes in their keys."""


@lru_cache(maxsize=1024)
def parse_key(key: str) -> tuple[Family, Mapping[str, str]] | None:
    """The family of a key, and the values of the document's fields that the key fixes.

    None if this version never writes such a key.
    """
    slashes = key.count("/")
    if slashes > _MAX_SLASHES:
        return None
    for family in _BY_SLASHES[slashes]:
        if match := family.pattern.fullmatch(key):
            return family, {**match.groupdict(), **family.implied}
    return None


def family_of(key: str) -> Family | None:
    """The family of a key. None if this version never writes such a key."""
    parsed = parse_key(key)
    return None if parsed is None else parsed[0]


def key_of(document: Struct) -> str:
    """The key of a document, from its model and its fields.

    Raises `ValueError` for pages, because they are named by their bytes.
    """
    for family in _families_of(type(document)):
        if all(getattr(document, name) == value for name, value in family.implied.items()):
            return family.key(**{name: getattr(document, name) for name in family.pattern.groupindex})
    raise ValueError(f"no family has a {type(document).__name__} with these fields")


@cache
def _families_of(model: type[Struct]) -> tuple[Family, ...]:
    """The families whose files hold a model and are not named by their bytes."""
    return tuple(family for family in FAMILIES if family.model is model and family.kind is not FileKind.PAGE)


def prefixes(kind: FileKind) -> tuple[str, ...]:
    """The beginnings of all keys of a kind, ascending. None of them begins with another."""
    starts = {family.prefix for family in FAMILIES if family.kind is kind}
    return tuple(sorted(one for one in starts if not any(one != other and one.startswith(other) for other in starts)))


_PREFIXES = tuple((prefixes(kind), kind) for kind in (FileKind.STATUS, FileKind.PAGE, FileKind.HISTORY))


def kind_of(key: str) -> FileKind:
    """The kind of a file, by its key. A key that this version never writes counts as a document."""
    for starts, kind in _PREFIXES:
        if key.startswith(starts):
            return kind
    return FileKind.DOCUMENT


def lacks_extension(key: str) -> bool:
    """Whether a key below ``v1/`` has no extension. No file of a tree has such a key.

    Earlier versions kept copies of some documents there. If keys are paths of files, such a key is also the folder of
    the keys below it. So many servers, and every copy into a folder, refuse one of the two.
    """
    return key.startswith("v1/") and "." not in key.rpartition("/")[2]


def is_listing(key: str) -> bool:
    """Whether a file is a list of pools without a limit, which also answers for limits that have no file."""
    return key.startswith("v1/assets/") and key.endswith("/index.json")


def assets_folder(market: str | None, token: str | None) -> str:
    """The folder with the first pages of a filter, without a slash at its end."""
    return "v1/assets" + (f"/market/{market}" if market else "") + (f"/token/{token}" if token else "")


def totals_key(scope: str, name: str) -> str:
    """The key of the newest document in a history of totals."""
    return key_of(documents.TotalsHistory(scope, name, DEFAULT_BUCKET, 1, [], None))


def pools_key(protocol: str | None, *, only_open: bool) -> str:
    """The key of the first page of a list of pools in flat rows."""
    if protocol is None:
        return OPEN_POOLS.only_key if only_open else POOLS_KEY
    return (OPEN_POOLS_OF_PROTOCOL if only_open else POOLS_OF_PROTOCOL).key(protocol=protocol)


def pools_of_key(market: str | None, token: str | None) -> str:
    """The key of the first page of a market's pools in flat rows, or of a token's."""
    return POOLS_OF_TOKEN.key(token=token) if market is None else POOLS_OF_MARKET.key(market=market)
