"""Compacts the history: the files of a closed day become one file, and later those of an old month become one.

A compacted file has exactly the rows of the files that it replaces, sorted by market, pool and ledger. It lists the
runs of these files that have no rows (`exporter.history.empty_runs`). The same files always give the same bytes. Three
steps make sure that nothing is lost, and that no reader meets a missing file:

1. The sweep's state notes which file replaces which, and since when. So the sweep keeps the replaced files for the
   retention time.
2. The compacted file is written. Its key names its ledgers and its content, so it overwrites no other file.
3. The history's manifest is replaced in one step.

After a crash the manifest is unchanged. If the compacted file was written and no manifest names it, a later sweep
removes it. The memory that is needed is that of the compressed files, and of the rows of one stretch of pools.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from exporter.bounds import PARQUET_ROWS, PARQUET_VALUES
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.empty_runs import EmptyRuns, empty_runs, listed_in_metadata
from exporter.history.manifest import HistoryPart, data_of, folder_of, history_entry
from exporter.history.parquet import ARROW_SCHEMA, FILE_SCHEMA, ORDER, stated_network
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.publishing.published_history import read_checked_history_manifest, replace_history
from exporter.publishing.published_state import read_published
from exporter.publishing.sweep_state import forget_named, record_replaced
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, read_many, utc_now
from exporter.tables import PoolKey, pool_keys
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_FILES_PREFIX
from exporter.tree.files import FileKind, RenderedFile

DEFAULT_MONTHS = 2
"""Number of whole months before the newest day that keep a file for each day; earlier months become one file each."""

_MONTH_LENGTH = len("2026-11")

STRETCH_ROWS = 50_000
"""Number of rows at which a stretch of pools ends. The rows of a stretch are unpacked at once, and are one row group.

A stretch has all rows of each of its pools, so the pool that ends it may take it beyond this number."""

MAX_MONTH_BYTES = 256 * 2**20
"""Largest total size of the files of a month that become one file. A larger month keeps a file for each day, because a
reader has to download a file as a whole."""


def compact_files(store: Store, folder: str, files: Sequence[HistoryFile]) -> HistoryPart:
    """Join history files of one schema version, ascending by ledger, to one file in ``folder``. Nothing is written.

    Raises `StoreError` for a file that is missing or damaged, or that has columns which this version would lose.
    Raises `CheckError` if the files do not fit together, or the joined file does not read back as their rows.
    """
    by_key = {file.key: file for file in files}
    read = {key: data_of(stored, by_key[key]) for key, stored in read_many(store, by_key)}
    parts = [read[file.key] for file in files]
    opened = {file.key: _opened(file, read[file.key]) for file in files}
    networks = sorted({stated_network(parquet) for parquet in opened.values()})
    if len(networks) != 1:
        raise CheckError(f"{files[0].key} and its neighbours are of different networks: {', '.join(networks)}")
    first, last = files[0].first_ledger, max(file.last_ledger for file in files)
    rows = sum(file.rows for file in files)
    try:
        data = joined_rows(parts, networks[0], first, last, _empty_runs_of(opened))
        _check_joined(folder, data, parts, rows)
    except POLARS_ERRORS as error:
        raise StoreError(f"{files[0].key} or one of its neighbours cannot be read: {error}") from error
    key = f"{folder}{first}-{last}-{hashlib.sha256(data).hexdigest()[:12]}.parquet"
    return HistoryPart(RenderedFile(key, data, FileKind.HISTORY), history_entry(key, data, rows))


def joined_rows(parts: Sequence[bytes], network: str, first: int, last: int, without_rows: EmptyRuns) -> bytes:
    """One Parquet file with the rows of several, which are of the ledgers ``first`` to ``last``.

    ``without_rows`` are the runs among these ledgers that have no rows.
    Joining a single file that was joined before gives that file again.
    """
    metadata = {
        "table": "pools",
        "network": network,
        "first_ledger": str(first),
        "last_ledger": str(last),
        "exporter_version": EXPORTER_VERSION,
        **listed_in_metadata(without_rows),
    }
    buffer = io.BytesIO()
    schema = ARROW_SCHEMA.with_metadata(metadata)
    with pq.ParquetWriter(buffer, schema, compression="zstd", compression_level=9) as writer:
        for stretch in _stretches(parts):  # one at a time, so that the rows of all need not fit in memory
            writer.write_table(_rows(parts, stretch).to_arrow().cast(schema))
    return buffer.getvalue()


def _opened(file: HistoryFile, data: bytes) -> pq.ParquetFile:
    """Open a file of the history. Raises `StoreError` if joining the file would lose some of its columns."""
    try:
        parquet = open_parquet(data)
    except DecodeError as error:
        raise StoreError(f"{file.key} cannot be read: {error}") from error
    unknown = sorted(set(parquet.schema_arrow.names) - FILE_SCHEMA.keys())
    if unknown:
        raise StoreError(
            f"{file.key} has the columns {', '.join(unknown)}, which this version does not know and would lose; "
            "compact with the version that wrote it, or a later one"
        )
    return parquet


def _empty_runs_of(files: Mapping[str, pq.ParquetFile]) -> dict[int, int]:
    """The runs without rows of several files, which are keyed by their keys. Raises `StoreError` if one is damaged."""
    runs = dict[int, int]()
    for key, file in files.items():
        try:
            runs |= empty_runs(file)
        except DecodeError as error:
            raise StoreError(f"{key} cannot be read: {error}") from error
    return runs


def _scan(parts: Sequence[bytes]) -> pl.LazyFrame:
    return pl.scan_parquet(
        [*parts], schema=FILE_SCHEMA, missing_columns="insert", extra_columns="raise", use_statistics=False
    )


class Stretch(Struct, frozen=True):
    """Consecutive pools in the order of a compacted file: the first and the last of them."""

    first: PoolKey
    last: PoolKey

    def holds(self) -> pl.Expr:
        """An expression that is true for the rows of these pools."""
        market, pool = pl.col("market"), pl.col("pool")
        first, last = self.first, self.last
        after_the_first = (market > pl.lit(first.market)) | (pool >= pl.lit(first.pool))
        before_the_last = (market < pl.lit(last.market)) | (pool <= pl.lit(last.pool))
        return market.is_between(pl.lit(first.market), pl.lit(last.market)) & after_the_first & before_the_last


def _stretches(parts: Sequence[bytes]) -> Iterator[Stretch]:
    """The pools of the parts in stretches of at least `STRETCH_ROWS` rows each; the last stretch may have fewer."""
    counts = _scan(parts).group_by("market", "pool").len("rows").sort("market", "pool").collect()
    first, rows = None, 0
    for pool, rows_of_pool in zip(pool_keys(counts), counts["rows"], strict=True):
        first = first or pool
        rows += rows_of_pool
        if rows >= STRETCH_ROWS:
            yield Stretch(first, pool)
            first, rows = None, 0
    if first is not None:
        yield Stretch(first, pool)


def _rows(parts: Sequence[bytes], stretch: Stretch) -> pl.DataFrame:
    return _scan(parts).filter(stretch.holds()).sort(ORDER).collect()


def _check_joined(folder: str, data: bytes, parts: Sequence[bytes], rows: int) -> None:
    """Raise `CheckError` unless a joined file has exactly the rows of its parts, and no pool twice at one ledger."""
    row_count = pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
    if row_count != rows:
        raise CheckError(f"{folder}: the compacted file has {row_count} rows, but its parts have {rows}")
    for stretch in _stretches(parts):
        joined = _scan([data]).filter(stretch.holds()).collect()
        expected = _rows(parts, stretch)
        if not joined.equals(expected):
            raise CheckError(f"{folder}: the compacted file did not read back as the rows of its parts")
        if expected.select(ORDER).is_duplicated().any():
            raise CheckError(f"{folder}: a pool has two rows of one ledger in the files to compact")


class Piece(Struct, frozen=True):
    """Files that the manifest names, ascending by ledger, which are to become one file in ``folder``."""

    folder: str
    files: tuple[HistoryFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class Compacted(Struct, frozen=True):
    """What a compaction did.

    Attributes:
        joined: the files that were replaced.
        files: the files that replace them.
    """

    joined: tuple[HistoryFile, ...] = ()
    files: tuple[HistoryFile, ...] = ()


def plan_compaction(manifest: HistoryManifest, months: int = DEFAULT_MONTHS) -> list[Piece]:
    """The files that can be joined, oldest first.

    A day is joined once the history has a later one; the newest day never is. A month is joined when at least
    ``months`` whole months lie between it and the newest day.
    """
    ascending = sorted(manifest.files, key=lambda file: file.first_ledger)
    days = [folder for file in ascending if len(folder := folder_of(file.key)) > _MONTH_LENGTH]
    if not days:
        return []
    newest_day = max(days)
    first_kept_month = _month_before(newest_day[:_MONTH_LENGTH], months)
    pieces: list[Piece] = []
    for month, month_group in groupby(ascending, key=lambda file: folder_of(file.key)[:_MONTH_LENGTH]):
        month_files = tuple(month_group)
        if month < first_kept_month and _fit_in_one(month_files):
            is_joined_already = len(month_files) == 1 and folder_of(month_files[0].key) == month
            if not is_joined_already:
                pieces.append(Piece(f"{HISTORY_FILES_PREFIX}month={month}/", month_files))
            continue
        for folder, day_group in groupby(month_files, key=lambda file: folder_of(file.key)):
            day_files = tuple(day_group)
            if folder not in (month, newest_day) and len(day_files) > 1:
                pieces.append(Piece(f"{HISTORY_FILES_PREFIX}date={folder}/", day_files))
    return pieces


def _fit_in_one(files: Sequence[HistoryFile]) -> bool:
    """Whether a file with the rows of all these is one that readers can download, and this exporter can read."""
    rows = sum(file.rows for file in files)
    return (
        sum(file.bytes for file in files) <= MAX_MONTH_BYTES
        and rows <= PARQUET_ROWS
        and rows <= PARQUET_VALUES // len(FILE_SCHEMA)
    )


def compact_history(
    held: HeldStore, *, months: int = DEFAULT_MONTHS, most: int | None = None, now: Clock = utc_now
) -> Compacted:
    """Join what `plan_compaction` gives, at most ``most`` pieces. Each piece is published before the next begins.

    Raises `StoreError` and `CheckError` as `compact_files` does, and `LostRaceError` if the hold is lost.
    """
    done = Compacted()
    read_published(held)  # refuses a tree of another format
    manifest = read_checked_history_manifest(held)
    if manifest is None:
        return done
    for piece in plan_compaction(manifest, months)[:most]:
        compacted = compact_files(held, piece.folder, piece.files)
        joined_keys = {file.key for file in piece.files}
        replaced_by: dict[str, str | None] = dict.fromkeys(joined_keys, compacted.entry.key)
        replaced_by[compacted.entry.key] = None  # about to be written: nobody needs it until the manifest names it
        record_replaced(held, replaced_by, now())
        held.put_new(compacted.file.key, compacted.file.data)
        files = [*(file for file in manifest.files if file.key not in joined_keys), compacted.entry]
        files.sort(key=lambda file: file.first_ledger)
        manifest = msgspec.structs.replace(manifest, files=files)
        replace_history(held, manifest, {}, now(), rollups=False)
        forget_named(held, [compacted.entry.key])
        done = Compacted((*done.joined, *piece.files), (*done.files, compacted.entry))
    return done


def _month_before(month: str, count: int) -> str:
    months_since_year_0 = int(month[:4]) * 12 + int(month[5:]) - 1 - count
    return f"{months_since_year_0 // 12:04d}-{months_since_year_0 % 12 + 1:02d}"
