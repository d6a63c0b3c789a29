"""Totals in buckets, from those of the pools: of each market, token and protocol, and of the whole network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from exporter.best import LEAST_VALUE
from exporter.tables import bucket_columns
from exporter.tree.documents import TotalsBucket

TOTALS_FRAME = bucket_columns(TotalsBucket, "scope", "id") | dict.fromkeys(
    ("supplied_usd_cents", "borrowed_usd_cents", "tvl_usd_cents"), pl.String()
)
"""One row a scope, id and bucket, sorted by these. Money is in digits: a sum may have more than 128 bits."""

NETWORK = "network"
"""The scope of everything, and its only id."""


class _Pool(NamedTuple):
    start: int
    market: str
    token_address: str
    protocol: str
    supply_apy_bps: int
    borrow_apy_bps: int
    supplied_usd_cents: Any  # an integer, or None without a price, as the next two
    borrowed_usd_cents: Any
    tvl_usd_cents: Any
    active: bool
    first_ledger: int
    last_ledger: int


def places_of(market: str, token: str, protocol: str) -> tuple[tuple[str, str], ...]:
    """The scopes and ids of all totals that a pool is part of."""
    return ("market", market), ("token", token), ("protocol", protocol), (NETWORK, NETWORK)


def totals_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The totals of rows of `exporter.history.buckets.aggregate`: `TOTALS_FRAME`, sorted."""
    groups: dict[tuple[str, str, int], list[_Pool]] = {}
    for pool in map(_Pool._make, pools.select(_Pool._fields).iter_rows()):
        for place in places_of(pool.market, pool.token_address, pool.protocol):
            groups.setdefault((*place, pool.start), []).append(pool)
    rows = [(*place, *_total(groups[place])) for place in sorted(groups)]
    return pl.DataFrame(rows, schema=TOTALS_FRAME, orient="row")


def _total(pools: Sequence[_Pool]) -> tuple[object, ...]:
    priced = [
        pool for pool in pools if None not in (pool.supplied_usd_cents, pool.borrowed_usd_cents, pool.tvl_usd_cents)
    ]
    supplied = sum(pool.supplied_usd_cents for pool in priced)
    borrowed = sum(pool.borrowed_usd_cents for pool in priced)
    earned = sum(pool.supply_apy_bps * pool.supplied_usd_cents for pool in priced)
    paid = sum(pool.borrow_apy_bps * pool.borrowed_usd_cents for pool in priced)
    value = sum(pool.tvl_usd_cents for pool in priced)
    lending = [pool for pool in priced if pool.active and pool.tvl_usd_cents >= LEAST_VALUE]
    lendable = [pool.borrow_apy_bps for pool in lending if pool.borrowed_usd_cents < pool.supplied_usd_cents]
    return (
        *(str(amount) if priced else None for amount in (supplied, borrowed, value)),
        earned // supplied if supplied else None,
        paid // borrowed if borrowed else None,
        max((pool.supply_apy_bps for pool in lending), default=None),
        min(lendable, default=None),
        len({pool.market for pool in pools}),
        len(pools),
        len(priced),
        min(pool.first_ledger for pool in pools),
        max(pool.last_ledger for pool in pools),
    )
