"""The table of liquidations, ``history/liquidations.parquet``: columns, writer, reader, and a check of a file."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.errors import DecodeError, StoreError
from exporter.history.manifest import data_of
from exporter.parquet_bounds import POLARS_ERRORS, frame_of, open_parquet
from exporter.stores.store import Store, etag_of
from exporter.tree.documents import HistoryManifest, LedgerSpan, LiquidationsFile
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


_UNREADABLE = (DecodeError, pa.ArrowException, *POLARS_ERRORS, OSError, ValueError)
"""The errors of reading a file that is no table of liquidations."""


def encode_table(frame: pl.DataFrame) -> bytes:
    """The Parquet file with these rows, which have the columns of `SCHEMA`."""
    target = io.BytesIO()
    pq.write_table(frame.to_arrow().cast(SCHEMA), target, compression="zstd")
    return target.getvalue()


def read_table(store: Store, file: LiquidationsFile) -> bytes:
    """Read the table that the history's manifest names. Raises `StoreError` if it is missing or damaged.

    A backfill writes a table before the manifest that names it. If it dies in between, the file has rows of more
    ledgers. Without these rows, it is the earlier table again, byte for byte, which is what this function returns.
    """
    stored = store.get(file.key)
    if stored is not None and etag_of(stored.data) != file.sha256:
        earlier = _rows_inside(stored.data, file)
        if earlier is not None and etag_of(earlier) == file.sha256:
            return earlier
    return data_of(stored, file)


def restore_table(store: Store, manifest: HistoryManifest | None) -> bool:
    """Put back the table that the manifest names, if a backfill died after it wrote a newer one.

    Returns whether that was so. A table that is missing or damaged stays as it is.
    """
    if manifest is None or manifest.liquidations is None:
        return False
    with suppress(StoreError):
        return store.put(manifest.liquidations.key, read_table(store, manifest.liquidations))
    return False


def _rows_inside(data: bytes, file: LiquidationsFile) -> bytes | None:
    """The file with the rows whose ledgers are inside the spans of ``file``; None if ``data`` is no such table."""
    try:
        rows = frame_of(open_parquet(data).read())
        return encode_table(rows.filter(_is_inside(file)))
    except _UNREADABLE:
        return None


def _is_inside(file: LiquidationsFile) -> pl.Expr:
    ledger = pl.col("observed_ledger")
    inside = [ledger.is_between(span.first_ledger, span.last_ledger) for span in file.spans]
    return pl.any_horizontal(pl.lit(False), *inside)


def table_fault(data: bytes, file: LiquidationsFile) -> str | None:
    """What is wrong with a table of liquidations; None if nothing is.

    It is wrong if it is not the file that writing its rows gives, or does not fit its entry in the history's manifest.
    Whether the liquidations really happened cannot be told from the table.
    """
    try:
        rows = frame_of(open_parquet(data).read())
        if not same_values(file.key, encode_table(rows), data):
            return "is not what writing its rows gives: its columns, metadata or statistics are others"
    except _UNREADABLE as error:
        return f"cannot be read: {error}"
    if rows.height != file.rows:
        return f"has {rows.height} rows, but {file.rows} in the history's manifest"
    if file.spans != join_spans(file.spans):
        return "is of spans of ledgers that do not ascend, each apart from the next"
    if rows.filter(~_is_inside(file)).height:
        return "has rows of ledgers that its spans do not have"
    if not rows.equals(rows.sort("observed_ledger", "event_index", maintain_order=True)):
        return "has rows that do not ascend by ledger and event"
    return None


def join_spans(spans: Iterable[LedgerSpan]) -> list[LedgerSpan]:
    """The ledgers of spans in as few spans as possible, ascending: spans that touch or overlap become one."""
    joined: list[LedgerSpan] = []
    for span in sorted(spans, key=lambda span: span.first_ledger):
        if joined and span.first_ledger <= joined[-1].last_ledger + 1:
            joined[-1] = LedgerSpan(joined[-1].first_ledger, max(joined[-1].last_ledger, span.last_ledger))
        else:
            joined.append(span)
    return joined
