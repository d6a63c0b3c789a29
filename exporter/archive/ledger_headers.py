"""Ledger headers: the records of an archive's ledger files."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.archive.archive_files import unpack_from
from exporter.errors import ArchiveError

MAX_UPGRADES: Final = 6
MAX_UPGRADE_BYTES: Final = 128

_WORD = struct.Struct(">I")
_HYPER = struct.Struct(">Q")
_SIGNATURE = 36 + 4  # a node id, and the length of the signature that follows
_BODIES: Final = {  # how many bytes stand before the signature of a close value, by the value's kind
    1: 0,  # signed
    2: 32 + 32 + 4,  # an empty transaction set in place of one that was dropped
    3: 8,  # signed, with the close time in milliseconds
    4: 8 + 32 + 32 + 4,  # both
}


@dataclass(frozen=True, slots=True)
class LedgerHeader:
    """A ledger's header. ``hash`` is the SHA-256 of its ``content``, which the next header has as ``previous_hash``."""

    ledger: int
    hash: bytes
    previous_hash: bytes
    protocol_version: int
    close_time: int
    bucket_list_hash: bytes
    transaction_set_hash: bytes
    result_hash: bytes
    base_reserve: int
    content: bytes


def decode_ledger_header(record: bytes, what: str) -> LedgerHeader:
    """Decode a LedgerHeaderHistoryEntry. Raises `ArchiveError` where its hash is not that of its header."""
    header = record[32:-4]
    if len(record) < 36 or record[-4:] != bytes(4):
        raise ArchiveError(f"{what}: a ledger header's record has an unknown form")
    digest = hashlib.sha256(header).digest()
    if digest != record[:32]:
        raise ArchiveError(f"{what}: a ledger header does not have the hash that stands before it")
    (upgrades,) = unpack_from(_WORD, header, 76, what)
    if upgrades > MAX_UPGRADES:
        raise ArchiveError(f"{what}: a ledger header announces {upgrades} upgrades")
    position = 80
    for _ in range(upgrades):
        (length,) = unpack_from(_WORD, header, position, what)
        if length > MAX_UPGRADE_BYTES:
            raise ArchiveError(f"{what}: a ledger header's upgrade has {length} bytes")
        position += 4 + (length + 3 & ~3)
    (kind,) = unpack_from(_WORD, header, position, what)
    position += 4
    if kind in _BODIES:
        position += _BODIES[kind] + _SIGNATURE
        (length,) = unpack_from(_WORD, header, position - 4, what)
        if length > 64:
            raise ArchiveError(f"{what}: a ledger header's signature has {length} bytes")
        position += length + 3 & ~3
    elif kind != 0:
        raise ArchiveError(f"{what}: a ledger header's close value is of the unknown kind {kind}")
    result_hash, bucket_list_hash = header[position : position + 32], header[position + 32 : position + 64]
    (ledger,) = unpack_from(_WORD, header, position + 64, what)
    end = (
        position + 68 + 8 + 8 + 4 + 8 + 4 + 4 + 4 + 4 * 32
    )  # two sums, inflation, ids, fee, reserve, set size, skip list
    (extension,) = unpack_from(_WORD, header, end, what)
    if extension not in (0, 1) or len(header) != end + (4 if extension == 0 else 12):
        raise ArchiveError(f"{what}: a ledger header has an unknown form")
    (base_reserve,) = unpack_from(_WORD, header, position + 100, what)
    (close_time,) = unpack_from(_HYPER, header, 68, what)
    (protocol_version,) = unpack_from(_WORD, header, 0, what)
    return LedgerHeader(
        ledger, digest, header[4:36], protocol_version, close_time, bucket_list_hash, header[36:68], result_hash,
        base_reserve, header,
    )  # fmt: skip


def checked_chain(headers: Iterable[LedgerHeader], what: str) -> list[LedgerHeader]:
    """The headers of consecutive ledgers, each holding the hash of the one before. Raises `ArchiveError`."""
    chain: list[LedgerHeader] = []
    for header in headers:
        if chain and (header.ledger != chain[-1].ledger + 1 or header.previous_hash != chain[-1].hash):
            raise ArchiveError(f"{what}: ledger {header.ledger} does not follow ledger {chain[-1].ledger}")
        chain.append(header)
    return chain
