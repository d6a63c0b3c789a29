"""Finds the changes of a ledger by walking its LedgerCloseMeta, in all versions up to protocol 30.

The versions of LedgerCloseMeta (0 to 2), of TransactionMeta (0 to 4) and of the protocol do not depend on each other,
because the public lake was exported again by newer software. All combinations can be read. docs/lake.md describes the
layout and its traps.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec import xdr_walk as xdr
from exporter.ledger.codec.entries import key_of_entry
from exporter.ledger.codec.ledger_header import UPDATE, LedgerHeader, read_header
from exporter.ledger.codec.scval import ScVal, read_value
from exporter.ledger.codec.xdr_walk import word
from exporter.ledger.events import ContractEvent

CREATED, UPDATED, REMOVED, STATE, RESTORED = range(5)
EVICTED: Final = 5
"""The kind of a change in which the ledger's eviction scan took a key out of the live state. XDR has no such kind."""

EVENT: Final = 6
"""The kind of an event that a contract published, which is listed only if it is asked for. XDR has no such kind."""

_CONTRACT_KINDS: Final = frozenset({6, 7, 9})  # contract data, contract code, TTL
_TWO_KINDS: Final = struct.Struct(">I4xI").unpack_from
"""Reads two kinds: that of a change, and that of the entry in it."""

_MAX_TRANSACTIONS: Final = 1 << 16
_MAX_TOPICS: Final = 16


class Change(Struct, frozen=True, array_like=True):
    """A change to contract data, contract code or a time to live.

    Attributes:
        kind: one of the constants of this module, such as `UPDATED`.
        key: the LedgerKey XDR; for an `EVENT` the contract's id.
        entry: the LedgerEntry XDR after the change. For `STATE` it is the one before the change that follows. None for
            `REMOVED` and `EVICTED`. For an `EVENT` it is the ContractEvent XDR.
    """

    kind: int
    key: bytes
    entry: bytes | None


class LedgerClose(Struct, frozen=True):
    """The header of a ledger, and its changes in their order. Its meta was walked to the last byte."""

    header: LedgerHeader
    changes: tuple[Change, ...]


@contextmanager
def _complete(what: str) -> Iterator[None]:
    """Turn an error about missing bytes into a `DecodeError` that says inside of what the bytes end."""
    try:
        yield
    except (struct.error, IndexError):
        raise DecodeError(f"the bytes end inside {what}") from None


def header_of(meta: bytes) -> LedgerHeader:
    """Decode only the header of a LedgerCloseMeta. Raises `DecodeError` if it is bad."""
    with _complete("a ledger header"):
        return read_header(meta, _start(meta, 0)[1])[0]


def walk(meta: bytes, events_of: frozenset[bytes] = frozenset()) -> LedgerClose:
    """Walk one LedgerCloseMeta. ``events_of`` has the ids of the contracts whose events are listed among the changes.

    The hashes of the header, the transaction set and the results are verified, because the walk relies on them to know
    where these end. Raises `DecodeError` for bytes that are damaged, hostile or of an unknown form, and if more bytes
    follow.
    """
    with _complete("a ledger's meta"):
        close, end = _walk(meta, 0, events_of)
    if end != len(meta):
        raise DecodeError(f"{len(meta) - end} bytes follow a ledger's meta")
    return close


def end_of(metas: bytes, position: int) -> int:
    """The position after the LedgerCloseMeta that begins at a position. Raises `DecodeError` as `walk` does."""
    with _complete("a ledger's meta"):
        return _walk(metas, position, frozenset())[1]


def decode_event(data: bytes, ledger: int) -> ContractEvent:
    """Decode ContractEvent XDR. Raises `DecodeError` if it is bad, or no contract published the event."""
    with _complete("an event"):
        if word(data, 4)[0] != 1:
            raise DecodeError("an event without a contract")
        (count,) = word(data, 48)
        if count > _MAX_TOPICS:
            raise DecodeError(f"an event with {count} topics")
        topics: list[ScVal] = []
        position = 52
        for _ in range(count):
            topic, position = read_value(data, position)
            topics.append(topic)
        value, position = read_value(data, position)
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes follow an event")
    return ContractEvent(strkey.encode_contract(data[8:40]), ledger, tuple(topics), value)


def _start(meta: bytes, position: int) -> tuple[int, int]:
    """The version of a LedgerCloseMeta, and the position of its header."""
    (version,) = word(meta, position)
    if version > 2:
        raise DecodeError(f"unknown version of a ledger's meta: {version}; {UPDATE}")
    if version == 0:
        return 0, position + 4
    (extension,) = word(meta, position + 4)
    if extension > 1:
        raise DecodeError(f"unknown extension of a ledger's meta: {extension}; {UPDATE}")
    return version, position + (20 if extension else 8)


def _walk(meta: bytes, position: int, events_of: frozenset[bytes]) -> tuple[LedgerClose, int]:
    """Walk the LedgerCloseMeta at a position. Also returns the position after it."""
    version, position = _start(meta, position)
    header, position = read_header(meta, position)
    position = _pass_transaction_set(meta, position, header, version)
    count = xdr.count_at(meta, position, 60)
    if count > _MAX_TRANSACTIONS:
        raise DecodeError(f"{count} transactions in a ledger, where {_MAX_TRANSACTIONS} is the most")
    position += 4
    changes: list[Change] = []

    def add_event(contract: bytes, begin: int, end: int) -> None:
        if contract in events_of:
            changes.append(Change(EVENT, contract, meta[begin:end]))

    on_event = add_event if events_of else None
    late: list[Change] = []  # changes of fees that are paid back after all transactions
    results = hashlib.sha256(struct.pack(">I", count))
    for _ in range(count):
        if version == 2:
            if word(meta, position)[0]:
                raise DecodeError(f"unknown extension of a transaction's result; {UPDATE}")
            position += 4
        end = xdr.result_pair(meta, position)
        results.update(meta[position:end])
        position = _changes(meta, end, changes)
        position = _transaction_meta(meta, position, changes, on_event)
        if version == 2:
            position = _changes(meta, position, late)
    if results.digest() != header.result_hash and not (header.ledger == 1 and not count):
        raise DecodeError(f"ledger {header.ledger}: the results are not those that the header commits to")
    changes += late
    upgrades = xdr.count_at(meta, position, 12)
    position += 4
    for _ in range(upgrades):
        position = _changes(meta, _UPGRADE(meta, position), changes)
    position = _CONSENSUS(meta, position)
    if version:
        position += 8  # the size of the live state
        evicted = xdr.count_at(meta, position, 8)
        position += 4
        for _ in range(evicted):
            end = xdr.ledger_key(meta, position)
            if word(meta, position)[0] in _CONTRACT_KINDS:
                changes.append(Change(EVICTED, meta[position:end], None))
            position = end
    if version == 1:
        if word(meta, position)[0]:
            raise DecodeError("a ledger's meta has entries where none were ever written")
        position += 4
    if position > len(meta):
        raise DecodeError("the bytes end inside a ledger's meta")
    return LedgerClose(header, tuple(changes)), position


def _changes(data: bytes, position: int, changes: list[Change]) -> int:
    """Walk LedgerEntryChanges, and add those of contract state to ``changes``. Returns the position after them."""
    (count,) = word(data, position)
    if not count:
        return position + 4
    count = xdr.count_at(data, position, 8)
    position += 4
    entry_end, two_kinds, contract_kinds = xdr.ledger_entry, _TWO_KINDS, _CONTRACT_KINDS
    for _ in range(count):
        kind, entry_kind = two_kinds(data, position)
        position += 4
        if kind == REMOVED:
            end = xdr.ledger_key(data, position)
            if word(data, position)[0] in contract_kinds:
                changes.append(Change(REMOVED, data[position:end], None))
        elif kind > RESTORED:
            raise DecodeError(f"unknown kind of change: {kind}")
        else:
            end = entry_end(data, position, entry_kind)
            if entry_kind in contract_kinds:
                entry = data[position:end]
                changes.append(Change(kind, key_of_entry(entry), entry))
        position = end
    return position


def _transaction_meta(
    data: bytes, position: int, changes: list[Change], on_event: Callable[[bytes, int, int], None] | None
) -> int:
    (version,) = word(data, position)
    position += 4
    if version > 4:
        raise DecodeError(f"unknown version of a transaction's meta: {version}; {UPDATE}")
    if version > 2:
        position += 4
    if version:
        position = _changes(data, position, changes)
    operations = xdr.count_at(data, position, 4)
    position += 4
    for _ in range(operations):
        if version == 4:
            position = xdr.contract_events(data, _changes(data, position + 4, changes), 0, on_event)
        else:
            position = _changes(data, position, changes)
    if version > 1:
        position = _changes(data, position, changes)
    if version < 3:
        return position
    (soroban,) = word(data, position)
    position += 4
    if soroban and version == 3:
        position = xdr.contract_events(data, _CHARGED(data, position), 0, on_event)
        position = xdr.value(data, position)
        position = xdr.contract_events(data, position, 4)
    elif soroban:
        position = _CHARGED_AND_RESULT(data, position)
    if version == 4:
        position = xdr.contract_events(data, position, 4)  # before each is the stage at which it was published
        position = xdr.contract_events(data, position, 4)  # before each is whether the call succeeded
    return position


def _pass_transaction_set(data: bytes, position: int, header: LedgerHeader, version: int) -> int:
    """The position after the transaction set: where the hash of its bytes is the one that the header commits to.

    So transactions are never decoded, whatever their form. A hash is computed only where the next bytes can be the
    results of transactions. If it fits at none of these positions, it is computed at every fourth byte.
    """
    if header.set_was_dropped:
        return _EMPTY_SET(data, position)
    # The hash of a set of the old form leaves out the number of transactions.
    head, begin = (data[position : position + 32], position + 36) if version == 0 else (b"", position)
    view = memoryview(data)
    likely = (match.start() for match in _FIRST_RESULT[version].finditer(data, begin))
    for ends in ((end for end in likely if (end - begin) % 4 == 0), range(begin, len(data) + 1, 4)):
        running, hashed_to = hashlib.sha256(head), begin
        for end in ends:
            running.update(view[hashed_to:end])
            hashed_to = end
            if running.digest() == header.transaction_set_hash:
                return end
    raise DecodeError(f"ledger {header.ledger}: the transaction set is not the one that the header commits to")


_RESULT_CODE: Final = rb"(?:\0\0\0[\0\x01]|\xff\xff\xff[\xe0-\xff])"
_FIRST_RESULT: Final = tuple(
    re.compile(rb"(?s)\0(?=[\0\x01].." + extension + rb".{32}\0\0.{6}" + _RESULT_CODE + rb")")
    for extension in (b"", b"", b"\0\0\0\0")
)
"""The beginning of the array of results, by the version of the meta: their number, and hash, fee and code of the
first."""


_PHASE: Final = xdr.union("kind of phase", {0: 4, 1: xdr.in_turn(xdr.optional(8), 4)})
_EMPTY_SET: Final = xdr.union("kind of transaction set", {1: xdr.in_turn(32, xdr.array(_PHASE, 8))})
"""A walk over a set without transactions, whose hash is not in the header.

If the set had transactions after all, the results after it would not have the hash that the header commits to."""

_UPGRADE: Final = xdr.union(f"kind of upgrade ({UPDATE})", dict.fromkeys((1, 2, 3, 4, 5, 7), 4) | {6: 64})
_CHARGED: Final = xdr.union("extension of Soroban's meta", {0: 0, 1: 4 + 24})
_CHARGED_AND_RESULT: Final = xdr.in_turn(_CHARGED, xdr.optional(xdr.value))
_CONSENSUS: Final = xdr.array(
    xdr.union(
        "version of a consensus record",
        {0: xdr.in_turn(xdr.array(xdr.quorum_set, 12), 4, xdr.array(xdr.scp_envelope, 100))},
    ),
    16,
)
"""A walk over consensus messages. Objects of a lake have none, but the stream of Stellar Core has some."""
