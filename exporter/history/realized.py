"""What a pool really paid and cost: yields and interest that follow from its indexes at two observations.

An index says what one share is worth. So its growth is what a supplier earned or a borrower owed, whatever the rates
were meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from exporter.exact import annual_yield_bps
from exporter.tables import YEAR

_RATE_SCALE = 10**18
_MAX_RATE = 10**24
"""A million times a year: a higher rate is shown as this."""

_MAX_INTEREST = 10**34
"""Interest between two observations above this is not counted, so that no sum of a week leaves 128 bits."""


@dataclass(frozen=True, slots=True)
class IndexAt:
    """An index, of ``decimals``, at a time in unix seconds. None where it is not known."""

    time: int | None
    decimals: int | None
    index: int | None


def realized_apy_bps(first: IndexAt, last: IndexAt) -> int | None:
    """The growth of an index from one time to another, as a yield a year compounded daily, in basis points.

    Rounded down. Null where there is one time, where one of the two is not known, and where the decimals changed.
    """
    if first.index is None or last.index is None or first.time is None or last.time is None:
        return None
    if first.time == last.time or first.decimals != last.decimals or not first.index:
        return None
    rate = (last.index - first.index) * YEAR * _RATE_SCALE // (first.index * (last.time - first.time))
    return annual_yield_bps(max(-365 * _RATE_SCALE, min(rate, _MAX_RATE)), 365, _RATE_SCALE)


def realized_column(rows: pl.DataFrame, side: str, name: str) -> pl.Series:
    """A column of realized yields, from the columns ``first_`` and ``last_`` of `index_columns` of a side."""
    firsts, lasts = (
        rows.select(f"{end}_{column}" for column in index_columns(side)).iter_rows() for end in ("first", "last")
    )
    pairs = zip(firsts, lasts, strict=True)
    yields = [realized_apy_bps(IndexAt(*first), IndexAt(*last)) for first, last in pairs]
    return pl.Series(name, yields, dtype=pl.Int64)


def index_columns(side: str) -> tuple[str, str, str]:
    """The columns of observations that an `IndexAt` of a side (``supply`` or ``borrow``) is made of."""
    return "ledger_close_time", "index_decimals", f"{side}_index"


_KEYS = ("market", "pool")
_BEFORE = ("index_decimals", "supply_index", "borrow_index", "total_supplied", "total_borrowed")


def with_interest(observations: pl.DataFrame, newest: pl.DataFrame) -> pl.DataFrame:
    """Observations with the interest that each pool's debt and supply earned since the observation before.

    ``newest`` has the last earlier observation of each pool. ``borrower_interest`` is
    floor(total_borrowed × growth of the borrow index), of what was owed at the observation before, and
    ``supplier_interest`` the same of what was supplied. Both are null for a pool's first observation, and where the
    decimals of the index changed. ``supplier_interest`` is negative where suppliers shared a loss.
    """
    ordered = observations.sort(*_KEYS, "observed_ledger")
    columns = [*_KEYS, "observed_ledger", *_BEFORE]
    observed = pl.concat([newest.select(columns), ordered.select(columns)]).sort(*_KEYS, "observed_ledger")
    before = observed.with_columns(pl.col(_BEFORE).shift(1).over(_KEYS).name.prefix("old_"))
    rows = ordered.select(*_KEYS, "observed_ledger").join(
        before, on=[*_KEYS, "observed_ledger"], how="left", maintain_order="left"
    )
    same = (pl.col("old_index_decimals") == pl.col("index_decimals")).fill_null(value=False)
    interest = {
        name: [
            _grown(amount, old, new) if comparable else None
            for comparable, amount, old, new in rows.select(same, f"old_{total}", f"old_{index}", index).iter_rows()
        ]
        for name, total, index in (
            ("borrower_interest", "total_borrowed", "borrow_index"),
            ("supplier_interest", "total_supplied", "supply_index"),
        )
    }
    return ordered.with_columns(pl.Series(name, values, pl.Int128) for name, values in interest.items())


def _grown(amount: int | None, old: int | None, new: int | None) -> int | None:
    if amount is None or new is None or not old:
        return None
    interest = amount * (new - old) // old
    return interest if abs(interest) <= _MAX_INTEREST else None


def newest_of(observations: pl.DataFrame) -> pl.DataFrame:
    """The last observation of each pool."""
    return observations.sort(*_KEYS, "observed_ledger").unique(_KEYS, keep="last", maintain_order=True)
