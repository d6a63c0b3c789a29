"""Ledger keys that the network froze (CAP-77), and the pools whose operations need one of them.

From protocol 26 on validators can vote to freeze keys. A transaction whose footprint has a frozen key is invalid, so
what a contract allows cannot happen. Every operation of every protocol here touches the market's instance and code, the
token's instance and code, and the entries that the pool's row follows from. The market's oracle counts too, because
borrowing and liquidating always ask it. Keys of single users (their positions, accounts and trustlines) close nothing
for others and are ignored. So are the transactions that the network exempts by their hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec import xdr_walk
from exporter.ledger.codec.entries import code_holder_key, code_key, instance_of, is_instance_key
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView
from exporter.protocols.base import ProtocolReading
from exporter.tables import PoolKey

_CONFIG_SETTING, _FROZEN_KEYS = 8, 17
SETTING_KEY: Final = struct.pack(">II", _CONFIG_SETTING, _FROZEN_KEYS)
"""The LedgerKey XDR of the network's setting with the frozen keys."""

UNKNOWN_FROZEN: Final = "the network's list of frozen keys could not be read, so a pool with one may look open"

_KINDS: Final = {6: "an entry", 7: "the contract code"}


def decode_frozen_keys(data: bytes) -> frozenset[bytes]:
    """The LedgerKey XDRs in the setting's LedgerEntryData XDR. Raises `DecodeError`."""
    keys: list[bytes] = []
    try:
        if data[:8] != SETTING_KEY:
            raise DecodeError("the entry is not the network's list of frozen keys")
        count, position = xdr_walk.count_at(data, 8, 4), 12
        for _ in range(count):
            end = xdr_walk.opaque(data, position)
            (length,) = xdr_walk.word(data, position)
            keys.append(data[position + 4 : position + 4 + length])
            position = end
    except struct.error:
        raise DecodeError("the bytes end inside the network's list of frozen keys") from None
    if position != len(data):
        raise DecodeError("bytes follow the network's list of frozen keys")
    return frozenset(keys)


async def mark_frozen(view: LedgerView, readings: Sequence[ProtocolReading]) -> str | None:
    """Note in each reading which of its pools need a frozen key. Returns a notice if the setting cannot be read.

    The setting has a request of its own, because an endpoint of a protocol before 26 refuses a request that names it.
    A network without the setting has never frozen a key, since no upgrade removes a setting.
    """
    try:
        entry = (await view.read([], never_removed=[SETTING_KEY]))[SETTING_KEY]
        frozen = frozenset() if entry is None else decode_frozen_keys(entry.raw.data)
    except (SourceError, DecodeError):
        return UNKNOWN_FROZEN
    for reading in readings:
        reading.frozen = await _frozen_pools(view, reading, frozen) if frozen else {}
    return None


async def _frozen_pools(view: LedgerView, reading: ProtocolReading, frozen: frozenset[bytes]) -> dict[PoolKey, str]:
    """The pools that need a frozen key, with the reason. Their entries were read before, so no request is made."""
    entries = await view.read(dict.fromkeys(key for keys in reading.entry_keys.values() for key in keys))
    reasons: dict[PoolKey, str] = {}
    for pool, keys in reading.entry_keys.items():
        frozen_keys = sorted(frozen.intersection(_needed(keys, entries)))
        if frozen_keys:
            reasons[pool] = _reason(frozen_keys)
    return reasons


def _needed(keys: Iterable[bytes], entries: Mapping[bytes, Entry | None]) -> Iterable[bytes]:
    """The keys of a pool's entries, and the keys of the code that its contracts run."""
    for key in keys:
        yield key
        entry = entries[key]
        if entry is None or not is_instance_key(key):
            continue
        holder = code_holder_key(entry.raw.data)
        if holder is not None:
            yield holder
        try:
            wasm_hash = instance_of(entry.contract_data()).wasm_hash
        except DecodeError:
            continue
        if wasm_hash is not None:
            yield code_key(wasm_hash)


def _reason(frozen_keys: Sequence[bytes]) -> str:
    kinds = dict.fromkeys(_KINDS.get(key[3], "a key") for key in frozen_keys)
    return f"the network froze {' and '.join(kinds)} that every operation needs (CAP-77)"
