"""The table of all changes of listed markets, ``history/changes.parquet``: a row for each change, ascending by ledger.

A run adds its own changes to the rows of earlier runs. `/v1/changes` has only the newest changes, and no other file has
older ones. So nobody can check the earlier rows, and they are the publisher's word.
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
    "previous_ledger": "the ledger of the values that were compared; the change lies between the two",
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

_IN_EVERY_VERSION = frozenset({"id", "observed_ledger"})
"""The columns without which a file is no table of changes, whatever version wrote it."""

NO_ROWS: pa.Table = SCHEMA.empty_table()

_ORDER = [(name, "ascending") for name in ("observed_ledger", "market", "pool", "kind", "id")]


def rows_before(published: bytes | None, before: int) -> pa.Table:
    """The rows of a published table whose ledgers are below ``before``; none if there is no table.

    Rows from ``before`` on were added by a run that died after it replaced the table. That run was not published, and
    the next run finds the same changes again.

    A column that the table lacks is null in its rows: the version that wrote it did not have that column yet. Raises
    `DecodeError` for a file that is not such a table, or has a column that would be lost.
    """
    if published is None:
        return NO_ROWS
    file = open_parquet(published)
    names = file.schema_arrow.names
    if len(set(names)) < len(names) or not set(names) >= _IN_EVERY_VERSION:
        raise DecodeError("it does not have the columns of a table of changes")
    if unknown := sorted(set(names) - set(SCHEMA.names)):
        raise DecodeError(f"it has the columns {', '.join(unknown)}, which only a later version knows")
    try:
        stored = file.read()
        columns = {
            field.name: stored.column(field.name).cast(field.type)
            if field.name in names
            else pa.nulls(stored.num_rows, field.type)
            for field in SCHEMA
        }
        table = pa.table(columns).cast(SCHEMA)
    except (pa.ArrowException, OSError) as error:
        raise DecodeError(f"it cannot be read: {str(error)[:200]}") from None
    return table.filter(pc.less(table["observed_ledger"], before))


def render_changes_table(earlier: pa.Table, changes: Iterable[RunChange]) -> RenderedFile:
    """Render the table that has the earlier rows, and this run's changes of listed markets."""
    own = [_row(change) for change in changes if change.listed]
    table = pa.concat_tables([earlier, pa.Table.from_pylist(own, SCHEMA)]).sort_by(_ORDER)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, SCHEMA, compression="zstd", compression_level=12) as writer:
        writer.write_table(table.combine_chunks())
    return RenderedFile(CHANGES_TABLE.only_key, buffer.getvalue(), FileKind.DOCUMENT)


def joined_changes(rows: pa.Table, changes: Iterable[RunChange]) -> pa.Table:
    """The rows, and those of the changes of listed markets that they lack."""
    present = set(rows["id"].to_pylist())
    lacking = [_row(change) for change in changes if change.listed and change.id not in present]
    return pa.concat_tables([rows, pa.Table.from_pylist(lacking, SCHEMA)])


def _row(change: RunChange) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(change, name) for name in SCHEMA.names}
    return row | {"ledger_close_time": datetime.fromisoformat(change.ledger_close_time)}
