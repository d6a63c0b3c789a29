"""Computes what a pool really paid and cost: yields and interest that follow from its indexes at two observations.

An index says what one share is worth. So its growth is what a supplier earned or what a borrower owed, whatever the
rates were in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from exporter.exact import annual_yield_bps
from exporter.tables import YEAR

_RATE_SCALE = 10**18
_MAX_RATE = 10**24
"""Largest rate that is shown, in units of 1 / `_RATE_SCALE`: a million times a year. Higher rates are shown as this."""

_MAX_INTEREST = 10**34
"""Largest interest between two observations that is counted, so that no sum of a week exceeds 128 bits."""


@dataclass(frozen=True, slots=True)
class IndexAt:
    """An index with its decimals, at a time in unix seconds. What is not known is None."""

    time: int | None
    decimals: int | None
    index: int | None


def realized_apy_bps(first: IndexAt, last: IndexAt) -> int | None:
    """The growth of an index from one time to another as an annual yield, in basis points.

    The growth is divided by the days, and that is compounded daily for a year, rounded down. Growth over many days has
    interest on interest already, so that its yield is slightly too high. None if both times are the same, if one index
    is not known, or if the decimals changed.
    """
    if first.index is None or last.index is None or first.time is None or last.time is None:
        return None
    if first.time == last.time or first.decimals != last.decimals or not first.index:
        return None
    rate = (last.index - first.index) * YEAR * _RATE_SCALE // (first.index * (last.time - first.time))
    return annual_yield_bps(max(-365 * _RATE_SCALE, min(rate, _MAX_RATE)), 365, _RATE_SCALE)


def realized_column(rows: pl.DataFrame, side: str, name: str) -> pl.Series:
    """A column of realized yields of a side (``supply`` or ``borrow``).

    ``rows`` has the columns of `index_columns` twice, with ``first_`` and with ``last_`` before their names.
    """
    firsts, lasts = (
        rows.select(f"{end}_{column}" for column in index_columns(side)).iter_rows() for end in ("first", "last")
    )
    pairs = zip(firsts, lasts, strict=True)
    yields = [realized_apy_bps(IndexAt(*first), IndexAt(*last)) for first, last in pairs]
    return pl.Series(name, yields, dtype=pl.Int64)


def index_columns(side: str) -> tuple[str, str, str]:
    """The columns of observations that make an `IndexAt` of a side (``supply`` or ``borrow``)."""
    return "ledger_close_time", "index_decimals", f"{side}_index"


_KEYS = ("market", "pool")
_PREVIOUS_COLUMNS = ("index_decimals", "supply_index", "borrow_index", "total_supplied", "total_borrowed")


def with_interest(observations: pl.DataFrame, newest: pl.DataFrame) -> pl.DataFrame:
    """The observations with the interest that each pool's debt and supply grew by since the previous observation.

    ``newest`` has the last observation of each pool before these. ``borrower_interest`` is what was owed at the
    previous observation times the growth of the borrow index since, rounded down. ``supplier_interest`` is the same for
    what was supplied; it is negative if suppliers shared a loss. Both are null for the first observation of a pool, and
    if the decimals of the index changed.
    """
    ordered = observations.sort(*_KEYS, "observed_ledger")
    columns = [*_KEYS, "observed_ledger", *_PREVIOUS_COLUMNS]
    observed = pl.concat([newest.select(columns), ordered.select(columns)]).sort(*_KEYS, "observed_ledger")
    with_previous = observed.with_columns(pl.col(_PREVIOUS_COLUMNS).shift(1).over(_KEYS).name.prefix("old_"))
    rows = ordered.select(*_KEYS, "observed_ledger").join(
        with_previous, on=[*_KEYS, "observed_ledger"], how="left", maintain_order="left"
    )
    return ordered.with_columns(
        pl.Series("borrower_interest", _interest_of(rows, "total_borrowed", "borrow_index"), pl.Int128),
        pl.Series("supplier_interest", _interest_of(rows, "total_supplied", "supply_index"), pl.Int128),
    )


def _interest_of(rows: pl.DataFrame, total: str, index: str) -> list[int | None]:
    """The interest of each row, from the previous total and the growth of an index; None if decimals changed."""
    is_comparable = (pl.col("old_index_decimals") == pl.col("index_decimals")).fill_null(value=False)
    columns = rows.select(is_comparable, f"old_{total}", f"old_{index}", index)
    return [_growth(amount, old, new) if comparable else None for comparable, amount, old, new in columns.iter_rows()]


def _growth(amount: int | None, old: int | None, new: int | None) -> int | None:
    """What an amount grew by when its index went from ``old`` to ``new``, rounded down; None if it is not known."""
    if amount is None or new is None or not old:
        return None
    interest = amount * (new - old) // old
    return interest if abs(interest) <= _MAX_INTEREST else None


def newest_of(observations: pl.DataFrame) -> pl.DataFrame:
    """The last observation of each pool."""
    return observations.sort(*_KEYS, "observed_ledger").unique(_KEYS, keep="last", maintain_order=True)
