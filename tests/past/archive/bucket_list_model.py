"""A bucket list as CAP-20 has it, and a small network that fills two of them (CAP-62) with entries of short lives."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from exporter.ledger.codec.entries import data_key, ttl_key
from exporter.ledger.codec.scval_encode import symbol, u32
from exporter.past.archive.stellar_proof import DEAD, INIT, LEVELS, LIVE, Claims, Entry, Proven
from tests.past.archive.simulated_archive import CONTRACT, PASSPHRASE, live

KEYS = [data_key(CONTRACT, symbol(f"key{at}"), durability=at % 2) for at in range(12)]
TIME = 1_700_000_000

Bucket = dict[bytes, bytes]
"""Records by the key that they are about."""


def half(level: int) -> int:
    return 2 << 2 * level


def merged(old: Bucket, new: Bucket) -> Bucket:
    """The bucket that CAP-20 makes of two; a created and deleted entry leaves nothing."""
    found = old | new
    for key in old.keys() & new.keys():
        kinds = old[key][:4], new[key][:4]
        if kinds == (INIT, DEAD):
            del found[key]
        elif kinds == (DEAD, INIT):
            found[key] = LIVE + new[key][4:]
        elif kinds == (INIT, LIVE):
            found[key] = INIT + new[key][4:]
    return found


class BucketList:
    """The levels, and the merges that are under way. Without ``annihilates`` (hot archive) the newer record counts."""

    def __init__(self, *, annihilates: bool = True) -> None:
        self._merged = merged if annihilates else lambda old, new: old | new
        self.curr: list[Bucket] = [{} for _ in range(LEVELS)]
        self.snap: list[Bucket] = [{} for _ in range(LEVELS)]
        self.next: list[Bucket | None] = [None] * LEVELS

    def add(self, ledger: int, batch: Bucket) -> None:
        """The changes of a ledger; what is due spills, from the oldest level to the newest."""
        for level in reversed(range(1, LEVELS)):
            if ledger % half(level - 1):
                continue
            spilled = self.snap[level - 1] = self.curr[level - 1]
            self.curr[level - 1] = {}
            committed = self.next[level]
            if committed is not None:
                self.curr[level] = committed
            is_last = level < LEVELS - 1 and (ledger + half(level - 1)) % half(level) == 0
            self.next[level] = self._merged({} if is_last else self.curr[level], spilled)
        self.curr[0] = self._merged(self.curr[0], batch)

    def buckets(self) -> list[Bucket]:
        """Newest first."""
        return [bucket for pair in zip(self.curr, self.snap, strict=True) for bucket in pair]


class Held(NamedTuple):
    """A contract's entry: its LedgerEntryData with value and last change, and its time to live."""

    value: int
    changed: int
    until: int
    until_changed: int


class Network:
    """Entries that are created, changed, prolonged, deleted, evicted and restored at random, ledger by ledger."""

    def __init__(self, chance: Random, *, hot: bool) -> None:
        self._chance, self._has_hot = chance, hot
        self.held: dict[bytes, Held] = {}
        self.evicted: dict[bytes, Held] = {}
        self.live, self.hot = BucketList(), BucketList(annihilates=False)
        self.truth: dict[int, dict[bytes, Entry | None]] = {}

    def close(self, ledger: int) -> None:
        """One more ledger."""
        before, gone = dict(self.held), dict(self.evicted)
        for at, key in enumerate(KEYS):
            if self._chance.random() < (0.3, 0.1, 0.02)[at // 2 % 3]:  # some change often, some hardly ever
                self._touch(key, ledger)
        batch: Bucket = {}
        for key in KEYS:
            old, new = before.get(key), self.held.get(key)
            if old == new:
                continue
            kind = INIT if old is None else LIVE
            if new is None:
                batch[key], batch[ttl_key(key)] = DEAD + key, DEAD + ttl_key(key)
                continue
            if old is None or new.changed == ledger:
                batch[key] = record(key, new, kind)
            if old is None or new.until_changed == ledger:
                until = struct.pack(">II", new.until, 0)
                batch[ttl_key(key)] = kind + struct.pack(">I", ledger) + ttl_key(key) + until
        self.live.add(ledger, batch)
        hot: Bucket = {}
        for key in KEYS:
            if self.evicted.get(key) != gone.get(key):
                new = self.evicted.get(key)
                hot[key] = DEAD + key if new is None else record(key, new, LIVE)
        self.hot.add(ledger, hot if self._has_hot else {})
        self.truth[ledger] = {key: self._state(key, ledger) for key in KEYS}

    def _touch(self, key: bytes, ledger: int) -> None:
        chance, held, temporary = self._chance, self.held.get(key), key[-4:] == bytes(4)
        until = ledger + chance.choice((1, 3, 20, 100))
        expired = held is not None and held.until < ledger
        if held is None and key in self.evicted:
            restored = self.evicted.pop(key)
            self.held[key] = Held(restored.value, ledger, until, ledger)
        elif held is None:
            self.held[key] = Held(chance.randrange(1000), ledger, until, ledger)
        elif expired and chance.random() < 0.5:  # evicted
            del self.held[key]
            if self._has_hot and not temporary:
                self.evicted[key] = held
            elif not temporary:  # before protocol 23 it stays
                self.held[key] = held
        elif expired and not temporary:
            self.held[key] = held._replace(until=until, until_changed=ledger)  # restored where it is
        elif expired or chance.random() < 0.4:
            self.held[key] = Held(chance.randrange(1000), ledger, max(held.until, until), ledger)
        elif chance.random() < 0.5:
            self.held[key] = held._replace(until=max(held.until, until), until_changed=ledger)
        else:
            del self.held[key]

    def _state(self, key: bytes, ledger: int) -> Entry | None:
        held = self.held.get(key)
        if held is None:
            held = self.evicted.get(key)
            return None if held is None else (data(key, held), held.changed, 0)
        if held.until < ledger:
            return None if key[-4:] == bytes(4) else (data(key, held), held.changed, 0)
        return data(key, held), held.changed, held.until

    def proven(self, ledger: int) -> tuple[Proven, dict[bytes, list[bytes]]]:
        """The proof of this ledger, and the records of the buckets, keyed by digest."""
        stored: dict[bytes, list[bytes]] = {}
        lists = []
        for buckets in (self.live.buckets(), self.hot.buckets() if self._has_hot else []):
            digests = []
            for bucket in buckets:
                records = [bucket[key] for key in sorted(bucket)]
                digest = hashlib.sha256(b"".join(records)).digest() if records else bytes(32)
                stored[digest] = records
                digests.append(digest)
            lists.append(digests)
        closed = {at: TIME + at for at in range(max(1, ledger - 63), ledger + 1)}
        return Proven(PASSPHRASE, ledger, bytes(32), closed, lists[0], lists[1], ledger + 1, {}), stored

    def claims(self, ledger: int, entries: dict[bytes, Entry | None] | None = None) -> Claims:
        """The claims of an honest run at a ledger, or of another one."""
        said = self.truth[ledger] if entries is None else entries
        return Claims(PASSPHRASE, ledger, TIME + ledger, said, [], bytes(32))


def source(stored: dict[bytes, list[bytes]], digest: bytes) -> Iterator[bytes]:
    return iter(stored[digest])


def record(key: bytes, held: Held, kind: bytes) -> bytes:
    return live(key, u32(held.value), held.changed, kind)


def data(key: bytes, held: Held) -> bytes:
    return record(key, held, LIVE)[8:-4]
