"""Emissions of BLND to one side of a reserve, or to a pool's backstop (docs/protocols/blend.md, "Rewards")."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec.entries import data_key, variant_key
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import address, symbol, u32
from exporter.ledger.observation import Entry
from exporter.tables import MAX_DECIMAL
from exporter.tree.values import RewardReason

SIDES = ("borrow", "supply")
"""The sides of a reserve. An emission's number is twice the index of its reserve plus the index of its side here."""

RATE_DECIMALS = {"v1": 0, "v2": 7}
"""How many decimals `Emission.eps` has beyond the 7 of BLND, by contract generation."""

_NO_TIME = 1 << 62  # later than any possible time

_OF_RESERVE = {"v1": "EmisConfig", "v2": "EmisData"}
_OF_BACKSTOP = {"v1": "BEmisCfg", "v2": "BEmisData"}


class Emission(NamedTuple):
    """An emission of BLND to one side of a reserve, or the reason why there is none or it is not known."""

    eps: int | None = None
    """BLND a second for all of the side together, in base units times 10^`RATE_DECIMALS`."""
    expiration: int | None = None
    """The time at which the emission ends, in unix seconds."""
    reason: str | None = None
    stored: tuple[int, int] | None = None
    """The BLND that one share of the side was paid so far, and the time of that (unix seconds); None in v1."""

    def at(self, time: int) -> Emission:
        """The emission at a time (unix seconds). It pays nothing if it is over, or if there is none."""
        if self.eps is None or self.expiration is None:
            return self if self.reason == RewardReason.UNREAD else self._replace(eps=0)
        if self.expiration <= time:
            return Emission(0, self.expiration, RewardReason.EXPIRED)
        return self._replace(reason=(self.reason or RewardReason.VALID) if self.eps else RewardReason.NO_EMISSIONS)

    def index_at(self, time: int, shares: int, decimals: int) -> int | None:
        """What 10^``decimals`` shares were ever paid up to a time, in units of ``eps``. None if that is not known."""
        if self.stored is None or self.eps is None or self.expiration is None:
            return None
        index, last = self.stored
        seconds = max(min(time, self.expiration) - last, 0)
        index += seconds * self.eps * 10**decimals // shares if shares > 0 else 0
        return index if 0 <= index <= MAX_DECIMAL else None


NOT_READ = Emission(reason=RewardReason.UNREAD)
"""An emission about which nothing is known."""


def plan_key(market: str) -> bytes:
    """The ledger key of a pool's plan, which divides emissions among its reserves. Without it nothing was ever paid."""
    return data_key(market, symbol("PoolEmis"))


def reserve_emission_key(generation: str, market: str, index: int, side: str) -> bytes:
    """The ledger key of the emission to one side of a reserve."""
    return variant_key(market, _OF_RESERVE[generation], u32(2 * index + SIDES.index(side)))


def backstop_emission_key(generation: str, backstop: str, market: str) -> bytes:
    """The ledger key of the emission to those who deposited in a pool's backstop."""
    return variant_key(backstop, _OF_BACKSTOP[generation], address(market))


def decode_emission(entry: Entry | None, funded: bool | None) -> Emission:
    """An emission from its entry, in the form of either generation. If it cannot be decoded it is `NOT_READ`.

    ``funded`` says whether the backstop has what it promises. If that is not known (None), nor is what is paid.
    """
    if entry is None:
        return Emission(reason=RewardReason.NO_EMISSIONS)
    try:
        fields = Fields.of(entry.value, "emission")
        eps, expiration = fields.u64("eps"), fields.u64("expiration")
    except DecodeError:
        return NOT_READ
    if expiration >= _NO_TIME or funded is None:
        return NOT_READ
    stored = None
    with suppress(DecodeError):  # v1 does not have these fields
        stored = fields.i128("index"), fields.u64("last_time")
    return Emission(eps, expiration, None if funded else RewardReason.NOT_FUNDED, stored)
