"""One ledger's entries as a source for the one-ledger view, so that readers of protocols run on them unchanged.

Nothing executes contract code here. A call is answered from entries, by the rules that the source is given
(`exporter.protocols.storage_answers`); where there is none, its error is "not from storage".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from exporter.errors import SourceError
from exporter.ledger import source

Read = Callable[[bytes], source.RawEntry | None]
"""Gives the entry under a LedgerKey XDR as a reader at the ledger sees it."""


class Answers(Protocol):
    """Answers calls of one ledger from its entries."""

    def answer(self, call: source.ContractCall) -> source.SimulationAnswer:
        """The result with the keys that were read as its footprint, or an error."""
        ...


AnswersAt = Callable[[Read, int, int], Answers]
"""Makes the answers of a ledger: from its entries, its number and its close time."""


class StoredSource:
    """A `LedgerSource` for one ledger of which the entries are known. ``asked`` has every key that was looked at."""

    def __init__(self, read: Read, ledger: int, close_time: int, label: str, answers: AnswersAt) -> None:
        """Args: what reads an entry, and of which ledger; the rules by which calls are answered."""
        self.asked: dict[bytes, None] = {}
        self.called: dict[str, None] = {}
        self._look = read
        self._ledger, self._close_time = ledger, close_time
        self.label = label
        self._answers = answers(self._read, ledger, close_time)

    def _read(self, key: bytes) -> source.RawEntry | None:
        self.asked[key] = None
        return self._look(key)

    async def tip(self) -> int:
        return self._ledger

    async def read_entries(self, keys: Sequence[bytes]) -> list[source.EntriesAnswer]:
        """Read any number of keys, in answers of at most 200."""
        distinct = tuple(dict.fromkeys(keys))
        answers = []
        for start in range(0, len(distinct), source.MAX_KEYS_PER_REQUEST):
            asked = distinct[start : start + source.MAX_KEYS_PER_REQUEST]
            found = {key: entry for key in asked if (entry := self._read(key)) is not None}
            answers.append(source.EntriesAnswer(self._ledger, asked, found, self.label))
        return answers

    async def simulate(self, call: source.ContractCall) -> source.SimulationAnswer:
        """The answer from storage, or an error that says why there is none."""
        self.called[call.contract] = None
        return replace(self._answers.answer(call), endpoint=self.label)

    async def close_time(self, ledger: int) -> int:
        """The close time of the ledger. Raises `SourceError` for any other."""
        if ledger != self._ledger:
            raise SourceError(f"the {self.label} holds ledger {self._ledger} only, not the close time of {ledger}")
        return self._close_time
