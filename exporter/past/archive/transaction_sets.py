"""Transaction sets: what a ledger's transactions were chosen as, and which header they were chosen on.

A set's hash covers the hash of the header before it: this is how what validators sign of a ledger leads to the state of
the ledger before.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from exporter.errors import ArchiveError

GENERALIZED: Final = b"\0\0\0\1"
GENERALIZED_PROTOCOL: Final = 20
PARALLEL_PROTOCOL: Final = 23

_CLASSIC_PHASE = struct.pack(">II", 0, 0)
_PARALLEL_PHASE = struct.pack(">III", 1, 0, 0)


def decode_transactions_record(record: bytes, what: str) -> tuple[int, bytes]:
    """The ledger of a TransactionHistoryEntry, and what its transaction set's hash is the SHA-256 of."""
    if len(record) < 44:
        raise ArchiveError(f"{what}: a record of transactions ends too early")
    ledger = int.from_bytes(record[:4], "big")
    if record[4:44] == bytes(36) + GENERALIZED:
        return ledger, record[44:]
    if record[-4:] != bytes(4):
        raise ArchiveError(f"{what}: the transaction set of ledger {ledger} is of an unknown form")
    return ledger, record[4:36] + record[40:-4]  # without the number of envelopes, which is not hashed


def empty_set(previous_hash: bytes, previous_protocol: int) -> bytes:
    """The set without transactions that follows a header: of such ledgers archives have no record."""
    if previous_protocol < GENERALIZED_PROTOCOL:
        return previous_hash
    second = _CLASSIC_PHASE if previous_protocol < PARALLEL_PROTOCOL else _PARALLEL_PHASE
    return GENERALIZED + previous_hash + struct.pack(">I", 2) + _CLASSIC_PHASE + second


def set_hash(content: bytes) -> bytes:
    """The hash of a set, from what `decode_transactions_record` and `empty_set` give."""
    return hashlib.sha256(content).digest()
