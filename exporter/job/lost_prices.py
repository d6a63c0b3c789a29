"""Finds the pools that had a price in the last days and have none now.

They are remembered between runs. A price that stays missing is still reported when the last one has left the window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set

import msgspec
import polars as pl
from msgspec import Struct

from exporter.config import Settings
from exporter.errors import StoreError, pluralize
from exporter.history.series import Series
from exporter.protocols.compute import Tables
from exporter.stores.store import Store
from exporter.tables import PoolKey, pool_keys
from exporter.tree.decoding import decode_json
from exporter.tree.values import CONTRACT, POOL

KEY = "state/lost-prices.memory"
"""Key of the list of pools whose prices the last run missed. It is no part of the API and may be removed."""

WINDOW_SECONDS = 7 * 86_400
MAX_NAMED_MARKETS = 5
MAX_BYTES = 32 * 2**20


class LostPrices(Struct, frozen=True):
    """The pools that lost their price.

    Attributes:
        expected: the number of pools that had a price in the last 7 days and were read now.
        lost: those of them that have no price now, by market and pool.
        allowed_share: the share of the expected pools that may have no price (``max_unpriced_share``).
    """

    expected: int
    lost: tuple[PoolKey, ...]
    allowed_share: float

    @property
    def too_many(self) -> bool:
        return len(self.lost) > self.allowed_share * self.expected

    def as_dict(self) -> dict[str, object]:
        lost = [f"{market}/{pool}" for market, pool in self.lost]
        return {"expected": self.expected, "lost": lost, "too_many": self.too_many}

    def __str__(self) -> str:
        markets = Counter(market for market, _ in self.lost).most_common()
        shown = [f"{market} ({count})" for market, count in markets[:MAX_NAMED_MARKETS]]
        more = ", ..." if len(markets) > MAX_NAMED_MARKETS else ""
        return (
            f"{len(self.lost):,} of {pluralize(self.expected, 'pool')} that had a price in the last 7 days have none, "
            f"more than max_unpriced_share = {self.allowed_share:g} of them: {', '.join(shown)}{more}; the status "
            "document has the reasons"
        )


def find_lost_prices(settings: Settings, tables: Tables, series: Series, missed: Set[PoolKey]) -> LostPrices:
    """Compare the prices of a run's listed markets with those of the last 7 days.

    ``series`` is the history before the run. ``missed`` are the pools whose prices the previous run missed already.
    A pool has no price to lose if the operator excludes its oracle, or allows that the pool is unread.
    """
    had_price = series.priced_since(tables.close_time - WINDOW_SECONDS) | missed
    has_excluded_oracle = pl.col("oracle").is_in(settings.exclude).fill_null(value=False)
    listed = tables.pools.filter(pl.col("listed"), ~has_excluded_oracle)
    expected = [
        pool
        for pool in pool_keys(listed)
        if pool in had_price and not settings.may_be_unread(f"{pool.market}/{pool.pool}")
    ]
    without_price = pool_keys(listed.filter(pl.col("oracle_price_usd").is_null()))
    lost = sorted(set(expected).intersection(without_price))
    return LostPrices(len(expected), tuple(lost), settings.max_unpriced_share)


def load_missed(store: Store) -> frozenset[PoolKey]:
    """The pools whose prices the last run missed. Raises `StoreError` if the list cannot be read."""
    stored = store.get(KEY)
    if stored is None:
        return frozenset()
    try:
        if len(stored.data) > MAX_BYTES:
            raise msgspec.DecodeError(f"it has more than {MAX_BYTES} bytes")
        return frozenset(decode_json(stored.data, list[PoolKey]))
    except msgspec.DecodeError as error:
        raise StoreError(f"{KEY} cannot be understood ({str(error)[:200]}); remove it") from None


def is_lost_prices_file(data: bytes) -> bool:
    """Whether these bytes are a list of pools exactly as `save_missed` writes it."""
    try:
        pools = decode_json(data, list[PoolKey])
    except msgspec.DecodeError:
        return False
    are_pools = all(re.fullmatch(CONTRACT, key.market) and re.fullmatch(POOL, key.pool) for key in pools)
    return are_pools and data == msgspec.json.encode(pools)


def save_missed(store: Store, prices: LostPrices) -> None:
    """Save the pools whose prices a run missed, or remove the list if it did not miss too many. Raises `StoreError`."""
    if prices.too_many:
        store.put(KEY, msgspec.json.encode(prices.lost))
    elif store.has(KEY):
        store.delete([KEY])
