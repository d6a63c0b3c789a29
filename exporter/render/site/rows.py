"""What the tables of the site list: markets, pools and tokens by value, and the best rates of a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import polars as pl

from exporter.protocols.compute import Tables
from exporter.render.site.text import Symbols
from exporter.tables import LEAST_VALUE

PAGE_ROWS = 100
"""Rows on a page of a list; more have pages of their own."""

_POOL_COLUMNS = (
    "market",
    "pool",
    "token_address",
    "market_name",
    "protocol",
    "version",
    "market_status",
    "symbol",
    "decimals",
    "supply_apy_bps",
    "borrow_apy_bps",
    "utilization_bps",
    "total_supplied",
    "total_borrowed",
    "tvl_usd_cents",
    "price_reason",
    "can_supply",
    "can_borrow",
    "can_reason",
    "pool_status",
    "available_to_borrow",
    "supplied_usd_cents",
    "borrowed_usd_cents",
)

Row = dict[str, Any]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Best:
    """A token: its value in all pools, and the pools with the highest yield and the cheapest loan that count.

    Where none counts, ``no_supply`` and ``no_borrow`` say why in a few words.
    """

    address: str
    symbol: str
    pool_count: int
    tvl_usd_cents: int | None
    supply: Row | None
    borrow: Row | None
    no_supply: str
    no_borrow: str


def market_rows(tables: Tables) -> list[Row]:
    """All markets by value, those without one last, then by address.

    Each has the sums of what is supplied and borrowed where that has a price, and whether all of its pools are closed.
    """
    sums = tables.pools.group_by("market").agg(
        *(
            pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
            for name in ("supplied_usd_cents", "borrowed_usd_cents")
        ),
        (~pl.col("can_supply") & ~pl.col("can_borrow")).fill_null(value=False).all().alias("closed"),
    )
    return by_value(tables.markets.join(sums, on="market", how="left", maintain_order="left").iter_rows(named=True))


class PoolRows:
    """The rows of all pools that were read, each with its symbol as people know it; few at a time are objects."""

    def __init__(self, tables: Tables, symbols: Symbols) -> None:
        known = [symbols.of(*row) for row in tables.pools.select("symbol", "token_address").iter_rows()]
        self._pools = tables.pools.select(_POOL_COLUMNS).with_columns(pl.Series("symbol", known, pl.String()))

    def by_value(self) -> _RowsByValue:
        """All of them, by value."""
        return _RowsByValue(self._pools, self._order())

    def grouped(self, key: str) -> Iterator[tuple[str, list[Row]]]:
        """The rows of each market or token, a column, by value; in the order of its names."""
        rows = _RowsByValue(self._pools, self._order(key))
        for name, group in groupby(rows, key=itemgetter(key)):
            yield name, list(group)

    def _order(self, *keys: str) -> pl.Series:
        """The places of the rows as they are by these columns and then by value, those without one last."""
        by = [*keys, "tvl_usd_cents"]
        falling = [name == "tvl_usd_cents" for name in by]
        rows = self._pools.select(by).with_row_index("place")
        return rows.sort(by, descending=falling, nulls_last=falling, maintain_order=True)["place"]


class _RowsByValue(Sequence[Row]):
    """Rows of a frame in an order of their own, made when they are asked for."""

    def __init__(self, rows: pl.DataFrame, order: pl.Series) -> None:
        self._rows, self._order = rows, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int):
            return self._rows.row(self._order[place], named=True)
        return self._rows[self._order[place]].rows(named=True)

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self), 1_000):
            yield from self[start : start + 1_000]


def by_value(rows: Iterable[Row]) -> list[Row]:
    """Rows with a ``tvl_usd_cents`` from the greatest to the least; those without one follow. Otherwise in order."""
    return sorted(rows, key=lambda row: (row["tvl_usd_cents"] is None, -(row["tvl_usd_cents"] or 0)))


def best_of(address: str, pools: Sequence[Row]) -> Best:
    """A token, of its pools by value. Of two with the same rate the one of greater value is named."""
    lending, no_supply = _counted(pools, "can_supply")
    loans, no_borrow = _counted(pools, "can_borrow")
    left = [pool for pool in loans if _left(pool) > 0]
    values = [pool["tvl_usd_cents"] for pool in pools if pool["tvl_usd_cents"] is not None]
    return Best(
        address=address,
        symbol=pools[0]["symbol"],
        pool_count=len(pools),
        tvl_usd_cents=sum(values) if values else None,
        supply=max(lending, key=lambda pool: pool["supply_apy_bps"], default=None),
        borrow=min(left, key=lambda pool: pool["borrow_apy_bps"], default=None),
        no_supply=no_supply,
        no_borrow="all lent out" if loans else no_borrow,
    )


def _counted(pools: Sequence[Row], gate: str) -> tuple[list[Row], str]:
    """The pools whose gate is known to be open and that are worth something; without any, the reason."""
    through = [pool for pool in pools if pool[gate]]
    if not through:
        return [], "closed" if all(pool[gate] is False for pool in pools) else "not known"
    priced = [pool for pool in through if pool["tvl_usd_cents"] is not None]
    if not priced:
        return [], f"no price: {through[0]['price_reason']}"
    return [pool for pool in priced if pool["tvl_usd_cents"] >= LEAST_VALUE], "too small"


def _left(pool: Row) -> int:
    """Base units that are left to borrow."""
    known: int | None = pool["available_to_borrow"]
    return pool["total_supplied"] - pool["total_borrowed"] if known is None else known


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
