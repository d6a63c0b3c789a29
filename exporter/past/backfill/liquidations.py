"""Makes the table of liquidations, ``history/liquidations.parquet``, from the events in a lake.

It has auctions, bad debt and claims, with a row for each token of an event.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from exporter.errors import DecodeError, StoreError
from exporter.history.liquidations_table import SCHEMA, encode_table, join_spans, read_table
from exporter.history.manifest import file_reference
from exporter.parquet_bounds import open_parquet
from exporter.past.lake.close_meta import EVENT, decode_event
from exporter.past.lake.extract import LedgerChanges
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Liquidation
from exporter.stores.store import Store, etag_of
from exporter.tables import MAX_DECIMAL
from exporter.tree.documents import HistoryManifest, LedgerSpan, LiquidationsFile
from exporter.tree.families import LIQUIDATIONS

KEY = LIQUIDATIONS.only_key

Row = tuple[Any, ...]


def rows_in(ledgers: Iterable[LedgerChanges]) -> Iterator[Row]:
    """The rows of the events in these ledgers, in their order. Events that no protocol understands are passed over."""
    liquidations_in = [(name, item.liquidations) for name, item in PROTOCOLS.items() if item.liquidations is not None]
    for item in ledgers:
        for event_index, change in item.changes:
            if change.kind != EVENT or change.entry is None:
                continue
            for name, decode in liquidations_in:
                try:
                    event = decode_event(change.entry, item.ledger)
                    parts: Sequence[Liquidation] = decode(event)
                except DecodeError:
                    continue
                for part in parts:
                    if part.amount is None or abs(part.amount) <= MAX_DECIMAL:
                        yield item.ledger, item.close_time * 1_000_000, event_index, name, event.contract, *part


def with_liquidations(
    store: Store, manifest: HistoryManifest, rows: Iterable[Row], spans: Sequence[LedgerSpan]
) -> HistoryManifest:
    """Put the rows of some spans of ledgers into the table, and return the manifest that names it.

    They replace the rows that the table had of these ledgers. The same ledgers always give the same bytes. Raises
    `StoreError` if the earlier table is missing or damaged.
    """
    before, spans_before = pl.DataFrame(pl.from_arrow(SCHEMA.empty_table())), list[LedgerSpan]()
    if manifest.liquidations is not None:
        data = read_table(store, manifest.liquidations)
        try:
            open_parquet(data)
        except DecodeError as error:
            raise StoreError(f"{KEY}: {error}") from error
        before, spans_before = pl.read_parquet(io.BytesIO(data)).cast(before.schema), manifest.liquidations.spans
    covered = pl.any_horizontal(
        pl.lit(False), *(pl.col("observed_ledger").is_between(span.first_ledger, span.last_ledger) for span in spans)
    )
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    new = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    frame = pl.concat([before.filter(~covered), pl.DataFrame(pl.from_arrow(new))])
    frame = frame.sort("observed_ledger", "event_index", maintain_order=True)
    data = encode_table(frame)
    store.put(KEY, data)
    covered_spans = join_spans([*spans_before, *spans])
    entry = LiquidationsFile(KEY, file_reference(KEY), frame.height, len(data), etag_of(data), covered_spans)
    return msgspec.structs.replace(manifest, liquidations=entry)
