"""What the made markets of every protocol do alike: randomness of their own, prices that move, entries with a past."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry

T = TypeVar("T")


class MadeMarkets:
    """The markets of one protocol. At each `advance`, ``changes_per_ledger`` pools change as by a user's operation."""

    def __init__(self, protocol: str, seed: int, changes_per_ledger: int) -> None:
        self._random = Random(f"{protocol} {seed}")  # apart from the network's own, the same with them or without
        self.changes_per_ledger = changes_per_ledger
        self._priced_at = 0

    def due(self, time: int, after: int) -> bool:
        """Whether prices are so many seconds old; then they are of now."""
        found = time - self._priced_at >= after
        if found:
            self._priced_at = time
        return found

    def used(self, items: Sequence[T]) -> list[T]:
        """Those that users change in a ledger."""
        return self._random.sample(items, min(self.changes_per_ledger, len(items)))

    def moved(self, price: int) -> int:
        """A price, up to 0.3% away."""
        return max(price + price * self._random.randint(-30, 30) // 10_000, 10**8)

    def before(self, ledger: int, entry: Entry, *life: int) -> tuple[bytes, RawEntry]:
        """An entry that was written at some time before the first ledger, and lives for so many, or between so many."""
        key, data = entry
        modified = max(ledger - self._random.randint(1, 400_000), 1)
        return key, RawEntry(data, modified, ledger + (self._random.randint(*life) if life[1:] else life[0]))


def renewed(chain: Chain, ledger: int, entry: Entry, life: int, below: int) -> Change:
    """An entry written anew, whose life is extended where it is shorter than ``below`` ledgers."""
    key, data = entry
    before = chain.entry(key, ledger - 1)
    left = ((before.live_until if before else None) or 0) - ledger
    return Change(key, data, ledger + (left if left >= below else life))


def holds(items: Sequence[object], item: object) -> bool:
    """Whether one of these is the very item: markets and pools are equal where their states are."""
    return any(item is other for other in items)
