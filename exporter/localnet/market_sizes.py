"""The sizes that recorded pools get once the network moves: about as large as the protocol's pools on mainnet.

The recorded amounts are accidental: a billion dollars in one pool, and cents in the next. So ``market_sizes.toml`` has
a size for each recorded pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from random import Random
from typing import Final

import msgspec

_DOLLAR_RANGE: Final = (40_000, 60_000_000)
"""Smallest and largest size of a pool that is in no list, in US dollars."""


class MarketSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size around which a pool moves.

    Attributes:
        dollars: its supply in US dollars.
        utilization: the part of the supply that is lent out.
        terms: numbers of its rate model that replace the recorded ones (`MovingPool.term`).
    """

    dollars: float
    utilization: float
    terms: dict[str, int] = {}

    def smaller(self, random: Random) -> MarketSize:
        """The size of a copy of the pool: a half to a thousandth of this one."""
        return MarketSize(self.dollars * 10 ** -random.uniform(0.3, 3), self.utilization, self.terms)


@cache
def market_sizes() -> Mapping[str, Mapping[str, MarketSize]]:
    """The sizes of recorded pools, by the label of their deployment and the symbol of their token."""
    text = files("exporter.localnet").joinpath("market_sizes.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=dict[str, dict[str, MarketSize]])


def size_by_chance(random: Random) -> MarketSize:
    """A random size, for a pool that is in no list."""
    low, high = _DOLLAR_RANGE
    return MarketSize(low * (high / low) ** random.random(), random.uniform(0.25, 0.7))
