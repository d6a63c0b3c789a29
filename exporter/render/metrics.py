"""`/metrics.txt`: the run for monitoring systems, as OpenMetrics 1.0, which reads as Prometheus' own text format, too.

Numbers are printed from exact integers; what is not known has no line. Monitors refuse bodies of many megabytes, so of
a very large network only the pools of the highest value have lines. Times of this machine are not in it, so that
anybody can render it again from the run's evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from exporter.protocols.compute import Tables
from exporter.render.run_documents import unpriced_bps, unpriced_markets
from exporter.tables import VALID_PRICE
from exporter.tree.families import METRICS
from exporter.tree.files import FileKind, RenderedFile

MAX_DECIMALS = 1_000
"""No token has more; an amount of one that says so is left out."""

MOST_POOLS = 2_000
"""How many pools have lines, of about 2 kB each."""

_OF_POOLS = (
    ("supply_apy_ratio", "Annual yield of suppliers; 0.05 is 5 %.", "supply_apy_bps", 4),
    ("borrow_apy_ratio", "Annual cost of borrowers.", "borrow_apy_bps", 4),
    ("utilization_ratio", "Share of what was supplied that is lent out.", "utilization_bps", 4),
    ("supplied_tokens", "Lent into the pool, in whole tokens.", "total_supplied", None),
    ("borrowed_tokens", "Owed to the pool, in whole tokens.", "total_borrowed", None),
    ("tvl_usd", "Value of what was supplied; none without a valid price.", "tvl_usd_cents", 2),
)
"""Name, meaning, column and decimals; None: those of the token."""

_OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def render_metrics(tables: Tables) -> RenderedFile:
    """Render the file of a run."""
    lines = [*_of_run(tables), *_of_pools(tables.pools), "# EOF\n"]
    return RenderedFile(METRICS.template, "\n".join(lines).encode(), FileKind.DOCUMENT)


def _of_run(tables: Tables) -> Iterator[str]:
    priced = tables.pools.filter(pl.col("price_reason") == VALID_PRICE)
    for name, text, number in (
        ("run_ledger", "The ledger of the run.", tables.ledger),
        ("run_ledger_close_timestamp_seconds", "When that ledger closed.", tables.close_time),
        ("markets", "Markets that were read.", tables.markets.height),
        ("pools", "Pools that were read.", tables.pools.height),
        ("pools_unread", "Markets and pools that could not be read.", len(tables.unread)),
        ("pools_unpriced", "Pools without a valid price.", len(tables.unpriced)),
        (
            "pools_not_shown",
            "Pools that were read, but have no lines here, because too many others have more value.",
            max(tables.pools.height - MOST_POOLS, 0),
        ),
        (
            "run_oldest_price_timestamp_seconds",
            "When the oldest price that is used was set.",
            min(priced["price_timestamp"].to_list(), default=None),
        ),
        (
            "unpriced_ratio",
            "Share of the pools that were read which have no valid price.",
            decimal(unpriced_bps(tables), 4),
        ),
    ):
        if number is not None:
            yield from _head(name, text)
            yield f"lending_{name} {number}"
    yield from _head("market_unpriced_ratio", "The same in each market that has such pools.")
    for item in unpriced_markets(tables):
        yield f'lending_market_unpriced_ratio{{market="{item.market}"}} {decimal(item.unpriced_bps, 4)}'


def _of_pools(pools: pl.DataFrame) -> Iterator[str]:
    if pools.height > MOST_POOLS:
        value = pl.col("tvl_usd_cents").fill_null(-1)
        pools = pools.filter(value.rank("ordinal", descending=True) <= MOST_POOLS)  # equal ones in their order
    rows = [(_labels(row), row) for row in pools.iter_rows(named=True)]
    for name, text, column, decimals in _OF_POOLS:
        yield from _head(f"pool_{name}", text)
        for labels, row in rows:
            number = decimal(row[column], row["decimals"] if decimals is None else decimals)
            if number is not None:
                yield f"lending_pool_{name}{{{labels}}} {number}"
    yield from _head("pool_open", "Whether the contract lets anybody do it now; none where that is not known.")
    for labels, row in rows:
        for operation in _OPERATIONS:
            is_open = row[f"can_{operation}"]
            if is_open is not None:
                yield f'lending_pool_open{{{labels},operation="{operation}"}} {is_open:d}'


def decimal(value: int | None, decimals: int) -> str | None:
    """An integer of 0 or more in units of 10^-decimals, with all of its digits; None beyond `MAX_DECIMALS`."""
    if value is None or decimals > MAX_DECIMALS:
        return None
    digits = str(value).zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits


def _labels(row: Mapping[str, Any]) -> str:
    return ",".join(f'{name}="{_escaped(row[name])}"' for name in ("market", "pool", "protocol", "symbol"))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _head(name: str, text: str) -> tuple[str, str]:
    return f"# HELP lending_{name} {text}", f"# TYPE lending_{name} gauge"
