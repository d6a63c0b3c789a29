"""`/metrics.txt`: the run for monitoring systems, as OpenMetrics 1.0, which reads as Prometheus' own text format, too.

Every number is printed from the exact integers. What is not known has no line. Monitors refuse bodies of many
megabytes, so of a network with very many pools those of the highest value have lines. The file follows from what was
read, so that anybody can render it again from the run's evidence: times of this machine, such as when the run was
published or how long its steps took, are not in it (the first is in the status, the second in the run report).
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

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

_LABELS = ("market", "pool", "protocol", "symbol")


def decimal(value: pl.Expr, decimals: pl.Expr) -> pl.Expr:
    """Integers of 0 or more in units of 10^-decimals, with all of their digits; null beyond `MAX_DECIMALS`."""
    places = decimals.clip(0, MAX_DECIMALS)
    digits = value.cast(pl.String).str.zfill(places + 1)
    parts = pl.concat_str(digits.str.head(digits.str.len_bytes() - places), pl.lit("."), digits.str.tail(places))
    return pl.when(decimals == 0).then(digits).when(decimals == places).then(parts)


def _bps(name: str) -> pl.Expr:
    return decimal(pl.col(name), pl.lit(4))


def _amount(name: str) -> pl.Expr:
    return decimal(pl.col(name), pl.col("decimals"))


_OF_POOLS: tuple[tuple[str, str, pl.Expr], ...] = (
    ("supply_apy_ratio", "Annual yield of suppliers; 0.05 is 5 %.", _bps("supply_apy_bps")),
    ("borrow_apy_ratio", "Annual cost of borrowers.", _bps("borrow_apy_bps")),
    ("utilization_ratio", "Share of what was supplied that is lent out.", _bps("utilization_bps")),
    ("supplied_tokens", "Lent into the pool, in whole tokens.", _amount("total_supplied")),
    ("borrowed_tokens", "Owed to the pool, in whole tokens.", _amount("total_borrowed")),
    ("tvl_usd", "Value of what was supplied; none without a valid price.", decimal(pl.col("tvl_usd_cents"), pl.lit(2))),
)
_OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def render_metrics(tables: Tables) -> RenderedFile:
    """Render the file of a run."""
    data = BytesIO()
    for part in _parts(tables):
        data.write(part.encode())
    data.write(b"# EOF\n")
    return RenderedFile(METRICS.template, data.getvalue(), FileKind.DOCUMENT)


def _parts(tables: Tables) -> Iterator[str]:
    of_run: dict[str, tuple[str, object]] = {
        "run_ledger": ("The ledger of the run.", tables.ledger),
        "run_ledger_close_timestamp_seconds": ("When that ledger closed.", tables.close_time),
        "markets": ("Markets that were read.", tables.markets.height),
        "pools": ("Pools that were read.", tables.pools.height),
        "pools_unread": ("Markets and pools that could not be read.", len(tables.unread)),
        "pools_unpriced": ("Pools without a valid price.", len(tables.unpriced)),
        "pools_not_shown": (
            "Pools that were read, but have no lines here, because too many others have more value.",
            max(tables.pools.height - MOST_POOLS, 0),
        ),
    }
    oldest = tables.pools.filter(pl.col("price_reason") == VALID_PRICE)["price_timestamp"].min()
    if oldest is not None:
        of_run["run_oldest_price_timestamp_seconds"] = ("When the oldest price that is used was set.", oldest)
    for name, (text, number) in of_run.items():
        yield f"{_head(name, text)}lending_{name} {number}\n"
    yield f"{_head('unpriced_ratio', 'Share of the pools that were read which have no valid price.')}"
    yield f"lending_unpriced_ratio {_ratio(unpriced_bps(tables))}\n"
    yield _head("market_unpriced_ratio", "The same in each market that has such pools.")
    for item in unpriced_markets(tables):
        yield f'lending_market_unpriced_ratio{{market="{item.market}"}} {_ratio(item.unpriced_bps)}\n'
    labels = [pl.concat_str(pl.lit(f'{name}="'), _escaped(pl.col(name)), pl.lit('"')) for name in _LABELS]
    pools = tables.pools
    if pools.height > MOST_POOLS:
        value = pl.col("tvl_usd_cents").fill_null(-1)
        pools = pools.filter(value.rank("ordinal", descending=True) <= MOST_POOLS)  # equal ones in their order
    pools = pools.with_columns(pl.concat_str(labels, separator=",").alias("labels"))

    def said(name: str, more: str, value: pl.Expr) -> pl.Expr:
        """The line of each pool; empty where there is no value."""
        line = pl.concat_str(pl.lit(f"lending_pool_{name}{{"), "labels", pl.lit(f"{more}}} "), value, pl.lit("\n"))
        return line.fill_null("")

    for name, text, value in _OF_POOLS:
        yield _head(f"pool_{name}", text)
        yield from _joined(pools, said(name, "", value))
    yield _head("pool_open", "Whether the contract lets anybody do it now; none where that is not known.")
    gates = [said("open", f',operation="{name}"', pl.col(f"can_{name}").cast(pl.Int8)) for name in _OPERATIONS]
    yield from _joined(pools, pl.concat_str(gates))


def _ratio(basis_points: int) -> str:
    return f"{basis_points // 10_000}.{basis_points % 10_000:04}"


def _joined(pools: pl.DataFrame, lines: pl.Expr) -> Iterator[str]:
    return (rows.select(lines.str.join("")).item() for rows in pools.iter_slices(500))


def _head(name: str, text: str) -> str:
    return f"# HELP lending_{name} {text}\n# TYPE lending_{name} gauge\n"


def _escaped(text: pl.Expr) -> pl.Expr:
    for sign, said in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.str.replace_all(sign, said, literal=True)
    return text
