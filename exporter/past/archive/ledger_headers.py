"""Ledger headers: the records of an archive's ledger files."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.errors import ArchiveError, DecodeError
from exporter.ledger.codec.ledger_header import LedgerHeader, read_header


def decode_ledger_header(record: bytes, what: str) -> LedgerHeader:
    """Decode a LedgerHeaderHistoryEntry. Raises `ArchiveError` where its hash is not that of its header."""
    try:
        header, end = read_header(record, 0)
    except DecodeError as error:
        raise ArchiveError(f"{what}: {error}") from None
    if end != len(record):
        raise ArchiveError(f"{what}: {len(record) - end} bytes follow the header of ledger {header.ledger}")
    return header


def checked_chain(headers: Iterable[LedgerHeader], what: str) -> list[LedgerHeader]:
    """The headers of consecutive ledgers, each holding the hash of the one before. Raises `ArchiveError`."""
    chain: list[LedgerHeader] = []
    for header in headers:
        if chain and (header.ledger != chain[-1].ledger + 1 or header.previous_hash != chain[-1].hash):
            raise ArchiveError(f"{what}: ledger {header.ledger} does not follow ledger {chain[-1].ledger}")
        chain.append(header)
    return chain
