"""Compaction: the files of a closed day become one sorted file, and those of a month long past one a month.

A compacted file has the very rows of the files that it replaces, sorted by market, pool and ledger. The same parts give
the same bytes. Nothing is lost and no reader is broken in between:

1. it is recorded by what the files are replaced, and since when, so that they outlive the retention time;
2. the compacted file is written under a key of its own, named by its ledgers and its content;
3. the history's manifest is replaced in one step.

A crash leaves the manifest as it was, and a later sweep removes a file that was recorded and never named. Memory is
bounded by the compressed parts and one stretch of pools.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exporter.bounds import PARQUET_ROWS, PARQUET_VALUES
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.manifest import HistoryPart, data_of, folder_of, history_entry
from exporter.history.parquet import ARROW_SCHEMA, FILE_SCHEMA, ORDER
from exporter.parquet_bounds import open_parquet
from exporter.publishing.publish import replace_history
from exporter.publishing.published_state import read_published, read_whole_history
from exporter.publishing.sweep_record import forget_named, record_replaced
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Clock, Store, read_many, utc_now
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_PREFIX
from exporter.tree.files import FileKind, RenderedFile

DEFAULT_MONTHS = 2
"""How many whole months stay in a file a day; months before them are compacted to one file each."""

_MONTH = len("2026-11")

STRETCH_ROWS = 50_000
"""How many rows of history are unpacked at once, and lie in one row group: a pool that begins below it comes whole."""

MAX_MONTH_BYTES = 256 * 2**20
"""The files of a month that are larger together stay a file a day: nobody wants to download more at once."""


def compact_files(store: Store, folder: str, files: Sequence[HistoryFile]) -> HistoryPart:
    """Make one file of several of one schema version, ascending by ledger. Raises `StoreError`, `CheckError`."""
    by_key = {file.key: file for file in files}
    read = {key: data_of(stored, by_key[key]) for key, stored in read_many(store, by_key)}
    parts = [read[file.key] for file in files]
    networks = sorted({_network_of(file, read[file.key]) for file in files})
    if len(networks) != 1:
        raise CheckError(f"{files[0].key} and its neighbours are of different networks: {', '.join(networks)}")
    first, last = files[0].first_ledger, max(file.last_ledger for file in files)
    data = joined_rows(parts, networks[0], first, last)
    rows = sum(file.rows for file in files)
    _check_written(folder, data, parts, list(_stretches(parts)), rows)
    key = f"{folder}{first}-{last}-{hashlib.sha256(data).hexdigest()[:12]}.parquet"
    return HistoryPart(RenderedFile(key, data, FileKind.HISTORY), history_entry(key, data, rows))


def joined_rows(parts: Sequence[bytes], network: str, first: int, last: int) -> bytes:
    """One Parquet file with the rows of some, of the ledgers ``first`` to ``last``: of a joined file, itself again."""
    metadata = {
        "table": "pools",
        "network": network,
        "first_ledger": str(first),
        "last_ledger": str(last),
        "exporter_version": EXPORTER_VERSION,
    }
    buffer = io.BytesIO()
    schema = ARROW_SCHEMA.with_metadata(metadata)
    with pq.ParquetWriter(buffer, schema, compression="zstd", compression_level=9) as writer:
        for stretch in _stretches(parts):
            writer.write_table(_rows(parts, stretch).to_arrow().cast(schema))
    return buffer.getvalue()


def _network_of(file: HistoryFile, data: bytes) -> str:
    """The network that a file says. Raises `StoreError` for a file that would not be kept whole."""
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
    metadata = parquet.metadata.metadata or {}
    return str(metadata.get(b"network", b""), errors="replace")


def _scan(parts: Sequence[bytes]) -> pl.LazyFrame:
    return pl.scan_parquet(
        [*parts], schema=FILE_SCHEMA, missing_columns="insert", extra_columns="raise", use_statistics=False
    )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive pools of a history, in its order: the first and the last, each as market and pool, both inclusive."""

    first: tuple[str, str]
    last: tuple[str, str]

    def holds(self) -> pl.Expr:
        """Whether a row is of one of these pools."""
        market, pool = pl.col("market"), pl.col("pool")
        (first_market, first_pool), (last_market, last_pool) = self.first, self.last
        after_the_first = (market > pl.lit(first_market)) | (pool >= pl.lit(first_pool))
        before_the_last = (market < pl.lit(last_market)) | (pool <= pl.lit(last_pool))
        return market.is_between(pl.lit(first_market), pl.lit(last_market)) & after_the_first & before_the_last


def _stretches(parts: Sequence[bytes]) -> Iterator[Stretch]:
    """Divide the pools of the parts into stretches, each ended by the pool that fills it."""
    counts = _scan(parts).group_by("market", "pool").len("rows").sort("market", "pool").collect()
    first, rows = None, 0
    for market, pool, rows_of_pool in counts.iter_rows():
        first = first or (market, pool)
        rows += rows_of_pool
        if rows >= STRETCH_ROWS:
            yield Stretch(first, (market, pool))
            first, rows = None, 0
    if first is not None:
        yield Stretch(first, (market, pool))


def _rows(parts: Sequence[bytes], stretch: Stretch) -> pl.DataFrame:
    return _scan(parts).filter(stretch.holds()).sort(ORDER).collect()


def _check_written(folder: str, data: bytes, parts: Sequence[bytes], stretches: Sequence[Stretch], rows: int) -> None:
    row_count = pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
    if row_count != rows:
        raise CheckError(f"{folder}: the compacted file has {row_count} rows, but its parts have {rows}")
    for stretch in stretches:
        back = _scan([data]).filter(stretch.holds()).collect()
        expected = _rows(parts, stretch)
        if not back.equals(expected):
            raise CheckError(f"{folder}: the compacted file did not read back as the rows of its parts")
        if expected.select(ORDER).is_duplicated().any():
            raise CheckError(f"{folder}: a pool has two rows of one ledger in the files to compact")


@dataclass(frozen=True, slots=True)
class Piece:
    """Files of the manifest, ascending by ledger, that are to become one in ``folder``."""

    folder: str
    files: tuple[HistoryFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The files that were joined, and those that they became."""

    joined: tuple[HistoryFile, ...] = ()
    files: tuple[HistoryFile, ...] = ()


def plan_compaction(manifest: HistoryManifest, months: int = DEFAULT_MONTHS) -> list[Piece]:
    """Find what can be compacted, oldest first.

    A day is closed when the history has a later one; the newest day never is. A month is compacted when at least
    ``months`` whole months lie between it and the newest day.
    """
    ascending = sorted(manifest.files, key=lambda file: file.first_ledger)
    newest = max((folder for file in ascending if len(folder := folder_of(file.key)) > _MONTH), default=None)
    if newest is None:
        return []
    before = _month_before(newest[:_MONTH], months)
    pieces: list[Piece] = []
    for month, of_month in groupby(ascending, key=lambda file: folder_of(file.key)[:_MONTH]):
        files = tuple(of_month)
        if (
            month < before
            and sum(file.bytes for file in files) <= MAX_MONTH_BYTES
            and sum(file.rows for file in files) <= min(PARQUET_ROWS, PARQUET_VALUES // len(FILE_SCHEMA))
        ):
            if len(files) > 1 or folder_of(files[0].key) != month:
                pieces.append(Piece(f"{HISTORY_PREFIX}month={month}/", files))
            continue
        for folder, of_day in groupby(files, key=lambda file: folder_of(file.key)):
            of_one = tuple(of_day)
            if folder not in (month, newest) and len(of_one) > 1:
                pieces.append(Piece(f"{HISTORY_PREFIX}date={folder}/", of_one))
    return pieces


def compact_history(
    held: HeldStore, *, months: int = DEFAULT_MONTHS, most: int | None = None, now: Clock = utc_now
) -> Compacted:
    """Compact at most ``most`` pieces, each published before the next.

    Raises `LostRaceError`, `StoreError`, `CheckError`.
    """
    done = Compacted()
    read_published(held)  # refuses a tree of another format
    manifest = read_whole_history(held)
    if manifest is None:
        return done
    for piece in plan_compaction(manifest, months)[:most]:
        compacted = compact_files(held, piece.folder, piece.files)
        gone = {file.key for file in piece.files}
        replaced = dict[str, str | None].fromkeys(gone, compacted.entry.key) | {compacted.entry.key: None}
        record_replaced(held, replaced, now())
        held.put_new(compacted.file.key, compacted.file.data)
        files = [*(file for file in manifest.files if file.key not in gone), compacted.entry]
        files.sort(key=lambda file: file.first_ledger)
        manifest = msgspec.structs.replace(manifest, files=files)
        replace_history(held, manifest, {}, now(), rollups=False)
        forget_named(held, [compacted.entry.key])
        done = Compacted((*done.joined, *piece.files), (*done.files, compacted.entry))
    return done


def _month_before(month: str, count: int) -> str:
    whole = int(month[:4]) * 12 + int(month[5:]) - 1 - count
    return f"{whole // 12:04d}-{whole % 12 + 1:02d}"
