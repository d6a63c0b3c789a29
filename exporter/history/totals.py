"""Totals in buckets: of each market, token and protocol, and of the whole network, from the buckets of their pools.

A total is the sum of what its pools have in the bucket, each with the mean of its own observations. So a pool that one
run of many could not read is in it all the same. A pool without an observation, or without a price, in the whole bucket
is not, and the counts say so: nothing is carried on from an earlier bucket. Sums are Python's, of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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

_COLUMNS = (
    "start",
    "market",
    "token_address",
    "protocol",
    "supply_apy_bps",
    "borrow_apy_bps",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "tvl_usd_cents",
    "active",
    "first_ledger",
    "last_ledger",
)


def places_of(market: str, token: str, protocol: str) -> tuple[tuple[str, str], ...]:
    """The scopes and ids of all totals that a pool is part of."""
    return ("market", market), ("token", token), ("protocol", protocol), (NETWORK, NETWORK)


@dataclass(slots=True)
class _Sum:
    first: int
    last: int
    markets: set[str] = field(default_factory=set)
    pools: int = 0
    priced: int = 0
    supplied: int = 0
    borrowed: int = 0
    value: int = 0
    earned: int = 0  # basis points times cents, of suppliers
    paid: int = 0
    best_supply: int | None = None
    best_borrow: int | None = None

    def row(self) -> tuple[object, ...]:
        sums = (str(value) if self.priced else None for value in (self.supplied, self.borrowed, self.value))
        means = (
            parts // whole if whole else None
            for parts, whole in ((self.earned, self.supplied), (self.paid, self.borrowed))
        )
        counts = len(self.markets), self.pools, self.priced
        return (*sums, *means, self.best_supply, self.best_borrow, *counts, self.first, self.last)


def totals_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The totals of rows of `exporter.history.buckets.aggregate`: `TOTALS_FRAME`, sorted."""
    sums: dict[tuple[str, str, int], _Sum] = {}
    for start, market, token, protocol, *numbers in pools.select(_COLUMNS).iter_rows():
        supply, borrow, supplied, borrowed, value, active, first, last = numbers
        priced = None not in (supplied, borrowed, value)
        counts = priced and active and value >= LEAST_VALUE
        for place in places_of(market, token, protocol):
            own = sums.get((*place, start))
            if own is None:
                own = sums[(*place, start)] = _Sum(first, last)
            own.first, own.last = min(own.first, first), max(own.last, last)
            own.markets.add(market)
            own.pools += 1
            if not priced:
                continue
            own.priced += 1
            own.supplied += supplied
            own.borrowed += borrowed
            own.value += value
            own.earned += supply * supplied
            own.paid += borrow * borrowed
            if counts:
                own.best_supply = supply if own.best_supply is None else max(own.best_supply, supply)
            if counts and borrowed < supplied:
                own.best_borrow = borrow if own.best_borrow is None else min(own.best_borrow, borrow)
    rows = [(*place, *sums[place].row()) for place in sorted(sums)]
    return pl.DataFrame(rows, schema=TOTALS_FRAME, orient="row")
