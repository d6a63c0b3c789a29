"""What a recorded pool has once the network moves: as much as that protocol has on mainnet.

States that the contracts' own code wrote have amounts by chance: a billion dollars in one pool, cents in the next. So
``market_sizes.toml`` has the size of each recorded pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from random import Random
from typing import Final

import msgspec

_DOLLARS: Final = (40_000, 60_000_000)
"""Between which the size of a pool is that is in no list."""


class MarketSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pool moves around: its supply in US dollars, and the share of it that is lent out.

    ``terms`` are numbers of its rate model that are ours (`MovingPool.term`).
    """

    dollars: float
    utilization: float
    terms: dict[str, int] = {}

    def smaller(self, random: Random) -> MarketSize:
        """The size of a copy: a half to a thousandth."""
        return MarketSize(self.dollars * 10 ** -random.uniform(0.3, 3), self.utilization, self.terms)


@cache
def market_sizes() -> Mapping[str, Mapping[str, MarketSize]]:
    """By the label of the deployment that a pool is of, and the symbol of its token."""
    text = files("exporter.localnet").joinpath("market_sizes.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=dict[str, dict[str, MarketSize]])


def size_by_chance(random: Random) -> MarketSize:
    """The size of a pool that is in no list."""
    low, high = _DOLLARS
    return MarketSize(low * (high / low) ** random.random(), random.uniform(0.25, 0.7))
