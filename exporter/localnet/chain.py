"""The state of a simulated chain in memory; keys keep their versions, for nodes that lag and for tests."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.ledger.codec.entries import seen_at
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry

DEFAULT_WINDOW = 120_960
"""How many ledgers are answered for: what RPC servers keep by default, a week at five seconds a ledger."""


class LedgerRangeError(LookupError):
    """A ledger is not in the window of ledgers that the chain answers for."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write: ``data`` (LedgerEntryData XDR) None deletes; ``live_until`` None: the entry does not expire."""

    key: bytes
    data: bytes | None
    live_until: int | None = None


OnClose = Callable[[int, int, Sequence[Change], Sequence[ContractEvent]], None]
"""Receives a ledger before it closes: its number and close time, its writes and its events."""


class _Version(NamedTuple):
    ledger: int
    entry: RawEntry | None


class Chain:
    """A chain from its first ledger to its latest. `close` may run while others read: readers name their ledger."""

    def __init__(
        self,
        entries: Mapping[bytes, RawEntry] | None = None,
        *,
        start_ledger: int,
        start_time: int,
        window: int = DEFAULT_WINDOW,
        quiet_ledgers: int = 0,
    ) -> None:
        """Begin at ``start_ledger``, closed at ``start_time`` (unix seconds), with entries as they are stored.

        ``quiet_ledgers`` of five seconds, in which nothing happened, come before it. The latest ``window`` ledgers stay
        answered for.
        """
        self.window = window
        self._first = max(start_ledger - quiet_ledgers, 1)
        self._start = start_ledger, start_time
        self._latest = start_ledger
        self._close_times = {start_ledger: start_time}
        self._versions = {key: [_Version(0, entry)] for key, entry in (entries or {}).items()}
        self._events: dict[int, tuple[ContractEvent, ...]] = {}
        self._lock = threading.Lock()
        self.on_close: OnClose | None = None

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def oldest(self) -> int:
        return max(self._first, self._latest - self.window + 1)

    def events(self, ledger: int) -> tuple[ContractEvent, ...]:
        return self._events.get(ledger, ())

    def close_time(self, ledger: int) -> int:
        self._check(ledger)
        start_ledger, start_time = self._start
        return self._close_times[ledger] if ledger >= start_ledger else start_time - 5 * (start_ledger - ledger)

    def entry(self, key: bytes, ledger: int) -> RawEntry | None:
        """The entry of a key for a reader at ``ledger``: None where it is absent or an expired temporary entry."""
        self._check(ledger)
        versions = self._versions.get(key)
        if versions is None:
            return None
        position = bisect_right(versions, ledger, key=lambda version: version.ledger)
        stored = versions[position - 1].entry if position else None
        return None if stored is None else seen_at(key, stored, ledger)

    def state(self, ledger: int) -> dict[bytes, RawEntry]:
        return {key: entry for key in self.known_keys() if (entry := self.entry(key, ledger)) is not None}

    def stored(self, key: bytes) -> RawEntry | None:
        """The newest entry under a key, also an expired one, with the true last ledger of its life."""
        versions = self._versions.get(key)
        return versions[-1].entry if versions else None

    def known_keys(self) -> Iterator[bytes]:
        return iter(list(self._versions))

    def close(
        self,
        changes: Iterable[Change] = (),
        *,
        close_time: int,
        events: Iterable[tuple[str, tuple[ScVal, ...], ScVal]] = (),
    ) -> int:
        """Close the next ledger with one write a key at most; gives its number. Events: contract, topics, value."""
        with self._lock:
            ledger, changes = self._latest + 1, list(changes)
            published = tuple(ContractEvent(contract, ledger, topics, value) for contract, topics, value in events)
            if self.on_close is not None:
                self.on_close(ledger, close_time, changes, published)
            for change in changes:
                entry = None if change.data is None else RawEntry(change.data, ledger, change.live_until)
                self._append(change.key, _Version(ledger, entry))
            if published:
                self._events[ledger] = published
            self._close_times[ledger] = close_time
            for facts in (self._events, self._close_times):
                facts.pop(ledger - self.window, None)
            self._latest = ledger  # last: until here, readers do not see the new ledger
            return ledger

    def _append(self, key: bytes, version: _Version) -> None:
        versions = self._versions.setdefault(key, [])
        versions.append(version)
        if versions[len(versions) // 2].ledger <= self.oldest < version.ledger:
            # What lies before the window goes when it is half of all: in a new list, since somebody may be reading.
            gone = bisect_right(versions, self.oldest, key=lambda older: older.ledger) - 1
            self._versions[key] = versions[gone:]

    def _check(self, ledger: int) -> None:
        if not self.oldest <= ledger <= self._latest:
            raise LedgerRangeError(
                f"ledger {ledger} is not between the oldest, {self.oldest}, and the latest, {self._latest}"
            )
