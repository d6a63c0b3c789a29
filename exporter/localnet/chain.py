"""A simulated chain in memory. It keeps older versions of entries, for nodes that lag and for tests."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from exporter.ledger.codec.entries import seen_at
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry

DEFAULT_WINDOW = 120_960
"""Number of ledgers that can be asked for: the default of RPC servers, a week at five seconds a ledger."""


class LedgerRangeError(LookupError):
    """A ledger is older or newer than those that the chain can be asked for."""


class Change(Struct, frozen=True):
    """One write to an entry.

    Attributes:
        key: the LedgerKey XDR.
        data: the LedgerEntryData XDR; None deletes the entry.
        live_until: the last ledger of its life; None for an entry that does not expire.
    """

    key: bytes
    data: bytes | None
    live_until: int | None = None


OnClose = Callable[[int, int, Sequence[Change], Sequence[ContractEvent]], None]
"""A function that is called before a ledger closes, with its number, its close time, its writes and its events."""


class _Version(NamedTuple):
    ledger: int
    entry: RawEntry | None


class Chain:
    """A chain of ledgers. `close` may run while others read, because a reader names the ledger that it reads."""

    def __init__(
        self,
        entries: Mapping[bytes, RawEntry] | None = None,
        *,
        start_ledger: int,
        start_time: int,
        window: int = DEFAULT_WINDOW,
        quiet_ledgers: int = 0,
    ) -> None:
        """Begin with a ledger and the entries at it.

        Args:
            entries: the entries as they are stored.
            start_ledger: the ledger.
            start_time: its close time in unix seconds.
            window: how many of the latest ledgers can be asked for.
            quiet_ledgers: how many ledgers of five seconds come before it, in which nothing happened.
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
        """The latest ledger."""
        return self._latest

    @property
    def oldest(self) -> int:
        """The oldest ledger that can be asked for."""
        return max(self._first, self._latest - self.window + 1)

    def events(self, ledger: int) -> tuple[ContractEvent, ...]:
        """The events of a ledger."""
        return self._events.get(ledger, ())

    def close_time(self, ledger: int) -> int:
        """The close time of a ledger in unix seconds. Raises `LedgerRangeError`."""
        self._check(ledger)
        start_ledger, start_time = self._start
        return self._close_times[ledger] if ledger >= start_ledger else start_time - 5 * (start_ledger - ledger)

    def entry(self, key: bytes, ledger: int) -> RawEntry | None:
        """The entry that a reader sees at a ledger; None if it is absent, or temporary and expired.

        Raises `LedgerRangeError`.
        """
        self._check(ledger)
        versions = self._versions.get(key)
        if versions is None:
            return None
        position = bisect_right(versions, ledger, key=lambda version: version.ledger)
        stored = versions[position - 1].entry if position else None
        return None if stored is None else seen_at(key, stored, ledger)

    def state(self, ledger: int) -> dict[bytes, RawEntry]:
        """All entries that a reader sees at a ledger. Raises `LedgerRangeError`."""
        return {key: entry for key in self.known_keys() if (entry := self.entry(key, ledger)) is not None}

    def stored(self, key: bytes) -> RawEntry | None:
        """The newest entry of a key, even if it has expired, with the true last ledger of its life."""
        versions = self._versions.get(key)
        return versions[-1].entry if versions else None

    def known_keys(self) -> Iterator[bytes]:
        """The keys of all entries that there are or were."""
        return iter(list(self._versions))

    def close(
        self,
        changes: Iterable[Change] = (),
        *,
        close_time: int,
        events: Iterable[tuple[str, tuple[ScVal, ...], ScVal]] = (),
    ) -> int:
        """Close the next ledger, and return its number. Each key is written once at most.

        An event is a contract, topics and a value. ``close_time`` is in unix seconds.
        """
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
            self._latest = ledger  # last, because readers see the new ledger from here on
            return ledger

    def _append(self, key: bytes, version: _Version) -> None:
        versions = self._versions.setdefault(key, [])
        versions.append(version)
        if versions[len(versions) // 2].ledger <= self.oldest < version.ledger:
            # Once half of the versions are older than the window, they are dropped: by a new list, because somebody may
            # be reading the old one.
            first_needed = bisect_right(versions, self.oldest, key=lambda older: older.ledger) - 1
            self._versions[key] = versions[first_needed:]

    def _check(self, ledger: int) -> None:
        if not self.oldest <= ledger <= self._latest:
            raise LedgerRangeError(
                f"ledger {ledger} is not between the oldest, {self.oldest}, and the latest, {self._latest}"
            )
