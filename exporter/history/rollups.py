"""Makes the rollups: the last run of each closed day and of each closed hour, in Parquet files with lasting keys.

    history/daily.parquet           all days since the beginning, with every column
    history/hourly.parquet          the hours since the month began in which the last 90 days begin; some columns
    history/hourly-2026-08.parquet  the hours of one month before these

A bucket has the rows of the last run in it that has rows. It is closed when the history has a run after it, with or
without rows. Times are in UTC.

The same history always gives the same bytes. A file is a sequence of groups: the hours of a day, or 32 days. Each group
is sorted by market, pool and ledger. When a bucket closes, the groups before it are copied, and only the run that the
bucket takes is read. If there is no previous file, or ledgers were added to the past, the file is made from all files
of the history.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.approximate import APPROXIMATE_NAMES, APPROXIMATE_SOURCES, arrow_fields, with_approximate
from exporter.history.empty_runs import empty_runs
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
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.tree.documents import HistoryFile, HistoryManifest, HistoryRollup, timestamp
from exporter.tree.families import DAILY_ROLLUP, HOURLY_ROLLUP, MONTH_ROLLUP

HOURLY_WINDOW = timedelta(days=90)
"""How far back the hourly file reaches; it begins with the first day of the month."""

MAX_POOLS_FOR_WINDOW = 2_000
"""Largest number of pools in the newest run for which the hourly file covers `HOURLY_WINDOW`.

With more pools it covers only the current month, so that it fits in memory."""

MAX_READS = 5_000
"""Largest number of history files that a run reads to make rollups again. With more, it waits for compaction."""

ReadFile = Callable[[str], bytes | None]
"""A function that returns the file of a key; None if it is missing."""

Group = tuple[int, pa.Table]
"""A group of rows: its start in unix seconds, and its rows."""


class UnreadableHistoryError(StoreError):
    """A history file that a rollup needs is missing or damaged, or too many files would have to be read."""


class RollupKind(Struct, frozen=True):
    """A kind of rollup.

    Attributes:
        bucket: the length of the buckets whose last run it has.
        key: the key of its lasting file.
        group: the span whose rows lie next to each other in the file, sorted by market, pool and ledger.
        columns: its exact columns.
        approximate: its approximate columns, which come after the exact ones.
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
        """A digest of what readers see of the columns: names, types and descriptions. Arrow's encoding is left out."""
        columns = [
            [field.name, str(field.type), (field.metadata or {}).get(b"description", b"").decode()]
            for field in self.schema
        ]
        return hashlib.sha256(msgspec.json.encode(columns)).hexdigest()


DAILY = RollupKind(DAY, DAILY_ROLLUP.only_key, THIRTY_TWO_DAYS, tuple(DESCRIBED_SCHEMA.names), APPROXIMATE_NAMES)
HOURLY = RollupKind(HOUR, HOURLY_ROLLUP.only_key, DAY, HOURLY_COLUMNS, HOURLY_APPROXIMATE)
KINDS = (DAILY, HOURLY)


class RollupFile(Struct, frozen=True):
    """A rollup file that changed, and its entry for the history's manifest."""

    entry: HistoryRollup
    data: bytes


def updated_rollups(
    manifest: HistoryManifest, read: ReadFile, *, most_reads: int | None = MAX_READS
) -> tuple[list[HistoryRollup], Iterator[RollupFile]]:
    """Update the rollups to match the history. ``manifest`` has the history's files, and the rollups as they are now.

    Returns the entries of the rollup files that stay, and an iterator of the files that change. A file is made when the
    iterator is asked for it, which can raise `UnreadableHistoryError`, or `CheckError` if the file does not read back
    as it was written. At most ``most_reads`` history files are read;
    None for as many as are needed.
    """
    runs = _Runs(manifest, read, most_reads)
    try:
        newest = runs.newest()
    except UnreadableHistoryError:
        return manifest.rollups, iter(())
    if newest is None:
        return [], iter(())
    newest_time, pool_count = newest
    entries: list[HistoryRollup] = []
    files: list[Iterator[RollupFile]] = []
    by_key = {entry.key: entry for entry in manifest.rollups}
    for kind in KINDS:
        entry, end = by_key.get(kind.key), kind.bucket.start(newest_time)
        same_kind = [each for each in manifest.rollups if each.bucket == kind.bucket.name]
        is_current = entry is not None and entry.ends == timestamp(end) and has_same_history(entry, manifest)
        if entry is not None and is_current and has_columns(entry, kind):
            entries += same_kind
            continue
        start = _first_hour(end, pool_count) if kind is HOURLY else 0
        base = None if entry is None else _base_file(kind, entry, manifest, read, start, end)
        if base is None:
            entry = None
        else:
            entries += [each for each in same_kind if each.key != kind.key]
        files.append(_changed_files(kind, entry, base, start, end, runs, manifest))
    return entries, (file for each in files for file in each)


def has_same_history(entry: HistoryRollup, manifest: HistoryManifest) -> bool:
    """Whether the history up to the last ledger of a rollup is still the one that the rollup was made from."""
    return entry.source_rows == _source_rows(manifest, entry.last_ledger)


def has_columns(entry: HistoryRollup, kind: RollupKind) -> bool:
    """Whether a rollup has the columns that this version writes."""
    return entry.columns_sha256 == kind.columns_sha256


def _source_rows(manifest: HistoryManifest, last_ledger: int) -> int:
    """The number of rows in the history up to a ledger."""
    return sum(file.rows for file in manifest.files if file.first_ledger <= last_ledger)


def _first_hour(end: int, pool_count: int) -> int:
    """The beginning of the hourly file that ends at a time. Both are in unix seconds."""
    end_time = datetime.fromtimestamp(end, UTC)
    first = end_time if pool_count > MAX_POOLS_FOR_WINDOW else end_time - HOURLY_WINDOW
    return int(first.replace(day=1, hour=0, minute=0, second=0).timestamp())


def _base_file(
    kind: RollupKind, entry: HistoryRollup, manifest: HistoryManifest, read: ReadFile, start: int, end: int
) -> pq.ParquetFile | None:
    """The previous file, if the new one only adds buckets to it; None if the new one is made from the whole history.

    The new file covers the time from ``start`` to ``end``, in unix seconds.
    """
    if _seconds(entry.ends) > end or not has_same_history(entry, manifest) or not has_columns(entry, kind):
        return None
    data = read(kind.key)
    if data is None or hashlib.sha256(data).hexdigest() != entry.sha256:
        return None  # it is damaged, or a run wrote it and died before it replaced the manifest
    file = open_parquet(data)
    if _seconds(file.metadata.metadata[b"begins"].decode()) > start:
        return None
    return file if file.schema_arrow.equals(kind.schema, check_metadata=True) else None


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


def _changed_files(
    kind: RollupKind,
    entry: HistoryRollup | None,
    base: pq.ParquetFile | None,
    start: int,
    end: int,
    runs: _Runs,
    manifest: HistoryManifest,
) -> Iterator[RollupFile]:
    """Make the files of a kind that change: those of months before ``start``, and the lasting file up to ``end``.

    ``base`` is the previous lasting file, and ``entry`` its entry in the manifest. Without it, all is made from runs.
    """
    last, since = (0, 0) if entry is None else (entry.last_ledger, _seconds(entry.ends))
    groups = _groups(kind, base, since, runs.rows(kind, since, end))
    groups = chain(groups, [(end, kind.schema.empty_table())])  # so that there is a lasting file in any case
    for month, month_groups in groupby(groups, lambda group: None if group[0] >= start else _month(group[0])):
        buffer, rows, newest = io.BytesIO(), 0, 0
        with pq.ParquetWriter(
            buffer, kind.schema, compression="zstd", compression_level=9, write_page_checksum=True
        ) as writer:
            for _, table in month_groups:
                if table.num_rows:
                    rows += table.num_rows
                    newest = max(newest, pc.max(table.column("observed_ledger")).as_py())
                    writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)
            last = max(last, newest)
            covered = last if month is None else newest  # the lasting file's ledger counts the months before it, too
            file_start, file_end = (start, end) if month is None else _span(month)
            metadata = {
                "table": "pools",
                "bucket": kind.bucket.name,
                "begins": timestamp(file_start),
                "ends": timestamp(file_end),
                "last_ledger": str(covered),
                "source_rows": str(_source_rows(manifest, covered)),
            }
            writer.add_key_value_metadata(metadata)
        key = kind.key if month is None else MONTH_ROLLUP.key(month=month)
        data = buffer.getvalue()
        _check_written(key, data, rows, newest)
        yield RollupFile(_entry(kind, key, data, rows, metadata), data)


def _check_written(key: str, data: bytes, rows: int, newest: int) -> None:
    """Raise `CheckError` unless Polars reads back as many rows as were written, of which the newest ledger is this."""
    ledger = pl.col("observed_ledger")
    try:
        read = pl.scan_parquet(data).select(pl.len(), ledger.max().fill_null(0)).collect().row(0)
    except (*POLARS_ERRORS, OSError) as error:
        raise CheckError(f"{key}: Polars cannot read the rollup back: {error}") from error
    if read != (rows, newest):
        raise CheckError(
            f"{key}: {rows} rows up to ledger {newest} were written, and {read[0]} up to ledger {read[1]} read back"
        )


def _month(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m}"


def _span(folder: str) -> tuple[int, int]:
    """The start (inclusive) and the end (exclusive) of a day or a month, in unix seconds."""
    start, end = span_of(folder)
    return int(start.timestamp()), int(end.timestamp())


def _entry(kind: RollupKind, key: str, data: bytes, rows: int, metadata: dict[str, str]) -> HistoryRollup:
    return HistoryRollup(
        key=key,
        url=file_reference(key),
        bucket=metadata["bucket"],
        rows=rows,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        ends=metadata["ends"],
        last_ledger=int(metadata["last_ledger"]),
        source_rows=int(metadata["source_rows"]),
        columns_sha256=kind.columns_sha256,
    )


def _groups(kind: RollupKind, base: pq.ParquetFile | None, since: int, new: Iterator[pl.DataFrame]) -> Iterator[Group]:
    """The groups of a file, ascending. Groups of the base that get no new rows are copied as they are."""
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


def _group_of(kind: RollupKind, table: pa.Table) -> int:
    """The start of the group that these rows are of, in unix seconds."""
    time: datetime = pc.min(table.column("ledger_close_time")).as_py()
    return kind.group.start(int(time.timestamp()))


def _by_group(kind: RollupKind, rows: pl.DataFrame) -> Iterator[Group]:
    starts = kind.group.start(pl.col("ledger_close_time").dt.epoch("s"))
    groups = rows.with_columns(starts.alias("group")).partition_by("group", as_dict=True, include_key=False)
    for (start,), part in sorted(groups.items(), key=itemgetter(0)):
        yield start, part.to_arrow().cast(kind.schema)


class _Runs:
    """Reads runs out of the history's files. Only one file is in memory at a time."""

    def __init__(self, manifest: HistoryManifest, read: ReadFile, most_reads: int | None) -> None:
        files = sorted(manifest.files, key=lambda file: file.first_ledger)
        self._newest_file = files[-1] if files else None
        self._files = [file for file in files if file.rows]
        self._read, self._reads_left = read, most_reads
        self._file_in_memory = ("", b"")
        self._times: dict[str, list[tuple[int, int]]] = {}

    def newest(self) -> tuple[int, int] | None:
        """The close time of the newest run in unix seconds, and the number of pools of the newest run with rows.

        None if there is no run.
        """
        if self._newest_file is None:
            return None
        times = [time for time, _ in self.times(self._newest_file)] if self._newest_file.rows else []
        newest_time = max((*times, *self._without_rows(self._newest_file)))
        if not self._files:
            return newest_time, 0
        newest_with_rows = self._files[-1]
        return newest_time, newest_with_rows.rows // len(self.times(newest_with_rows))

    def times(self, file: HistoryFile) -> list[tuple[int, int]]:
        """The close time in unix seconds and the ledger of each run with rows in a file, ascending."""
        if file.key not in self._times:
            columns = pl.col("ledger_close_time").dt.epoch("s"), pl.col("observed_ledger")
            runs = sorted(self._select(file, columns).unique().rows())
            if not runs:
                raise UnreadableHistoryError(f"{file.key} has no rows, though the history's manifest gives it some")
            _check_folder(file, [time for time, _ in runs])
            self._times[file.key] = runs
        return self._times[file.key]

    def _without_rows(self, file: HistoryFile) -> list[int]:
        """The close times in unix seconds of the runs in a file that have no rows."""
        try:
            times = list(empty_runs(open_parquet(self._data(file))).values())
        except DecodeError as error:
            raise UnreadableHistoryError(f"{file.key} cannot be read: {error}") from error
        if not times and not file.rows:
            raise UnreadableHistoryError(f"{file.key} has no rows, and does not say of which run it is")
        _check_folder(file, times)
        return times

    def rows(self, kind: RollupKind, begin: int, end: int) -> Iterator[pl.DataFrame]:
        """The rows that a rollup takes between two times, ascending: those of the last run in each of its buckets."""
        last = self._last_runs(kind.bucket, begin, end)
        for file in self._files:
            if ledgers := last.get(file.key):
                names = dict.fromkeys((*kind.columns, *APPROXIMATE_SOURCES))
                rows = self._select(file, list(names), pl.col("observed_ledger").is_in(ledgers))
                yield with_approximate(rows, kind.approximate).select(kind.schema.names)

    def _last_runs(self, bucket: Bucket, begin: int, end: int) -> dict[str, list[int]]:
        """The ledgers of the last run in each bucket between two times, keyed by the history file that has them."""
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
        try:
            return scan_rows(self._data(file)).filter(where).select(columns).collect()
        except (DecodeError, *POLARS_ERRORS) as error:
            raise UnreadableHistoryError(f"{file.key} cannot be read: {error}") from error

    def _data(self, file: HistoryFile) -> bytes:
        if self._file_in_memory[0] != file.key:
            if self._reads_left == 0:
                raise UnreadableHistoryError("too many files would have to be read; compact the history first")
            self._reads_left = None if self._reads_left is None else self._reads_left - 1
            self._file_in_memory = ("", b"")  # so that two are never in memory
            data = self._read(file.key)
            if data is None or hashlib.sha256(data).hexdigest() != file.sha256:
                raise UnreadableHistoryError(f"{file.key} is missing or is not the file that the manifest names")
            self._file_in_memory = file.key, data
        return self._file_in_memory[1]


def _check_folder(file: HistoryFile, times: Sequence[int]) -> None:
    """Raise `UnreadableHistoryError` unless these close times (unix seconds) are of the day or month of the folder."""
    start, end = _span(folder_of(file.key))
    if not all(start <= time < end for time in times):
        raise UnreadableHistoryError(f"{file.key} has runs of another day or month than its folder names")
