"""What a document says otherwise than its key does, or than it says elsewhere itself."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from exporter.api.asset_documents import AssetDetail, AssetHistory, HistoryBucket
from exporter.api.documents import (
    AssetsPage,
    Document,
    HistoryManifest,
    MarketList,
    MarketSummary,
    ProtocolSummary,
    RunManifest,
    SystemStatus,
    TokenDocument,
    page_token,
)
from exporter.api.problems import Problem


def contradiction(document: Document, names: Mapping[str, str], data: bytes) -> str | None:
    """What is wrong with a document that decodes, or None.

    Args:
        document: the document.
        names: what its key says of it, by the names of the fields: market, pool, token, bucket and so on.
        data: its bytes, of which a page's token is made.
    """
    for field in ("market", "pool", "bucket", "address", "run_id"):
        said = getattr(document, field, None)
        if said is not None and said != names.get(field, said):
            return f"$.{field} is {said}"
    if "token" in names and page_token(data) != names["token"]:
        return f"its content has the token {page_token(data)}"
    match document:
        case AssetsPage():
            return _page(document, names)
        case AssetDetail():
            return _detail(document)
        case AssetHistory():
            return _history(document)
        case MarketList():
            if any(later.market <= earlier.market for earlier, later in pairwise(document.data)):
                return "$.data must ascend by market, each once"
            if any(entry.observed_ledger != document.observed_ledger for entry in document.data):
                return "$.data has a market of another ledger"
        case MarketSummary():
            if len(document.pools) > document.pool_count:
                return f"$.pool_count is {document.pool_count}, but $.pools has {len(document.pools)}"
        case TokenDocument():
            return _token(document)
        case ProtocolSummary():
            return _summary(document)
        case HistoryManifest():
            for index, file in enumerate(document.files):
                if file.url != f"../{file.key}":
                    return f"$.files[{index}].url does not lead to its key {file.key}"
        case Problem():
            if str(document.status) != names.get("status"):
                return f"$.status is {document.status}"
        case SystemStatus():
            for field in ("unread", "unpriced"):
                count, listed = getattr(document, f"{field}_count"), len(getattr(document, field))
                if count != listed:
                    return f"$.{field}_count is {count}, but $.{field} has {listed}"
        case RunManifest():
            if any(later.key <= earlier.key for earlier, later in pairwise(document.files)):
                return "$.files must ascend by key, each once"
    return None


def _page(page: AssetsPage, names: Mapping[str, str]) -> str | None:
    if "empty" in names and (page.data or page.next_cursor is not None):
        return "$.data must be empty and $.next_cursor null"
    if "limit" in names and len(page.data) > int(names["limit"]):
        return f"$.data has {len(page.data)} rows"
    for field in ("market", "token_address"):
        expected = names.get(field)
        if expected is not None and any(getattr(row, field) != expected for row in page.data):
            return f"$.data has a row with another {field}"
    return None


def _detail(detail: AssetDetail) -> str | None:
    price = detail.price
    parts = (price.value, price.decimals, detail.oracle_price_usd, detail.tvl_usd_cents)
    priced = price.validity == "valid"
    if any((part is not None) != priced for part in parts) or (price.time is not None and not priced):
        return f"$.price.validity is {price.validity!r}: price and value must be there if and only if it is valid"
    return None


def _history(history: AssetHistory) -> str | None:
    for index, bucket in enumerate(history.data):
        wrong = _bucket(bucket)
        if wrong:
            return f"$.data[{index}]{wrong}"
    for earlier, later in pairwise(history.data):
        if later.start_time < earlier.end_time or later.first_ledger <= earlier.last_ledger:
            return f"$.data must ascend, but the bucket of {later.start_time} comes after that of {earlier.start_time}"
    if history.data and history.data[-1].last_ledger > history.observed_ledger:
        return f"$.observed_ledger is {history.observed_ledger}, but $.data knows of {history.data[-1].last_ledger}"
    return None


def _bucket(bucket: HistoryBucket) -> str | None:
    if bucket.end_time <= bucket.start_time:
        return ".end_time is not after its start_time"
    if bucket.last_ledger < bucket.first_ledger:
        return ".last_ledger is below its first_ledger"
    if bucket.priced_count > bucket.observation_count:
        return ".priced_count is above its observation_count"
    priced = bucket.priced_count > 0
    if (bucket.tvl_usd_cents is not None) != priced or (bucket.oracle_price_usd is not None) != priced:
        return ": value and price must be there if and only if something was priced"
    return None


def _token(token: TokenDocument) -> str | None:
    places = [(pool.market, pool.pool) for pool in token.pools]
    if any(later <= earlier for earlier, later in pairwise(places)):
        return "$.pools must ascend by market and pool, each once"
    if token.first_seen_ledger > token.observed_ledger:
        return f"$.first_seen_ledger is {token.first_seen_ledger}, above the observed ledger"
    return None


def _summary(summary: ProtocolSummary) -> str | None:
    for field in ("market_count", "pool_count"):
        total, parts = getattr(summary, field), sum(getattr(part, field) for part in summary.protocols)
        if total != parts:
            return f"$.{field} is {total}, but $.protocols sum up to {parts}"
    values = [int(part.tvl_usd_cents) for part in summary.protocols if part.tvl_usd_cents is not None]
    expected = str(sum(values)) if values else None
    if summary.tvl_usd_cents != expected:
        return f"$.tvl_usd_cents is {summary.tvl_usd_cents}, but $.protocols sum up to {expected}"
    return None
