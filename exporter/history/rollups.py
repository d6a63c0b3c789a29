"""The rollups: the last run of each closed day and hour, in Parquet files under keys that stay.

    history/daily.parquet           all days since the beginning, every column
    history/hourly.parquet          the hours of the last 90 days, from the first day of a month on, some columns
    history/hourly-2026-08.parquet  the hours of a month before these

A bucket has the rows of its last run, if any run had rows; it is closed when the history has a run after it.
Times are UTC.

The same history gives the same bytes. A file is a sequence of groups, a day's hours or 32 days, each sorted by market,
pool and ledger. When a bucket closes, the groups before it are copied, and only the run that it takes is read. Without
a file to go on from, or after ledgers came into the past, all of them are made of the history's files.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.errors import DecodeError, StoreError
from exporter.history.approximate import APPROXIMATE_NAMES, APPROXIMATE_SOURCES, arrow_fields, with_approximate
from exporter.history.manifest import file_reference, folder_of, span_of
from exporter.history.parquet import DESCRIBED_SCHEMA, ORDER, ROW_GROUP_ROWS, scan_rows
from exporter.history.time_buckets import (
    DAY,
    HOUR,
    HOURLY_APPROXIMATE,
    HOURLY_COLUMNS,
    THIRTY_TWO_DAYS,
    Bucket,
    Span,
)
from exporter.parquet_bounds import open_parquet
from exporter.tree.documents import HistoryFile, HistoryManifest, HistoryRollup, timestamp
from exporter.tree.families import DAILY_ROLLUP, HOURLY_ROLLUP, MONTH_ROLLUP
from exporter.tree.same_values import same_tables

WINDOW = timedelta(days=90)
WIDE_POOLS = 2_000
"""With more pools in the newest run the hourly file has the current month only, so that it can be held in memory."""

MAX_READS = 5_000
"""How many files of the history a run reads at most to make rollups again; with more, it waits for compaction."""

Read = Callable[[str], bytes | None]
"""Gives a file of the tree by its key; None where it is missing."""

Group = tuple[int, pa.Table]
"""When a group begins, in unix seconds, and its rows."""


class UnreadableHistoryError(StoreError):
    """A file of the history that a rollup needs is missing, is damaged, or there are too many of them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rollup: the last run of each bucket.

    Attributes:
        group: the rows that lie next to each other in the file, sorted by market, pool and ledger.
        columns: the exact columns; the approximate ones come after them.
    """

    bucket: Bucket
    key: str
    group: Span
    columns: tuple[str, ...]
    approximate: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([DESCRIBED_SCHEMA.field(name) for name in self.columns] + arrow_fields(self.approximate))

    @property
    def columns_sha256(self) -> str:
        """A digest of what a reader sees of the columns: names, types and descriptions. How Arrow packs it is free."""
        columns = [
            [field.name, str(field.type), (field.metadata or {}).get(b"description", b"").decode()]
            for field in self.schema
        ]
        return hashlib.sha256(msgspec.json.encode(columns)).hexdigest()


DAILY = Kind(DAY, DAILY_ROLLUP.template, THIRTY_TWO_DAYS, tuple(DESCRIBED_SCHEMA.names), APPROXIMATE_NAMES)
HOURLY = Kind(HOUR, HOURLY_ROLLUP.template, DAY, HOURLY_COLUMNS, HOURLY_APPROXIMATE)
KINDS = (DAILY, HOURLY)


@dataclass(frozen=True, slots=True)
class RollupFile:
    """A rollup that changed, and its entry for the manifest."""

    entry: HistoryRollup
    data: bytes


def updated_rollups(
    manifest: HistoryManifest, read: Read, *, most_reads: int | None = MAX_READS
) -> tuple[list[HistoryRollup], Iterator[RollupFile]]:
    """Bring the rollups to a history, whose manifest has those of before.

    Gives the entries that stay, and the files that change, one at a time, each with its entry. At most ``most_reads``
    files of the history are read. Taking the files can raise `UnreadableHistoryError`.
    """
    runs = _Runs(manifest, read, most_reads)
    try:
        newest = runs.newest()
    except UnreadableHistoryError:
        return manifest.rollups, iter(())
    if newest is None:
        return [], iter(())
    time, pools = newest
    entries: list[HistoryRollup] = []
    files: list[Iterator[RollupFile]] = []
    by_key = {entry.key: entry for entry in manifest.rollups}
    for kind in KINDS:
        entry, ends = by_key.get(kind.key), kind.bucket.start(time)
        of_kind = [each for each in manifest.rollups if each.bucket == kind.bucket.name]
        if entry is not None and entry.ends == timestamp(ends) and holds(entry, manifest) and has_columns(entry, kind):
            entries += of_kind
            continue
        begins = _window(ends, pools) if kind is HOURLY else 0
        base = None if entry is None else _base(kind, entry, manifest, read, begins, ends)
        if base is None:
            entry = None
        else:
            entries += [each for each in of_kind if each.key != kind.key]
        files.append(_files(kind, entry, base, begins, ends, runs, manifest))
    return entries, (file for each in files for file in each)


def holds(entry: HistoryRollup, manifest: HistoryManifest) -> bool:
    """Whether the history up to the last ledger of a rollup is what it was made of."""
    return entry.source_rows == _source_rows(manifest, entry.last_ledger)


def has_columns(entry: HistoryRollup, kind: Kind) -> bool:
    """Whether a rollup has the columns that this version writes."""
    return entry.columns_sha256 == kind.columns_sha256


def _source_rows(manifest: HistoryManifest, last_ledger: int) -> int:
    return sum(file.rows for file in manifest.files if file.first_ledger <= last_ledger)


def _window(ends: int, pools: int) -> int:
    close = datetime.fromtimestamp(ends, UTC)
    first = close if pools > WIDE_POOLS else close - WINDOW
    return int(first.replace(day=1, hour=0, minute=0, second=0).timestamp())


def _base(
    kind: Kind, entry: HistoryRollup, manifest: HistoryManifest, read: Read, begins: int, ends: int
) -> pq.ParquetFile | None:
    """The file of before, where the new one is that with later buckets; None where all is made of the history."""
    if _seconds(entry.ends) > ends or not holds(entry, manifest) or not has_columns(entry, kind):
        return None
    data = read(kind.key)
    if data is None or hashlib.sha256(data).hexdigest() != entry.sha256:
        return None  # damaged, or of a step that died before it replaced the manifest
    file = open_parquet(data)
    if _seconds(file.metadata.metadata[b"begins"].decode()) > begins:
        return None
    return file if file.schema_arrow.equals(kind.schema, check_metadata=True) else None


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def _files(
    kind: Kind,
    entry: HistoryRollup | None,
    base: pq.ParquetFile | None,
    begins: int,
    ends: int,
    runs: _Runs,
    manifest: HistoryManifest,
) -> Iterator[RollupFile]:
    last, since = (0, 0) if entry is None else (entry.last_ledger, _seconds(entry.ends))
    groups = _groups(kind, base, since, runs.rows(kind, since, ends))
    groups = chain(groups, [(ends, kind.schema.empty_table())])
    for month, parts in groupby(groups, lambda group: None if group[0] >= begins else _month(group[0])):
        buffer, rows, newest = io.BytesIO(), 0, 0
        with pq.ParquetWriter(
            buffer, kind.schema, compression="zstd", compression_level=9, write_page_checksum=True
        ) as writer:
            for _, table in parts:
                if table.num_rows:
                    rows += table.num_rows
                    newest = max(newest, pc.max(table.column("observed_ledger")).as_py())
                    writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)
            last = max(last, newest)
            covered = last if month is None else newest  # the lasting file includes all months before it
            start, end = (begins, ends) if month is None else _span(month)
            said = {
                "table": "pools",
                "bucket": kind.bucket.name,
                "begins": timestamp(start),
                "ends": timestamp(end),
                "last_ledger": str(covered),
                "source_rows": str(_source_rows(manifest, covered)),
            }
            writer.add_key_value_metadata(said)
        key = kind.key if month is None else MONTH_ROLLUP.key(month=month)
        yield RollupFile(_entry(kind, key, buffer.getvalue(), rows, said), buffer.getvalue())


def _month(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m}"


def _span(folder: str) -> tuple[int, int]:
    begins, ends = span_of(folder)
    return int(begins.timestamp()), int(ends.timestamp())


def differ(one: bytes, other: bytes) -> bool:
    """Whether two files have other rows or groups, or say something else of them; how they are written is free."""
    try:
        return not same_tables(one, other)
    except (pa.ArrowException, OSError, DecodeError):
        return True


def _entry(kind: Kind, key: str, data: bytes, rows: int, said: dict[str, str]) -> HistoryRollup:
    return HistoryRollup(
        key=key,
        url=file_reference(key),
        bucket=said["bucket"],
        rows=rows,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        ends=said["ends"],
        last_ledger=int(said["last_ledger"]),
        source_rows=int(said["source_rows"]),
        columns_sha256=kind.columns_sha256,
    )


def _groups(kind: Kind, base: pq.ParquetFile | None, since: int, new: Iterator[pl.DataFrame]) -> Iterator[Group]:
    """The groups of a file, ascending; those of the base that get no new rows are as they were."""
    tables = () if base is None else map(base.read_row_group, range(base.num_row_groups))
    old = ((_group_of(kind, table), table) for table in tables)
    added = (group for rows in new for group in _by_group(kind, rows))
    for start, parts in groupby(chain(old, added), itemgetter(0)):
        if start < kind.group.start(since):
            yield from parts
        else:
            table = pa.concat_tables(table for _, table in parts).sort_by([(name, "ascending") for name in ORDER])
            for begin in range(0, table.num_rows, ROW_GROUP_ROWS):
                yield start, table.slice(begin, ROW_GROUP_ROWS).combine_chunks()


def _group_of(kind: Kind, table: pa.Table) -> int:
    time: datetime = pc.min(table.column("ledger_close_time")).as_py()
    return kind.group.start(int(time.timestamp()))


def _by_group(kind: Kind, rows: pl.DataFrame) -> Iterator[Group]:
    starts = kind.group.start(pl.col("ledger_close_time").dt.epoch("s"))
    groups = rows.with_columns(starts.alias("group")).partition_by("group", as_dict=True, include_key=False)
    for (start,), part in sorted(groups.items(), key=itemgetter(0)):
        yield start, part.to_arrow().cast(kind.schema)


class _Runs:
    def __init__(self, manifest: HistoryManifest, read: Read, most_reads: int | None) -> None:
        self._files = sorted((file for file in manifest.files if file.rows), key=lambda file: file.first_ledger)
        self._read, self._left = read, most_reads
        self._held = ("", b"")
        self._times: dict[str, list[tuple[int, int]]] = {}

    def newest(self) -> tuple[int, int] | None:
        """When the newest run was (unix seconds), and how many pools it has; None where there is none."""
        if not self._files:
            return None
        times = self.times(self._files[-1])
        return times[-1][0], self._files[-1].rows // len(times)

    def times(self, file: HistoryFile) -> list[tuple[int, int]]:
        if file.key not in self._times:
            columns = pl.col("ledger_close_time").dt.epoch("s"), pl.col("observed_ledger")
            runs = sorted(self._select(file, columns).unique().rows())
            start, end = _span(folder_of(file.key))
            if not runs or not start <= runs[0][0] <= runs[-1][0] < end:
                raise UnreadableHistoryError(f"{file.key} has runs of another day or month than its folder names")
            self._times[file.key] = runs
        return self._times[file.key]

    def rows(self, kind: Kind, begin: int, end: int) -> Iterator[pl.DataFrame]:
        last = self._last_runs(kind.bucket, begin, end)
        for file in self._files:
            if ledgers := last.get(file.key):
                names = dict.fromkeys((*kind.columns, *APPROXIMATE_SOURCES))
                rows = self._select(file, list(names), pl.col("observed_ledger").is_in(ledgers))
                yield with_approximate(rows, kind.approximate).select(kind.schema.names)

    def _last_runs(self, bucket: Bucket, begin: int, end: int) -> dict[str, list[int]]:
        ledgers_by_file: dict[str, list[int]] = {}
        limit = end
        for file in reversed(self._files):
            if limit <= begin:
                break
            if _span(folder_of(file.key))[0] >= limit:
                continue
            for time, ledger in reversed(self.times(file)):
                if begin <= time < limit:
                    ledgers_by_file.setdefault(file.key, []).append(ledger)
                    limit = bucket.start(time)
        return ledgers_by_file

    def _select(
        self, file: HistoryFile, columns: Sequence[str | pl.Expr], where: bool | pl.Expr = True
    ) -> pl.DataFrame:
        if self._held[0] != file.key:
            if self._left == 0:
                raise UnreadableHistoryError("too many files would have to be read; compact the history first")
            self._left = None if self._left is None else self._left - 1
            self._held = ("", b"")  # before another is held
            data = self._read(file.key)
            if data is None or hashlib.sha256(data).hexdigest() != file.sha256:
                raise UnreadableHistoryError(f"{file.key} is missing or is not the file that the manifest names")
            self._held = file.key, data
        try:
            return scan_rows(self._held[1]).filter(where).select(columns).collect()
        except (DecodeError, pl.exceptions.PolarsError) as error:
            raise UnreadableHistoryError(f"{file.key} cannot be read: {error}") from error
