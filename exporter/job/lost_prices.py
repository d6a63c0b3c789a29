"""The pools that lost their price: kept between runs, so that they count also when the history has none any more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from exporter.config import Settings
from exporter.errors import StoreError, pluralize
from exporter.history.series import Series
from exporter.protocols.compute import Tables
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.values import CONTRACT, POOL

KEY = "state/lost-prices.memory"
"""The pools that the last run missed the prices of. No part of the API; it may be removed."""

WINDOW_SECONDS = 7 * 86_400
SHOWN_MARKETS = 5
MAX_BYTES = 32 * 2**20

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LostPrices:
    """Of ``expected`` pools that had a price lately and were read now, those that have none, by market and pool."""

    expected: int
    lost: tuple[Place, ...]
    allowed_share: float

    @property
    def too_many(self) -> bool:
        return len(self.lost) > self.allowed_share * self.expected

    def as_dict(self) -> dict[str, Any]:
        return {"expected": self.expected, "lost": ["/".join(place) for place in self.lost], "too_many": self.too_many}

    def __str__(self) -> str:
        markets = Counter(market for market, _ in self.lost).most_common()
        shown = [f"{market} ({count})" for market, count in markets[:SHOWN_MARKETS]]
        more = ", ..." if len(markets) > SHOWN_MARKETS else ""
        return (
            f"{len(self.lost):,} of {pluralize(self.expected, 'pool')} that had a price in the last 7 days have none, "
            f"more than max_unpriced_share = {self.allowed_share:g} of them: {', '.join(shown)}{more}; the status "
            "document has the reasons"
        )


def find_lost_prices(settings: Settings, tables: Tables, series: Series, missed: Set[Place]) -> LostPrices:
    """Compare a run's listed markets with the history up to the run before, which missed the prices of ``missed``."""
    had = series.priced_since(tables.close_time - WINDOW_SECONDS) | missed
    rows = tables.pools.filter("listed").select("market", "pool", pl.col("oracle_price_usd").is_null()).iter_rows()
    now = {
        (market, pool): without
        for market, pool, without in rows
        if (market, pool) in had and not settings.may_be_unread(f"{market}/{pool}")
    }
    return LostPrices(
        len(now), tuple(sorted(place for place, without in now.items() if without)), settings.max_unpriced_share
    )


def load_missed(store: Store) -> frozenset[Place]:
    """The pools that the last run missed the prices of. Raises `StoreError` where they cannot be read."""
    stored = store.get(KEY)
    if stored is None:
        return frozenset()
    try:
        if len(stored.data) > MAX_BYTES:
            raise msgspec.DecodeError(f"it has more than {MAX_BYTES} bytes")
        return frozenset(decode_json(stored.data, list[Place]))
    except msgspec.DecodeError as error:
        raise StoreError(f"{KEY} cannot be understood ({str(error)[:200]}); remove it") from None


def is_list(data: bytes) -> bool:
    """Whether these bytes are a list of pools as it is written."""
    try:
        places = decode_json(data, list[Place])
    except msgspec.DecodeError:
        return False
    pools = all(re.fullmatch(CONTRACT, market) and re.fullmatch(POOL, pool) for market, pool in places)
    return pools and data == msgspec.json.encode(places)


def save_missed(store: Store, found: LostPrices) -> None:
    """Keep what a run missed, or that it missed nothing. Raises `StoreError`."""
    if found.too_many:
        store.put(KEY, msgspec.json.encode(found.lost))
    elif store.has(KEY):
        store.delete([KEY])
