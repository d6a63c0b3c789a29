"""The table of all changes of listed markets, ``history/changes.parquet``: one row a change, ascending by ledger.

`/v1/changes` has the newest changes only. A run adds its own changes to the rows of earlier runs, which no other file
has, so these are the publisher's word.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.errors import DecodeError
from exporter.parquet_bounds import open_parquet
from exporter.tree.documents import RunChange
from exporter.tree.families import CHANGES_TABLE
from exporter.tree.files import FileKind, RenderedFile

_MEANINGS = {
    "observed_ledger": "the ledger of the run that found the change",
    "ledger_close_time": "close time of that ledger",
    "previous_ledger": "the ledger of the run that was compared; the change lies between the two",
    "market": "market contract, a strkey",
    "pool": "pool id inside the market; null for a change of the market",
    "kind": "what changed, such as new_market, paused, price or supply_rate; docs/api.md has all kinds",
    "before": "what it was, as text; null where nothing was",
    "after": "what it is, as text; null where nothing is",
    "unit": "unit of the two: usd, basis_points or base_units of the token; null for words",
    "title": "the change in words",
    "id": "identifies the change, a urn:uuid",
}

_TYPES = {"observed_ledger": pa.int64(), "previous_ledger": pa.int64(), "ledger_close_time": pa.timestamp("us", "UTC")}

SCHEMA: pa.Schema = pa.schema(
    pa.field(name, _TYPES.get(name, pa.large_string()), metadata={"description": meaning})
    for name, meaning in _MEANINGS.items()
)

NO_ROWS: pa.Table = SCHEMA.empty_table()

_ORDER = [(name, "ascending") for name in ("observed_ledger", "market", "pool", "kind", "id")]


def rows_before(published: bytes | None, before: int) -> pa.Table:
    """The rows of a published table at ledgers below ``before``; none where there is no table.

    A run that died may have replaced the table. Its rows are of no published run, and the next run finds them again.
    Raises `DecodeError` for a file that is not such a table.
    """
    if published is None:
        return NO_ROWS
    file = open_parquet(published)
    if file.schema_arrow.names != SCHEMA.names:
        raise DecodeError("it does not have the columns of a table of changes")
    try:
        table = file.read().cast(SCHEMA)
    except (pa.ArrowException, OSError) as error:
        raise DecodeError(f"it cannot be read: {str(error)[:200]}") from None
    return table.filter(pc.less(table["observed_ledger"], before))


def render_changes_table(earlier: pa.Table, changes: Iterable[RunChange]) -> RenderedFile:
    """The table of earlier rows and of the changes of this run in listed markets."""
    own = [_row(change) for change in changes if change.listed]
    table = pa.concat_tables([earlier, pa.Table.from_pylist(own, SCHEMA)]).sort_by(_ORDER)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, SCHEMA, compression="zstd", compression_level=12) as writer:
        writer.write_table(table.combine_chunks())
    return RenderedFile(CHANGES_TABLE.template, buffer.getvalue(), FileKind.DOCUMENT)


def _row(change: RunChange) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(change, name) for name in SCHEMA.names}
    return row | {"ledger_close_time": datetime.fromisoformat(change.ledger_close_time)}
