"""The proof that the chain gives of the math: what a contract made of its pools, against what is computed from before.

Wherever a contract brings a pool up to date, the entries before it, projected to the ledger's close time, must give the
entries after it. Each such transition is a test vector that nobody here wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import polars as pl

from exporter import exact
from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.past.lake.change_files import LedgerChanges
from exporter.past.lake.close_meta import CREATED, EVENT, RESTORED, STATE, UPDATED
from exporter.protocols import accrual_rules
from exporter.protocols.accrual import AccrualRule, Look, Step, Transition, UntriedError

MAX_MISMATCHES = 100
UNKNOWN_CODE = "unknown"
TOGETHER = 5_000
"""Transitions of a rule that are computed at a time."""

_DATA = b"\0\0\0\x06"
_PRESENT = (CREATED, UPDATED, RESTORED)


class Mismatch(msgspec.Struct, frozen=True):
    """A transition that is not what was computed: the first field that differs, or why nothing could be computed."""

    ledger: int
    key: str
    protocol: str
    code: str
    field: str
    computed: str
    found: str


class Tally(msgspec.Struct):
    """Transitions by ``PROTOCOL/CODE`` (hex), confirmed and differing; of the latter the first in full.

    ``untried`` are those that could not be computed, because something that they need is not known.
    """

    confirmed: dict[str, int] = {}
    differing: dict[str, int] = {}
    untried: dict[str, int] = {}
    mismatches: list[Mismatch] = []

    def count(self, name: str, confirmed: int, mismatches: list[Mismatch]) -> None:
        for counts, count in ((self.confirmed, confirmed), (self.differing, len(mismatches))):
            if count:
                counts[name] = counts.get(name, 0) + count
        self.mismatches = [*self.mismatches, *mismatches][:MAX_MISMATCHES]

    def add(self, other: Tally) -> None:
        for mine, theirs in (
            (self.confirmed, other.confirmed),
            (self.differing, other.differing),
            (self.untried, other.untried),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count
        self.mismatches = [*self.mismatches, *other.mismatches][:MAX_MISMATCHES]


@dataclass(slots=True)
class _Waiting:
    ledgers: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)


class Prover:
    """Follows the changes and tries each transition that it knows the math of."""

    def __init__(self, entries: Mapping[bytes, RawEntry]) -> None:
        """Args: the entries before the first ledger that is followed."""
        self.tally = Tally()
        self._data: dict[bytes, bytes] = {key: entry.data for key, entry in entries.items()}
        self._rules = accrual_rules()
        self._waiting = {name: _Waiting() for name in self._rules}

    def follow(self, item: LedgerChanges) -> None:
        before: dict[bytes, bytes | None] = {}
        first: dict[bytes, bytes | None] = {}
        updated: list[bytes] = []
        for _, change in item.changes:
            key = change.key
            if change.kind in (STATE, EVENT) or key[:4] != _DATA:
                continue
            data = change.entry[4:-4] if change.kind in _PRESENT and change.entry is not None else None
            if key not in before:  # what follows in the same ledger has had no time to accrue in
                before[key], first[key] = self._data.get(key), data
                if change.kind == UPDATED and before[key] is not None:
                    updated.append(key)
            if data is None:
                self._data.pop(key, None)
            else:
                self._data[key] = data
        step = Step(item.close_time, self._looking_at(before), self._looking_at(first), self._looking_at({}))
        for key in updated:
            for protocol, rule in self._rules.items():
                if rule.owns(key):
                    self._try(protocol, rule, item.ledger, key, step)

    def _looking_at(self, others: Mapping[bytes, bytes | None]) -> Look:
        """What is known now, but of some entries another state of theirs."""

        def look(key: bytes) -> Entry | None:
            data = others[key] if key in others else self._data.get(key)
            return None if data is None else Entry(key, RawEntry(data, 0, None))

        return look

    def _try(self, protocol: str, rule: AccrualRule, ledger: int, key: bytes, step: Step) -> None:
        waiting = self._waiting[protocol]
        try:
            found = list(rule.read(key, step))
        except DecodeError:
            return  # another contract's entry that looks like one, or one that the reader calls unread
        except UntriedError:
            name = f"{protocol}/{_code(key, step)}"
            self.tally.untried[name] = self.tally.untried.get(name, 0) + 1
            return
        for transition in found:
            waiting.ledgers.append(ledger)
            waiting.keys.append(key)
            waiting.codes.append(_code(key, step))
            waiting.transitions.append(transition)
        if len(waiting.transitions) >= TOGETHER:
            self._compute(protocol, rule)

    def finish(self) -> Tally:
        """Compute what waits; gives the count of all."""
        for protocol, rule in self._rules.items():
            self._compute(protocol, rule)
        return self.tally

    def _compute(self, protocol: str, rule: AccrualRule) -> None:
        waiting, self._waiting[protocol] = self._waiting[protocol], _Waiting()
        if not waiting.transitions:
            return
        names = waiting.transitions[0].before
        columns = {name: [item.before[name] for item in waiting.transitions] for name in names}
        types = {name: pl.String() if name in rule.texts else pl.Int128() for name in names}
        computed, failures = exact.set_aside_failures(exact.frame(columns, types), rule.compute)
        rows = iter(computed.iter_rows(named=True))
        confirmed: dict[str, int] = {}
        differing: dict[str, list[Mismatch]] = {}
        for number, transition in enumerate(waiting.transitions):
            code = waiting.codes[number]
            found = failures.get(number)
            if found is not None:
                differs = ("all", str(found)[:200], "")
            else:
                row = next(rows)
                differs = next(
                    (
                        (name, str(row[name]), str(value))
                        for name, value in transition.after.items()
                        if row[name] != value
                    ),
                    ("", "", ""),
                )
            if not differs[0]:
                confirmed[code] = confirmed.get(code, 0) + 1
                continue
            mismatch = Mismatch(waiting.ledgers[number], waiting.keys[number].hex(), protocol, code, *differs)
            differing.setdefault(code, []).append(mismatch)
        for code in {*confirmed, *differing}:
            self.tally.count(f"{protocol}/{code}", confirmed.get(code, 0), differing.get(code, []))


def _code(key: bytes, step: Step) -> str:
    """The hash of the code that an entry's contract ran before a ledger."""
    entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    try:
        wasm_hash = None if entry is None else instance_of(entry.contract_data()).wasm_hash
    except DecodeError:
        wasm_hash = None
    return UNKNOWN_CODE if wasm_hash is None else wasm_hash.hex()
