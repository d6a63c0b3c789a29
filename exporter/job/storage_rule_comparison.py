"""The calls that readers make, answered twice: by the RPC's simulation, and from the entries of the same ledger.

What has no rule is counted, not compared. A call that the RPC refused is compared where the contract itself failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.view import LedgerView
from exporter.protocols import storage_answers
from exporter.protocols.base import Compared

MAX_ROUNDS: Final = 24
"""Of reading what the answers still lack; a call that lacks more is not compared."""

_OWN_ERROR: Final = "Error(Contract, "


class RecordingView(LedgerView):
    """Another view, which remembers the calls that were made through it."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self.made: dict[ContractCall, CallResult] = {}

    async def read(self, keys: Iterable[bytes], kept: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        return await self._view.read(keys, kept)

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        asked = list(calls)
        results = await self._view.call(asked)
        self.made |= dict(zip(asked, results, strict=True))
        return results


@dataclass(slots=True)
class StorageRuleComparison:
    """``compared`` calls have an answer from entries, too; ``without`` have none, for these reasons."""

    compared: int = 0
    without: dict[ContractCall, str] = field(default_factory=dict)
    differences: list[Compared] = field(default_factory=list)


class _MissingError(Exception):
    """An entry is asked for that was not read yet."""


async def compare_storage_rules(
    view: LedgerView, made: Mapping[ContractCall, CallResult], close_time: Callable[[int], Awaitable[int]]
) -> StorageRuleComparison:
    """Answer the calls from entries, read through ``view``, and compare. Raises `SourceError` as reading does."""
    comparable = {
        call: result for call, result in made.items() if result.value is not None or _OWN_ERROR in (result.error or "")
    }
    times = {ledger: await close_time(ledger) for ledger in {result.ledger for result in comparable.values()}}
    known: dict[bytes, RawEntry | None] = {}
    missing = dict.fromkeys(key for call in comparable for key in view.footprint(call))
    answers: dict[ContractCall, tuple[ScVal | None, str | None]] = {}

    def read(key: bytes) -> RawEntry | None:
        if key not in known:
            missing[key] = None
            raise _MissingError
        return known[key]

    for _ in range(MAX_ROUNDS):
        known |= {key: None if entry is None else entry.raw for key, entry in (await view.read(missing)).items()}
        missing.clear()
        for call, result in comparable.items():
            if call in answers:
                continue
            try:
                answer = storage_answers(read, result.ledger, times[result.ledger]).answer(call)
            except _MissingError:
                continue
            answers[call] = (None if answer.result is None else decode_scval(answer.result)), answer.error
        if not missing:
            break
    found = StorageRuleComparison()
    for call, result in comparable.items():
        value, error = answers.get(call, (None, f"{NOT_FROM_STORAGE}the entries that it looks at are too many"))
        if error is not None and error.startswith(NOT_FROM_STORAGE):
            found.without[call] = error.removeprefix(NOT_FROM_STORAGE)
            continue
        found.compared += 1
        if value != result.value:
            name = f"{call.function}() from its entries"
            found.differences.append(Compared(call.contract, None, name, value or error, result.value or result.reason))
    return found
