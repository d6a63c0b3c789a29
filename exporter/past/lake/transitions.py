"""Compares the exporter's formulas with the chain: computes what a contract made of a pool, and compares the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from exporter.errors import DecodeError, ExactError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import code_holder_key, instance_key, instance_of, with_held_code
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.past.lake.close_meta import EVENT, STATE, UPDATED
from exporter.past.lake.extract import LedgerChanges
from exporter.protocols import accrual_rules
from exporter.protocols.accrual import AccrualRule, EntryLookup, Step, UntriedError

MAX_MISMATCHES = 100
"""Largest number of transitions that are named because they differ."""

UNKNOWN_CODE = "unknown"

_DATA = b"\0\0\0\x06"


class Mismatch(msgspec.Struct, frozen=True):
    """A transition that differs from what was computed, with the first field that differs.

    If nothing could be computed, ``field`` is "all", and ``computed`` says why.
    """

    ledger: int
    key: str
    protocol: str
    code: str
    field: str
    computed: str
    found: str


class Tally(msgspec.Struct):
    """Counts of transitions, by ``PROTOCOL/CODE`` with the code's hash in hex.

    Attributes:
        confirmed: the number of transitions that are as computed.
        differing: the number of transitions that differ.
        untried: the number of transitions that could not be computed, because an entry was missing.
        mismatches: the first transitions that differ.
    """

    confirmed: dict[str, int] = {}
    differing: dict[str, int] = {}
    untried: dict[str, int] = {}
    mismatches: list[Mismatch] = []

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for which in ("confirmed", "differing", "untried"):
            setattr(self, which, dict(Counter(getattr(self, which)) + Counter(getattr(other, which))))
        self.mismatches = [*self.mismatches, *other.mismatches][:MAX_MISMATCHES]


class Prover:
    """Follows the changes of ledgers, and computes each transition of a pool for which it has a formula."""

    def __init__(self, entries: Mapping[bytes, RawEntry]) -> None:
        """Begin with the entries before the first ledger that is followed."""
        self.tally = Tally()
        self._data: dict[bytes, bytes] = {key: entry.data for key, entry in entries.items()}
        self._rules = accrual_rules()

    def follow(self, item: LedgerChanges) -> None:
        """Compare the transitions of a ledger."""
        before: dict[bytes, bytes | None] = {}
        first: dict[bytes, bytes | None] = {}
        updated: list[bytes] = []
        for _, change in item.changes:
            key = change.key
            if change.kind in (STATE, EVENT) or key[:4] != _DATA:
                continue
            data = None if change.entry is None else change.entry[4:-4]
            if key not in before:  # only the first change, because no time passes between two in the same ledger
                before[key], first[key] = self._data.get(key), data
                if change.kind == UPDATED and before[key] is not None:
                    updated.append(key)
            if data is None:
                self._data.pop(key, None)
            else:
                self._data[key] = data
        step = Step(item.close_time, self._lookup(before), self._lookup(first), self._lookup({}))
        for key in updated:
            for protocol, rule in self._rules.items():
                if rule.owns(key):
                    self._try(protocol, rule, item.ledger, key, step)

    def _lookup(self, others: Mapping[bytes, bytes | None]) -> EntryLookup:
        """A function that looks entries up: first in ``others``, and then in the state after the ledger."""

        def look(key: bytes) -> Entry | None:
            data = others[key] if key in others else self._data.get(key)
            return None if data is None else Entry(key, RawEntry(data, 0, None))

        return look

    def _try(self, protocol: str, rule: AccrualRule, ledger: int, key: bytes, step: Step) -> None:
        try:
            transitions = list(rule.read(key, step))
        except DecodeError:
            return  # it only looks like a pool, or it is a pool that a reading names as unread
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
    """The hash of the code that a contract had before the ledger, in hex; `UNKNOWN_CODE` if it is not known."""
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
