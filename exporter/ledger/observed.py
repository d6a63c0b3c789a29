"""Observations of the ledger in one read transaction: entries and calls, each with the ledgers that it holds for."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.observation import ALWAYS, CallObservation, Entry, Interval, KeyObservation
from exporter.ledger.router import Router, ask_alone
from exporter.ledger.source import ContractCall, LedgerSource, SimulationAnswer


class Observed:
    """All that was read, and which of it the current run of the program uses.

    ``changed`` says whether something used is another now than when the program was given it.
    """

    def __init__(self, source: LedgerSource, router: Router | None) -> None:
        self._source = source
        self._router = router
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

    async def simulate(self, calls: list[ContractCall], together: bool = False) -> None:
        """Simulate calls, again where they are known; in bundles if they may be put ``together`` and there is a router.

        What must be asked for again is asked for alone: its own footprint certifies it at more ledgers than a bundle's.
        """
        if together and self._router is not None:
            answers = dict(zip(calls, await self._router.simulate(self._source, calls), strict=True))
        else:
            answers = await ask_alone(self._source, calls)
        for call, answer in answers.items():
            seen = self.calls.get(call)
            if seen is None:
                self.calls[call] = CallObservation(answer)
                continue
            alone = seen.answer.shared and not answer.shared
            if answer.ledger > seen.answer.ledger or (alone and answer.ledger == seen.answer.ledger):
                self._replace_call(call, answer)
        if self._router is not None and self._router.lied:
            tainted = [call for call, seen in self.calls.items() if seen.answer.shared]
            for call, answer in (await ask_alone(self._source, tainted)).items():
                self._replace_call(call, answer)

    def _replace_call(self, call: ContractCall, answer: SimulationAnswer) -> None:
        before = self.calls[call].answer
        self.calls[call] = CallObservation(answer)
        self.changed |= call in self.used_calls and (before.result, before.error) != (answer.result, answer.error)

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
