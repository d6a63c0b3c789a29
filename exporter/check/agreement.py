"""What the documents of a run must agree in: one small function a kind, then its status and manifest.

A kind says what of a document is kept until the whole tree is there, and which faults it then has. Documents without a
kind of their own are still read by their model, and must be of the run's ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from exporter.check.reward_faults import backstop_faults, reward_faults
from exporter.check.whole import Whole, number, value_in_cents
from exporter.errors import ConfigError
from exporter.history.manifest import file_ledgers
from exporter.history.totals import places_of
from exporter.numbers.exact import JSON_INTEGER_MAX
from exporter.render.openapi import openapi_document
from exporter.render.run_documents import market_pool
from exporter.tables import POOLS
from exporter.tree.documents import (
    SCHEMA_VERSION,
    AssetDetail,
    AssetHistory,
    AssetLiquidity,
    AssetOperations,
    AssetPeriod,
    AssetRewards,
    AssetRisk,
    ChangeList,
    DataPackage,
    MarketEntry,
    MarketList,
    MarketPool,
    MarketSummary,
    OpenApiDocument,
    PoolSnapshot,
    PoolsPage,
    ProtocolList,
    ProtocolSummary,
    SystemStatus,
    TokenDocument,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    OPENAPI_KEY,
    POINTER_KEY,
    RUN,
    TOTALS_PAGE,
    asset_key,
    assets_folder,
    history_key,
    kind_of,
    token_key,
    totals_key,
)
from exporter.tree.files import FileKind
from exporter.tree.routes import checked_page_sizes
from exporter.tree.run_listing import RunListing
from exporter.tree.values import BUCKET_NAMES

Judge = Callable[[Whole, SystemStatus, str, Any], Iterable[str]]
"""(the tree, its status, the document's key, what is kept of it) to what is wrong with it."""


def _all_of_it(document: Any) -> Any:
    return document


@dataclass(frozen=True, slots=True)
class Kind:
    """How documents of one model are judged; ``keep`` reduces a document to what ``judge`` needs."""

    judge: Judge
    keep: Callable[[Any], Any] = _all_of_it


def judge_documents(whole: Whole, status: SystemStatus) -> None:
    """Judge every document that is there, and the counts that the documents together must give."""
    for model, documents in whole.documents.items():
        kind = KINDS.get(model, UNKNOWN)
        for key, kept in documents.items():
            whole.faults.add_all(key, kind.judge(whole, status, key, kept))
    if whole.partial:
        return
    tokens = {row.token_address for row in whole.by_name.values()}
    protocols = {entry.market: entry.protocol for listed in whole.of(MarketList).values() for entry in listed.data}
    totals = {
        place
        for row in whole.by_name.values()
        if row.market in protocols
        for place in places_of(row.market, row.token_address, protocols[row.market])
    }
    if not whole.of(OpenApiDocument):
        whole.faults.add(OPENAPI_KEY, "is missing")
    required: tuple[tuple[type, Iterable[str]], ...] = (
        (TokenDocument, map(token_key, tokens)),
        (AssetDetail, (asset_key(*pool) for pool in whole.by_name)),
        (AssetHistory, (history_key(*pool, bucket) for pool in whole.by_name for bucket in BUCKET_NAMES)),
        (TotalsHistory, (totals_key(*place, bucket) for place in totals for bucket in BUCKET_NAMES)),
    )
    for model, keys in required:
        # A tree of an earlier version has none of such documents; one that has some must have all.
        if whole.of(model):
            for key in set(keys) - whole.of(model).keys():
                whole.faults.add(key, "is missing")


SNAPSHOT_FIELDS = len(PoolSnapshot.__struct_fields__)


def _judge_pools(whole: Whole, _: SystemStatus, __: str, kept: Any) -> Iterator[str]:
    for index, snapshot in enumerate(kept):
        listed = whole.by_name.get(snapshot[:2])
        if listed is not None and astuple(listed) != snapshot:
            yield f"$.data[{index}] is not what /v1/assets has of {snapshot[0]} {snapshot[1]}"
        if listed is None and not whole.partial:
            yield f"$.data[{index}] is of {snapshot[0]} {snapshot[1]}, which is not listed"


def worth(rows: Iterable[PoolSnapshot]) -> str | None:
    """The sum over the pools that have a price, as documents write it; None when none has."""
    values = [number(row.tvl_usd_cents) for row in rows if row.tvl_usd_cents is not None]
    return str(sum(values)) if values else None


def unread_pools(status: SystemStatus, market: str) -> int:
    """How many member pools of a market the status lists as unread."""
    return sum(item.market == market and item.pool is not None for item in status.unread)


def _ledger(status: SystemStatus, observed_ledger: int) -> Iterator[str]:
    if observed_ledger != status.observed_ledger:
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {status.observed_ledger}"


def _differs(name: str, found: object, expected: object, why: str) -> Iterator[str]:
    if found != expected:
        yield f"$.{name} is {found!r}, but {why} {expected!r}"


def _judge_unknown(whole: Whole, status: SystemStatus, key: str, observed_ledger: int | None) -> Iterator[str]:  # noqa: ARG001
    if observed_ledger is not None:
        yield from _ledger(status, observed_ledger)


def _judge_market(whole: Whole, status: SystemStatus, key: str, summary: MarketSummary) -> Iterator[str]:  # noqa: ARG001
    rows = whole.market_rows(summary.market)
    yield from _ledger(status, summary.observed_ledger)
    yield from _differs("tvl_usd_cents", summary.tvl_usd_cents, worth(rows), "its pools sum up to")
    missing = unread_pools(status, summary.market)
    yield from _differs(
        "pool_count", summary.pool_count, len(rows) + missing, f"{len(rows)} pools are listed and {missing} unread:"
    )
    cut = len(summary.pools) < len(rows)
    yield from _differs("truncated", summary.truncated, cut, f"with {len(summary.pools)} of {len(rows)} pools it is")
    yield from _market_pools(summary.pools, rows)
    if summary.backstop is not None:
        yield from backstop_faults(summary.backstop)
    caps = {len(other.pools) for other in whole.of(MarketSummary).values() if other.truncated}
    if caps and len(summary.pools) > min(caps):
        yield f"$.pools has {len(summary.pools)}, though another market is cut at {min(caps)}"


def _market_pools(pools: list[MarketPool], rows: list[PoolSnapshot]) -> Iterator[str]:
    if len(pools) > len(rows):
        yield f"$.pools has {len(pools)}, but the listing has {len(rows)} of this market"
    for index, (pool, row) in enumerate(zip(pools, rows, strict=False)):
        wanted = market_pool(row)
        if pool != wanted:
            different = (name for name in MarketPool.__struct_fields__ if getattr(pool, name) != getattr(wanted, name))
            name = next(different)
            yield (
                f"$.pools[{index}].{name} is {getattr(pool, name)!r}, but the listing of all pools has "
                f"{getattr(wanted, name)!r}"
            )


def _judge_market_list(whole: Whole, status: SystemStatus, key: str, listed: MarketList) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, listed.observed_ledger)
    summaries = {summary.market: summary for summary in whole.of(MarketSummary).values()}
    if not whole.partial:
        names = [entry.market for entry in listed.data]
        yield from _differs("data", names, sorted(summaries), "the markets with a document are")
    for index, entry in enumerate(listed.data):
        summary = summaries.get(entry.market)
        if summary is None:
            continue
        for name in ("pool_count", "tvl_usd_cents"):
            yield from _differs(
                f"data[{index}].{name}", getattr(entry, name), getattr(summary, name), "its own document has"
            )


def _judge_token(whole: Whole, status: SystemStatus, key: str, token: TokenDocument) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, token.observed_ledger)
    rows = whole.rows(assets_folder(None, token.address))
    found = [(pool.market, pool.pool) for pool in token.pools]
    yield from _differs("pools", found, [(row.market, row.pool) for row in rows], "the listing of all pools has")
    if rows and token.symbol not in {row.symbol for row in rows}:
        yield f"$.symbol is {token.symbol!r}, but the listing of all pools has {rows[0].symbol!r}"
    if not rows:
        yield "no pool of the run has this token"
    for pool in token.pools:
        if whole.of(AssetDetail) and not whole.there(asset_key(pool.market, pool.pool)):
            yield f"leads to {asset_key(pool.market, pool.pool)}, which is not there"


def _judge_summary(whole: Whole, status: SystemStatus, key: str, summary: ProtocolSummary) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, summary.observed_ledger)
    for name in ("market_count", "pool_count"):
        yield from _differs(name, getattr(summary, name), getattr(status, name), "the status has")
    total = worth(whole.rows(assets_folder(None, None)))
    yield from _differs("tvl_usd_cents", summary.tvl_usd_cents, total, "all pools sum up to")
    entries = [entry for listed in whole.of(MarketList).values() for entry in listed.data]
    if entries:
        found = {part.protocol: (part.market_count, part.pool_count, part.tvl_usd_cents) for part in summary.protocols}
        yield from _differs("protocols", found, _by_protocol(entries), "the list of markets gives")


def _judge_coverage(whole: Whole, status: SystemStatus, key: str, covered: ProtocolList) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, covered.observed_ledger)
    for name in ("market_count", "pool_count", "unread_count", "unpriced_count"):
        total = sum(getattr(part, name) for part in covered.data)
        yield from _differs(name, total, getattr(status, name), "the status has")
    missing = sum(part.absent_count for part in covered.data)
    yield from _differs("absent_count", missing, len(status.absent), "the status has")
    names = [part.protocol for part in covered.data]
    if names != sorted(set(names)):
        yield f"$.data has the protocols {names}, which do not ascend"
    for part in covered.data:
        counted = sum(version.market_count for version in part.contract_versions)
        yield from _differs(
            f"market_count of {part.protocol}", part.market_count, counted, "its contract versions have"
        )


def _by_protocol(entries: Iterable[MarketEntry]) -> dict[str, tuple[int, int, str | None]]:
    totals: dict[str, tuple[int, int, str | None]] = {}
    for entry in entries:
        markets, pools, value = totals.get(entry.protocol, (0, 0, None))
        if entry.tvl_usd_cents is not None:
            value = str(number(value) + number(entry.tvl_usd_cents))
        totals[entry.protocol] = (markets + 1, pools + entry.pool_count, value)
    return totals


_SNAPSHOT_FIELDS = PoolSnapshot.__struct_fields__
_snapshot_of = attrgetter(*_SNAPSHOT_FIELDS)


_PARTS = {"operations": AssetOperations, "liquidity": AssetLiquidity, "risk": AssetRisk, "rewards": AssetRewards}

TERM_PATHS = {
    name: f"{part}.{name}" for part, model in _PARTS.items() for name in model.__struct_fields__ if name in POOLS
}
"""The columns of the history that an asset's detail has in its parts, and where."""

_terms_of = attrgetter(*TERM_PATHS.values())


class KeptDetail(Struct, frozen=True):
    """What is kept of an asset's detail: its snapshot's fields, those of `TERM_PATHS`, its close time and periods."""

    snapshot: tuple[Any, ...]
    terms: tuple[Any, ...]
    close_time: str
    periods: list[AssetPeriod]


def _keep_detail(detail: AssetDetail) -> KeptDetail:
    return KeptDetail(_snapshot_of(detail), _terms_of(detail), detail.ledger_close_time, detail.periods)


def _judge_detail(whole: Whole, status: SystemStatus, key: str, kept: KeptDetail) -> Iterator[str]:  # noqa: ARG001
    found = dict(zip(_SNAPSHOT_FIELDS, kept.snapshot, strict=True))
    row = whole.by_name.get((str(found["market"]), str(found["pool"])))
    if row is None:
        yield "the listing of all pools has no such pool"
        return
    for name in _SNAPSHOT_FIELDS:
        yield from _differs(name, found[name], getattr(row, name), "the listing of all pools has")
    yield from _differs("ledger_close_time", kept.close_time, status.ledger_close_time, "the status has")
    terms = dict(zip(TERM_PATHS, kept.terms, strict=True))
    amounts = {"supplied": row.total_supplied, "borrowed": row.total_borrowed}
    for part, amount in (amounts | {"available": terms["available_to_withdraw"]}).items():
        name = f"{part}_usd_cents"
        if row.oracle_price_usd is not None and amount is not None:
            worth_of_it = str(value_in_cents(number(amount), row.oracle_price_usd, row.decimals))
            yield from _differs(TERM_PATHS[name], terms[name], worth_of_it, "the amount at the price is")
    yield from reward_faults(row, terms)


class KeptHistory(Struct, frozen=True, gc=False):
    """What is kept of a page of a history: whose it is, and from which times and ledgers to which its buckets go."""

    of: tuple[str, str, str]
    observed_ledger: int
    start_time: str
    end_time: str
    first_ledger: int
    last_ledger: int
    next_cursor: str | None


def _keep_history(history: AssetHistory | TotalsHistory) -> KeptHistory:
    span = ("", "", 0, 0)  # without buckets
    if history.data:
        oldest, newest = history.data[0], history.data[-1]
        span = (oldest.start_time, newest.end_time, oldest.first_ledger, newest.last_ledger)
    place = (history.market, history.pool) if isinstance(history, AssetHistory) else (history.scope, history.id)
    return KeptHistory((*place, history.bucket), history.observed_ledger, *span, history.next_cursor)


def _judge_history(whole: Whole, status: SystemStatus, key: str, kept: KeptHistory) -> Iterator[str]:
    page = next((page for page in (BUCKET_PAGE, TOTALS_PAGE) if page.pattern.fullmatch(key)), None)
    if page is None:
        page = BUCKET_PAGE if key.startswith("v1/assets/") else TOTALS_PAGE
        if kept.observed_ledger > status.observed_ledger:
            yield f"$.observed_ledger is {kept.observed_ledger}, but the run is of ledger {status.observed_ledger}"
        if kept.end_time > status.ledger_close_time:
            yield f"$.data ends at {kept.end_time}, but the run's ledger closed at {status.ledger_close_time}"
    if kept.next_cursor is None:
        return
    target = page.key(cursor=kept.next_cursor)
    if not whole.there(target):
        if whole.own_files_only or whole.partial:
            return  # a page of an earlier run, which no manifest lists
        yield f"next_cursor leads to {target}, which is not there"
        return
    older = next((found for model in HISTORIES if (found := whole.of(model).get(target)) is not None), None)
    if older is None:
        return
    if older.of != kept.of:
        yield f"next_cursor leads to the history of {' '.join(older.of)}"
    elif older.end_time > kept.start_time or older.last_ledger >= kept.first_ledger:
        yield f"next_cursor leads to {target}, whose buckets are not all older"


HISTORIES = (AssetHistory, TotalsHistory)


def _judge_package(whole: Whole, status: SystemStatus, key: str, package: DataPackage) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, package.observed_ledger)
    tables = {resource.name: resource.path for resource in package.resources}
    yield from _differs("resources", [*tables], ["latest", "history"], "the tables are")
    for path in [path for paths in tables.values() for path in paths]:
        # A file of the history may have been compacted into another since; it stays until the next run's package.
        if kind_of(path) is not FileKind.HISTORY and not whole.there(path):
            yield f"leads to {path}, which is not there"
    spans = [file_ledgers(path) for path in tables.get("history", [])]
    if None in spans or any(
        later[0] <= earlier[1] for earlier, later in pairwise(span for span in spans if span is not None)
    ):
        yield "$.resources has files of the history that do not ascend, or have ledgers in common"


def _judge_changes(whole: Whole, status: SystemStatus, key: str, changes: ChangeList) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(status, changes.observed_ledger)
    places = [(pool.market, pool.pool) for pool in changes.pools]
    yield from _differs("pools", places, sorted(whole.by_name), "the listing of all pools has")
    unread = [(item.market, item.pool) for item in changes.unread]
    found = sorted(((item.market, item.pool) for item in status.unread), key=lambda place: (place[0], place[1] or ""))
    yield from _differs("unread", unread, found, "the status has")
    if len({change.id for change in changes.data}) < len(changes.data):
        yield "$.data has an id twice"
    ledgers = [change.observed_ledger for change in changes.data]
    if ledgers != sorted(ledgers, reverse=True) or ledgers[:1] > [status.observed_ledger]:
        yield "$.data must begin with the newest, and reach no further than the run"
    if any(change.previous_ledger >= change.observed_ledger for change in changes.data):
        yield "$.data has a change between a ledger and an earlier one"


def _judge_openapi(whole: Whole, status: SystemStatus, key: str, document: OpenApiDocument) -> Iterator[str]:  # noqa: ARG001
    ours = openapi_document()
    version = "x-exporter-version"
    if not document.paths:
        yield "$.paths is empty"
    elif document.info.get(version) == ours.info[version] and document != ours:
        yield "is not the description of the documents of this version, which wrote it"


KINDS: Mapping[type, Kind] = {
    MarketSummary: Kind(_judge_market),
    MarketList: Kind(_judge_market_list),
    TokenDocument: Kind(_judge_token),
    ProtocolSummary: Kind(_judge_summary),
    ProtocolList: Kind(_judge_coverage),
    AssetDetail: Kind(_judge_detail, _keep_detail),
    PoolsPage: Kind(
        _judge_pools, lambda page: [astuple(row)[: len(PoolSnapshot.__struct_fields__)] for row in page.data]
    ),
    **dict.fromkeys(HISTORIES, Kind(_judge_history, _keep_history)),
    DataPackage: Kind(_judge_package),
    ChangeList: Kind(_judge_changes),
    OpenApiDocument: Kind(_judge_openapi),
}
"""The kinds, by model. Pages, the status and the manifests have modules of their own."""

UNKNOWN = Kind(_judge_unknown, lambda document: getattr(document, "observed_ledger", None))
"""For every other model."""


def check_status(whole: Whole, status: SystemStatus) -> None:
    """See that the status says of the run what its other documents say."""
    whole.faults.add_all(POINTER_KEY, _status_faults(whole, status))
    for position, row in enumerate(whole.table.snapshots):
        if row.observed_ledger != status.observed_ledger:
            whole.faults.add(
                whole.table.first_keys[position],
                f"{whole.table.name(position)} is of ledger {row.observed_ledger}, but the run is of ledger "
                f"{status.observed_ledger}",
            )


def _status_faults(whole: Whole, status: SystemStatus) -> Iterator[str]:
    if status.schema_version != SCHEMA_VERSION:
        yield f"$.schema_version is {status.schema_version}; this version of the exporter checks {SCHEMA_VERSION}"
    try:
        checked_page_sizes(status.page_sizes, status.default_page_size)
    except ConfigError as error:
        yield str(error)
    if status.page_sizes != sorted(status.page_sizes):
        yield f"$.page_sizes is {status.page_sizes}, which does not ascend"
    if status.manifest_key != RUN.key(run_id=status.run_id):
        yield f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}"
    if status.evidence_key is not None and not whole.partial and status.evidence_key not in whole.seen:
        yield f"$.evidence_key is {status.evidence_key}, which is missing"
    if not status.market_count:
        yield "$.market_count is 0: there is no market in the tree"
    names = [row.token_address for row in whole.by_name.values()]
    unread = sum(item.pool is not None for item in status.unread)
    yield from _count("pool_count", status.pool_count, len(whole.listing) + unread, "pools listed and unread")
    yield from _count("token_count", status.token_count, len(set(names)), "tokens in the listing")
    unpriced = [(row.market, row.pool) for row in whole.by_name.values() if row.oracle_price_usd is None]
    if sorted((item.market, item.pool) for item in status.unpriced) != unpriced:
        yield f"$.unpriced names {len(status.unpriced)} pools, which are not the {len(unpriced)} without a price"
    named = {(item.market, item.pool, item.field) for item in status.bounded}
    for place, row in whole.by_name.items():
        for field in ("supply_apy_bps", "borrow_apy_bps", "utilization_bps"):
            if getattr(row, field) == JSON_INTEGER_MAX and (*place, field) not in named:
                yield f"$.bounded does not name {field} of {place[0]} {place[1]}, which is at its bound"
    for bounded in status.bounded:
        listed = whole.by_name.get((bounded.market, bounded.pool))
        if listed is None or str(getattr(listed, bounded.field, bounded.bound)) != bounded.bound:
            yield f"$.bounded names {bounded.field} of {bounded.market} {bounded.pool}, which is not published as said"
    for item in status.unread:
        if item.pool is not None and (item.market, item.pool) in whole.by_name:
            yield f"$.unread names {item.market} {item.pool}, which is listed as read"
    whole.looked.markets = len({row.market for row in whole.by_name.values()})
    if whole.partial:
        return
    summaries = {summary.market: summary for summary in whole.of(MarketSummary).values()}
    whole.looked.markets = len(summaries)
    yield from _count("market_count", status.market_count, len(summaries), "markets with a document")
    total = sum(summary.pool_count for summary in summaries.values())
    yield from _count("pool_count", status.pool_count, total, "pools of all markets")
    missing = [item.market for item in status.unread if item.pool is None]
    for market in (*missing, *(item.market for item in status.absent)):
        if market in summaries:
            yield f"{market} is named as not read, but has a document"
    for item in status.unread:
        if item.pool is not None and item.market not in summaries:
            yield f"$.unread names a pool of {item.market}, which has no document"
    for market in sorted({row.market for row in whole.by_name.values()} - summaries.keys()):
        yield f"market {market} has pools, but no document"


def _count(name: str, found: int, expected: int, what: str) -> Iterator[str]:
    if found != expected:
        yield f"$.{name} is {found}, but there are {expected} {what}"


def check_manifest(whole: Whole, status: SystemStatus) -> None:
    """See that the run's manifest is the one that the status names, and that every file is as it says."""
    key = status.manifest_key
    manifest, seen = whole.manifests.get(key), whole.seen.get(key)
    if manifest is None or seen is None:
        if seen is None:
            whole.faults.add(key, "is missing, though the status names it as the manifest of the run")
        return
    if seen.sha256 != status.manifest_sha256:
        whole.faults.add(key, "does not have the digest that the status gives for it")
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        whole.faults.add(key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's")
    if manifest.published_at != status.generated_at:
        whole.faults.add(POINTER_KEY, f"$.generated_at is {status.generated_at}, not the manifest's")
    files_key = manifest.files_key or key
    listing, seen = whole.listings.get(files_key), whole.seen.get(files_key)
    if listing is None or seen is None:
        if seen is None:
            whole.faults.add(files_key, "is missing, though the run's manifest names it")
        return
    if manifest.files is None and seen.sha256 != manifest.files_sha256:
        whole.faults.add(files_key, "does not have the digest that the run's manifest gives for it")
    expected = listing.run_id(manifest.observed_ledger)
    if manifest.run_id != expected:
        whole.faults.add(key, f"$.run_id is {manifest.run_id}, but the files listed give {expected}")
    if manifest.files is None and (manifest.file_count, manifest.bytes) != (found := listing.size):
        whole.faults.add(key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {found}")
    _check_files(whole, listing, {key, files_key})


def _check_files(whole: Whole, listing: RunListing, records: set[str]) -> None:
    kinds: Counter[str] = Counter()
    manifest_key = min(records)
    for listed in listing:
        kinds[listed.kind] += 1
        if listed.kind != kind_of(listed.key):
            whole.faults.add(manifest_key, f"lists {listed.key} as a {listed.kind}")
        seen = whole.seen.get(listed.key)
        if seen is None:
            if not whole.partial:
                whole.faults.add(listed.key, "is missing, though the run's manifest lists it")
        elif (seen.bytes, seen.sha256) != (listed.bytes, listed.sha256):
            whole.faults.add(listed.key, "does not have the bytes that the run's manifest gives for it")
    names = set(listing.frame["key"])
    own = {POINTER_KEY, *records, *whole.unlisted}
    for key in sorted(whole.seen.keys() - names - own):
        whole.faults.add(key, "is a file of the run, but its manifest does not list it")
    for kind in (FileKind.DOCUMENT, *((FileKind.PAGE,) if whole.listing else ())):
        if not kinds[kind]:
            whole.faults.add(manifest_key, f"lists no {kind}")
