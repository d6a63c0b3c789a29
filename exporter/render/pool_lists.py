"""``/v1/pools`` and ``/v1/tokens``: every pool in one flat row, and every token with its best rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from exporter.best import SIDES, Side, best, with_ranks
from exporter.deployments import app_url
from exporter.protocols.compute import Tables
from exporter.render.assets_pages import page_bytes
from exporter.render.run_documents import token_documents, total
from exporter.tables import document_fields
from exporter.tree.documents import BestRate, TokenEntry, TokenList, encode, page_token
from exporter.tree.families import POOLS_PAGE, pools_key, pools_of_key
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.pools import AssetPeriod, PoolRow
from exporter.tree.read_back import file_of

PAGE_ROWS = 500

_MEANS = {
    f"mean_{side}_apy_bps_{name}": (at, f"mean_{side}_apy_bps")
    for name, at in (("7d", 1), ("30d", 2))
    for side in SIDES
}
"""The means that rows have, by the place of their period among those of `exporter.history.periods`, and its field."""


def listed_pools(pools: pl.DataFrame, periods: Sequence[Sequence[AssetPeriod]], network: str) -> pl.DataFrame:
    """The pools frame with what lists show in addition: the address of each pool in its app, and its means.

    Args:
        pools: the frame.
        periods: of each of its pools.
        network: the name of the network.
    """
    apps = [app_url(network, *place) for place in pools.select("protocol", "market", "pool").iter_rows()]
    means = (
        pl.Series(name, [getattr(own[at], mean) for own in periods], pl.Int64()) for name, (at, mean) in _MEANS.items()
    )
    return pools.with_columns(pl.Series("app_url", apps, pl.String()), *means)


def render_pool_lists(pools: pl.DataFrame, protocols: Iterable[str]) -> Iterator[RenderedFile]:
    """The listings of all pools and of each protocol, whole and of open pools alone, and of each market and token.

    A protocol may have no pools; a market or token without any has no listing. ``pools`` are `listed_pools`.
    """
    given: set[str] = set()  # listings can end alike
    encoded = [encode(PoolRow(*row)) for row in pools.select(document_fields(PoolRow)).iter_rows()]
    for key, shown in _listings(pools, protocols):
        for file in _pages(key, [encoded[place] for place in shown]):
            if file.key not in given:
                given.add(file.key)
                yield file


def _listings(rows: pl.DataFrame, protocols: Iterable[str]) -> Iterator[tuple[str, Iterable[int]]]:
    """The key of each listing, and the places of its rows."""
    places = rows.select("protocol", "market", "token_address", "can_supply").with_row_index("place")
    for protocol in (None, *protocols):
        own = pl.lit(value=True) if protocol is None else pl.col("protocol") == protocol
        for only_open in (False, True):
            wanted = own & pl.col("can_supply").fill_null(value=False) if only_open else own
            yield pools_key(protocol, only_open=only_open), places.filter(wanted)["place"]
    for name in ("market", "token_address"):
        for of, shown in places.group_by(name, maintain_order=True).agg("place").sort(name).iter_rows():
            key = pools_of_key(of, None) if name == "market" else pools_of_key(None, of)
            yield key, shown


def _pages(key: str, rows: Sequence[bytes]) -> Iterator[RenderedFile]:
    """A listing's pages, the last one first, because each names the next by its content."""
    cursor = None
    for start in reversed(range(0, max(len(rows), 1), PAGE_ROWS)):
        data = page_bytes(b",".join(rows[start : start + PAGE_ROWS]), cursor)
        if start:
            cursor = page_token(data)
            yield RenderedFile(POOLS_PAGE.key(cursor=cursor), data, FileKind.PAGE)
        else:
            yield RenderedFile(key, data, FileKind.DOCUMENT)


def render_token_list(tables: Tables, first_seen: Mapping[str, int]) -> RenderedFile:
    """The list of tokens. Raises `CheckError` for a value that the API does not allow."""
    ranked = with_ranks(tables.pools).sort("token_address", maintain_order=True)
    groups = groupby(ranked.iter_rows(named=True), key=itemgetter("token_address"))
    entries = []
    for token, (_, group) in zip(token_documents(tables, first_seen), groups, strict=True):
        own = list(group)
        entries.append(
            TokenEntry(
                token.address,
                token.symbol,
                token.decimals,
                len(own),
                sum(row["can_supply"] is True for row in own),
                total(row["supplied_usd_cents"] for row in own),
                total(row["borrowed_usd_cents"] for row in own),
                _best_rate(own, "supply"),
                _best_rate(own, "borrow"),
                token.issuer,
                token.name,
            )
        )
    return file_of(TokenList(tables.ledger, entries))


def _best_rate(rows: list[dict[str, Any]], side: Side) -> BestRate | None:
    row = best(rows, side)
    if row is None:
        return None
    return BestRate(
        row["market"],
        row["pool"],
        row["protocol"],
        row["market_name"],
        row[f"{side}_apy_bps"],
        row[f"comparable_{side}_apy_bps"],
        row[f"{side}_reward_apr_bps"],
        row[f"{side}_rank_bps"],
    )
