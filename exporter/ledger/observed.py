"""Observations of the ledger in one read transaction: entries and calls, each with the ledgers that it holds for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from exporter.ledger.observation import ALWAYS, CallObservation, Entry, Interval, KeyObservation
from exporter.ledger.source import ContractCall, LedgerSource


class Observed:
    """All that was read, and which of it the current run of the program uses.

    ``changed`` says whether something used is another now than when the program was given it.
    """

    def __init__(self, source: LedgerSource) -> None:
        self._source = source
        self.keys: dict[bytes, KeyObservation] = {}
        self.calls: dict[ContractCall, CallObservation] = {}
        self.used_keys: dict[bytes, None] = {}  # a set that keeps its order, so that runs are reproducible
        self.used_calls: dict[ContractCall, None] = {}
        self.changed = True

    def begin(self) -> None:
        self.used_keys, self.used_calls, self.changed = {}, {}, False

    async def fetch(self, keys: list[bytes]) -> None:
        if not keys:
            return
        for answer in await self._source.read_entries(keys):
            for key in answer.asked:
                raw = answer.entries.get(key)
                seen = self.keys.get(key)
                if seen is None:
                    entry = None if raw is None else Entry(key, raw)
                    self.keys[key] = KeyObservation(entry, answer.ledger)
                elif seen.update(key, raw, answer.ledger) and key in self.used_keys:
                    self.changed = True

    async def simulate(self, calls: list[ContractCall]) -> None:
        """Simulate calls, again where they are known."""
        for call, answer in zip(calls, await asyncio.gather(*map(self._source.simulate, calls)), strict=True):
            seen = self.calls.get(call)
            if seen is None:
                self.calls[call] = CallObservation(answer)
            elif answer.ledger > seen.answer.ledger:
                before = seen.answer
                self.calls[call] = CallObservation(answer)
                changed = (before.result, before.error) != (answer.result, answer.error)
                self.changed |= call in self.used_calls and changed

    def entries_interval(self) -> Interval:
        common = ALWAYS
        for key in self.used_keys:
            common = common.intersect(self.keys[key].interval)
        return common

    def binding_calls(self) -> list[CallObservation]:
        return [self.calls[call] for call in self.used_calls if self.calls[call].binding]

    def common(self) -> Interval:
        common = self.entries_interval()
        for seen in self.binding_calls():
            common = common.intersect(seen.interval(self.keys))
        return common

    def footprints(self) -> dict[bytes, None]:
        return dict.fromkeys(key for seen in self.binding_calls() for key in seen.answer.footprint)

    def older_than(self, ledger: int, keys: Iterable[bytes]) -> set[bytes]:
        return {key for key in keys if key not in self.keys or self.keys[key].ledger < ledger}

    def newest_change(self) -> int:
        """The lowest ledger the run can still be at: nothing that is used may have changed after it."""
        first = self.entries_interval().first
        return max([first, *(seen.interval(self.keys).first for seen in self.binding_calls())])

    def unknown_between(self, ledger: int, calls: Iterable[CallObservation]) -> list[bytes]:
        """The keys to read so that ``ledger`` may be certified for these calls."""
        missing: dict[bytes, None] = {}
        for seen in calls:
            if ledger not in seen.interval(self.keys):
                old = self.older_than(max(ledger, seen.answer.ledger), seen.answer.footprint)
                missing |= {key: None for key in seen.answer.footprint if key in old}
        return list(missing)

    def extremes(self) -> tuple[bytes | None, bytes | None]:
        newest = max(self.used_keys, key=lambda key: self.keys[key].interval.first, default=None)
        oldest = min(self.used_keys, key=lambda key: self.keys[key].interval.last, default=None)
        return newest, oldest
