"""What a deposit and a loan of one hundred tokens became between two closed days, from a pool's own history.

Both follow from the columns of the pool's `history.csv`, in which a reader can do the same for any two days.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter

import polars as pl
from msgspec import Struct

from exporter.history.closed_buckets import Histories
from exporter.history.time_buckets import DAY
from exporter.tables import YEAR, PoolKey

TOKENS = 100
"""The tokens of the deposit, and of the loan."""

DECIMALS = 4
"""The decimals with which it is shown what they became, rounded down."""


class IndexGrowth(Struct, frozen=True):
    """An index at the ends of two days, in units of its decimals."""

    first: int
    last: int

    @property
    def became(self) -> int:
        """What `TOKENS` became, in units of 10^-`DECIMALS`, rounded down."""
        return int(TOKENS * 10**DECIMALS * self.last // self.first)

    @property
    def rounding(self) -> int:
        """How far `became` may be off because the contract rounds the index to whole units, in the same units."""
        return int(-(-TOKENS * 10**DECIMALS * (self.first + self.last) // self.first**2))


def yield_rounding_bps(realized_bps: int, index: int, began: str, ended: str) -> int:
    """How far a realized yield may be off because the contract rounds its index to whole units, in basis points.

    A window of a week has 52 in a year: an index of 1,020 that is one unit off makes the yield five percent wrong.

    Args:
        realized_bps: the yield, in basis points.
        index: the index, in its own units, at about the end of the window.
        began: the time at which the window begins, as documents have it.
        ended: the time at which it ends.
    """
    seconds = int((datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds())
    if index <= 0 or seconds <= 0:
        return 0
    return -(-max(10_000 + realized_bps, 0) * YEAR // (index * seconds))


class Growth(Struct, frozen=True):
    """The growth from one closed day to a later one: the times of their last runs (unix seconds), and both indexes.

    ``debt`` is None if its index was 0 on the first day.
    """

    opened: int
    closed: int
    supply: IndexGrowth
    debt: IndexGrowth | None


_COLUMNS = (*PoolKey._fields, "last_ledger_close_time", "index_decimals", "supply_index", "borrow_index")


def growths(histories: Histories[PoolKey]) -> Mapping[PoolKey, Growth]:
    """The growth of each pool over the closed days of its newest document.

    A pool has none with fewer than two days, or if the decimals of its indexes changed since all but the last.
    """
    rows = histories.closed(DAY).sort(*PoolKey._fields, "start").select(*map(pl.col, _COLUMNS)).iter_rows()
    found = {}
    for names, days in groupby(rows, key=itemgetter(0, 1)):
        *earlier, (_, _, closed, decimals, supply, debt) = days
        for _, _, opened, first_decimals, first_supply, first_debt in earlier:
            if first_decimals == decimals and first_supply > 0:
                owed = IndexGrowth(first_debt, debt) if first_debt > 0 else None
                found[PoolKey(*names)] = Growth(opened, closed, IndexGrowth(first_supply, supply), owed)
                break
    return found
