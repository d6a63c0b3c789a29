"""The rows of the site's tables: markets, pools and tokens by value, and the best rates of a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import polars as pl

from exporter.best import ODD_PRICE, SIDES, Side, best, why_none, with_ranks
from exporter.protocols.compute import Tables
from exporter.render.site.text import harmless, no_price

PAGE_ROWS = 100

Row = dict[str, Any]
_Item = TypeVar("_Item")


def market_rows(tables: Tables) -> list[Row]:
    """All markets in the order `by_value`; each has whether all of its pools are closed."""
    closed = tables.pools.group_by("market").agg(
        (~pl.col("can_supply") & ~pl.col("can_borrow")).fill_null(value=False).all().alias("closed"),
    )
    markets = tables.markets.join(closed, on="market", how="left", maintain_order="left")
    return by_value(markets).rows(named=True)


def by_value(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of markets or pools by value, those of listed markets first: anybody can create one with any value."""
    return rows.sort("listed", "tvl_usd_cents", descending=True, nulls_last=True, maintain_order=True)


def by_yield(pools: pl.DataFrame) -> pl.DataFrame:
    """Rows of pools by what they pay to suppliers: those that count for the best rate first, then listed ones."""
    counts = pl.col("no_supply").is_null()
    order = (counts, pl.col("listed"), pl.col("supply_rank_bps"))
    return with_ranks(pools).sort(*order, descending=True, nulls_last=True, maintain_order=True).select(pools.columns)


def with_names(pools: pl.DataFrame, native: str | None) -> pl.DataFrame:
    """The pools frame with symbols as people know them, harmless and in full, and labels for those with equal ones.

    The native asset's symbol is XLM. ``pool_label`` is the protocol's, or the short id of a pool where its market has
    several of the token; ``token_label`` the short contract id where two tokens have the symbol. Others are empty.
    """
    known = [
        "XLM" if symbol == "native" and native in (None, token) else harmless(symbol)
        for symbol, token in pools.select("symbol", "token_address").iter_rows()
    ]
    id_of_pool, id_of_token = (
        pl.concat_str(pl.col(name).str.head(4), pl.lit("…"), pl.col(name).str.tail(4))
        for name in ("pool", "token_address")
    )
    twice = pl.len().over("market", "token_address") > 1
    shared = pl.col("token_address").n_unique().over("symbol") > 1
    return pools.with_columns(pl.Series("symbol", known, pl.String())).with_columns(
        pl.coalesce("pool_label", pl.when(twice).then(id_of_pool), pl.lit("")),
        pl.when(shared).then(id_of_token).otherwise(pl.lit("")).alias("token_label"),
    )


def full_name(pool: Row) -> str:
    """A pool's symbol with its labels, as text: ``USDC hub 1``."""
    return " ".join(filter(None, (pool["symbol"], pool["pool_label"], pool["token_label"])))


def pool_rows(pools: pl.DataFrame) -> list[Row]:
    """The rows of all pools that were read, of a frame `with_names`, in the order `by_value`."""
    return by_value(with_ranks(pools)).rows(named=True)


def grouped(rows: Sequence[Row], key: str) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each market or token, a column, in the order that they have; in the order of its names."""
    for name, group in groupby(sorted(rows, key=itemgetter(key)), key=itemgetter(key)):
        yield name, list(group)


def token_row(address: str, issuer: str | None, pools: Sequence[Row]) -> Row:
    """A token, of its pools by value, and its best pools; ``no_supply`` and ``no_borrow`` say why there are none.

    The value is that of its ``priced_count`` pools in listed markets that have a price; ``listed_count`` counts these
    with the others.
    """
    listed = [pool for pool in pools if pool["listed"]]
    values = [pool["tvl_usd_cents"] for pool in listed if pool["tvl_usd_cents"] is not None]
    return {
        "address": address,
        "symbol": pools[0]["symbol"],
        "shared": bool(pools[0]["token_label"]),
        "issuer": issuer,
        "identity": pools[0]["token_identity"],
        "pools": pools,
        "pool_count": len(pools),
        "listed_count": len(listed),
        "priced_count": len(values),
        "tvl_usd_cents": sum(values) if values else None,
        **{side: best(pools, side) for side in SIDES},
        **{f"no_{side}": _why_no_best(pools, side) for side in SIDES},
    }


_ODD = f"{ODD_PRICE}: more than twice, or less than half, of what other listed markets say"


def _why_no_best(pools: Sequence[Row], side: Side) -> str:
    if any(pool[f"no_{side}"] is None for pool in pools):
        return ""
    said = why_none(pools, side)
    if said == "no price":
        return next(f"no price: {no_price(pool['price_reason'])}" for pool in pools if pool[f"no_{side}"] == said)
    shown = {"no room": "cap reached" if side == "supply" else "all lent out", ODD_PRICE: _ODD}
    return shown.get(said, said)


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list: its rows, its key, and the keys of all pages of the list."""

    number: int
    rows: Sequence[Any]
    key: str
    keys: Sequence[str]
    total: int


def pages_of(rows: Sequence[_Item], name: str) -> Iterator[ListPage]:
    """Divide a list into pages: ``markets.html``, ``markets-2.html`` and so on; one without rows for an empty list."""
    count = max(-(-len(rows) // PAGE_ROWS), 1)
    keys = [f"{name}.html"] + [f"{name}-{number}.html" for number in range(2, count + 1)]
    for index, key in enumerate(keys):
        yield ListPage(index + 1, rows[index * PAGE_ROWS : (index + 1) * PAGE_ROWS], key, keys, len(rows))
