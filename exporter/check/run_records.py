"""The records of a run: its status, the counts in it, and its manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from exporter.check.whole import Whole
from exporter.errors import ConfigError
from exporter.numbers.exact import JSON_INTEGER_MAX
from exporter.publishing.publish import run_id_of
from exporter.tree.documents import SCHEMA_VERSION, MarketSummary, RunManifest, SystemStatus
from exporter.tree.families import POINTER_KEY, RUN, kind_of
from exporter.tree.files import FileKind
from exporter.tree.routes import checked_page_sizes


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
    expected = run_id_of(manifest.observed_ledger, manifest.files)
    if manifest.run_id != expected:
        whole.faults.add(key, f"$.run_id is {manifest.run_id}, but the files listed give {expected}")
    _check_files(whole, manifest, key)


def _check_files(whole: Whole, manifest: RunManifest, manifest_key: str) -> None:
    kinds: Counter[str] = Counter()
    for listed in manifest.files:
        kinds[listed.kind] += 1
        if listed.kind != kind_of(listed.key):
            whole.faults.add(manifest_key, f"lists {listed.key} as a {listed.kind}")
        seen = whole.seen.get(listed.key)
        if seen is None:
            if not whole.partial:
                whole.faults.add(listed.key, "is missing, though the run's manifest lists it")
        elif (seen.bytes, seen.sha256) != (listed.bytes, listed.sha256):
            whole.faults.add(listed.key, "does not have the bytes that the run's manifest gives for it")
    names = {listed.key for listed in manifest.files}
    own = {POINTER_KEY, manifest_key, *whole.unlisted}
    for key in sorted(whole.seen.keys() - names - own):
        whole.faults.add(key, "is a file of the run, but its manifest does not list it")
    for kind in (FileKind.DOCUMENT, *((FileKind.PAGE,) if whole.listing else ())):
        if not kinds[kind]:
            whole.faults.add(manifest_key, f"lists no {kind}")
