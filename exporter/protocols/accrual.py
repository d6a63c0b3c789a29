"""Accruals: how a ledger's changes show that a contract added interest to a pool, and what our math gives for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.ledger.observation import Entry

EntryLookup = Callable[[bytes], Entry | None]
"""Gives the entry under a ledger key; None if the ledger has none."""


class UntriedError(Exception):
    """A contract added interest to a pool, and something that the math also needs is not known."""


class Step(Struct, frozen=True):
    """One ledger: its close time, and the entries at three moments of it."""

    time: int
    """The ledger's close time, in unix seconds."""
    before: EntryLookup
    """The entries before the ledger."""
    first: EntryLookup
    """The entries after the ledger's first change of each."""
    after: EntryLookup
    """The entries after the ledger."""


class Transition(Struct, frozen=True):
    """One accrual in a ledger: what our math gives, and what the contract wrote, both by the name of the field."""

    compute: Callable[[], Mapping[str, int]]
    """Computes the fields from the numbers before the ledger. Raises `ExactError`."""
    after: Mapping[str, int]
    """The values that the contract wrote. Each of these fields is among the computed ones."""


class AccrualRule(Struct, frozen=True):
    """How a protocol's accruals are recognised and computed (docs/lake.md).

    Only fields that an action of a user cannot change are compared, or fields that the entries show to be unchanged.
    """

    owns: Callable[[bytes], bool]
    """Whether an update of the entry under this ledger key may be an accrual."""
    read: Callable[[bytes, Step], Iterator[Transition]]
    """The transitions that an update of an entry shows. Raises `UntriedError`."""


def is_variant(name: str, values: int = 1) -> Callable[[bytes], bool]:
    """A function that says whether a ledger key is an enum variant with this name and this number of values."""
    head = (scval.VEC).to_bytes(4, "big") + b"\0\0\0\1" + (1 + values).to_bytes(4, "big") + encode_scval(symbol(name))
    return lambda key: key.startswith(head, 40)


def changed(key: bytes, step: Step) -> tuple[Entry, Entry]:
    """An entry that a ledger updated, as it was before the ledger and after the ledger's first change of it."""
    before, first = step.before(key), step.first(key)
    assert before is not None  # because the ledger updated the entry
    assert first is not None
    return before, first
