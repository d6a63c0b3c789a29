"""What the tables of the site list: markets, pools and tokens by value, and the best rates of a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from exporter.numbers.compute import Tables
from exporter.protocols.base import Parameter
from exporter.render.site.text import Symbols
from exporter.tables import ACTIVE, LEAST_VALUE

PAGE_ROWS = 120
"""Rows on a page of a list; more have pages of their own."""

_POOL_COLUMNS = (
    "market", "pool", "token_address", "market_name", "protocol", "version", "market_status", "symbol", "decimals",
    "supply_apy_bps", "borrow_apy_bps", "utilization_bps", "total_supplied", "total_borrowed", "tvl_usd_cents",
    "price_reason",
)  # fmt: skip

Row = dict[str, Any]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Best:
    """A token: its value in all pools, and the pools with the highest yield and the cheapest loan that count."""

    address: str
    symbol: str
    pool_count: int
    tvl_usd_cents: int | None
    supply: Row | None
    borrow: Row | None


def market_rows(tables: Tables) -> list[Row]:
    """All markets by value, those without one last, then by address."""
    return by_value(tables.markets.iter_rows(named=True))


def pool_rows(tables: Tables, symbols: Symbols) -> list[Row]:
    """All pools that were read, in the order of the frame, each with its symbol as people know it."""
    rows = list(tables.pools.select(_POOL_COLUMNS).iter_rows(named=True))
    for row in rows:
        row["symbol"] = symbols.of(row["symbol"], row["token_address"])
    return rows


def by_value(rows: Iterable[Row]) -> list[Row]:
    """Rows with a ``tvl_usd_cents`` from the greatest to the least; those without one follow. Otherwise in order."""
    return sorted(rows, key=lambda row: (row["tvl_usd_cents"] is None, -(row["tvl_usd_cents"] or 0)))


def grouped(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """Rows by a column, each group by value."""
    groups: dict[str, list[Row]] = {}
    for row in by_value(rows):
        groups.setdefault(row[key], []).append(row)
    return groups


def best_by_token(
    by_token: Mapping[str, Sequence[Row]], parameters: Mapping[tuple[str, str], Sequence[Parameter]]
) -> list[Best]:
    """The tokens by value. Of two pools with the same rate the one of greater value is named."""
    found = []
    for address, pools in by_token.items():
        open_pools = [pool for pool in pools if _is_open(pool, parameters)]
        lent_out = [pool for pool in open_pools if pool["total_borrowed"] < pool["total_supplied"]]
        values = [pool["tvl_usd_cents"] for pool in pools if pool["tvl_usd_cents"] is not None]
        found.append(
            Best(
                address=address,
                symbol=pools[0]["symbol"],
                pool_count=len(pools),
                tvl_usd_cents=sum(values) if values else None,
                supply=max(open_pools, key=lambda pool: pool["supply_apy_bps"], default=None),
                borrow=min(lent_out, key=lambda pool: pool["borrow_apy_bps"], default=None),
            )
        )
    return sorted(found, key=lambda token: (token.tvl_usd_cents is None, -(token.tvl_usd_cents or 0), token.address))


def _is_open(pool: Row, parameters: Mapping[tuple[str, str], Sequence[Parameter]]) -> bool:
    """Whether the pool's market is active, the pool enabled where its protocol can disable one, and worth something."""
    if pool["market_status"] not in ACTIVE or (pool["tvl_usd_cents"] or 0) < LEAST_VALUE:
        return False
    own = parameters.get((pool["market"], pool["pool"]), ())
    return all(parameter.value != 0 for parameter in own if parameter.name == "enabled")


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
