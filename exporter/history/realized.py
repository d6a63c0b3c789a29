"""Computes what a pool really paid and cost: yields and interest that follow from its indexes at two observations.

An index says what one share is worth. So its growth is what a supplier earned or what a borrower owed, whatever the
rates were in between.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

import polars as pl
from msgspec import Struct

from exporter.exact import JSON_INTEGER_MAX
from exporter.tables import YEAR

_DECIMAL = Context(prec=80, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999)
"""How logarithms and powers of e are computed: with 80 digits.

The specification of `decimal` says that both are rounded correctly, so their digits are the same on every platform.
It does not say so of its powers."""

_MAX_LOGARITHM = Decimal(40)
"""The growth of a year is between e^-40, which is -100 % in basis points, and e^40, which is above any yield."""

_HAIR = Decimal("1e-50")
"""A yield that lies less than this below a whole basis point is taken for that: it has an error of at most 1e-55."""

_MAX_INTEREST = 10**34
"""Largest interest between two observations that is counted, so that no sum of a week exceeds 128 bits."""


class IndexAt(Struct, frozen=True):
    """An index with its decimals, at a time in unix seconds. What is not known is None."""

    time: int | None
    decimals: int | None
    index: int | None


def realized_apy_bps(first: IndexAt, last: IndexAt) -> int | None:
    """The growth of an index from one time to another as an annual yield, in basis points, rounded down.

    If the index grew by a factor G in s seconds, a year of the same growth makes G^(31,536,000 / s). A yield above
    2^53 - 1 is shown as this. None if the second time is not the later one, if an index is not known or is not above
    0 at first, or if the decimals changed.
    """
    if first.index is None or last.index is None or first.time is None or last.time is None:
        return None
    if first.time >= last.time or first.decimals != last.decimals or first.index <= 0 or last.index < 0:
        return None
    if first.index == last.index:
        return 0
    if last.index == 0:
        return -10_000
    growth = _DECIMAL.ln(_DECIMAL.divide(Decimal(last.index), Decimal(first.index)))
    of_a_year = _DECIMAL.divide(_DECIMAL.multiply(growth, YEAR), last.time - first.time)
    bounded = max(-_MAX_LOGARITHM, min(of_a_year, _MAX_LOGARITHM))
    factor_bps = _DECIMAL.multiply(_DECIMAL.exp(bounded), 10_000)
    return min(int(_DECIMAL.add(factor_bps, _HAIR)) - 10_000, JSON_INTEGER_MAX)


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
