"""The memory of what earlier runs found, as a file in the output, for each network apart.

It is written only over what was read before (compare-and-swap). What cannot be read is set aside, never lost.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from exporter.discovery.known_markets import EventStream, KnownMarket, LearnedContract, Memory, NetworkId
from exporter.errors import LostRaceError, StoreError
from exporter.ledger.codec import strkey
from exporter.stores.store import Store, StoredObject
from exporter.tree.decoding import decode_json

MEMORY_KEY = "state/known-markets.memory"
"""No part of the API. Without it the next run begins again: what only events ever named is then lost."""

SET_ASIDE_PREFIX = "state/known-markets.unreadable-"
"""Where a memory that cannot be read is kept: this and the start of the SHA-256 of its bytes."""

MEMORY_VERSION = 1
MAX_MEMORY_BYTES = 32 * 2**20
_TRIES = 5

_Record: TypeAlias = KnownMarket | EventStream | LearnedContract


class _Kept(Struct, kw_only=True):
    markets: list[Any]
    events: list[Any]
    contracts: list[Any]


class _File(Struct, kw_only=True):
    version: int
    networks: dict[NetworkId, _Kept]


def load_memory(store: Store, network_id: str) -> Memory:
    """The memory of a network; a part that cannot be read costs a notice and nothing else. Raises `StoreError`."""
    return _open(store.get(MEMORY_KEY), network_id)[0]


def is_memory(data: bytes) -> bool:
    """Whether these bytes are a memory as it is written, with every record of a known kind and form."""
    try:
        networks = decode_json(data, _File).networks
    except msgspec.DecodeError:
        return False
    for network_id in networks:
        memory, others, whole = _open(StoredObject(data, ""), network_id)
        if not whole or data != _encode(memory, others):
            return False
    return bool(networks)


def save_memory(store: Store, memory: Memory) -> bool:
    """Merge a memory with what others kept; gives whether that changed it. Raises `StoreError`, `LostRaceError`."""
    for attempt in range(_TRIES):
        stored = store.get(MEMORY_KEY)
        known, networks, whole = _open(stored, memory.network_id)
        merged = replace(memory, markets=dict(memory.markets), streams=dict(memory.streams), notices=[])
        merged.absorb(known)
        data = _encode(merged, networks)
        if stored is not None and stored.data == data:
            return False
        if len(data) > MAX_MEMORY_BYTES:
            raise StoreError(f"{MEMORY_KEY} would have {len(data)} bytes, more than {MAX_MEMORY_BYTES}")
        if stored is not None and not whole:
            store.put_new(f"{SET_ASIDE_PREFIX}{hashlib.sha256(stored.data).hexdigest()[:16]}.memory", stored.data)
        try:
            store.swap(MEMORY_KEY, data, None if stored is None else stored.etag)
        except LostRaceError:
            if attempt == _TRIES - 1:
                raise
            continue
        return True
    raise AssertionError("the last try has returned or raised")


def _encode(memory: Memory, others: dict[str, _Kept]) -> bytes:
    places = sorted(memory.markets, key=lambda place: (*place[:2], place[2] or ""))
    kept = _Kept(
        markets=[memory.markets[place] for place in places],
        events=[
            EventStream(protocol=protocol, contract=contract, topics=topics, next_ledger=ledger)
            for (protocol, contract, topics), ledger in sorted(memory.streams.items())
        ],
        contracts=[
            LearnedContract(protocol=protocol, label=label, role=role, address=address)
            for (protocol, label, role), address in sorted(memory.contracts.items())
        ],
    )
    networks = dict(sorted((others | {memory.network_id: kept}).items()))
    content = _File(version=MEMORY_VERSION, networks=networks)
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _open(stored: StoredObject | None, network_id: str) -> tuple[Memory, dict[str, _Kept], bool]:
    memory = Memory(network_id)
    if stored is None:
        return memory, {}, True
    try:
        if len(stored.data) > MAX_MEMORY_BYTES:
            raise msgspec.DecodeError(f"it has more than {MAX_MEMORY_BYTES} bytes")
        content = decode_json(stored.data, _File)
        if content.version != MEMORY_VERSION:
            raise msgspec.DecodeError(f"it is of version {content.version}, and {MEMORY_VERSION} is known here")
    except msgspec.DecodeError as error:
        memory.notices.append(
            f"{MEMORY_KEY} cannot be read ({str(error)[:200]}); it is set aside, and what is known is found again as "
            "far as lists, reward zones and events still name it"
        )
        return memory, {}, False
    kept, refused = content.networks.pop(network_id, _Kept(markets=[], events=[], contracts=[])), list[str]()
    kinds: tuple[type[_Record], ...] = KnownMarket, EventStream, LearnedContract
    for kind, records in zip(kinds, (kept.markets, kept.events, kept.contracts), strict=True):
        for raw in records:
            try:
                _learn(memory, msgspec.convert(raw, kind))
            except (msgspec.ValidationError, ValueError) as error:
                refused.append(str(error))
    if refused:
        memory.notices.append(
            f"{MEMORY_KEY} has {len(refused)} invalid records, the first: {refused[0][:200]}; the file is set "
            "aside, and the other records are used"
        )
    return memory, content.networks, not refused


def _learn(memory: Memory, record: _Record) -> None:
    address = record.contract if isinstance(record, EventStream) else record.address
    for each in (address, record.voucher if isinstance(record, KnownMarket) else None):
        if each is not None and not strkey.is_contract(each):
            raise ValueError(f"{each[:80]!r} is not the strkey of a contract")
    if isinstance(record, KnownMarket):
        memory.learn(record)
    elif isinstance(record, EventStream):
        memory.streams[record.protocol, record.contract, record.topics] = record.next_ledger
    else:
        memory.contracts[record.protocol, record.label, record.role] = record.address
