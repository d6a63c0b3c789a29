"""The records of buckets: which ledger entry each one creates, changes or takes away.

Records are distinguished by a few bytes at fixed places, so that the millions that nobody asked for are never parsed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec import entries

META: Final = b"\xff\xff\xff\xff"
LIVE: Final = b"\0\0\0\0"  # in a bucket of the hot archive: an entry that was evicted
DEAD: Final = b"\0\0\0\1"  # in a bucket of the hot archive: the key of an entry that came back
INIT: Final = b"\0\0\0\2"

_ENTRY_KIND = slice(8, 12)  # in a record that holds an entry: after the record's kind and the last change
_KEY_KIND = slice(4, 8)  # in a record that holds a key
_CONTRACT_DATA = entries.CONTRACT_DATA.to_bytes(4, "big")
_KEY_BYTES: Final = {entries.TTL: 32, entries.CONFIG_SETTING: 4, entries.ACCOUNT: 36}


class BucketEntry(NamedTuple):
    """A LedgerEntry of a bucket (``entry``, XDR) with its LedgerKey XDR."""

    key: bytes
    entry: bytes

    @property
    def last_modified(self) -> int:
        return int.from_bytes(self.entry[:4], "big")

    @property
    def data(self) -> bytes:
        """The LedgerEntryData XDR of a contract data, code, config setting or TTL entry, which no one can sponsor."""
        if self.entry[-4:] != bytes(4):
            raise ArchiveError(f"the entry under {self.key.hex()[:120]} has an unknown extension")
        return self.entry[4:-4]


def contract_of(record: bytes) -> bytes | None:
    """The 32 bytes of the contract whose data a record of a bucket is about, or None for all other records."""
    if record[:4] == DEAD:
        return record[12:44] if record[_KEY_KIND] == _CONTRACT_DATA and record[8:12] == b"\0\0\0\1" else None
    if record[_ENTRY_KIND] == _CONTRACT_DATA and record[16:20] == b"\0\0\0\1" and record[:4] != META:
        return record[20:52]
    return None


def kind_of(record: bytes) -> int:
    """The kind of ledger entry that a record is about; -1 for the META record."""
    if record[:4] == META:
        return -1
    return int.from_bytes(record[_KEY_KIND if record[:4] == DEAD else _ENTRY_KIND], "big")


def key_of(record: bytes) -> bytes:
    """The LedgerKey XDR that a record is about, for the kinds that contracts can reach.

    Raises `DecodeError` for other kinds, and where the key holds what a newer protocol may have added.
    """
    if record[:4] == DEAD:
        return record[4:]
    if record[:4] not in (LIVE, INIT):
        raise DecodeError(f"a bucket's record is of the unknown kind {record[:4].hex()}")
    kind = kind_of(record)
    if kind in (entries.CONTRACT_DATA, entries.CONTRACT_CODE):
        if int.from_bytes(record[12:16], "big") > (kind == entries.CONTRACT_CODE):
            raise DecodeError(f"unknown extension of an entry of kind {kind}")
        try:
            return entries.key_of_entry(record[4:])
        except struct.error:
            raise DecodeError("the bytes end inside a key") from None
    if kind == entries.TRUSTLINE:
        return record[8 : entries.ledger_key_end(record, 8)]
    if kind in _KEY_BYTES:
        return record[8 : 12 + _KEY_BYTES[kind]]
    raise DecodeError(f"entries of kind {kind} are not read")
