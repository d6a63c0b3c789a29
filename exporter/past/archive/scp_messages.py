"""Validators' messages that agree on a ledger: the records of an archive's scp files.

Of the statements only those of type EXTERNALIZE are given: with them a validator says what it closed the ledger with.
What one says of ledger N commits to N's transactions and close time, and through them to the header of N - 1.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec import xdr_walk as xdr
from exporter.ledger.codec.xdr_walk import word

_EXTERNALIZE: Final = 2
_STATEMENT: Final = struct.Struct(">I32sQI").unpack_from
_VALUE_AT: Final = 48 + 4
"""Where an EXTERNALIZE message has its value: after the head of the statement, and a counter."""


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
    """The messages of a ledger that an archive's node saw. ``quorum_sets`` has QuorumSet XDR by its SHA-256."""

    ledger: int
    quorum_sets: dict[bytes, bytes]
    externalized: list[Externalized]


def decode_scp_record(record: bytes, what: str) -> ScpRecord:
    """Take an SCPHistoryEntry apart. Raises `ArchiveError` that begins with ``what``. No signature is verified."""
    try:
        return _decoded(record)
    except DecodeError as error:
        raise ArchiveError(f"{what}: {error}") from None
    except struct.error:
        raise ArchiveError(f"{what}: the bytes end inside a record of SCP messages") from None


def _decoded(record: bytes) -> ScpRecord:
    if word(record, 0)[0]:
        raise DecodeError("unknown version of a record of SCP messages")
    quorum_sets = {}
    sets, position = xdr.count_at(record, 4, 12), 8
    for _ in range(sets):
        end = xdr.quorum_set(record, position)
        quorum_sets[hashlib.sha256(record[position:end]).digest()] = record[position:end]
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
    if position != len(record):
        raise DecodeError(f"a record of SCP messages of ledger {ledger} does not end where it must")
    return ScpRecord(ledger, quorum_sets, found)


def nodes_of(quorum_set: bytes) -> set[bytes]:
    """The validators that a QuorumSet names, in its inner sets too."""
    nodes: set[bytes] = set()
    xdr.quorum_set(quorum_set, 0, nodes)
    return nodes
