"""Exact sums of columns."""

from __future__ import annotations

import polars as pl

from exporter.exact.failures import failure
from exporter.exact.operations import INT128_MAX, INT128_MIN, add, floor_divide, multiply, subtract

_HALF = 2**63


def total(values: pl.Series) -> int | None:
    """The sum of a column, nulls left out; None when it holds no value.

    Raises:
        ExactOverflowError: when the sum does not fit into 128 bits; it names all rows that hold a value.
    """
    values = floor_divide(values, 1)
    known = values.drop_nulls()
    if known.is_empty():
        return None
    if _sums_fit(known):
        return int(known.sum())
    exact: int = sum(known.to_list())
    if not INT128_MIN <= exact <= INT128_MAX:
        raise failure("total", values.is_not_null().arg_true().to_list())
    return exact


def group_totals(keys: pl.Series, values: pl.Series) -> pl.DataFrame:
    """The sum of the values of each key, nulls left out; null for a key without any value.

    Returns:
        A frame of two columns, named as `keys` and `values` are, with one row a key in the order in which the keys
        first appear; the sums are Int128.

    Raises:
        ExactOverflowError: with the positions of all rows of every key whose sum does not fit into 128 bits.
        ValueError: when the two Series differ in length or have the same name.
    """
    if len(keys) != len(values) or keys.name == values.name:
        raise ValueError("group_totals: keys and values must be of one length and of different names")
    values = floor_divide(values, 1)
    rows = pl.DataFrame([keys, values])
    if _sums_fit(values):
        sums = pl.col(values.name).sum()
        return _grouped(rows, keys.name, pl.when(pl.col(values.name).count() > 0).then(sums).alias(values.name))
    # Sums of halves of 64 bits cannot wrap; the low halves are from 0 to 2^63 - 1, also for a negative value.
    high = floor_divide(values, _HALF)
    low = subtract(values, multiply(high, _HALF))
    halves = pl.DataFrame({"key": keys, "value": values, "high": high, "low": low})
    groups = _grouped(
        halves, "key", pl.col("high").sum(), pl.col("low").sum(), (pl.col("value").count() > 0).alias("known")
    )
    carry = floor_divide(groups["low"], _HALF)
    high = add(groups["high"], carry)
    low = subtract(groups["low"], multiply(carry, _HALF))
    overflowing = (high >= _HALF * 2) | (high < -_HALF * 2)
    if overflowing.any():
        bad_keys = groups["key"].filter(overflowing)
        raise failure("group_totals", keys.is_in(bad_keys.implode(), nulls_equal=True).arg_true().to_list())
    sums_exact = add(multiply(high, _HALF), low)
    known = sums_exact.set(~groups["known"], None)
    return pl.DataFrame([groups["key"].alias(keys.name), known.alias(values.name)])


def _grouped(rows: pl.DataFrame, key: str, *aggregations: pl.Expr) -> pl.DataFrame:
    return rows.group_by(key, maintain_order=True).agg(*aggregations)


def _sums_fit(values: pl.Series) -> bool:
    low, high = values.min(), values.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return True
    return len(values) * max(-low, high) <= INT128_MAX
