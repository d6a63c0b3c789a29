"""The rendered tree of a run: the pages, then the market documents, and the documents about the run itself.

Every file is encoded from its wire model and read back with it before it is handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import polars as pl
from msgspec.structs import astuple

from exporter.errors import CheckError
from exporter.render.pages import render_pages, snapshots
from exporter.tree.documents import (
    Document,
    HistoryManifest,
    ManifestFile,
    MarketPool,
    MarketSummary,
    PoolSnapshot,
    RunManifest,
    SystemStatus,
    encode,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import POINTER_KEY
from exporter.tree.read_back import parse_back

MARKET_POOLS_CAP = 200
"""How many pools a market summary lists; the rest is at ``/v1/assets?market=``."""

HISTORY_MANIFEST_KEY = "v1/history.json"


def render_tree(
    pools: pl.DataFrame,
    markets: pl.DataFrame,
    sizes: Sequence[int],
    default_size: int,
    cap: int = MARKET_POOLS_CAP,
) -> Iterator[RenderedFile]:
    """Render all that follows from the frames: immutable pages first, then the documents.

    `pools` and `markets` are the frames of one run (`exporter.tables`), either of which may be empty. Files come one
    by one, never all at once in memory, in an order that depends on the input alone. Raises ConfigError for page
    sizes that cannot serve every limit and CheckError for frames that contradict each other or a promise of the
    API; what was yielded before must then not be published.
    """
    check_markets(pools, markets)
    yield from render_pages(pools, markets, sizes, default_size)
    for summary in market_summaries(pools, markets, cap):
        yield render_document(f"v1/markets/{summary.market}.json", summary)


def market_summaries(pools: pl.DataFrame, markets: pl.DataFrame, cap: int) -> Iterator[MarketSummary]:
    """The summary of each market of the markets frame, in its order, with at most `cap` pools each.

    `pool_count` is taken from the markets frame, so it counts pools that could not be read. A list is truncated
    when the cap cut it, not when a pool of it was unread.
    """
    members = _by_market(pools)
    columns = ("market", "config_hash", "observed_ledger", "pool_count", "tvl_usd_cents")
    for market, config_hash, observed_ledger, pool_count, tvl in markets.select(columns).iter_rows():
        rows = members.get(market, [])
        yield MarketSummary(
            market=market,
            config_hash=config_hash,
            observed_ledger=observed_ledger,
            pool_count=pool_count,
            pools=[market_pool(row) for row in rows[:cap]],
            truncated=len(rows) > cap,
            tvl_usd_cents=None if tvl is None else str(tvl),
        )


def market_pool(snapshot: PoolSnapshot) -> MarketPool:
    """The snapshot as it stands in its market's summary: without the first and the last field."""
    return MarketPool(*astuple(snapshot)[1:-1])


def check_markets(pools: pl.DataFrame, markets: pl.DataFrame) -> None:
    """Refuse frames of which one contradicts the other, with CheckError naming the market.

    Markets ascend, each once; every pool's market is among them; all are of one ledger; the pools counted are those
    read and those unread; and the value of a market is the sum over its pools that have a price.
    """
    names = markets.get_column("market").to_list()
    if any(later <= earlier for earlier, later in pairwise(names)):
        raise CheckError("markets: rows must ascend by market, each once")
    members = _by_market(pools)
    strangers = sorted(set(members) - set(names))
    if strangers:
        raise CheckError(f"pools: {strangers[0]} is not among the markets")
    ledgers = {ledger for frame in (pools, markets) for ledger in frame.get_column("observed_ledger").unique()}
    if len(ledgers) > 1:
        raise CheckError(f"markets: all rows of one run must be of one ledger; they are of {sorted(ledgers)}")
    columns = ("market", "pool_count", "unread_count", "tvl_usd_cents")
    for market, pool_count, unread_count, tvl in markets.select(columns).iter_rows():
        rows = members.get(market, [])
        if len(rows) + unread_count != pool_count:
            raise CheckError(
                f"markets: {market}: pool_count is {pool_count}, but {len(rows)} pools were read "
                f"and {unread_count} were not"
            )
        values = [int(row.tvl_usd_cents) for row in rows if row.tvl_usd_cents is not None]
        expected = sum(values) if values else None
        if tvl != expected:
            raise CheckError(f"markets: {market}: tvl_usd_cents is {tvl}, but its pools sum up to {expected}")


def render_document(key: str, document: Document, kind: FileKind = FileKind.DOCUMENT) -> RenderedFile:
    """Encode a document and read it back. CheckError when it breaks a constraint of its model or is not its key's."""
    return read_back(RenderedFile(key, encode(document), kind), document)


def read_back(file: RenderedFile, document: Document) -> RenderedFile:
    """The file, once it is seen to read back as the document it was made from; CheckError when it does not."""
    if parse_back(file) != document:
        raise CheckError(f"{file.key}: reads back as another document than was written")
    return file


def render_status(status: SystemStatus) -> RenderedFile:
    """The pointer of a run, to be written last."""
    return render_document(POINTER_KEY, status, FileKind.POINTER)


def render_history_manifest(manifest: HistoryManifest) -> RenderedFile:
    """The list of the history's Parquet files."""
    return render_document(HISTORY_MANIFEST_KEY, manifest)


def run_manifest_key(run_id: str) -> str:
    """The key of a run's manifest."""
    return f"v1/runs/{run_id}.json"


def render_run_manifest(manifest: RunManifest) -> RenderedFile:
    """The list of the files of a run."""
    return render_document(run_manifest_key(manifest.run_id), manifest)


def manifest_file(file: RenderedFile) -> ManifestFile:
    """A rendered file as its run's manifest lists it."""
    return ManifestFile(key=file.key, kind=file.kind.value, bytes=len(file.data), sha256=file.sha256)


def _by_market(pools: pl.DataFrame) -> dict[str, list[PoolSnapshot]]:
    members: dict[str, list[PoolSnapshot]] = {}
    for row in snapshots(pools):
        members.setdefault(row.market, []).append(row)
    return members


def manifest_files(files: Iterable[RenderedFile]) -> list[ManifestFile]:
    """The files of a run as its manifest lists them, by key."""
    return sorted((manifest_file(file) for file in files), key=lambda entry: entry.key)
