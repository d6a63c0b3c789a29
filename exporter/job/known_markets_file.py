"""The file in the output that remembers, for each network, which markets earlier runs found.

A run replaces only the version that it read (compare-and-swap), so runs do not undo each other. A file that cannot be
read is set aside and never lost.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from exporter.discovery.known_markets import (
    EventStream,
    KnownMarket,
    LearnedContract,
    Memory,
    NetworkId,
    RoleKey,
    StreamKey,
)
from exporter.errors import LostRaceError, StoreError
from exporter.ledger.codec import strkey
from exporter.stores.store import Store, StoredObject
from exporter.tree.decoding import decode_json

MEMORY_KEY = "state/known-markets.memory"
"""Key of the memory, which is no part of the API. If it is lost, so is every market that only an event ever named."""

SET_ASIDE_PREFIX = "state/known-markets.unreadable-"
"""A memory that cannot be read is moved to a key that begins so and goes on with the SHA-256 of its bytes."""

MEMORY_VERSION = 1
MAX_MEMORY_BYTES = 32 * 2**20
_TRIES = 5

_Record: TypeAlias = KnownMarket | EventStream | LearnedContract


class _NetworkMemory(Struct, kw_only=True):
    markets: list[Any]
    events: list[Any]
    contracts: list[Any]


class _MemoryFile(Struct, kw_only=True):
    version: int
    networks: dict[NetworkId, _NetworkMemory]


def load_memory(store: Store, network_id: str) -> Memory:
    """The memory of a network. Records that cannot be read are left out, with a notice. Raises `StoreError`."""
    return _decode_memory(store.get(MEMORY_KEY), network_id)[0]


def is_memory(data: bytes) -> bool:
    """Whether these bytes are a memory exactly as `save_memory` writes it, with every record valid."""
    try:
        networks = decode_json(data, _MemoryFile).networks
    except msgspec.DecodeError:
        return False
    for network_id in networks:
        memory, others, is_valid = _decode_memory(StoredObject(data, ""), network_id)
        if not is_valid or data != _encode(memory, others):
            return False
    return bool(networks)


def save_memory(store: Store, memory: Memory) -> bool:
    """Merge a memory with the stored one. Returns whether the file changed. Raises `StoreError` or `LostRaceError`."""
    for attempt in range(_TRIES):
        stored = store.get(MEMORY_KEY)
        stored_memory, networks, is_valid = _decode_memory(stored, memory.network_id)
        merged = replace(memory, markets=dict(memory.markets), streams=dict(memory.streams), notices=[])
        merged.absorb(stored_memory)
        data = _encode(merged, networks)
        if stored is not None and stored.data == data:
            return False
        if len(data) > MAX_MEMORY_BYTES:
            raise StoreError(f"{MEMORY_KEY} would have {len(data)} bytes, more than {MAX_MEMORY_BYTES}")
        if stored is not None and not is_valid:
            store.put_new(f"{SET_ASIDE_PREFIX}{hashlib.sha256(stored.data).hexdigest()[:16]}.memory", stored.data)
        try:
            store.swap(MEMORY_KEY, data, None if stored is None else stored.etag)
        except LostRaceError:
            if attempt == _TRIES - 1:
                raise
            continue
        return True
    raise AssertionError("the last try has returned or raised")


def _encode(memory: Memory, others: dict[str, _NetworkMemory]) -> bytes:
    markets = sorted(memory.markets.values(), key=lambda item: (item.protocol, item.address, item.pool or ""))
    records = _NetworkMemory(
        markets=markets,
        events=[
            EventStream(protocol=protocol, contract=contract, topics=topics, next_ledger=ledger)
            for (protocol, contract, topics), ledger in sorted(memory.streams.items())
        ],
        contracts=[
            LearnedContract(protocol=protocol, label=label, role=role, address=address)
            for (protocol, label, role), address in sorted(memory.contracts.items())
        ],
    )
    networks = dict(sorted((others | {memory.network_id: records}).items()))
    content = _MemoryFile(version=MEMORY_VERSION, networks=networks)
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _decode_memory(stored: StoredObject | None, network_id: str) -> tuple[Memory, dict[str, _NetworkMemory], bool]:
    """The memory of one network, the records of the other networks, and whether all records of the first are valid."""
    memory = Memory(network_id)
    if stored is None:
        return memory, {}, True
    try:
        if len(stored.data) > MAX_MEMORY_BYTES:
            raise msgspec.DecodeError(f"it has more than {MAX_MEMORY_BYTES} bytes")
        content = decode_json(stored.data, _MemoryFile)
        if content.version != MEMORY_VERSION:
            raise msgspec.DecodeError(f"it is of version {content.version}, and {MEMORY_VERSION} is known here")
    except msgspec.DecodeError as error:
        memory.notices.append(
            f"{MEMORY_KEY} cannot be read ({str(error)[:200]}); it is set aside, and what is known is found again as "
            "far as lists, reward zones and events still name it"
        )
        return memory, {}, False
    own = content.networks.pop(network_id, _NetworkMemory(markets=[], events=[], contracts=[]))
    kinds: tuple[type[_Record], ...] = KnownMarket, EventStream, LearnedContract
    refused = list[str]()
    for kind, records in zip(kinds, (own.markets, own.events, own.contracts), strict=True):
        for raw in records:
            try:
                _add_record(memory, msgspec.convert(raw, kind))
            except (msgspec.ValidationError, ValueError) as error:
                refused.append(str(error))
    if refused:
        memory.notices.append(
            f"{MEMORY_KEY} has {len(refused)} invalid records, the first: {refused[0][:200]}; the file is set "
            "aside, and the other records are used"
        )
    return memory, content.networks, not refused


def _add_record(memory: Memory, record: _Record) -> None:
    """Add a record to a memory. Raises `ValueError` if an address in it is none."""
    address = record.contract if isinstance(record, EventStream) else record.address
    for each in (address, record.voucher if isinstance(record, KnownMarket) else None):
        if each is not None and not strkey.is_contract(each):
            raise ValueError(f"{each[:80]!r} is not the strkey of a contract")
    if isinstance(record, KnownMarket):
        memory.learn(record)
    elif isinstance(record, EventStream):
        memory.streams[StreamKey(record.protocol, record.contract, record.topics)] = record.next_ledger
    else:
        memory.contracts[RoleKey(record.protocol, record.label, record.role)] = record.address
