"""Writes a ledger lake for the embedded network, like that of a real network, and backfills a history from it.

What a simulated chain lacks, such as accounts, fees and the bucket list, is empty or made up. One transaction makes all
changes of a ledger, and its footprint names them.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import struct
from collections.abc import Sequence, Set
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from itertools import cycle, islice
from pathlib import Path

import msgspec
import pyarrow as pa
from nacl.signing import SigningKey

from exporter.config import Settings
from exporter.deployments.networks import network_id
from exporter.ledger.codec.entries import instance_key, is_temporary, ttl_key
from exporter.ledger.codec.scval_encode import encode_address, encode_scval
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.player import RecordedNetwork
from exporter.past.backfill.executors import processes
from exporter.past.backfill.lake_job import LakeJob, LakePlan, LakeResult
from exporter.past.backfill.start_state import StartState
from exporter.past.lake.close_meta import CREATED, REMOVED, RESTORED, STATE, UPDATED
from exporter.past.lake.closing_value import MILLISECONDS_PROTOCOL
from exporter.past.lake.objects import CONFIG, EXTENSIONS, LakeConfig
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store

EVICTED_AFTER = 12
"""Number of ledgers after the end of its life at which an entry is evicted."""

RANGE_LEDGERS = 64
MAX_WORKERS = 8

_word, _long = struct.Struct(">I").pack, struct.Struct(">q").pack
_NOTHING = bytes(4)


class LakeWriter:
    """Writes a lake into a folder while a chain moves on. The last object is written when the writer is closed."""

    def __init__(
        self,
        chain: Chain,
        passphrase: str,
        folder: Path,
        *,
        ledgers_per_batch: int = 1,
        batches_per_partition: int = 64_000,
        protocol: int = 28,
    ) -> None:
        self.config = LakeConfig(passphrase, ledgers_per_batch, batches_per_partition)
        self.protocol = protocol
        self._chain, self._folder = chain, folder
        self._network_id = bytes.fromhex(network_id(passphrase))
        self._signer = SigningKey(hashlib.sha256(b"localnet validator").digest())
        self._previous = hashlib.sha256(f"made ledger {chain.latest}".encode()).digest()
        self._batch: list[tuple[int, bytes]] = []
        self._ends: list[tuple[int, bytes]] = []
        self._evicted: set[bytes] = set()
        for key in chain.known_keys():
            entry = chain.stored(key)
            if entry is not None and entry.live_until is not None:
                heapq.heappush(self._ends, (entry.live_until, key))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG).write_bytes(msgspec.json.encode(self.config))

    def __enter__(self) -> LakeWriter:
        self._chain.on_close = self._write
        return self

    def __exit__(self, *_: object) -> None:
        self._chain.on_close = None
        self._flush()

    def _write(self, ledger: int, close_time: int, changes: Sequence[Change], events: Sequence[ContractEvent]) -> None:
        written: list[bytes] = []

        def set_life(key: bytes, kind: int, until: int | None, previous: int | None) -> None:
            if until is None or (kind == UPDATED and until == previous):
                return
            if kind == UPDATED:
                written.append(_word(STATE) + _life(key, previous or 0, ledger - 1))
            written.append(_word(kind) + _life(key, until, ledger))
            heapq.heappush(self._ends, (until, key))

        for change in changes:
            key, entry = change.key, self._chain.stored(change.key)
            if entry is not None and entry.live_until is not None and entry.live_until < ledger:
                if is_temporary(key):
                    if key not in self._evicted:
                        written += [_word(REMOVED) + ttl_key(key), _word(REMOVED) + key]
                    entry = None
                else:
                    life = change.live_until or ledger
                    written.append(_word(RESTORED) + _entry(entry.data, entry.last_modified))
                    set_life(key, RESTORED, life, None)
                    entry = RawEntry(entry.data, entry.last_modified, life)
                self._evicted.discard(key)
            if entry is not None:
                written.append(_word(STATE) + _entry(entry.data, entry.last_modified))
            if change.data is not None:
                kind = CREATED if entry is None else UPDATED
                written.append(_word(kind) + _entry(change.data, ledger))
                set_life(key, kind, change.live_until, None if entry is None else entry.live_until)
            elif entry is not None:
                written.append(_word(REMOVED) + key)
                if entry.live_until is not None:
                    written.append(_word(REMOVED) + ttl_key(key))
        changed = dict.fromkeys(change.key for change in changes)
        named = changed | dict.fromkeys(instance_key(event.contract) for event in events)
        evicted = self._evictions(ledger, changed.keys())
        self._append(ledger, close_time, written, list(named), evicted, [_event(event) for event in events])

    def _evictions(self, ledger: int, changed: Set[bytes]) -> list[bytes]:
        """The keys that the eviction scan of this ledger takes out. Before each is its TTL key."""
        keys: dict[bytes, None] = {}
        while self._ends and self._ends[0][0] + EVICTED_AFTER < ledger:
            until, key = heapq.heappop(self._ends)
            entry = None if key in changed else self._chain.stored(key)
            if entry is not None and entry.live_until == until and key not in self._evicted:
                self._evicted.add(key)
                keys |= {ttl_key(key): None, key: None}
        return list(keys)

    def _append(
        self,
        ledger: int,
        close_time: int,
        changes: list[bytes],
        named: list[bytes],
        evicted: list[bytes],
        events: list[bytes],
    ) -> None:
        envelope = _envelope(ledger, named) if named else b""
        parallel = _word(1) + _word(1) + _word(1) + envelope if named else _NOTHING
        tx_set = _word(1) + self._previous + _word(2) + bytes(8) + _word(1) + _NOTHING + parallel
        transaction_hash = hashlib.sha256(self._network_id + envelope[:-4]).digest()  # without its signatures
        pair = transaction_hash + _long(100) + _NOTHING + _word(1)
        pair += _NOTHING + _word(25) + _NOTHING + _NOTHING
        count = _word(1 if named else 0)
        results = count + (pair if named else b"")
        header = self._header(ledger, close_time, tx_set, results)
        meta = _NOTHING + pair + _NOTHING + _word(4) + _NOTHING + _NOTHING + _word(1) + _NOTHING
        meta += _word(len(changes)) + b"".join(changes) + _word(len(events)) + b"".join(events)
        meta += (
            _NOTHING + _NOTHING + bytes(8) + _NOTHING
        )  # no later changes, nothing of Soroban, no events of two more kinds, no refunds
        close = _word(2) + _NOTHING + self._previous + header + _NOTHING + tx_set + count + (meta if named else b"")
        close += _NOTHING + _NOTHING + bytes(8) + _word(len(evicted)) + b"".join(evicted)
        self._batch.append((ledger, close))
        if (ledger + 1) % self.config.ledgers_per_batch == 0:
            self._flush()

    def _header(self, ledger: int, close_time: int, tx_set: bytes, results: bytes) -> bytes:
        tx_set_hash = hashlib.sha256(tx_set).digest()
        proposed = tx_set_hash + _long(close_time)
        milliseconds = _long(1000 * close_time) if self.protocol >= MILLISECONDS_PROTOCOL else b""
        signature = self._signer.sign(self._network_id + _word(4) + proposed + milliseconds).signature
        kind = _word(3 if milliseconds else 1)
        validator = _NOTHING + bytes(self._signer.verify_key)
        header = _word(self.protocol) + self._previous + proposed + _NOTHING + kind + milliseconds + validator
        header += _word(64) + signature + hashlib.sha256(results).digest()
        header += hashlib.sha256(f"made bucket list {ledger}".encode()).digest() + _word(ledger)
        header += _long(10**18) + _long(0) + _NOTHING + _long(0) + _word(100) + _word(5_000_000) + _word(100)
        header += bytes(128) + _NOTHING
        self._previous = hashlib.sha256(header).digest()
        return header

    def _flush(self) -> None:
        if not self._batch:
            return
        first, last = self._batch[0][0], self._batch[-1][0]
        raw = _word(first) + _word(last) + _word(len(self._batch)) + b"".join(close for _, close in self._batch)
        self._batch = []
        path = self._folder / (self.config.key_of(first) + EXTENSIONS[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pa.compress(raw, codec="zstd", asbytes=True))


def _entry(data: bytes, last_modified: int) -> bytes:
    return _word(last_modified) + data + _NOTHING


def _life(key: bytes, until: int, ledger: int) -> bytes:
    return _entry(ttl_key(key) + _word(until), ledger)


def _event(event: ContractEvent) -> bytes:
    topics = _word(len(event.topics)) + b"".join(map(encode_scval, event.topics))
    head = _NOTHING + _word(1) + encode_address(event.contract)[4:] + _word(1) + _NOTHING
    return head + topics + encode_scval(event.value)


def _envelope(ledger: int, keys: list[bytes]) -> bytes:
    """A transaction that extends the lives of all keys. What matters is only that its footprint names them."""
    footprint = _NOTHING + _word(len(keys)) + b"".join(keys)
    soroban = _word(1) + _NOTHING + footprint + bytes(12) + _long(100)
    operation = _NOTHING + _word(25) + _NOTHING + _word(100)
    transaction = _NOTHING + bytes(32) + _word(100) + _long(ledger) + _NOTHING + _NOTHING + _word(1) + operation
    return _word(2) + transaction + soroban + _NOTHING


def live_through(network: RecordedNetwork, ledgers: int) -> None:
    """Let a network close a number of ledgers. In each of them the pools of one protocol move."""
    protocols = sorted({pool.protocol for pool in network.pools})
    pools_by_protocol = [[pool for pool in network.pools if pool.protocol == name] for name in protocols]
    for pools in islice(cycle(pools_by_protocol), ledgers):
        network.advance(pools)


def live_into_lake(network: RecordedNetwork, ledgers: int, folder: Path) -> StartState:
    """Do as `live_through` does, and write the ledgers into a lake. Returns the state before them."""
    chain = network.chain
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    state = StartState(
        chain.latest,
        chain.close_time(chain.latest),
        network.protocol_version,
        lambda contracts, keys: {key: entry for key, entry in entries.items() if key[8:40] in contracts or key in keys},
        "the embedded network",
    )
    with LakeWriter(chain, network.passphrase, folder, protocol=network.protocol_version):
        live_through(network, ledgers)
    return state


def remember(
    network: RecordedNetwork,
    state: StartState,
    folder: Path,
    every: int,
    settings: Settings,
    store: Store,
    workers: AbstractContextManager[Executor] | None = None,
) -> LakeResult:
    """Backfill a history from the network's lake, with a row for every ``every`` seconds since a state.

    The latest ledger is left out, because the next run publishes it.
    """
    chain = network.chain
    start_time, end_time = state.close_time, chain.close_time(chain.latest) - 1
    first, last = state.ledger, chain.latest
    times = start_time, end_time, every
    plan = LakePlan(settings, str(folder), None, state, first, last, *times, range_ledgers=RANGE_LEDGERS)
    count = min(os.cpu_count() or 1, MAX_WORKERS)
    with workers or processes(count) as executor:
        return LakeJob(plan, store, MemoryStore(), executor, at_once=2 * count).run()
