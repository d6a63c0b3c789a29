"""The records of a checkpoint's files: ledger headers, transaction sets, and what validators said of ledgers.

A set of transactions is hashed with the hash of the header before it: so what validators sign of ledger N, by its
transactions and close time, leads to the header of N - 1.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.errors import DecodeError
from exporter.ledger.codec import xdr_walk as xdr
from exporter.ledger.codec.ledger_header import LedgerHeader, read_header
from exporter.ledger.codec.xdr_walk import word

GENERALIZED: Final = b"\0\0\0\1"
GENERALIZED_PROTOCOL: Final = 20
PARALLEL_PROTOCOL: Final = 23

_CLASSIC_PHASE = struct.pack(">II", 0, 0)
_PARALLEL_PHASE = struct.pack(">III", 1, 0, 0)

_EXTERNALIZE: Final = 2
_STATEMENT: Final = struct.Struct(">I32sQI").unpack_from
_VALUE_AT: Final = 48 + 4
"""Where an EXTERNALIZE message has its value: after the head of the statement, and a counter."""


def decode_ledger_header(record: bytes) -> LedgerHeader:
    """Decode a LedgerHeaderHistoryEntry. Raises `DecodeError`, also where its hash is not that of its header."""
    header, end = read_header(record, 0)
    if end != len(record):
        raise DecodeError(f"{len(record) - end} bytes follow the header of ledger {header.ledger}")
    return header


def checked_chain(headers: Iterable[LedgerHeader]) -> list[LedgerHeader]:
    """The headers of consecutive ledgers, each holding the hash of the one before. Raises `DecodeError`."""
    chain: list[LedgerHeader] = []
    for header in headers:
        if chain and (header.ledger != chain[-1].ledger + 1 or header.previous_hash != chain[-1].hash):
            raise DecodeError(f"ledger {header.ledger} does not follow ledger {chain[-1].ledger}")
        chain.append(header)
    return chain


def decode_transactions_record(record: bytes) -> tuple[int, bytes]:
    """The ledger of a TransactionHistoryEntry, and what its transaction set's hash is the SHA-256 of."""
    if len(record) < 44:
        raise DecodeError("a record of transactions ends too early")
    ledger = int.from_bytes(record[:4], "big")
    if record[4:44] == bytes(36) + GENERALIZED:
        return ledger, record[44:]
    if record[-4:] != bytes(4):
        raise DecodeError(f"the transaction set of ledger {ledger} is of an unknown form")
    return ledger, record[4:36] + record[40:-4]  # without the number of envelopes, which is not hashed


def empty_set(previous_hash: bytes, previous_protocol: int) -> bytes:
    """The set without transactions that follows a header: of such ledgers archives have no record."""
    if previous_protocol < GENERALIZED_PROTOCOL:
        return previous_hash
    second = _CLASSIC_PHASE if previous_protocol < PARALLEL_PROTOCOL else _PARALLEL_PHASE
    return GENERALIZED + previous_hash + struct.pack(">I", 2) + _CLASSIC_PHASE + second


@dataclass(frozen=True, slots=True)
class Externalized:
    """A validator's word on a ledger's close value. ``envelope`` is the SCPEnvelope XDR, its signature included."""

    node: bytes
    ledger: int
    value: bytes
    quorum_set_hash: bytes
    envelope: bytes


@dataclass(frozen=True, slots=True)
class ScpRecord:
    """What an archive's node saw of a ledger; ``quorum_sets`` has all validators named, by the SHA-256 of their set."""

    ledger: int
    quorum_sets: dict[bytes, set[bytes]]
    externalized: list[Externalized]


def decode_scp_record(record: bytes) -> ScpRecord:
    """Take an SCPHistoryEntry apart. Raises `DecodeError`. No signature is verified."""
    try:
        if word(record, 0)[0]:
            raise DecodeError("unknown version of a record of SCP messages")
        quorum_sets = {}
        sets, position = xdr.count_at(record, 4, 12), 8
        for _ in range(sets):
            nodes: set[bytes] = set()
            end = xdr.quorum_set(record, position, nodes)
            quorum_sets[hashlib.sha256(record[position:end]).digest()] = nodes
            position = end
        (ledger,) = word(record, position)
        found = []
        count, position = xdr.count_at(record, position + 4, 100), position + 8
        for _ in range(count):
            end = xdr.scp_envelope(record, position)
            node_kind, node, slot, kind = _STATEMENT(record, position)
            if node_kind:
                raise DecodeError(f"unknown kind of node: {node_kind}")
            if kind == _EXTERNALIZE:
                at = position + _VALUE_AT
                behind = xdr.opaque(record, at) + 4  # the number of confirmed ballots is between
                value = record[at + 4 : at + 4 + word(record, at)[0]]
                found.append(Externalized(node, slot, value, record[behind : behind + 32], record[position:end]))
            position = end
    except struct.error:
        raise DecodeError("the bytes end inside a record of SCP messages") from None
    if position != len(record):
        raise DecodeError(f"a record of SCP messages of ledger {ledger} does not end where it must")
    return ScpRecord(ledger, quorum_sets, found)
