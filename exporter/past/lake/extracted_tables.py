"""Changes that others extracted: Hubble's tables as Parquet, and stellar-etl's JSON lines (docs/lake.md, "Tables").

    tables = Tables.open(Path("exports"))   # contract_data, ttl and ledgers, told by their columns
    files = extract_rows(tables, work)      # what exporter.past.lake.extract gives for the same ledgers of a lake

They have one row a ledger and key, what an entry was at the ledger's end; no code, no evictions and no events.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import fields

from exporter.errors import ConfigError, DecodeError
from exporter.ledger.codec.entries import data_key, decode_contract_data
from exporter.past.lake.change_files import ChangesWriter, Gap, RangeFacts
from exporter.past.lake.close_meta import CREATED, EVICTED, REMOVED, RESTORED, UPDATED, Change
from exporter.past.lake.extract import Extracted, RangeOfLedgers
from exporter.past.lake.watch import Watch
from exporter.past.lake.wrongly_archived import wrongly_archived

_LAST_LEDGER = 0xFFFFFFFF
MAX_FILES = 100_000
MAX_LINE_BYTES = 4 * 2**20
BATCH_ROWS = 8_192

_DATA, _TTL, _NO_EXTENSION = b"\0\0\0\x06", b"\0\0\0\x09", bytes(4)


class TableRow(Struct):
    """What every row has: its ledger, and when that closed."""

    ledger_sequence: int
    closed_at: datetime

    @property
    def time(self) -> int:
        """The close time in unix seconds; a time without a zone is in UTC."""
        return int((self.closed_at if self.closed_at.tzinfo else self.closed_at.replace(tzinfo=UTC)).timestamp())


class DataRow(TableRow):
    """A row of ``contract_data``: what an entry was at a ledger's end, or had been when it was removed."""

    contract_data_xdr: str
    last_modified_ledger: int
    ledger_entry_change: int
    deleted: bool
    ledger_key_hash_base_64: str | None = None

    def change(self) -> Change:
        """The change. Raises `DecodeError`."""
        data = _DATA + _decoded(self.contract_data_xdr, "contract_data_xdr")
        if self.ledger_key_hash_base_64:
            key = _decoded(self.ledger_key_hash_base_64, "ledger_key_hash_base_64")
            if key[:4] != _DATA or data[8 : len(key) + 4] != key[4:]:  # the entry has four bytes before its key's parts
                raise DecodeError("contract_data_xdr is not of the key in ledger_key_hash_base_64")
        else:
            decoded = decode_contract_data(data)
            key = data_key(decoded.contract, decoded.key, decoded.durability)
        return _change(self, key, data)


class LifeRow(TableRow):
    """A row of ``ttl``: until when an entry lives, by the hash of its key."""

    key_hash: str
    live_until_ledger_seq: int
    last_modified_ledger: int
    ledger_entry_change: int
    deleted: bool

    def change(self) -> Change:
        """The change. Raises `DecodeError`."""
        try:
            digest = bytes.fromhex(self.key_hash)
            if len(digest) != 32:
                raise ValueError
            return _change(self, _TTL + digest, _TTL + digest + self.live_until_ledger_seq.to_bytes(4, "big"))
        except (ValueError, OverflowError):
            raise DecodeError(f"{self.key_hash[:80]!r} with {self.live_until_ledger_seq} is no time to live") from None


class LedgerRow(TableRow, kw_only=True):
    """A row of ``history_ledgers``."""

    ledger_sequence: int = msgspec.field(name="sequence")
    protocol_version: int
    ledger_hash: str | None = None
    previous_ledger_hash: str | None = None


Row = TypeVar("Row", bound=TableRow)
Line = TypeVar("Line")


class TableFile(NamedTuple):
    """A file of rows of one kind, and which ledgers they are of."""

    path: str
    first: int
    last: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Tables:
    """A folder with the three tables, each in any number of files."""

    label: str
    data: tuple[TableFile, ...]
    lives: tuple[TableFile, ...]
    ledgers: tuple[TableFile, ...]

    @classmethod
    def open(cls, folder: Path) -> Tables:
        """Look at every file. Raises `ConfigError` for one that is none of the tables, and where one has no rows."""
        if not folder.is_dir():
            raise ConfigError(f"--tables {folder}: there is no such folder")
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
        if len(paths) > MAX_FILES:
            raise ConfigError(f"--tables {folder} has {len(paths):,} files, more than {MAX_FILES:,}; give it fewer")
        found: dict[type[TableRow], list[TableFile]] = {DataRow: [], LifeRow: [], LedgerRow: []}
        for path in paths:
            kind, first, last = _looked_at(path)
            if first <= last:
                found[kind].append(TableFile(str(path), first, last, path.stat().st_size))
        for kind, (name, why) in _NEEDED.items():
            if not found[kind]:
                raise ConfigError(f"--tables {folder} has no rows of {name}: {why} (docs/lake.md has the SQL)")
        return cls(f"the tables of {folder.name}", *(tuple(found[kind]) for kind in (DataRow, LifeRow, LedgerRow)))

    @property
    def digest(self) -> str:
        """Names what is in the folder, 8 hex digits: other files give other changes."""
        files = [(Path(file.path).name, file.bytes) for file in (*self.data, *self.lives, *self.ledgers)]
        return hashlib.sha256(repr(files).encode()).hexdigest()[:8]

    def span(self) -> tuple[int, int]:
        """The first and the last ledger."""
        return min(file.first for file in self.ledgers), max(file.last for file in self.ledgers)

    def close_of(self, ledger: int) -> tuple[int, int]:
        """When a ledger closed, and its protocol; of one that is missing those of the one before."""
        closes = _closes(self)
        place = max(closes["sequence"].search_sorted(ledger, side="right") - 1, 0)
        return int(closes["time"][place]), int(closes["protocol"][place])


_MARKS: dict[str, type[TableRow]] = {
    "contract_data_xdr": DataRow, "live_until_ledger_seq": LifeRow, "protocol_version": LedgerRow,
}  # fmt: skip
"""The column by which a table is told."""

_NEEDED: dict[type[TableRow], tuple[str, str]] = {
    DataRow: ("contract_data", "they are the changes"),
    LifeRow: ("ttl", "without them nothing tells what is archived or gone"),
    LedgerRow: ("history_ledgers", "without them nothing tells which ledger was the last before a boundary"),
}


def extract_rows(tables: Tables, work: RangeOfLedgers) -> Extracted:
    """Extract a range: the two files that `exporter.past.lake.extract.extract` makes of a lake.

    A ledger that ``history_ledgers`` lacks, that does not follow the one before, or whose rows contradict each other is
    a gap. Raises `DecodeError` for a file that cannot be read.
    """
    watch = Watch(work.contracts, work.keys)
    closes = _Closes(tables, work.first, work.last)
    changes: dict[int, dict[bytes, Change]] = {}
    data = _rows(DataRow, tables.data, work.first, work.last)
    lives = _rows(LifeRow, tables.lives, work.first, work.last)
    rows: Iterator[DataRow | LifeRow] = chain(data, lives)
    for row in rows:
        ledger = row.ledger_sequence
        close = closes.found.get(ledger)
        if close is None:
            continue
        try:
            change = row.change()
            if isinstance(row, DataRow) and not watch.wants(change):
                continue
            if row.time != close.time:
                raise DecodeError("its rows and history_ledgers name two close times")
            if changes.setdefault(ledger, {}).setdefault(change.key, change) != change:
                raise DecodeError(f"two rows of the key {change.key.hex()[:200]} differ")
        except DecodeError as error:
            closes.lose(ledger, str(error))
    for key, wrong in wrongly_archived(work.passphrase, watch.wants_key).items():
        if wrong.evicted in closes.found:  # the one eviction that changes a value, and nothing in the tables says so
            changes.setdefault(wrong.evicted, {}).setdefault(key, Change(EVICTED, key, None))
    writer = ChangesWriter()
    for ledger, close in sorted(closes.found.items()):
        of_ledger = changes.get(ledger, {})
        writer.add(ledger, close.time, close.protocol_version, [(0, of_ledger[key]) for key in sorted(of_ledger)])
    first, last = closes.found.get(work.first), closes.found.get(work.last)
    facts = RangeFacts(
        work.first,
        work.last,
        (first and first.previous_ledger_hash) or "",
        (last and last.ledger_hash) or "",
        tuple(closes.gaps()),
        touched=sum(map(bool, changes.values())),
        bytes=sum(file.bytes for file in (*tables.data, *tables.lives) if _overlaps(file, work.first, work.last)),
    )
    return Extracted(*writer.finish(facts), facts)


class _Closes:
    """The ledgers of a range that are known, and why others are not."""

    def __init__(self, tables: Tables, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._lost: dict[int, str] = {}
        self.found: dict[int, LedgerRow] = {}
        for row in _rows(LedgerRow, tables.ledgers, first, last):
            if self.found.setdefault(row.ledger_sequence, row) != row:
                self._lost[row.ledger_sequence] = "two rows of history_ledgers differ"
        for ledger, row in sorted(self.found.items()):
            before = self.found.get(ledger - 1)
            if before and before.ledger_hash and row.previous_ledger_hash not in (None, before.ledger_hash):
                self._lost[ledger] = f"it does not follow ledger {ledger - 1}: its previous_ledger_hash is another"
        for ledger in self._lost:
            self.found.pop(ledger)

    def lose(self, ledger: int, reason: str) -> None:
        """Note that a ledger's rows cannot be true."""
        self._lost.setdefault(ledger, reason)
        self.found.pop(ledger)

    def gaps(self) -> Iterator[Gap]:
        """What is not known, ascending."""
        edges = [self._first - 1, *sorted(self.found.keys() | self._lost.keys()), self._last + 1]
        for before, after in pairwise(edges):
            if before in self._lost:
                yield Gap(before, before, self._lost[before])
            if after - before > 1:
                yield Gap(before + 1, after - 1, "history_ledgers does not have it")


def _change(row: DataRow | LifeRow, key: bytes, data: bytes) -> Change:
    kind = row.ledger_entry_change
    if kind not in (CREATED, UPDATED, REMOVED, RESTORED) or row.deleted != (kind == REMOVED):
        raise DecodeError(f"ledger_entry_change {kind} with deleted {row.deleted} is no change")
    if kind == REMOVED:
        return Change(kind, key, None)
    return Change(kind, key, row.last_modified_ledger.to_bytes(4, "big") + data + _NO_EXTENSION)


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(f"{name} is no base64: {error}") from None


@cache
def _closes(tables: Tables) -> pl.DataFrame:
    sequences, times, protocols = array("I"), array("q"), array("H")
    for row in _rows(LedgerRow, tables.ledgers, *tables.span()):
        sequences.append(row.ledger_sequence)
        times.append(row.time)
        protocols.append(row.protocol_version)
    columns = {"sequence": (sequences, pa.uint32()), "time": (times, pa.int64()), "protocol": (protocols, pa.uint16())}
    arrays = [
        pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)]) for values, kind in columns.values()
    ]
    frame = pl.DataFrame(pa.table(arrays, names=list(columns)))
    return frame.unique("sequence", keep="first", maintain_order=True).sort("sequence")


def _overlaps(file: TableFile, first: int, last: int) -> bool:
    return file.first <= last and first <= file.last


def _looked_at(path: Path) -> tuple[type[TableRow], int, int]:
    """What a file's rows are, and the first and the last ledger of them. Raises `ConfigError`."""
    try:
        columns = _columns(path)
        kind = next((each for mark, each in _MARKS.items() if mark in columns), None)
        if kind is None:
            raise DecodeError(f"{path.name} has none of the columns {', '.join(_MARKS)}, so it is none of the tables")
        lacks = [field.encode_name for field in fields(kind) if field.required and field.encode_name not in columns]
        if lacks:
            raise DecodeError(f"{path.name} lacks the column {lacks[0]}")
        if _is_parquet(path):
            name = _ledger_column(kind)
            found = pc.min_max(pq.read_table(path, columns=[name]).column(name)).as_py()
            ledgers = [ledger for ledger in found.values() if ledger is not None]
        else:
            ledgers = [row.ledger_sequence for rows in _batches(kind, path) for row in rows]
    except (DecodeError, pa.ArrowException) as error:
        raise ConfigError(f"--tables: {error} (docs/lake.md has the SQL)") from None
    return kind, min(ledgers, default=1), max(ledgers, default=0)


def _ledger_column(kind: type[TableRow]) -> str:
    return "sequence" if kind is LedgerRow else "ledger_sequence"


def _is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet"


def _columns(path: Path) -> Sequence[str]:
    try:
        if _is_parquet(path):
            return list(pq.read_schema(path).names)
        return list(next(_lines(path, msgspec.json.Decoder(dict[str, Any])), {}))
    except (OSError, pa.ArrowException) as error:
        raise DecodeError(f"{path.name} is neither Parquet nor JSON lines: {error}") from None


def _rows(kind: type[Row], files: Sequence[TableFile], first: int, last: int) -> Iterator[Row]:
    """The rows of a range of ledgers, file by file; some thousands are held at a time."""
    for file in files:
        if _overlaps(file, first, last):
            for rows in _batches(kind, Path(file.path), first, last):
                yield from rows


def _batches(kind: type[Row], path: Path, first: int = 0, last: int = _LAST_LEDGER) -> Iterator[list[Row]]:
    if not _is_parquet(path):
        for row in _lines(path, msgspec.json.Decoder(kind)):
            if first <= row.ledger_sequence <= last:
                yield [row]
        return
    name = _ledger_column(kind)
    try:
        source = ds.dataset(path, format="parquet")
        columns = [field.encode_name for field in fields(kind) if field.encode_name in source.schema.names]
        within = (ds.field(name) >= first) & (ds.field(name) <= last)
        for batch in source.scanner(columns=columns, filter=within, batch_size=BATCH_ROWS).to_batches():
            yield msgspec.convert(batch.to_pylist(), list[kind])  # type: ignore[valid-type]
    except (OSError, pa.ArrowException, msgspec.ValidationError) as error:
        raise DecodeError(f"{path.name}: {error}") from None


def _lines(path: Path, decoder: msgspec.json.Decoder[Line]) -> Iterator[Line]:
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if line.strip():
                    yield decoder.decode(line)
    except (OSError, msgspec.DecodeError) as error:
        raise DecodeError(f"{path.name}, line {number}: {error}") from None
