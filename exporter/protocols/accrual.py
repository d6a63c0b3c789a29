"""An accrual that a contract wrote: which entries show it, and what they must be by the protocol's math.

Only what an action cannot change is compared, or what the entries show that it did not change. What a contract
does after the accrual, in the same call, shows as a difference where it changes one of these (docs/lake.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.ledger.observation import Entry

Look = Callable[[bytes], Entry | None]
"""Gives the entry under a LedgerKey."""


class UntriedError(Exception):
    """A contract brought a pool up to date, and what its math also needs is not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """A ledger and its close time: entries before it, after the first change that it made of each, and after all."""

    time: int
    before: Look
    first: Look
    after: Look


@dataclass(frozen=True, slots=True)
class Transition:
    """An accrual: the numbers before, with the ``close_time`` of the ledger, and those after, by the field compared."""

    before: Mapping[str, Any]
    after: dict[str, int]


@dataclass(frozen=True, slots=True)
class AccrualRule:
    """How a protocol's accruals are known and computed.

    ``owns`` says by a key whether its entry may be one; ``read`` gives the transitions that an update of it shows, and
    raises `UntriedError`. ``compute`` gives the fields compared from the numbers before; it raises `ExactError`.
    """

    owns: Callable[[bytes], bool]
    read: Callable[[bytes, Step], Iterator[Transition]]
    compute: Callable[[Mapping[str, Any]], Mapping[str, int]]


def is_variant(name: str, values: int = 1) -> Callable[[bytes], bool]:
    """Whether a key is of an enum variant of this name with this number of values."""
    head = (scval.VEC).to_bytes(4, "big") + b"\0\0\0\1" + (1 + values).to_bytes(4, "big") + encode_scval(symbol(name))
    return lambda key: key.startswith(head, 40)


def changed(key: bytes, step: Step) -> tuple[Entry, Entry]:
    """An updated entry before the ledger, and after its first change."""
    before, first = step.before(key), step.first(key)
    assert before is not None  # or it would not be an update
    assert first is not None
    return before, first
