"""Carries the values of what a run did not read from the previous run, until it is read again.

A change is a difference from the last known values. If a market could not be read for a while, these are older than the
previous run. So each run hands them on, with the ledger at which they were read. What is known to be gone is dropped:
a pool that its market has no longer, and a market that is neither read, nor unread, nor skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from exporter.tables import PoolKey
from exporter.tree.documents import WatchedPending, WatchedReading, WatchedUnread, WatchedValues

MAX_CARRIED_OF_UNLISTED = 1_000
"""Largest number of values that are carried for markets that are not listed: markets, pools and what is queued there.

Anybody can create such markets, and break them. The listed ones are bounded by the lists.
"""


def carried_values(
    before: WatchedValues, now: WatchedReading, skipped: Collection[str], most: int = MAX_CARRIED_OF_UNLISTED
) -> list[WatchedReading]:
    """The values that a run hands on besides its own, by the run that read them, newest first.

    Args:
        before: the values of the previous run, with those that it handed on.
        now: the values that the run read itself.
        skipped: the addresses of the markets that the run skipped.
        most: the largest number of values that are carried for unlisted markets. A market has all of its values
            carried, or none. Those that were carried for longest come first.
    """
    missing = _Missing.of(now, skipped)
    parts = [missing.part_of(reading) for reading in (before, *before.carried)]
    refused = _beyond(most, parts, now)
    if refused:
        parts = [missing.without(refused).part_of(part) for part in parts]
    return [part for part in parts if any(_items(part))]


class UnreadPlace(NamedTuple):
    """What identifies an unread market or pool. An address may be tried as a market of several protocols."""

    protocol: str
    market: str
    pool: str | None

    @classmethod
    def of(cls, item: WatchedUnread) -> UnreadPlace:
        return cls(item.protocol, item.market, item.pool)


class _Missing(Struct, frozen=True):
    """What a run did not read.

    Attributes:
        markets: the markets of which it read nothing.
        pools: the pools that it did not read of markets that it read.
        unread: what the run itself names as unread.
        pending: the changes that the run itself names as queued.
    """

    markets: frozenset[str]
    pools: frozenset[PoolKey]
    unread: frozenset[UnreadPlace]
    pending: frozenset[WatchedPending]

    @classmethod
    def of(cls, now: WatchedReading, skipped: Collection[str]) -> _Missing:
        """What a run with these values did not read. ``skipped`` are the addresses of the markets that it skipped."""
        read = {market.market for market in now.markets}
        unread_or_skipped = {item.market for item in now.unread} | set(skipped)
        return cls(
            frozenset(unread_or_skipped - read),
            frozenset(PoolKey(item.market, item.pool) for item in now.unread if item.pool is not None),
            frozenset(map(UnreadPlace.of, now.unread)),
            frozenset(now.pending),
        )

    def without(self, markets: Collection[str]) -> _Missing:
        """The same, as if there was nothing of these markets."""
        return replace(
            self,
            markets=self.markets.difference(markets),
            pools=frozenset(key for key in self.pools if key.market not in markets),
        )

    def has(self, market: str, pool: str | None) -> bool:
        """Whether the run did not read this market; if a pool is given, whether it did not read the pool."""
        return market in self.markets or (pool is not None and PoolKey(market, pool) in self.pools)

    def part_of(self, reading: WatchedReading) -> WatchedReading:
        """The part of an earlier reading that this run did not read."""
        return WatchedReading(
            observed_ledger=reading.observed_ledger,
            exporter_version=reading.exporter_version,
            markets=[item for item in reading.markets if item.market in self.markets],
            pools=[item for item in reading.pools if self.has(item.market, item.pool)],
            unread=[
                item
                for item in reading.unread
                if item.market in self.markets and UnreadPlace.of(item) not in self.unread
            ],
            pending=[item for item in reading.pending if self.has(item.market, item.pool) and item not in self.pending],
        )


def _beyond(most: int, parts: Sequence[WatchedReading], now: WatchedReading) -> set[str]:
    """The unlisted markets for whose values there is no room. ``parts`` begin with the newest."""
    listed = {market.market for reading in (now, *parts) for market in reading.markets if market.listed}
    counts = Counter(market for part in reversed(parts) for market in _items(part) if market not in listed)
    refused, room = set[str](), most
    for market, count in counts.items():  # in the order of their first value
        if count > room:
            refused.add(market)
        else:
            room -= count
    return refused


def _items(reading: WatchedReading) -> list[str]:
    """The market of each value of a reading."""
    groups = reading.markets, reading.pools, reading.unread, reading.pending
    return [item.market for group in groups for item in group]
