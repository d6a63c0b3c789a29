"""The table of liquidations, ``history/liquidations.parquet``: its columns, its writer, and a check of a file."""

from __future__ import annotations

import io
from collections.abc import Iterable

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import DecodeError
from exporter.parquet_bounds import open_parquet
from exporter.tree.documents import LedgerSpan, LiquidationsFile
from exporter.tree.same_values import same_values

SCHEMA = pa.schema(
    [
        ("observed_ledger", pa.int64()),
        ("ledger_close_time", pa.timestamp("us", "UTC")),
        ("event_index", pa.int64()),  # ascending in a ledger
        ("protocol", pa.large_string()),
        ("market", pa.large_string()),
        *((name, pa.large_string()) for name in ("event", "auction", "user", "filler")),
        ("percent", pa.int64()),
        ("side", pa.large_string()),
        ("token_address", pa.large_string()),
        ("amount", pa.decimal128(38, 0)),
    ]
)


def encode_table(frame: pl.DataFrame) -> bytes:
    """The Parquet file with these rows, which have the columns of `SCHEMA`."""
    target = io.BytesIO()
    pq.write_table(frame.to_arrow().cast(SCHEMA), target, compression="zstd")
    return target.getvalue()


def table_fault(data: bytes, file: LiquidationsFile) -> str | None:
    """What is wrong with a table of liquidations; None if nothing is.

    It is wrong if it is not the file that writing its rows gives, or does not fit its entry in the history's manifest.
    Whether the liquidations really happened cannot be told from the table.
    """
    try:
        rows = pl.DataFrame(pl.from_arrow(open_parquet(data).read()))
        if not same_values(file.key, encode_table(rows), data):
            return "is not what writing its rows gives: its columns, metadata or statistics are others"
    except (DecodeError, pa.ArrowException, pl.exceptions.PolarsError, OSError, ValueError) as error:
        return f"cannot be read: {error}"
    if rows.height != file.rows:
        return f"has {rows.height} rows, but {file.rows} in the history's manifest"
    if file.spans != join_spans(file.spans):
        return "is of spans of ledgers that do not ascend, each apart from the next"
    ledger = pl.col("observed_ledger")
    inside = [ledger.is_between(span.first_ledger, span.last_ledger) for span in file.spans]
    if rows.filter(~pl.any_horizontal(pl.lit(False), *inside)).height:
        return "has rows of ledgers that its spans do not have"
    if not rows.equals(rows.sort("observed_ledger", "event_index", maintain_order=True)):
        return "has rows that do not ascend by ledger and event"
    return None


def join_spans(spans: Iterable[LedgerSpan]) -> list[LedgerSpan]:
    """The same ledgers in as few spans as possible, ascending: spans that touch or overlap become one."""
    joined: list[LedgerSpan] = []
    for span in sorted(spans, key=lambda span: span.first_ledger):
        if joined and span.first_ledger <= joined[-1].last_ledger + 1:
            joined[-1] = LedgerSpan(joined[-1].first_ledger, max(joined[-1].last_ledger, span.last_ledger))
        else:
            joined.append(span)
    return joined
