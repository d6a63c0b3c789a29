"""Applies the configuration's key ``exclude``, with which an operator tells a run what to leave alone.

An excluded market is not read, and an excluded pool has no numbers. An excluded oracle is never called, so the prices
that depend on it are missing.
"""

from __future__ import annotations

from collections.abc import Collection

from exporter.ledger.observation import EXCLUDED
from exporter.ledger.oracles import Quote
from exporter.protocols.base import ProtocolReading
from exporter.tables import PoolKey
from exporter.tree.documents import Unread
from exporter.tree.values import SkipReason


def remove_excluded(reading: ProtocolReading, excluded: Collection[str]) -> None:
    """Remove excluded pools, and the prices of excluded oracles, from a reading.

    A pool that is excluded counts as that, whether it could be read or not. ``excluded`` names a pool by its address or
    as ``MARKET/POOL``, and an oracle by its address.
    """
    unread_pools = {PoolKey(item.market, item.pool) for item in reading.unread if item.pool is not None}
    keys = unread_pools | {pool.key for pool in reading.pools}
    removed = {key for key in keys if key.pool in excluded or f"{key.market}/{key.pool}" in excluded}
    reading.pools[:] = [pool for pool in reading.pools if pool.key not in removed]
    reading.unread[:] = [item for item in reading.unread if (item.market, item.pool) not in removed]
    reading.unread += [
        Unread(market, pool, reading.protocol, SkipReason.EXCLUDED, EXCLUDED) for market, pool in sorted(removed)
    ]
    no_prices = {
        price: Quote(*price, failure=EXCLUDED, is_known=False) for price in reading.quotes if price.oracle in excluded
    }
    if no_prices:
        reading.quotes = {**reading.quotes, **no_prices}
