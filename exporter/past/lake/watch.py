"""Which ledgers touch what is watched, found in their raw bytes before anything is decoded.

Every change to contract state, also of a time to live alone, is made by a transaction whose footprint names the key, or
by the eviction scan, which names it too. So a ledger in whose bytes no watched key begins has not touched any.
The other direction does not hold: a hit is only a hint, and the ledger is walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from exporter.past.lake.close_meta import Change

_CONTRACT: Final = re.compile(rb"(?s)\x06(?=(?:\x00{4})?\x00{3}\x01(.{32}))")
"""The last byte of the kind of a contract data key or entry, and after it the id of a contract.

The first byte looked for is not zero, of which ledgers are full; so this runs at gigabytes a second.
"""

_KEY_HEAD: Final = 40  # kind, kind of address, contract id


class Watch:
    """The contract state that is watched: all entries of some contracts, and single keys of busy ones."""

    def __init__(self, contracts: Iterable[bytes], keys: Iterable[bytes] = ()) -> None:
        """Args: contract ids of 32 bytes; LedgerKey XDRs of contract data."""
        self._contracts = frozenset(contracts)
        self._keys = frozenset(keys)
        self._tails: dict[bytes, list[bytes]] = {}
        for key in self._keys:
            self._tails.setdefault(key[8:_KEY_HEAD], []).append(key[_KEY_HEAD:])
        self._busy = frozenset(self._tails) - self._contracts

    def touched_by(self, raw: bytes) -> bool:
        """Whether a ledger's raw bytes may hold a change of what is watched."""
        found = _CONTRACT.findall(raw)
        if not self._contracts.isdisjoint(found):
            return True
        if self._busy.isdisjoint(found):
            return False
        return any(
            raw.startswith(tail, match.end(1))
            for match in _CONTRACT.finditer(raw)
            for tail in self._tails.get(match[1], ())
        )

    def wants(self, change: Change) -> bool:
        """Whether a change of contract data concerns what is watched; of another kind only its key's owner decides."""
        return self.wants_key(change.key)

    def wants_key(self, key: bytes) -> bool:
        """Whether a LedgerKey XDR of contract data is watched."""
        return key[8:_KEY_HEAD] in self._contracts or key in self._keys

    def places(self, raw: bytes) -> Iterator[int]:
        """Where LedgerKeys of watched contracts may begin, as in a footprint or among evicted keys."""
        for match in _CONTRACT.finditer(raw):
            contract, end = match[1], match.end(1)
            if end - match.start() == 1 + 4 + 32 and (contract in self._contracts or contract in self._busy):
                yield match.start() - 3
