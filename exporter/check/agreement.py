"""What the documents of a run must agree in: one small function a kind, then its status.

A document is judged as it passes, against the listing of all pools. Those of which a tree has one are kept, and judged
once everything else was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from operator import attrgetter, ne
from typing import Any

import msgspec

from exporter.check.reward_faults import backstop_faults, reward_faults
from exporter.check.row_faults import number, value_in_cents
from exporter.check.walks import Listing
from exporter.check.whole import Span, Whole
from exporter.errors import ConfigError
from exporter.history.manifest import file_ledgers
from exporter.history.totals import places_of
from exporter.numbers.exact import JSON_INTEGER_MAX
from exporter.render.openapi import VERSION_FIELD, openapi_document
from exporter.render.run_documents import market_pool
from exporter.tables import POOLS
from exporter.tree.documents import (
    AssetHistory,
    ChangeList,
    DataPackage,
    HistoryManifest,
    MarketEntry,
    MarketList,
    MarketSummary,
    OpenApiDocument,
    PoolsPage,
    ProtocolList,
    ProtocolSummary,
    SystemStatus,
    TokenDocument,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    MARKET,
    OPENAPI_KEY,
    POINTER_KEY,
    POOLS_OF_MARKET,
    POOLS_OF_TOKEN,
    RECENT,
    RUN,
    TOTALS_PAGE,
    asset_key,
    history_key,
    kind_of,
    parse_key,
    pools_of_key,
    token_key,
    totals_key,
)
from exporter.tree.files import FileKind
from exporter.tree.pools import (
    AssetDetail,
    AssetLiquidity,
    AssetOperations,
    AssetRewards,
    AssetRisk,
    MarketPool,
    PoolSnapshot,
)
from exporter.tree.routes import checked_page_sizes
from exporter.tree.values import BUCKET_NAMES

Judge = Callable[[Whole, str, Any], Iterable[str]]
"""(the tree, a document's key, the document) to what is wrong with it, by what came before it."""


def check_required(whole: Whole) -> None:
    """See that every pool, token and total has its documents."""
    if whole.partial:
        return
    if OPENAPI_KEY not in whole.seen:
        whole.faults.add(OPENAPI_KEY, "is missing")
    listing = _listing(whole)
    entries = whole.one(MarketList)
    protocols = {} if entries is None else {entry.market: entry.protocol for entry in entries.data}
    rows = {(row.market, row.token_address) for row in listing if row.market in protocols}
    totals = {place for market, token in rows for place in places_of(market, token, protocols[market])}
    required: tuple[Iterable[str], ...] = (
        map(token_key, listing.tokens),
        (pools_of_key(market, None) for market in listing.markets),
        (pools_of_key(None, token) for token in listing.tokens),
        (asset_key(row.market, row.pool) for row in listing),
        (history_key(row.market, row.pool, bucket) for row in listing for bucket in BUCKET_NAMES),
        (totals_key(*place) for place in totals),
    )
    for keys in required:
        for key in keys:
            if key not in whole.seen:
                whole.faults.add(key, "is missing")


def _listing(whole: Whole) -> Listing:
    assert whole.run.listing is not None  # or no document is judged
    return whole.run.listing


SNAPSHOT_FIELDS: tuple[str, ...] = PoolSnapshot.__struct_fields__
snapshot_of = attrgetter(*SNAPSHOT_FIELDS)


def _judge_pools(whole: Whole, key: str, page: PoolsPage) -> Iterator[str]:
    for index, pool in enumerate(page.data):
        found = _listing(whole).find(pool.market, pool.pool)
        if found is None:
            yield f"$.data[{index}] is of {pool.market} {pool.pool}, which is not listed"
        elif snapshot_of(pool) != snapshot_of(found[1]):
            yield f"$.data[{index}] is not what /v1/assets has of {pool.market} {pool.pool}"
    family, names = parse_key(key) or (None, {})
    if family in (POOLS_OF_MARKET, POOLS_OF_TOKEN):
        own = [(row.market, row.pool) for row in _listing(whole).of(names.get("market"), names.get("token"))]
        found_here = [(pool.market, pool.pool) for pool in page.data]
        expected = own if page.next_cursor is None else own[: len(found_here)]
        yield from _differs("data", found_here, expected, "the listing of all pools has")


def worth(rows: Iterable[PoolSnapshot]) -> str | None:
    """The sum over the pools that have a price, as documents write it; None when none has."""
    values = [number(row.tvl_usd_cents) for row in rows if row.tvl_usd_cents is not None]
    return str(sum(values)) if values else None


def _ledger(whole: Whole, observed_ledger: int) -> Iterator[str]:
    if observed_ledger != whole.run.observed_ledger:
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {whole.run.observed_ledger}"


def _differs(name: str, found: object, expected: object, why: str) -> Iterator[str]:
    if found != expected:
        yield f"$.{name} is {found!r}, but {why} {expected!r}"


def judge_unknown(whole: Whole, key: str, document: Any) -> Iterator[str]:  # noqa: ARG001
    """What is wrong with a document of any other model."""
    if (observed_ledger := getattr(document, "observed_ledger", None)) is not None:
        yield from _ledger(whole, observed_ledger)


def _judge_market(whole: Whole, key: str, summary: MarketSummary) -> Iterator[str]:
    rows = _listing(whole).of(summary.market, None)
    whole.markets[summary.market] = summary.pool_count, summary.tvl_usd_cents
    whole.longest = max(whole.longest, (len(summary.pools), key), key=lambda longest: longest[0])
    if summary.truncated:
        whole.cut = len(summary.pools) if whole.cut is None else min(whole.cut, len(summary.pools))
    yield from _ledger(whole, summary.observed_ledger)
    yield from _differs("tvl_usd_cents", summary.tvl_usd_cents, worth(rows), "its pools sum up to")
    cut = len(summary.pools) < len(rows)
    yield from _differs("truncated", summary.truncated, cut, f"with {len(summary.pools)} of {len(rows)} pools it is")
    yield from _market_pools(summary.pools, rows)
    if summary.backstop is not None:
        yield from backstop_faults(summary.backstop)


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


def _judge_market_list(whole: Whole, status: SystemStatus, listed: MarketList) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(whole, listed.observed_ledger)
    if not whole.partial:
        names = [entry.market for entry in listed.data]
        yield from _differs("data", names, sorted(whole.markets), "the markets with a document are")
    for index, entry in enumerate(listed.data):
        if entry.market in whole.markets:
            found, own = (entry.pool_count, entry.tvl_usd_cents), whole.markets[entry.market]
            for name, has, wants in zip(("pool_count", "tvl_usd_cents"), found, own, strict=True):
                yield from _differs(f"data[{index}].{name}", has, wants, "its own document has")


def _judge_token(whole: Whole, key: str, token: TokenDocument) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(whole, token.observed_ledger)
    whole.first_seen[token.address] = token.first_seen_ledger
    rows = _listing(whole).of(None, token.address)
    found = [(pool.market, pool.pool) for pool in token.pools]
    yield from _differs("pools", found, [(row.market, row.pool) for row in rows], "the listing of all pools has")
    if rows and token.symbol not in {row.symbol for row in rows}:
        yield f"$.symbol is {token.symbol!r}, but the listing of all pools has {rows[0].symbol!r}"
    if not rows:
        yield "no pool of the run has this token"


def _judge_summary(whole: Whole, status: SystemStatus, summary: ProtocolSummary) -> Iterator[str]:
    yield from _ledger(whole, summary.observed_ledger)
    for name in ("market_count", "pool_count"):
        yield from _differs(name, getattr(summary, name), getattr(status, name), "the status has")
    total = worth(_listing(whole))
    yield from _differs("tvl_usd_cents", summary.tvl_usd_cents, total, "all pools sum up to")
    if (listed := whole.one(MarketList)) is not None:
        found = {part.protocol: (part.market_count, part.pool_count, part.tvl_usd_cents) for part in summary.protocols}
        yield from _differs("protocols", found, _by_protocol(listed.data), "the list of markets gives")


def _judge_coverage(whole: Whole, status: SystemStatus, covered: ProtocolList) -> Iterator[str]:
    yield from _ledger(whole, covered.observed_ledger)
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


_PARTS = {"operations": AssetOperations, "liquidity": AssetLiquidity, "risk": AssetRisk, "rewards": AssetRewards}

TERM_PATHS: dict[str, str] = {
    name: f"{part}.{name}" for part, model in _PARTS.items() for name in model.__struct_fields__ if name in POOLS
}
"""The columns of the history that an asset's detail has in its parts, and where."""

terms_of = attrgetter(*TERM_PATHS.values())


def _judge_detail(whole: Whole, key: str, detail: AssetDetail) -> Iterator[str]:  # noqa: ARG001
    found = _listing(whole).find(detail.market, detail.pool)
    if found is None:
        yield "the listing of all pools has no such pool"
        return
    place, row = found
    if whole.periods:
        whole.periods[place] = hash(msgspec.json.encode(detail.periods))
    for name in SNAPSHOT_FIELDS:
        yield from _differs(name, getattr(detail, name), getattr(row, name), "the listing of all pools has")
    closed = whole.run.ledger_close_time
    yield from _differs("ledger_close_time", detail.ledger_close_time, closed, "the run's ledger closed at")
    terms = dict(zip(TERM_PATHS, terms_of(detail), strict=True))
    if whole.terms is not None:
        for name, recorded in zip(TERM_PATHS, whole.terms.at(place), strict=True):
            if terms[name] != recorded:
                whole.faults.add(
                    whole.terms.key,
                    f"{row.market} {row.pool}: {name} is {recorded!r}, its own document has {terms[name]!r}",
                )
    amounts = {"supplied": row.total_supplied, "borrowed": row.total_borrowed}
    for part, amount in (amounts | {"available": terms["available_to_withdraw"]}).items():
        name = f"{part}_usd_cents"
        if row.oracle_price_usd is not None and amount is not None:
            worth_of_it = str(value_in_cents(number(amount), row.oracle_price_usd, row.decimals))
            yield from _differs(TERM_PATHS[name], terms[name], worth_of_it, "the amount at the price is")
    yield from reward_faults(row, terms)


def _judge_history(whole: Whole, key: str, history: AssetHistory | TotalsHistory) -> Iterator[str]:
    place = (history.market, history.pool) if isinstance(history, AssetHistory) else (history.scope, history.id)
    edges = ("", "", 0, 0)  # without buckets
    if history.data:
        oldest, newest = history.data[0], history.data[-1]
        edges = (oldest.start_time, newest.end_time, oldest.first_ledger, newest.last_ledger)
    span = Span((type(history).__name__, *place, history.bucket), *edges)
    page = next((page for page in (BUCKET_PAGE, TOTALS_PAGE) if key.startswith(page.prefix)), None)
    if page is None:
        if history.observed_ledger > whole.run.observed_ledger:
            yield from _ledger(whole, history.observed_ledger)
        if span.end_time > whole.run.ledger_close_time:
            yield f"$.data ends at {span.end_time}, but the run's ledger closed at {whole.run.ledger_close_time}"
    else:
        own = key.rpartition("/")[2].removesuffix(".json")
        newer = whole.newer.pop(own, ())
        if not newer:
            whole.older[own] = span
        for other, its_span in newer:
            whole.faults.add_all(other, _older_faults(its_span, key, span))
    if history.next_cursor is None:
        return
    target = (BUCKET_PAGE if isinstance(history, AssetHistory) else TOTALS_PAGE).key(cursor=history.next_cursor)
    older = whole.older.pop(history.next_cursor, None)
    whole.looked.links += 1
    if older is not None:
        yield from _older_faults(span, target, older)
    elif history.next_cursor.startswith(RECENT):
        pass  # the sweep removes these pages a day after they were published
    elif not whole.own_files_only and not whole.partial:  # there, it may be of an earlier run, which no manifest lists
        whole.newer.setdefault(history.next_cursor, []).append((key, span))
        whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
        whole.wanted.append(target)


def _older_faults(span: Span, key: str, older: Span) -> Iterator[str]:
    if older.of != span.of:
        yield f"next_cursor leads to the history of {' '.join(older.of[1:])}"
    elif older.end_time > span.start_time or older.last_ledger >= span.first_ledger:
        yield f"next_cursor leads to {key}, whose buckets are not all older"


def _judge_package(whole: Whole, status: SystemStatus, package: DataPackage) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(whole, package.observed_ledger)
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


def _judge_changes(whole: Whole, key: str, changes: ChangeList) -> Iterator[str]:  # noqa: ARG001
    yield from _ledger(whole, changes.observed_ledger)
    places = ((pool.market, pool.pool) for pool in changes.pools)
    listed = ((row.market, row.pool) for row in _listing(whole))
    if len(changes.pools) != len(_listing(whole)) or any(map(ne, places, listed)):
        yield f"$.pools names {len(changes.pools)} pools, which are not those of the listing"
    whole.unread = sorted((item.market, item.pool or "") for item in changes.unread)
    whole.changes = {change.id for change in changes.data}
    if len(whole.changes) < len(changes.data):
        yield "$.data has an id twice"
    ledgers = [change.observed_ledger for change in changes.data]
    if ledgers != sorted(ledgers, reverse=True) or ledgers[:1] > [whole.run.observed_ledger]:
        yield "$.data must begin with the newest, and reach no further than the run"
    if any(change.previous_ledger >= change.observed_ledger for change in changes.data):
        yield "$.data has a change between a ledger and an earlier one"


def _judge_openapi(whole: Whole, key: str, document: OpenApiDocument) -> Iterator[str]:  # noqa: ARG001
    ours = openapi_document()
    if not document.paths:
        yield "$.paths is empty"
    elif document.info.get(VERSION_FIELD) == ours.info[VERSION_FIELD] and document != ours:
        yield "is not the description of the documents of this version, which wrote it"


KINDS: Mapping[type, Judge] = {
    MarketSummary: _judge_market,
    TokenDocument: _judge_token,
    AssetDetail: _judge_detail,
    PoolsPage: _judge_pools,
    AssetHistory: _judge_history,
    TotalsHistory: _judge_history,
    ChangeList: _judge_changes,
    OpenApiDocument: _judge_openapi,
    SystemStatus: lambda *_: (),
    HistoryManifest: lambda *_: (),
}
"""The kinds that are judged as they pass, by model."""

ALONE: Mapping[type, Callable[[Whole, SystemStatus, Any], Iterable[str]]] = {
    MarketList: _judge_market_list,
    ProtocolSummary: _judge_summary,
    ProtocolList: _judge_coverage,
    DataPackage: _judge_package,
}
"""Those of which a tree has one, and which must agree with all others."""


def check_status(whole: Whole, status: SystemStatus) -> None:
    """See that the status and the documents of markets say of the run what its other documents say."""
    whole.faults.add_all(POINTER_KEY, _status_faults(whole, status))
    unread = Counter(item.market for item in status.unread if item.pool is not None)
    for market, (count, _) in whole.markets.items():
        read, missing = _listing(whole).count(market, None), unread[market]
        why = f"{read} pools are listed and {missing} unread:"
        whole.faults.add_all(MARKET.key(market=market), _differs("pool_count", count, read + missing, why))
    longest, key = whole.longest
    if whole.cut is not None and longest > whole.cut:
        whole.faults.add(key, f"$.pools has {longest}, though another market is cut at {whole.cut}")


def _status_faults(whole: Whole, status: SystemStatus) -> Iterator[str]:
    try:
        checked_page_sizes(status.page_sizes, status.default_page_size)
    except ConfigError as error:
        yield str(error)
    if status.page_sizes != sorted(status.page_sizes):
        yield f"$.page_sizes is {status.page_sizes}, which does not ascend"
    if status.manifest_key != RUN.key(run_id=status.run_id):
        yield f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}"
    if not whole.partial and status.evidence_key not in whole.seen:
        yield f"$.evidence_key is {status.evidence_key}, which is missing"
    without = Counter(item.market for item in status.unpriced)
    listed = {item.market: (item.pool_count, item.unpriced_count) for item in status.unpriced_markets}
    read = {market: (_listing(whole).count(market, None), count) for market, count in without.items()}
    yield from _differs("unpriced_markets", listed, read, "unpriced and the listing of all pools give")
    counts = [(item.unpriced_count, item.pool_count, item.unpriced_bps) for item in status.unpriced_markets]
    for absent, pools, share in [(status.unpriced_count, len(_listing(whole)), status.unpriced_bps), *counts]:
        yield from _differs("unpriced_bps", share, absent * 10_000 // max(pools, 1), "the share of the pools is")
    if not status.market_count:
        yield "$.market_count is 0: there is no market in the tree"
    for name in ("observed_ledger", "ledger_close_time", "default_page_size"):
        yield from _differs(name, getattr(status, name), getattr(whole.run, name), "the run has")
    yield from _differs("page_sizes", sorted(status.page_sizes), sorted(whole.run.page_sizes), "the run has")
    listing = _listing(whole)
    unread = sum(item.pool is not None for item in status.unread)
    yield from _count("pool_count", status.pool_count, len(listing) + unread, "pools listed and unread")
    yield from _count("token_count", status.token_count, len(listing.tokens), "tokens in the listing")
    unpriced = [(row.market, row.pool) for row in listing if row.oracle_price_usd is None]
    if sorted((item.market, item.pool) for item in status.unpriced) != unpriced:
        yield f"$.unpriced names {len(status.unpriced)} pools, which are not the {len(unpriced)} without a price"
    named = {(item.market, item.pool, item.field) for item in status.bounded}
    for row in listing:
        for field in ("supply_apy_bps", "borrow_apy_bps", "utilization_bps"):
            if getattr(row, field) == JSON_INTEGER_MAX and (row.market, row.pool, field) not in named:
                yield f"$.bounded does not name {field} of {row.market} {row.pool}, which is at its bound"
    for bounded in status.bounded:
        found = listing.find(bounded.market, bounded.pool)
        if found is None or str(getattr(found[1], bounded.field, bounded.bound)) != bounded.bound:
            yield f"$.bounded names {bounded.field} of {bounded.market} {bounded.pool}, which is not published as said"
    for item in status.unread:
        if item.pool is not None and listing.find(item.market, item.pool) is not None:
            yield f"$.unread names {item.market} {item.pool}, which is listed as read"
    if whole.unread is not None:
        unread_places = sorted((item.market, item.pool or "") for item in status.unread)
        if whole.unread != unread_places:
            yield f"$.unread has {len(unread_places)} places, which are not the {len(whole.unread)} of the changes"
    whole.looked.markets = len(listing.markets)
    if whole.partial:
        return
    whole.looked.markets = len(whole.markets)
    yield from _count("market_count", status.market_count, len(whole.markets), "markets with a document")
    total = sum(count for count, _ in whole.markets.values())
    yield from _count("pool_count", status.pool_count, total, "pools of all markets")
    missing = [item.market for item in status.unread if item.pool is None]
    for market in (*missing, *(item.market for item in status.absent)):
        if market in whole.markets:
            yield f"{market} is named as not read, but has a document"
    for item in status.unread:
        if item.pool is not None and item.market not in whole.markets:
            yield f"$.unread names a pool of {item.market}, which has no document"
    for market in sorted(listing.markets - whole.markets.keys()):
        yield f"market {market} has pools, but no document"


def _count(name: str, found: int, expected: int, what: str) -> Iterator[str]:
    if found != expected:
        yield f"$.{name} is {found}, but there are {expected} {what}"
