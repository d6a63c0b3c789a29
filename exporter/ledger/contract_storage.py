"""Makes a source of one ledger's stored entries, so that the readers of protocols run on them unchanged.

Calls are answered from the entries, if there is a rule for the contract (`exporter.ledger.storage_rules`). No contract
is run, and nothing is guessed: any other call is an error that begins with `NOT_FROM_STORAGE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.storage_rules import redstone, reflector, token_contract
from exporter.ledger.storage_rules.host import NotFromStorageError, Rule, StorageHost, TrapError

Read = Callable[[bytes], RawEntry | None]
"""Gives the entry under a LedgerKey XDR, as a reader at the ledger sees it; None if there is none."""

NOT_FROM_STORAGE: Final = "not from storage: "
"""The beginning of the error of a call that cannot be answered from entries."""

RULES: Final[Sequence[Rule]] = (token_contract, reflector, redstone)
"""The rules of contracts that no single protocol owns. `exporter.protocols.storage_answers` adds the protocols' own."""


_BUGS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class StorageAnswers:
    """Answers calls as they would have been answered at a ledger and its close time (unix seconds).

    The first rule that recognises a contract answers its calls.
    """

    def __init__(self, read: Read, ledger: int, close_time: int, rules: Sequence[Rule]) -> None:
        self._read = read
        self._rules = rules
        self._ledger = ledger
        self._close_time = close_time

    def answer(self, call: ContractCall) -> SimulationAnswer:
        """The result or the error of a call. The footprint has every key that it looked at, also if the call fails."""
        host = StorageHost(self._read, self._close_time, self._rules)
        result, error = None, None
        try:
            result = encode_scval(host.call(call.contract, call.function, *call.arguments))
        except TrapError as trap:
            error = f"HostError: {trap}"
        except (NotFromStorageError, DecodeError) as why:
            error = f"{NOT_FROM_STORAGE}{why}"
        except _BUGS as bug:  # an entry that cannot be decoded fails this call alone
            error = f"{NOT_FROM_STORAGE}the rule failed: {type(bug).__name__}: {bug}"[:300]
        return SimulationAnswer(self._ledger, result, error, tuple(host.footprint), "storage")


AnswersAt = Callable[[Read, int, int], StorageAnswers]
"""Makes the `StorageAnswers` of a ledger, from its entries, its number and its close time."""


class StoredSource:
    """A `LedgerSource` for one ledger whose entries are known. ``asked`` has every key that was looked at."""

    def __init__(self, read: Read, ledger: int, close_time: int, label: str, answers: AnswersAt) -> None:
        self.asked: dict[bytes, None] = {}
        self.called: dict[str, None] = {}
        self._look = read
        self._ledger, self._close_time = ledger, close_time
        self.label = label
        self._answers = answers(self._read, ledger, close_time)

    def _read(self, key: bytes) -> RawEntry | None:
        self.asked[key] = None
        return self._look(key)

    async def tip(self) -> int:
        return self._ledger

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        asked = tuple(dict.fromkeys(keys))
        entries = {key: entry for key in asked if (entry := self._read(key)) is not None}
        return [EntriesAnswer(self._ledger, asked, entries, self.label)] if asked else []

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.called[call.contract] = None
        return replace(self._answers.answer(call), endpoint=self.label)

    async def close_time(self, ledger: int) -> int:
        """The close time of the ledger, in unix seconds. Raises `SourceError` for any other ledger."""
        if ledger != self._ledger:
            raise SourceError(f"the {self.label} holds ledger {self._ledger} only, not the close time of {ledger}")
        return self._close_time
