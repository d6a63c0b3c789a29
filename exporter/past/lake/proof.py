"""The proof that the chain gives of the math: what a contract made of its pools, against what is computed from before.

Wherever a contract brings a pool up to date, the entries before it, projected to the ledger's close time, must give the
entries after it. Each such transition is a test vector that nobody here wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

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

    def add(self, other: Tally) -> None:
        for which in ("confirmed", "differing", "untried"):
            setattr(self, which, dict(Counter(getattr(self, which)) + Counter(getattr(other, which))))
        self.mismatches = [*self.mismatches, *other.mismatches][:MAX_MISMATCHES]


class _Waiting(NamedTuple):
    ledger: int
    key: bytes
    code: str
    transition: Transition


class Prover:
    """Follows the changes and tries each transition that it knows the math of."""

    def __init__(self, entries: Mapping[bytes, RawEntry]) -> None:
        """Args: the entries before the first ledger that is followed."""
        self.tally = Tally()
        self._data: dict[bytes, bytes] = {key: entry.data for key, entry in entries.items()}
        self._rules = accrual_rules()
        self._waiting: dict[str, list[_Waiting]] = {name: [] for name in self._rules}

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
        waiting += [_Waiting(ledger, key, _code(key, step), transition) for transition in found]
        if len(waiting) >= TOGETHER:
            self._compute(protocol, rule)

    def finish(self) -> Tally:
        for protocol, rule in self._rules.items():
            self._compute(protocol, rule)
        return self.tally

    def _compute(self, protocol: str, rule: AccrualRule) -> None:
        waiting, self._waiting[protocol] = self._waiting[protocol], []
        if not waiting:
            return
        columns = {name: [item.transition.before[name] for item in waiting] for name in waiting[0].transition.before}
        types = {name: pl.String() if name in rule.texts else pl.Int128() for name in columns}
        computed, failures = exact.set_aside_failures(exact.frame(columns, types), rule.compute)
        rows = iter(computed.iter_rows(named=True))
        for number, item in enumerate(waiting):
            if number in failures:
                differs = [("all", str(failures[number])[:200], "")]
            else:
                row, after = next(rows), item.transition.after
                differs = [(name, str(row[name]), str(value)) for name, value in after.items() if row[name] != value]
            name = f"{protocol}/{item.code}"
            counts = self.tally.differing if differs else self.tally.confirmed
            counts[name] = counts.get(name, 0) + 1
            if differs and len(self.tally.mismatches) < MAX_MISMATCHES:
                self.tally.mismatches.append(Mismatch(item.ledger, item.key.hex(), protocol, item.code, *differs[0]))


def _code(key: bytes, step: Step) -> str:
    entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    try:
        wasm_hash = None if entry is None else instance_of(entry.contract_data()).wasm_hash
    except DecodeError:
        wasm_hash = None
    return UNKNOWN_CODE if wasm_hash is None else wasm_hash.hex()
