"""Checks of documents by themselves: their ledger, numbers that follow from others in them, their links.

That documents agree with each other shows when the run is rendered again (`exporter.job.rerender`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exporter.check.summary import Whole
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    DataPackage,
    HistoryManifest,
    TotalsHistory,
)
from exporter.tree.families import BUCKET_PAGE, PAGE, RECENT, TOTALS_PAGE, kind_of
from exporter.tree.files import FileKind
from exporter.tree.pools import AssetDetail

BPS = 10_000

MAX_DIGITS = 100
"""Of an amount or a price: those of contracts have 39, and Python refuses to convert more than 4,300 at once."""

MAX_EXPONENT = 1_000
"""No token has this many decimals; the value of one that says so is not computed."""


def judge(whole: Whole, key: str, document: Any) -> Iterator[str]:
    """What is wrong with a document by itself, and with its links so far."""
    observed_ledger: Any = getattr(document, "observed_ledger", None)
    if isinstance(document, AssetHistory | TotalsHistory):  # its pages may be of earlier runs
        wrong = observed_ledger > whole.ledger and not key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix))
    else:
        wrong = observed_ledger not in (None, whole.ledger) and not isinstance(document, HistoryManifest)
    if wrong:
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {whole.ledger}"
    match document:
        case AssetDetail():
            yield from contradictions(document)
        case AssetsPage(next_cursor=str(cursor)):
            if not whole.there(target := PAGE.key(cursor=cursor)):
                whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
        case AssetHistory(next_cursor=str(cursor)) | TotalsHistory(next_cursor=str(cursor)):
            whole.summary.links += 1
            # The sweep removes recent pages a day after they were published; others may be of an earlier run, which no
            # manifest lists.
            if not cursor.startswith(RECENT) and not whole.own_files_only and not whole.partial:
                page = BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE
                target = page.key(cursor=cursor)
                whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
                whole.wanted.append(target)
        case DataPackage():
            # A file of the history may have been compacted since; it stays until the next run's package.
            for path in [path for resource in document.resources for path in resource.path]:
                if kind_of(path) is not FileKind.HISTORY and not whole.partial:
                    whole.summary.links += 1
                    whole.links.setdefault(path, (key, f"leads to {path}, which is not there"))


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
