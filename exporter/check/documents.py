"""Checks of documents by themselves: their ledger, numbers that follow from others in them, their links.

That documents agree with each other shows when the run is rendered again (`exporter.job.rerender`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from exporter.check.summary import Whole
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    DataPackage,
    HistoryManifest,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import BUCKET_PAGE, PAGE, POINTER_KEY, RECENT, RUN, TOTALS_PAGE, kind_of
from exporter.tree.files import FileKind
from exporter.tree.pools import AssetDetail

Judge = Callable[[Whole, str, Any], Iterable[str]]
"""(the tree, a document's key, the document) to what is wrong with it."""

BPS = 10_000

MAX_DIGITS = 100
"""Of an amount or a price: those of contracts have 39, and Python refuses to convert more than 4,300 at once."""

MAX_EXPONENT = 1_000
"""No token has this many decimals; the value of one that says so is not computed."""


def check_status(whole: Whole, status: SystemStatus) -> None:
    """See that the status names its run's files."""
    if status.manifest_key != RUN.key(run_id=status.run_id):
        whole.faults.add(POINTER_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
    if not whole.partial and status.evidence_key not in whole.seen:
        whole.faults.add(POINTER_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")


def judge_ledger(whole: Whole, key: str, document: Any) -> Iterator[str]:  # noqa: ARG001
    """A document that says of which ledger it is must be of the run's."""
    observed_ledger = getattr(document, "observed_ledger", None)
    if observed_ledger not in (None, whole.ledger):
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {whole.ledger}"


def contradictions(row: AssetDetail) -> Iterator[str]:
    """A pool's contradictions: fields that follow from others by the definitions of the API."""
    for name in ("total_supplied", "total_borrowed", "tvl_usd_cents", "oracle_price_usd"):
        if len(getattr(row, name) or "") > MAX_DIGITS:
            yield f"{name} has more than {MAX_DIGITS} characters"
            return
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = borrowed * BPS // supplied if supplied else 0
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        whole, _, fraction = row.oracle_price_usd.partition(".")
        exponent = row.decimals + len(fraction)
        least = supplied * int(whole + fraction) * 100 // 10**exponent if exponent <= MAX_EXPONENT else 0
        if int(row.tvl_usd_cents) < least:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {least}"


def _judge_detail(whole: Whole, key: str, detail: AssetDetail) -> Iterator[str]:
    yield from judge_ledger(whole, key, detail)
    yield from contradictions(detail)


def _judge_page(whole: Whole, key: str, page: AssetsPage) -> Iterator[str]:
    if page.next_cursor is not None and not whole.there(target := PAGE.key(cursor=page.next_cursor)):
        whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
    return iter(())


def _judge_history(whole: Whole, key: str, history: AssetHistory | TotalsHistory) -> Iterator[str]:
    page = BUCKET_PAGE if isinstance(history, AssetHistory) else TOTALS_PAGE
    if not key.startswith(page.prefix) and history.observed_ledger > whole.ledger:
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
    AssetDetail: _judge_detail,
    AssetsPage: _judge_page,
    AssetHistory: _judge_history,
    TotalsHistory: _judge_history,
    DataPackage: _judge_package,
    HistoryManifest: lambda *_: (),
}
"""The kinds of which more, or something else, is judged than their ledger, by model."""
