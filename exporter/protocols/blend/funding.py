"""Whether a backstop has the BLND that it promises (docs/protocols/blend.md, "Funding").

The emitter mints BLND to the backstop that it names. A v2 backstop that it never paid promises BLND of an allotment,
which is minted in one go after the emitter names it: until then claims fail.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.observation import Entry
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.blend.records import Entries

_T = TypeVar("_T")

ALLOTMENT = 10_000_000 * 10**7
"""The most that a v2 backstop may promise before the emitter pays it, base units of BLND."""


class EmissionSource(StrEnum):
    """Where the BLND comes from that a backstop promises next."""

    EMITTER = "emitter"
    BACKFILL = "backfill"  # the allotment, of which nothing is minted yet
    NONE = "none"  # the emitter pays another backstop now


class Funding(NamedTuple):
    """The BLND of a backstop; None is not known.

    ``funded``: a claim succeeds, because the backstop has all that it promised. ``remaining``: base units of the
    allotment, while promises come from there.
    """

    source: EmissionSource | None
    funded: bool | None
    remaining: int | None


def known(decode: Callable[..., _T], *entries: Any) -> _T | None:
    """What is decoded of some entries; None where they cannot be."""
    try:
        return decode(*entries)
    except DecodeError:
        return None


def decode_emitter(entry: Entry | None) -> str | None:
    """The emitter that a backstop's instance names; None where it cannot be read."""
    return (
        None
        if entry is None
        else known(lambda: Fields(instance_of(entry.contract_data()).storage, "").contract("Emitter"))
    )


class FundingEntries:
    """The entries that say how one backstop is funded. ``kept`` are those that nothing removes once they exist."""

    def __init__(self, generation: str, backstop: str, emitter: str | None, blnd: str | None) -> None:
        self._backstop, self._backfills = backstop, generation == "v2"
        self._emitter = emitter and instance_key(emitter)
        self._paid, self._dropped = (
            emitter and variant_key(emitter, name, address(backstop)) for name in ("LastDistro", "Dropped")
        )
        self._status, self._promised = (data_key(backstop, symbol(name)) for name in ("Backfill", "BackfillEmis"))
        self._balance = blnd and balance_key(blnd, backstop)
        self.keys = [self._emitter] if self._emitter else []
        of_v2 = [self._status, self._promised, self._dropped, self._balance] if self._backfills else []
        self.kept = [key for key in (self._paid, *of_v2) if key]

    def decode(self, entries: Entries) -> Funding:
        """The state in the entries. An archived one says it, too: nobody changes it before it is restored."""
        source = known(self._source, entries)
        promised = known(self._promise, entries) if source == EmissionSource.BACKFILL else None
        return Funding(source, known(self._funded, entries), None if promised is None else max(ALLOTMENT - promised, 0))

    def _source(self, entries: Entries) -> EmissionSource:
        instance = _entry(entries, self._emitter)
        if instance is None:
            raise DecodeError("the emitter is missing")
        if Fields(instance_of(instance.contract_data()).storage, "emitter").address("Backstop") == self._backstop:
            return EmissionSource.EMITTER
        paid = _entry(entries, self._paid) is not None
        if paid or not self._backfills or _value(entries, self._status) == (scval.BOOL, False):
            return EmissionSource.NONE
        return EmissionSource.BACKFILL

    def _funded(self, entries: Entries) -> bool:
        promised = self._promise(entries) if self._backfills else 0
        if promised == 0 or _value(entries, self._dropped) == (scval.BOOL, True):
            return True
        return decode_balance(_entry(entries, self._balance)) >= promised

    def _promise(self, entries: Entries) -> int:
        """All that was ever promised of the allotment."""
        value = _value(entries, self._promised)
        return 0 if value is None else int(expect(value, scval.I128, "BackfillEmis"))


def _entry(entries: Entries, key: bytes | str | None) -> Entry | None:
    """Raises `DecodeError` where nothing says which entry it is."""
    if not isinstance(key, bytes):
        raise DecodeError("the backstop's instance could not be read")
    return entries[key]


def _value(entries: Entries, key: bytes | str | None) -> ScVal | None:
    entry = _entry(entries, key)
    return None if entry is None else entry.value
