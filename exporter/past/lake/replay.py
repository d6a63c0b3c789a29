"""Replays the contract state: carries it from one ledger to the next by the changes of each.

Four things are not among the changes, and are applied here. A temporary entry is gone once its time is over. A
persistent entry is archived then. An evicted entry keeps its last value. The entries of CAP-76 were archived with
another value than their last one (docs/lake.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from exporter.deployments.networks import NETWORKS
from exporter.errors import LakeError
from exporter.ledger.codec.entries import ARCHIVED, is_temporary, key_of_entry, seen_at, ttl_key
from exporter.ledger.source import RawEntry
from exporter.past.lake.close_meta import CREATED, EVENT, EVICTED, REMOVED, RESTORED, STATE, UPDATED, Change

WRONGLY_ARCHIVED = "wrongly_archived.parquet"
"""The file with the list that CAP-76 publishes. A test compares the two."""

_TTL: Final = b"\0\0\0\x09"
_PRESENT: Final = (CREATED, UPDATED, RESTORED)


class WronglyArchived(Struct, frozen=True):
    """An entry that the first software of protocol 23 archived with an old value (CAP-76).

    Attributes:
        evicted: the ledger at which it was evicted.
        archived: the LedgerEntry XDR with which it was archived at that ledger.
        correct: the LedgerEntry XDR that it has since the network was upgraded to protocol 24, unless it was restored
            before.
    """

    evicted: int
    archived: bytes
    correct: bytes


def wrongly_archived(passphrase: str) -> dict[bytes, WronglyArchived]:
    """The entries of CAP-76 by LedgerKey. Only mainnet has any."""
    if passphrase != NETWORKS["mainnet"].passphrase:
        return {}
    table = pq.read_table(pa.BufferReader(files("exporter.past.lake").joinpath(WRONGLY_ARCHIVED).read_bytes()))
    columns = (table.column(name).to_pylist() for name in ("evicted", "archived", "correct"))
    return {key_of_entry(row[2]): WronglyArchived(*row) for row in zip(*columns, strict=True)}


class ReplayedState:
    """The contract data and contract code after ``ledger``."""

    def __init__(
        self,
        entries: Mapping[bytes, RawEntry],
        ledger: int,
        protocol: int = 0,
        wrong: Mapping[bytes, WronglyArchived] | None = None,
    ) -> None:
        """Begin with the entries after a ledger. ``wrong`` has the entries of CAP-76.

        The entries have the true last ledger of their lives, `ARCHIVED` if they were evicted, or None if it is not
        known, so that they are taken to live on.
        """
        self.ledger = ledger
        self.protocol = protocol
        self._wrong = dict(wrong or {})
        self._data: dict[bytes, tuple[bytes, int]] = {}  # LedgerEntryData XDR, last change
        self._evicted: set[bytes] = set()
        self._lives: dict[bytes, int] = {}  # last ledger of life, by the key of the TTL entry
        for key, entry in entries.items():
            self._data[key] = entry.data, entry.last_modified
            if entry.live_until == ARCHIVED:
                self._evicted.add(key)
            elif entry.live_until is not None:
                self._lives[ttl_key(key)] = entry.live_until

    def take(self, ledger: int, protocol: int, changes: Iterable[Change]) -> None:
        """Apply the changes of a later ledger. Raises `LakeError` if the ledger is not later."""
        if ledger <= self.ledger:
            raise LakeError(f"ledger {ledger} cannot be replayed over ledger {self.ledger}")
        self.ledger = ledger
        for change in changes:
            if change.kind in (STATE, EVENT):
                continue
            if change.key[:4] == _TTL:
                self._apply_life(change)
                continue
            key = change.key
            if change.kind in _PRESENT:
                assert change.entry is not None  # changes of these kinds have a value
                self._data[key] = change.entry[4:-4], int.from_bytes(change.entry[:4], "big")
                self._evicted.discard(key)
            elif change.kind == REMOVED or is_temporary(key):
                self._data.pop(key, None)
                self._evicted.discard(key)
            elif change.kind == EVICTED and key in self._data:
                self._evicted.add(key)
                if key in self._wrong and self._wrong[key].evicted == self.ledger:
                    archived = self._wrong[key].archived
                    self._data[key] = archived[4:-4], int.from_bytes(archived[:4], "big")
        if self.protocol < 24 <= protocol:  # the upgrade corrected the archive, but it is not among the changes
            for key, wrong in self._wrong.items():
                if key in self._evicted and wrong.evicted < self.ledger:
                    self._data[key] = wrong.correct[4:-4], int.from_bytes(wrong.correct[:4], "big")
        self.protocol = protocol

    def _apply_life(self, change: Change) -> None:
        if change.entry is None:
            self._lives.pop(change.key, None)
            return
        until = int.from_bytes(change.entry[40:44], "big")
        longest = self._lives.get(change.key)
        if change.kind == UPDATED and longest is not None:
            # Transactions of the same stage do not see each other's extensions (CAP-63). So a later change may have an
            # earlier end.
            until = max(until, longest)
        self._lives[change.key] = until

    def entry(self, key: bytes) -> RawEntry | None:
        """An entry as a reader sees it after the ledger; None if a reader sees none."""
        stored = self._data.get(key)
        if stored is None:
            return None
        data, last_modified = stored
        life = ARCHIVED if key in self._evicted else self._lives.get(ttl_key(key))
        return seen_at(key, RawEntry(data, last_modified, life), self.ledger)

    def stored(self) -> dict[bytes, RawEntry]:
        """All entries, with the true last ledgers of their lives. Another state can begin with them."""
        lives, evicted = self._lives, self._evicted
        return {
            key: RawEntry(data, modified, ARCHIVED if key in evicted else lives.get(ttl_key(key)))
            for key, (data, modified) in self._data.items()
        }
