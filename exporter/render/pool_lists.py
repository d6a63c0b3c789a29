"""``/v1/pools`` and ``/v1/tokens``: every pool in one flat row, and every token with its best rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from exporter.protocols.compute import Tables
from exporter.render.run_documents import token_documents
from exporter.tables import POOLS
from exporter.tree.documents import AssetPeriod, BestRate, PoolRow, TokenEntry, TokenList, page_token, timestamp
from exporter.tree.families import POOLS_PAGE, pools_key
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import file_of

PAGE_ROWS = 500

_PERIODS = {"7d": 1, "30d": 2}
"""The place of each period that rows have means of among those of `exporter.history.periods`."""


def pool_rows(tables: Tables, periods: Sequence[list[AssetPeriod]]) -> list[PoolRow]:
    """The rows of all pools that were read, in the order of the pools frame, as their periods are."""
    rows = []
    for row, own in zip(tables.pools.iter_rows(named=True), periods, strict=True):
        means = {
            f"mean_{side}_apy_bps_{name}": getattr(own[at], f"mean_{side}_apy_bps")
            for name, at in _PERIODS.items()
            for side in ("supply", "borrow")
        }
        fields: dict[str, Any] = {
            name: str(row[name]) if POOLS[name] == pl.Int128 and row[name] is not None else row[name]
            for name in PoolRow.__struct_fields__
            if name not in means
        }
        rows.append(PoolRow(**fields | means | {"ledger_close_time": timestamp(row["ledger_close_time"])}))
    return rows


def render_pool_lists(rows: Sequence[PoolRow], protocols: Iterable[str]) -> Iterator[RenderedFile]:
    """The listings of all pools and of each protocol, whole and of open pools alone; a protocol may have none."""
    written = {id(row): msgspec.json.encode(row) for row in rows}
    given: set[str] = set()  # listings can end alike
    for protocol in (None, *protocols):
        own = [row for row in rows if protocol in (None, row.protocol)]
        for only_open in (False, True):
            shown = [written[id(row)] for row in own if row.can_supply or not only_open]
            for file in _pages(pools_key(protocol, only_open=only_open), shown):
                if file.key not in given:
                    given.add(file.key)
                    yield file


def _pages(key: str, rows: Sequence[bytes]) -> Iterator[RenderedFile]:
    """A listing's pages, the last one first, because each names the next by its content."""
    cursor = b"null"
    for start in reversed(range(0, max(len(rows), 1), PAGE_ROWS)):
        data = b'{"data":[' + b",".join(rows[start : start + PAGE_ROWS]) + b'],"next_cursor":' + cursor + b"}"
        if start:
            token = page_token(data)
            yield RenderedFile(POOLS_PAGE.key(cursor=token), data, FileKind.PAGE)
            cursor = b'"' + token.encode() + b'"'
        else:
            yield RenderedFile(key, data, FileKind.DOCUMENT)


def render_token_list(tables: Tables, rows: Sequence[PoolRow], first_seen: Mapping[str, int]) -> RenderedFile:
    """The list of tokens. Raises `CheckError` for a value that the API does not allow."""
    pools: dict[str, list[PoolRow]] = {}
    for row in rows:
        pools.setdefault(row.token_address, []).append(row)
    entries = []
    for token in token_documents(tables, first_seen):
        own = pools[token.address]
        open_pools = [row for row in own if row.can_supply]
        lending = [row for row in own if row.can_borrow and row.available_to_borrow not in (None, "0")]
        supply = max(open_pools, key=lambda row: row.supply_apy_bps, default=None)  # of equals the first
        borrow = min(lending, key=lambda row: row.borrow_apy_bps, default=None)
        entries.append(
            TokenEntry(
                token.address, token.symbol, token.decimals, len(own), len(open_pools),
                _sum(row.supplied_usd_cents for row in own), _sum(row.borrowed_usd_cents for row in own),
                None if supply is None else _best(supply, supply.supply_apy_bps, supply.supply_reward_apr_bps),
                None if borrow is None else _best(borrow, borrow.borrow_apy_bps, borrow.borrow_reward_apr_bps),
            )
        )  # fmt: skip
    return file_of(TokenList(tables.ledger, entries))


def _best(row: PoolRow, apy: int, reward: int | None) -> BestRate:
    return BestRate(row.market, row.pool, row.protocol, row.market_name, apy, reward)


def _sum(values: Iterable[str | None]) -> str | None:
    known = [int(value) for value in values if value is not None]
    return str(sum(known)) if known else None
