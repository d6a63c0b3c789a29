"""Tells which ledgers touch what is watched, from their raw bytes and before anything is decoded.

Every change is made by a transaction whose footprint names the key, or by the eviction scan, which names it too. That
is so even if only a time to live changes. So a ledger without a watched key in its bytes touches none. Any other ledger
has to be walked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Struct

DATA: Final = b"\0\0\0\x06"
"""The first bytes of the LedgerKey of contract data."""

_CONTRACT: Final = re.compile(rb"(?s)\x06(?=(?:\x00{4})?\x00{3}\x01(.{32}))")
"""A key or entry of contract data: the last byte of its kind, and the contract's id. That byte is not zero, so it is
found fast."""

_KEY_HEAD_BYTES: Final = 40
"""Number of bytes of a LedgerKey before its own key: kind, kind of address, and contract id."""


class Watch(Struct, frozen=True, dict=True):
    """What is watched.

    Attributes:
        contracts: the ids of contracts all of whose entries are watched.
        keys: the LedgerKey XDRs of single entries of other contracts.
        events_of: the ids of contracts whose events are kept, too.
    """

    contracts: frozenset[bytes] = frozenset()
    keys: frozenset[bytes] = frozenset()
    events_of: frozenset[bytes] = frozenset()

    def wants(self, key: bytes) -> bool:
        """Whether an entry is watched."""
        return key[8:_KEY_HEAD_BYTES] in self.contracts or key in self.keys

    def __or__(self, other: Watch) -> Watch:
        return Watch(self.contracts | other.contracts, self.keys | other.keys, self.events_of | other.events_of)

    def __sub__(self, other: Watch) -> Watch:
        keys = frozenset(key for key in self.keys if not other.wants(key))
        return Watch(self.contracts - other.contracts, keys, self.events_of - other.events_of)

    def __bool__(self) -> bool:
        return bool(self.contracts or self.keys or self.events_of)

    @property
    def digest(self) -> str:
        """A name for what is watched, of 16 hex digits."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]

    @cached_property
    def _tails(self) -> dict[bytes, list[bytes]]:
        tails: dict[bytes, list[bytes]] = {}
        for key in self.keys:
            tails.setdefault(key[8:_KEY_HEAD_BYTES], []).append(key[_KEY_HEAD_BYTES:])
        return tails

    def touched_by(self, raw: bytes) -> bool:
        """Whether a ledger may have changed something that is watched."""
        contract_ids = _CONTRACT.findall(raw)
        if not self.contracts.isdisjoint(contract_ids):
            return True
        if self._tails.keys().isdisjoint(contract_ids):
            return False
        return any(
            raw.startswith(tail, match.end(1))
            for match in _CONTRACT.finditer(raw)
            for tail in self._tails.get(match[1], ())
        )

    def positions(self, raw: bytes) -> Iterator[int]:
        """The positions at which LedgerKeys of watched contracts may begin, in a footprint or among evicted keys."""
        for match in _CONTRACT.finditer(raw):
            contract, end = match[1], match.end(1)
            if end - match.start() == 1 + 4 + 32 and (contract in self.contracts or contract in self._tails):
                yield match.start() - 3
