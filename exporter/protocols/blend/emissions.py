"""BLND that is paid to one side of a reserve, or to the backstop of a pool (docs/protocols/blend.md, "Rewards")."""

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
"""The number of an emission is twice the index of its reserve, and the place of its side here."""

RATE_DECIMALS = {"v1": 0, "v2": 7}
"""How many decimals `Emission.eps` has beyond the 7 of BLND, by contract generation."""

_NO_TIME = 1 << 62  # beyond any

_OF_RESERVE = {"v1": "EmisConfig", "v2": "EmisData"}
_OF_BACKSTOP = {"v1": "BEmisCfg", "v2": "BEmisData"}


class Emission(NamedTuple):
    """How much BLND a second, for all of a side together, up to when; or why that is not known or nothing."""

    eps: int | None = None
    expiration: int | None = None
    reason: str | None = None
    stored: tuple[int, int] | None = None
    """What a share of the side was ever paid, and of when (unix seconds) that is, as an entry of v2 has it."""

    def at(self, time: int) -> Emission:
        """The emission as it is paid at a time (unix seconds): nothing of one that is over, or is of nothing."""
        if self.eps is None or self.expiration is None:
            return self if self.reason == RewardReason.UNREAD else self._replace(eps=0)
        if self.expiration <= time:
            return Emission(0, self.expiration, RewardReason.EXPIRED)
        return self._replace(reason=(self.reason or RewardReason.VALID) if self.eps else RewardReason.NO_EMISSIONS)

    def index_at(self, time: int, shares: int, decimals: int) -> int | None:
        """What a share was ever paid up to a time, in units of ``eps`` per 10^decimals shares; None where not known."""
        if self.stored is None or self.eps is None or self.expiration is None:
            return None
        index, last = self.stored
        seconds = max(min(time, self.expiration) - last, 0)
        index += seconds * self.eps * 10**decimals // shares if shares > 0 else 0
        return index if 0 <= index <= MAX_DECIMAL else None


NOT_READ = Emission(reason=RewardReason.UNREAD)
"""An emission of which nothing is known."""


def plan_key(market: str) -> bytes:
    """The ledger key of how a pool divides what it gets. A pool without it never emitted anything."""
    return data_key(market, symbol("PoolEmis"))


def reserve_emission_key(generation: str, market: str, index: int, side: str) -> bytes:
    """The ledger key of the emission to one side of a reserve."""
    return variant_key(market, _OF_RESERVE[generation], u32(2 * index + SIDES.index(side)))


def backstop_emission_key(generation: str, backstop: str, market: str) -> bytes:
    """The ledger key of the emission to the depositors of a pool's backstop."""
    return variant_key(backstop, _OF_BACKSTOP[generation], address(market))


def decode_emission(entry: Entry | None, funded: bool | None) -> Emission:
    """An emission entry of either generation. One that cannot be read costs the reward and nothing else.

    ``funded``: whether the backstop has what it promises; None is not known, and then neither is what is paid.
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
    with suppress(DecodeError):  # v1 has none
        stored = fields.i128("index"), fields.u64("last_time")
    return Emission(eps, expiration, None if funded else RewardReason.NOT_FUNDED, stored)
