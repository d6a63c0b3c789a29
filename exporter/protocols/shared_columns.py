"""From a protocol's own columns to those that all protocols share, and the rule of age that most of them have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from exporter.numbers import exact
from exporter.tables import PROTOCOL_COLUMNS

TEXTS = ("market", "pool", "token_address", "oracle", "market_name", "market_status", "wasm_hash")
"""The columns of text that the raw state of every pool has."""

Given = pl.Expr | str | int
"""Where a shared column comes from: an expression, a column of another name, or the same number in every row."""


def raw_rows(columns: Mapping[str, list[object]], numbers: Iterable[str], *texts: str) -> pl.DataFrame:
    """The raw state of pools as a frame: ``numbers`` are Int128, `TEXTS` and further ``texts`` String."""
    return exact.frame(
        columns, dict.fromkeys((*TEXTS, *texts), pl.String()) | dict.fromkeys(("decimals", *numbers), pl.Int128())
    )


def shared_columns(rows: pl.DataFrame, protocol: str, version: str | pl.Expr, **given: Given) -> pl.DataFrame:
    """The columns of `exporter.tables.PROTOCOL_COLUMNS`, each as given, or else of its own name in ``rows``.

    Args:
        rows: the projected pools, one a row.
        protocol: the protocol's name.
        version: that of the contracts, or an expression of it.
        given: by shared column.
    """
    unknown = given.keys() - PROTOCOL_COLUMNS.keys()
    if unknown:
        raise TypeError(f"no protocol has the columns {', '.join(sorted(unknown))}")
    sources: dict[str, Given] = {
        "protocol": pl.lit(protocol),
        "version": pl.lit(version) if isinstance(version, str) else version,
        **given,
    }
    return rows.select(
        _expression(sources.get(name, name)).cast(dtype).alias(name) for name, dtype in PROTOCOL_COLUMNS.items()
    )


def _expression(source: Given) -> pl.Expr:
    if isinstance(source, str):
        return pl.col(source)
    return pl.lit(source) if isinstance(source, int) else source
