"""What a check sees in documents by themselves: their ledger, numbers that follow from others in them, their links.

That documents agree with each other shows when the run is rendered again (`exporter.job.rerender`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from exporter.check.reward_faults import backstop_faults, reward_faults
from exporter.check.row_faults import number, value_in_cents
from exporter.check.summary import Whole
from exporter.history.totals import places_of
from exporter.tree.documents import (
    AssetHistory,
    DataPackage,
    HistoryManifest,
    MarketList,
    MarketSummary,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    OPENAPI_KEY,
    POINTER_KEY,
    RECENT,
    RUN,
    TOTALS_PAGE,
    asset_key,
    history_key,
    kind_of,
    pools_of_key,
    token_key,
    totals_key,
)
from exporter.tree.files import FileKind
from exporter.tree.pools import AssetDetail, PoolSnapshot
from exporter.tree.values import BUCKET_NAMES

Judge = Callable[[Whole, str, Any], Iterable[str]]
"""(the tree, a document's key, the document) to what is wrong with it."""

SNAPSHOT_FIELDS: tuple[str, ...] = PoolSnapshot.__struct_fields__
snapshot_of = attrgetter(*SNAPSHOT_FIELDS)


def check_required(whole: Whole) -> None:
    """See that every pool, token and total has its documents."""
    if whole.partial:
        return
    if OPENAPI_KEY not in whole.seen:
        whole.faults.add(OPENAPI_KEY, "is missing")
    listing = whole.run.listing
    assert listing is not None  # or no document is judged
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


def check_status(whole: Whole, status: SystemStatus) -> None:
    """See that the status names its run's files."""
    if status.manifest_key != RUN.key(run_id=status.run_id):
        whole.faults.add(POINTER_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
    if not whole.partial and status.evidence_key not in whole.seen:
        whole.faults.add(POINTER_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")


def judge_ledger(whole: Whole, key: str, document: Any) -> Iterator[str]:  # noqa: ARG001
    """A document that says of which ledger it is must be of the run's."""
    observed_ledger = getattr(document, "observed_ledger", None)
    if observed_ledger not in (None, whole.run.observed_ledger):
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {whole.run.observed_ledger}"


def _judge_market(whole: Whole, key: str, summary: MarketSummary) -> Iterator[str]:
    whole.markets.add(summary.market)
    yield from judge_ledger(whole, key, summary)
    if summary.backstop is not None:
        yield from backstop_faults(summary.backstop)


def _judge_detail(whole: Whole, key: str, detail: AssetDetail) -> Iterator[str]:
    yield from judge_ledger(whole, key, detail)
    row = PoolSnapshot(*snapshot_of(detail))
    liquidity = detail.liquidity
    for name, amount in (
        ("supplied", row.total_supplied),
        ("borrowed", row.total_borrowed),
        ("available", liquidity.available_to_withdraw),
    ):
        found = getattr(liquidity, f"{name}_usd_cents")
        if row.oracle_price_usd is not None and amount is not None:
            worth = str(value_in_cents(number(amount), row.oracle_price_usd, row.decimals))
            if found != worth:
                yield f"$.liquidity.{name}_usd_cents is {found!r}, but the amount at the price is {worth!r}"
    rewards = {name: getattr(detail.rewards, name) for name in detail.rewards.__struct_fields__}
    yield from reward_faults(row, rewards)


def _judge_history(whole: Whole, key: str, history: AssetHistory | TotalsHistory) -> Iterator[str]:
    page = BUCKET_PAGE if isinstance(history, AssetHistory) else TOTALS_PAGE
    if not key.startswith(page.prefix) and history.observed_ledger > whole.run.observed_ledger:
        yield from judge_ledger(whole, key, history)
    if history.next_cursor is None:
        return
    whole.summary.links += 1
    if history.next_cursor.startswith(RECENT):
        return  # the sweep removes these pages a day after they were published
    if not whole.own_files_only and not whole.partial:  # there, it may be of an earlier run, which no manifest lists
        target = page.key(cursor=history.next_cursor)
        whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
        whole.wanted.append(target)


def _judge_package(whole: Whole, key: str, package: DataPackage) -> Iterator[str]:
    yield from judge_ledger(whole, key, package)
    for path in [path for resource in package.resources for path in resource.path]:
        # A file of the history may have been compacted into another since; it stays until the next run's package.
        if kind_of(path) is not FileKind.HISTORY and not whole.partial:
            whole.summary.links += 1
            whole.links.setdefault(path, (key, f"leads to {path}, which is not there"))


KINDS: Mapping[type, Judge] = {
    MarketSummary: _judge_market,
    AssetDetail: _judge_detail,
    AssetHistory: _judge_history,
    TotalsHistory: _judge_history,
    DataPackage: _judge_package,
    HistoryManifest: lambda *_: (),
}
"""The kinds of which more is judged than their ledger, by model."""
