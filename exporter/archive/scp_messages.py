"""What validators said to agree on a ledger: the records of an archive's scp files.

Of the statements only those of type EXTERNALIZE are given: with them a validator says what it closed the ledger with.
What one says of ledger N commits to N's transactions and close time, and through them to the header of N - 1.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from exporter.archive.archive_files import unpack_from
from exporter.errors import ArchiveError

MAX_MESSAGES: Final = 100_000
MAX_VALUE_BYTES: Final = 4096
MAX_QUORUM_SET_NODES: Final = 1000

_PREPARE, _CONFIRM, _EXTERNALIZE, _NOMINATE = range(4)
_WORD = struct.Struct(">I")
_STATEMENT = struct.Struct(">I32sQI")


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
    version, sets = _word(record, 0, what), _word(record, 4, what)
    if version or sets > MAX_MESSAGES:
        raise ArchiveError(f"{what}: a record of SCP messages has an unknown form")
    position = 8
    quorum_sets = {}
    for _ in range(sets):
        end = _quorum_set_end(record, position, what, 0)
        quorum_sets[hashlib.sha256(record[position:end]).digest()] = record[position:end]
        position = end
    ledger, count = _word(record, position, what), _word(record, position + 4, what)
    position += 8
    if count > MAX_MESSAGES:
        raise ArchiveError(f"{what}: ledger {ledger} has {count} SCP messages")
    found = []
    for _ in range(count):
        begin = position
        node_kind, node, slot, kind = _STATEMENT.unpack(_slice(record, position, _STATEMENT.size, what))
        position += _STATEMENT.size
        if node_kind or kind > _NOMINATE:
            raise ArchiveError(f"{what}: an SCP message of ledger {ledger} is of an unknown kind")
        value = quorum_set_hash = b""
        if kind == _EXTERNALIZE:
            value, position = _opaque(record, position + 4, what, MAX_VALUE_BYTES)
            quorum_set_hash = _slice(record, position + 4, 32, what)
            position += 36
        elif kind == _CONFIRM:
            position = _opaque(record, position + 4, what, MAX_VALUE_BYTES)[1] + 12 + 32
        elif kind == _PREPARE:
            position = _opaque(record, position + 32 + 4, what, MAX_VALUE_BYTES)[1]
            for _ in range(2):
                present = _word(record, position, what)
                position = _opaque(record, position + 8, what, MAX_VALUE_BYTES)[1] if present else position + 4
            position += 8
        else:
            position += 32
            for _ in range(2):
                values = _word(record, position, what)
                position += 4
                for _ in range(values):  # each takes bytes, so a false count ends with them
                    position = _opaque(record, position, what, MAX_VALUE_BYTES)[1]
        _, position = _opaque(record, position, what, 64)
        if kind == _EXTERNALIZE:
            found.append(Externalized(node, slot, value, quorum_set_hash, record[begin:position]))
    if position != len(record):
        raise ArchiveError(f"{what}: a record of SCP messages of ledger {ledger} does not end where it must")
    return ScpRecord(ledger, quorum_sets, found)


def nodes_of(quorum_set: bytes, what: str) -> set[bytes]:
    """The validators that a QuorumSet names, in its inner sets too."""
    nodes: set[bytes] = set()
    _quorum_set_end(quorum_set, 0, what, 0, nodes)
    return nodes


def _quorum_set_end(data: bytes, position: int, what: str, depth: int, nodes: set[bytes] | None = None) -> int:
    count = _word(data, position + 4, what)
    position += 8
    if depth > 4 or count > MAX_QUORUM_SET_NODES:
        raise ArchiveError(f"{what}: a quorum set has an unknown form")
    if nodes is not None:
        nodes.update(_slice(data, position + 36 * at + 4, 32, what) for at in range(count))
    position += 36 * count
    inner = _word(data, position, what)
    position += 4
    if inner > MAX_QUORUM_SET_NODES:
        raise ArchiveError(f"{what}: a quorum set has an unknown form")
    for _ in range(inner):
        position = _quorum_set_end(data, position, what, depth + 1, nodes)
    return position


def _word(data: bytes, position: int, what: str) -> int:
    return unpack_from(_WORD, data, position, what)[0]


def _slice(data: bytes, position: int, size: int, what: str) -> bytes:
    if position + size > len(data):
        raise ArchiveError(f"{what}: the bytes end too early")
    return data[position : position + size]


def _opaque(data: bytes, position: int, what: str, max_bytes: int) -> tuple[bytes, int]:
    length = _word(data, position, what)
    if length > max_bytes:
        raise ArchiveError(f"{what}: {length} bytes stand where {max_bytes} are the most")
    return _slice(data, position + 4, length, what), position + 4 + (length + 3 & ~3)
