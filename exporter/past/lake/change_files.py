"""The intermediate form of the past: the changes of what is watched, out of a range of ledgers, as two Parquet files.

    FIRST-LAST.changes.parquet    ledger, close_time, order, key, kind, entry
    FIRST-LAST.ledgers.parquet    ledger, close_time, protocol; what is missing, and how the range links, as metadata

``order`` is a change's place among all changes to contract state of its ledger, so that files of several watches can be
put together. The same ledgers and the same watch give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.errors import StoreError
from exporter.past.lake.close_meta import Change

SCHEMA_VERSION = 1
ROW_GROUP_ROWS = 20_000

CHANGES = pa.schema(
    [
        ("ledger", pa.uint32()),
        ("close_time", pa.int64()),
        ("order", pa.uint32()),
        ("key", pa.binary()),
        ("kind", pa.uint8()),
        ("entry", pa.binary()),
    ]
)
LEDGERS = pa.schema([("ledger", pa.uint32()), ("close_time", pa.int64()), ("protocol", pa.uint16())])


class Gap(msgspec.Struct, frozen=True):
    """Ledgers of which nothing is known, and why."""

    first: int
    last: int
    reason: str


class RangeFacts(msgspec.Struct, frozen=True):
    """Metadata of a range's file: header hashes are hex, empty where nothing was read.

    ``touched`` is how many ledgers were walked.
    """

    first: int
    last: int
    previous_hash: str = ""
    last_hash: str = ""
    gaps: tuple[Gap, ...] = ()
    touched: int = 0


@dataclass(frozen=True, slots=True)
class LedgerChanges:
    """A ledger's changes, of what is watched, in their order."""

    ledger: int
    close_time: int
    protocol: int
    changes: Sequence[tuple[int, Change]]


class ChangesWriter:
    """Writes the two files of a range into memory, a row group at a time; no more than that is held as rows."""

    def __init__(self) -> None:
        self._changes, self._ledgers = io.BytesIO(), io.BytesIO()
        self._rows: list[tuple[int, int, int, bytes, int, bytes | None]] = []
        self._closes: list[tuple[int, int, int]] = []
        self._changes_writer = _writer(self._changes, CHANGES)

    def add(self, ledger: int, close_time: int, protocol: int, changes: Iterable[tuple[int, Change]]) -> None:
        self._closes.append((ledger, close_time, protocol))
        self._rows += [(ledger, close_time, order, item.key, item.kind, item.entry) for order, item in changes]
        if len(self._rows) >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._changes_writer.write_table(_table(self._rows, CHANGES))
            self._rows = []

    def finish(self, facts: RangeFacts) -> tuple[bytes, bytes]:
        """The bytes of the file of changes and of that of ledgers."""
        self._flush()
        self._changes_writer.close()
        schema = LEDGERS.with_metadata(
            {"schema_version": str(SCHEMA_VERSION), "range": msgspec.json.encode(facts).decode()}
        )
        with _writer(self._ledgers, schema) as writer:
            writer.write_table(_table(self._closes, schema))
        return self._changes.getvalue(), self._ledgers.getvalue()


def _writer(target: io.BytesIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(target, schema, compression="zstd", compression_level=6, use_dictionary=["key", "entry"])


def _table(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def read_facts(data: bytes, name: str) -> RangeFacts:
    """The range of a file of ledgers. Raises `StoreError`."""
    try:
        metadata = pq.read_schema(pa.BufferReader(data)).metadata or {}
        if metadata[b"schema_version"] != str(SCHEMA_VERSION).encode():
            raise KeyError("schema_version")
        return msgspec.json.decode(metadata[b"range"], type=RangeFacts)
    except (KeyError, OSError, pa.ArrowException, msgspec.DecodeError) as error:
        raise StoreError(f"{name} is not a file of changes of this version: {error}; remove it") from error


def read_ledgers(data: bytes) -> dict[int, tuple[int, int]]:
    """The close time and the protocol of each ledger of a file of ledgers, ascending."""
    table = pq.read_table(pa.BufferReader(data))
    ledgers, times, protocols = (table.column(name).to_pylist() for name in LEDGERS.names)
    return dict(zip(ledgers, zip(times, protocols, strict=True), strict=True))


def read_changes(data: bytes, kind: int | None = None) -> Iterator[tuple[int, list[tuple[int, Change]]]]:
    """Each ledger that has changes (of a kind), with these and their order; a row group is held at a time."""
    rows = _rows_of(data, kind)
    for ledger, group in groupby(rows, key=itemgetter(0)):
        yield ledger, [(order, change) for _, order, change in group]


def _rows_of(data: bytes, wanted: int | None) -> Iterator[tuple[int, int, Change]]:
    file = pq.ParquetFile(pa.BufferReader(data))
    for number in range(file.num_row_groups):
        table = file.read_row_group(number, columns=["ledger", "order", "key", "kind", "entry"])
        if wanted is not None:
            table = table.filter(pc.equal(table.column("kind"), wanted))
        columns = (table.column(name).to_pylist() for name in table.column_names)
        for ledger, order, key, kind, entry in zip(*columns, strict=True):
            yield ledger, order, Change(kind, key, entry)
