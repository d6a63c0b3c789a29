"""Comparing formulas with the chain: what contracts made of their pools, against what was computed beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from exporter.errors import DecodeError, ExactError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import code_holder_key, instance_key, instance_of, with_held_code
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.past.lake.close_meta import CREATED, EVENT, RESTORED, STATE, UPDATED
from exporter.past.lake.extract import LedgerChanges
from exporter.protocols import accrual_rules
from exporter.protocols.accrual import AccrualRule, EntryLookup, Step, UntriedError

MAX_MISMATCHES = 100
UNKNOWN_CODE = "unknown"

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
    """Counts of transitions by ``PROTOCOL/CODE`` (hex), and the first that differ. ``untried`` ones lacked an entry."""

    confirmed: dict[str, int] = {}
    differing: dict[str, int] = {}
    untried: dict[str, int] = {}
    mismatches: list[Mismatch] = []

    def add(self, other: Tally) -> None:
        for which in ("confirmed", "differing", "untried"):
            setattr(self, which, dict(Counter(getattr(self, which)) + Counter(getattr(other, which))))
        self.mismatches = [*self.mismatches, *other.mismatches][:MAX_MISMATCHES]


class Prover:
    """Follows the changes and tries each transition that it knows the math of."""

    def __init__(self, entries: Mapping[bytes, RawEntry]) -> None:
        """Args: the entries before the first ledger that is followed."""
        self.tally = Tally()
        self._data: dict[bytes, bytes] = {key: entry.data for key, entry in entries.items()}
        self._rules = accrual_rules()

    def follow(self, item: LedgerChanges) -> None:
        before: dict[bytes, bytes | None] = {}
        first: dict[bytes, bytes | None] = {}
        updated: list[bytes] = []
        for _, change in item.changes:
            key = change.key
            if change.kind in (STATE, EVENT) or key[:4] != _DATA:
                continue
            data = change.entry[4:-4] if change.kind in _PRESENT and change.entry is not None else None
            if key not in before:  # later changes in the same ledger had no time to accrue
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

    def _looking_at(self, others: Mapping[bytes, bytes | None]) -> EntryLookup:
        def look(key: bytes) -> Entry | None:
            data = others[key] if key in others else self._data.get(key)
            return None if data is None else Entry(key, RawEntry(data, 0, None))

        return look

    def _try(self, protocol: str, rule: AccrualRule, ledger: int, key: bytes, step: Step) -> None:
        try:
            transitions = list(rule.read(key, step))
        except DecodeError:
            return  # an entry of another contract that looks like a pool, or a pool that the reader calls unread
        except UntriedError:
            self._count(self.tally.untried, protocol, _code(key, step))
            return
        code = _code(key, step)
        for transition in transitions:
            try:
                computed = transition.compute()
                differs = [
                    (name, str(computed[name]), str(value))
                    for name, value in transition.after.items()
                    if computed[name] != value
                ]
            except ExactError as error:
                differs = [("all", str(error)[:200], "")]
            self._count(self.tally.differing if differs else self.tally.confirmed, protocol, code)
            if differs and len(self.tally.mismatches) < MAX_MISMATCHES:
                self.tally.mismatches.append(Mismatch(ledger, key.hex(), protocol, code, *differs[0]))

    @staticmethod
    def _count(counts: dict[str, int], protocol: str, code: str) -> None:
        counts[f"{protocol}/{code}"] = counts.get(f"{protocol}/{code}", 0) + 1


def _code(key: bytes, step: Step) -> str:
    entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    holder = None if entry is None else code_holder_key(entry.raw.data)
    held = None if holder is None else step.before(holder)
    try:
        instance = None if entry is None else instance_of(entry.contract_data())
        held_instance = None if instance is None else with_held_code(instance, None if held is None else held.raw.data)
        wasm_hash = None if held_instance is None else held_instance.wasm_hash
    except DecodeError:
        wasm_hash = None
    return UNKNOWN_CODE if wasm_hash is None else wasm_hash.hex()
