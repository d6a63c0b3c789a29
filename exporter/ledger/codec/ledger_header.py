"""Ledger headers as history archives and ledger metas store them: preceded by their hash."""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from msgspec import Struct

from exporter.errors import DecodeError
from exporter.ledger.codec.xdr_walk import array, in_turn, opaque, union, word
from exporter.ledger.source import LATEST_CLOSE_TIME

LATEST_PROTOCOL: Final = 30
"""The newest protocol whose ledgers are understood."""

UPDATE: Final = "the network's software is newer than this; update the exporter"

_head: Final = struct.Struct(">I32s32sQ").unpack_from
_until_kind: Final = in_turn(4 + 32 + 32 + 8, array(opaque))
_value: Final = union("kind of ledger header", {0: 0, 1: 104, 2: 172, 3: 112, 4: 180})
"""What follows a StellarValue's kind; in 3 and 4 it begins with the close time in milliseconds, as u64."""
_results: Final = struct.Struct(">32s32sI").unpack_from
_tail: Final = in_turn(
    32 + 32 + 4,
    8 + 8 + 4 + 8 + 4 + 4 + 4 + 128,  # two sums, inflation, ids, fee, reserve, size of a set, and the skip list
    union("extension of a ledger header", {0: 0, 1: 8}),
)
_entry_end: Final = union("extension of a ledger header's history entry", {0: 0})


class LedgerHeader(Struct, frozen=True):
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
    value_end: int = 0
    """The position in ``content`` at which the StellarValue ends."""

    @property
    def set_was_dropped(self) -> bool:
        """Whether the network dropped the set of transactions it had agreed on: there is none (CAP-83)."""
        return self.value_kind in (2, 4)


def later_protocol(what: str, version: int) -> str:
    """The words of an error about something of a later protocol than `LATEST_PROTOCOL`."""
    return f"{what} is of protocol {version}, and this version understands those up to {LATEST_PROTOCOL}; {UPDATE}"


def require_known_protocol(header: LedgerHeader) -> None:
    """Raise `DecodeError` for a ledger of a later protocol, whose changes may mean something else than is known."""
    if header.protocol_version > LATEST_PROTOCOL:
        raise DecodeError(later_protocol(f"ledger {header.ledger}", header.protocol_version))


def read_header(data: bytes, position: int) -> tuple[LedgerHeader, int]:
    """The LedgerHeaderHistoryEntry at a position, and its end.

    Raises `DecodeError` if the stated hash is not its own, or if the header has an unknown form. If it then says that
    it is of a later protocol than `LATEST_PROTOCOL`, the error says to update the exporter.
    """
    try:
        return _read_header(data, position)
    except DecodeError as error:
        stated_protocol = data[position + 32 : position + 36]
        if len(stated_protocol) == 4 and int.from_bytes(stated_protocol, "big") > LATEST_PROTOCOL:
            raise DecodeError(f"{error}; {UPDATE}") from None
        raise


def _read_header(data: bytes, position: int) -> tuple[LedgerHeader, int]:
    stated, begin = data[position : position + 32], position + 32
    try:
        protocol, previous, set_hash, close_time = _head(data, begin)
        kind_at = _until_kind(data, begin)
        (kind,) = word(data, kind_at)
        value_end = _value(data, kind_at)
        result_hash, list_hash, ledger = _results(data, value_end)
        end = _tail(data, value_end)
        content = data[begin:end]
        digest = hashlib.sha256(content).digest()
        if digest != stated:
            raise DecodeError(
                f"the header of ledger {ledger} has the hash {digest.hex()}, not {stated.hex()} as it says"
            )
        entry_end = _entry_end(data, end)
    except struct.error:
        raise DecodeError("the bytes end inside a ledger header") from None
    if close_time > LATEST_CLOSE_TIME:
        raise DecodeError(f"a ledger header with the close time {close_time}, which is after the year 9998")
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
        list_hash,
        value_end - begin,
    )
    return header, entry_end
