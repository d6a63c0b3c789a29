"""Ledger headers, as archives and metas of ledgers have them: with their hash before them."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from exporter.errors import DecodeError
from exporter.ledger.codec.xdr_walk import opaque, word
from exporter.ledger.source import LATEST_CLOSE_TIME

_long: Final = struct.Struct(">Q").unpack_from
_MAX_UPGRADES: Final = 6
_VALUE_TAIL: Final = {0: 0, 1: 104, 2: 172, 3: 112, 4: 180}
"""Bytes after a StellarValue's kind; 3 and 4 begin with the close time in milliseconds, as u64."""


@dataclass(frozen=True, slots=True)
class LedgerHeader:
    """A ledger's header: its own bytes, their SHA-256, and the fields of it that a reader needs."""

    content: bytes
    hash: bytes
    ledger: int
    protocol_version: int
    previous_hash: bytes
    close_time: int
    value_kind: int
    """The kind of StellarValue, 0 to 4 (CAP-83, CAP-88)."""
    transaction_set_hash: bytes
    result_hash: bytes
    bucket_list_hash: bytes
    base_reserve: int = 0
    value_end: int = 0
    """Where in ``content`` the StellarValue ends."""

    @property
    def set_was_dropped(self) -> bool:
        """Whether the network dropped the set of transactions it had agreed on: there is none (CAP-83)."""
        return self.value_kind in (2, 4)


def read_header(data: bytes, position: int) -> tuple[LedgerHeader, int]:
    """The LedgerHeaderHistoryEntry at a position, and its end. Raises `DecodeError` where its hash is not its own."""
    try:
        return _read_header(data, position)
    except struct.error:
        raise DecodeError("the bytes end inside a ledger header") from None


def _read_header(data: bytes, position: int) -> tuple[LedgerHeader, int]:
    stated = data[position : position + 32]
    begin = position + 32
    (protocol,) = word(data, begin)
    (close_time,) = _long(data, begin + 68)
    if close_time > LATEST_CLOSE_TIME:
        raise DecodeError(f"a ledger header with the close time {close_time}, which is after the year 9998")
    position = begin + 76
    (upgrades,) = word(data, position)
    position += 4
    if upgrades > _MAX_UPGRADES:
        raise DecodeError(f"a ledger header with {upgrades} upgrades, where {_MAX_UPGRADES} is the most")
    for _ in range(upgrades):
        position = opaque(data, position)
    (kind,) = word(data, position)
    if kind not in _VALUE_TAIL:
        raise DecodeError(f"unknown kind of ledger header: {kind}")
    position += 4 + _VALUE_TAIL[kind]
    value_end = position - begin
    result_hash, bucket_list_hash = data[position : position + 32], data[position + 32 : position + 64]
    (ledger,) = word(data, position + 64)
    (base_reserve,) = word(data, position + 100)
    # Two sums, inflation, ids, fee, reserve, size of a set, and the skip list.
    position += 64 + 4 + 8 + 8 + 4 + 8 + 4 + 4 + 4 + 128
    (extension,) = word(data, position)
    if extension > 1:
        raise DecodeError(f"unknown extension of a ledger header: {extension}")
    position += 12 if extension else 4
    content = data[begin:position]
    digest = hashlib.sha256(content).digest()
    if digest != stated:
        raise DecodeError(f"the header of ledger {ledger} has the hash {digest.hex()}, not {stated.hex()} as it says")
    (extension,) = word(data, position)
    if extension:
        raise DecodeError(f"unknown extension of a ledger header's history entry: {extension}")
    previous, set_hash = data[begin + 4 : begin + 36], data[begin + 36 : begin + 68]
    header = LedgerHeader(
        content,
        digest,
        ledger,
        protocol,
        previous,
        close_time,
        kind,
        set_hash,
        result_hash,
        bucket_list_hash,
        base_reserve,
        value_end,
    )
    return header, position + 4
