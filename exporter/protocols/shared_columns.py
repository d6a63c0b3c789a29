"""From a protocol's own columns to those that all protocols share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from exporter import exact_columns as exact
from exporter.tables import PROTOCOL_COLUMNS, TERMS
from exporter.tree.values import RewardReason

TEXTS = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
"""The columns of text that the raw state of every pool has."""

Given = pl.Expr | pl.Series | str | int
"""Where a shared column comes from: an expression, its values, a column of another name, or one number in every row."""


NO_REWARDS: dict[str, Given] = {
    **dict.fromkeys(("supply_reward_per_second", "borrow_reward_per_second", "reward_decimals"), 0),
    **dict.fromkeys(("supply_reward_reason", "borrow_reward_reason"), pl.lit(RewardReason.NONE)),
}
"""The columns of a protocol whose contracts pay nothing in addition to interest."""


def raw_rows(columns: Mapping[str, list[object]], numbers: Iterable[str], *texts: str) -> pl.DataFrame:
    """The raw state of pools: `TEXTS` and ``texts`` as String, ``numbers``, decimals and ``close_time`` as Int128."""
    schema: dict[str, pl.DataType] = dict.fromkeys((*TEXTS, *texts), pl.String())
    return exact.frame(columns, schema | dict.fromkeys(("decimals", *numbers, "close_time"), pl.Int128()))


def numbers_of(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """These columns as Int128. Raises `ValueError` for a null: exact operations have no result for it."""
    with_nulls = [name for name in names if frame[name].null_count()]
    if with_nulls:
        raise ValueError(f"pools must not be null in {', '.join(with_nulls)}")
    return frame.select(pl.col(names).cast(pl.Int128))


@exact.basis_points
def utilization_bps(borrowed: pl.Series, supplied: pl.Series) -> pl.Series:
    """The published utilization of every protocol, Int64: floor(borrowed × 10000 / supplied), 0 without supply."""
    return exact.or_zero(exact.multiply_divide_floor, borrowed, 10_000, supplied)


@exact.basis_points
def simple_yield_bps(rate: pl.Series, scale: int) -> pl.Series:
    """A rate a year that is not compounded as basis points, rounded down, Int64; ``scale`` is a rate of 100 %."""
    return exact.floor_divide(rate, scale // 10_000)


def within(amount: pl.Series, *bounds: pl.Series) -> pl.Series:
    """An amount that can be had, within its bounds and not below 0: null where it is; a null bound does not bind."""
    for bound in bounds:
        amount = exact.clamp(amount, exact.INT128_MIN, bound.fill_null(exact.INT128_MAX))
    return exact.clamp(amount, 0, exact.INT128_MAX)


def shared_columns(rows: pl.DataFrame, protocol: str, version: str | pl.Expr, **given: Given) -> pl.DataFrame:
    """The columns of `PROTOCOL_COLUMNS`, as given or else of their own name in ``rows``, then the `TERMS` given."""
    unknown = given.keys() - PROTOCOL_COLUMNS.keys() - TERMS.keys()
    if unknown:
        raise TypeError(f"no protocol has the columns {', '.join(sorted(unknown))}")
    sources: dict[str, Given] = {
        "protocol": pl.lit(protocol),
        "version": pl.lit(version) if isinstance(version, str) else version,
        **given,
    }
    columns = PROTOCOL_COLUMNS | {name: dtype for name, dtype in TERMS.items() if name in given}
    return rows.select(_expression(sources.get(name, name)).cast(dtype).alias(name) for name, dtype in columns.items())


def _expression(source: Given) -> pl.Expr:
    if isinstance(source, str):
        return pl.col(source)
    return source if isinstance(source, pl.Expr) else pl.lit(source)
