"""`/metrics.txt`: the run for monitoring systems, as OpenMetrics 1.0, which reads as Prometheus' own text format, too.

Every number is printed from the exact integers. What is not known has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exporter.protocols.compute import Tables
from exporter.tree.families import METRICS
from exporter.tree.files import FileKind, RenderedFile

MAX_DECIMALS = 1_000
"""No token has more; an amount of one that says so is left out."""

_LABELS = ("market", "pool", "protocol", "symbol")
_Row = Mapping[str, Any]


def decimal(value: int, decimals: int) -> str | None:
    """An integer in units of 10^-decimals, with all of its digits; None for more decimals than any token has."""
    if not 0 <= decimals <= MAX_DECIMALS:
        return None
    whole, rest = divmod(value, 10**decimals)
    return f"{whole}.{rest:0{decimals}}" if decimals else f"{whole}"


def _bps(name: str) -> Callable[[_Row], str | None]:
    return lambda row: decimal(row[name], 4)


def _amount(name: str) -> Callable[[_Row], str | None]:
    return lambda row: decimal(row[name], row["decimals"])


def _value(row: _Row) -> str | None:
    return None if row["tvl_usd_cents"] is None else decimal(row["tvl_usd_cents"], 2)


_OF_POOLS: tuple[tuple[str, str, Callable[[_Row], str | None]], ...] = (
    ("supply_apy_ratio", "Annual yield of suppliers; 0.05 is 5 %.", _bps("supply_apy_bps")),
    ("borrow_apy_ratio", "Annual cost of borrowers.", _bps("borrow_apy_bps")),
    ("utilization_ratio", "Share of what was supplied that is lent out.", _bps("utilization_bps")),
    ("supplied_tokens", "Lent into the pool, in whole tokens.", _amount("total_supplied")),
    ("borrowed_tokens", "Owed to the pool, in whole tokens.", _amount("total_borrowed")),
    ("tvl_usd", "Value of what was supplied; none without a valid price.", _value),
)
_OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def render_metrics(tables: Tables) -> RenderedFile:
    """Render the file of a run."""
    data = "\n".join(_lines(tables)) + "\n# EOF\n"
    return RenderedFile(METRICS.template, data.encode(), FileKind.DOCUMENT)


def _lines(tables: Tables) -> Iterator[str]:
    of_run = {
        "run_ledger": ("The ledger of the run.", tables.ledger),
        "run_ledger_close_timestamp_seconds": ("When that ledger closed.", tables.close_time),
        "markets": ("Markets that were read.", tables.markets.height),
        "pools": ("Pools that were read.", tables.pools.height),
        "pools_unread": ("Markets and pools that could not be read.", len(tables.unread)),
        "pools_unpriced": ("Pools without a valid price.", len(tables.unpriced)),
    }
    for name, (text, number) in of_run.items():
        yield from _head(name, text)
        yield f"lending_{name} {number}"
    rows = list(tables.pools.iter_rows(named=True))
    labels = [",".join(f'{label}="{_escaped(row[label])}"' for label in _LABELS) for row in rows]
    for name, text, value_of in _OF_POOLS:
        yield from _head(f"pool_{name}", text)
        for row, of_row in zip(rows, labels, strict=True):
            value = value_of(row)
            if value is not None:
                yield f"lending_pool_{name}{{{of_row}}} {value}"
    yield from _head("pool_open", "Whether the contract lets anybody do it now; none where that is not known.")
    for row, of_row in zip(rows, labels, strict=True):
        for operation in _OPERATIONS:
            if row[f"can_{operation}"] is not None:
                yield f'lending_pool_open{{{of_row},operation="{operation}"}} {int(row[f"can_{operation}"])}'


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP lending_{name} {text}"
    yield f"# TYPE lending_{name} gauge"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
