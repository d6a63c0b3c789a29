"""Where the series of buckets is kept between runs, and how it is made again from the history's own files.

The Parquet files that the history's manifest names are the truth. What is kept in the store is only what saves reading
them all at every run: it is used when it fits the manifest, brought up to date from the files that came after it, and
made anew from all files when it is missing, damaged, or of another history. It is written after a run is published,
so it never knows of a run that is not in the manifest; a run that dies before only leaves more to catch up with.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import polars as pl

from exporter.api.documents import HistoryFile, HistoryManifest
from exporter.errors import StoreError
from exporter.files import RenderedFile
from exporter.history.buckets import BUCKETS, BUCKETS_FRAME, OBSERVATIONS
from exporter.history.damage import refuse_other_rows
from exporter.history.manifest import data_of
from exporter.history.series import Series
from exporter.stores.reading import read_many
from exporter.stores.store import Store, StoredObject

STATE_KEY = "state/history-buckets.bin"
"""No part of the API: its ending is none that is served. It may be removed at any time."""

STATE_VERSION = 1
"""Raised whenever what is kept, or how buckets are made, changes: an older state is then made anew."""

BATCH_FILES = 256
"""So many history files are read together when many have to be."""


class _State(msgspec.Struct, frozen=True):
    """A series as bytes: the frames as Parquet, the rest as it is."""

    version: int
    through_ledger: int
    through_time: int
    row_count: int
    recent: bytes
    closed: dict[str, bytes]
    cursors: dict[str, list[tuple[str, str, str]]]
    first_seen: dict[str, int]


def load_series(store: Store, manifest: HistoryManifest | None, before: int) -> Series:
    """Load the series as far as it is known and of use for a run at the ledger ``before``; an empty one otherwise.

    Raises:
        StoreError: the store cannot be read.
    """
    stored = store.get(STATE_KEY)
    series = None if stored is None else _decode(stored.data)
    if series is None or series.through_ledger >= before:
        return Series()
    covered = [file for file in _files(manifest, before) if file.first_ledger <= series.through_ledger]
    fits = (
        covered
        and covered[-1].last_ledger == series.through_ledger
        and sum(file.rows for file in covered) == series.row_count
    )
    return series if fits else Series()


def catch_up(store: Store, manifest: HistoryManifest | None, before: int, series: Series) -> Iterator[RenderedFile]:
    """Take in every file of the history that a series does not know, below the ledger ``before``.

    Gives the pages that are complete by then.

    Raises:
        StoreError: a file that the manifest names is missing, not the one that it names, or of other rows.
        CheckError: the history's ledgers and times contradict each other.
    """
    files = iter([file for file in _files(manifest, before) if file.first_ledger > series.through_ledger])
    while batch := list(islice(files, BATCH_FILES)):
        by_key = {file.key: file for file in batch}
        read = {key: _observations(stored, by_key[key]) for key, stored in read_many(store, by_key)}
        observations = pl.concat([read[file.key] for file in batch])  # in the order of the ledgers
        if observations.height:
            newest = observations.select(pl.col("observed_ledger", "ledger_close_time").max()).row(0)
            yield from series.extend(observations, *newest)


def save_series(store: Store, series: Series) -> int:
    """Keep a series for the next run; gives its size in bytes.

    Raises:
        StoreError: the store refused it.
    """
    data = _encode(series)
    store.put(STATE_KEY, data)
    return len(data)


def _files(manifest: HistoryManifest | None, before: int) -> Sequence[HistoryFile]:
    files = [] if manifest is None else manifest.files
    return sorted((file for file in files if file.last_ledger < before), key=lambda file: file.first_ledger)


def _observations(stored: StoredObject | None, file: HistoryFile) -> pl.DataFrame:
    data = data_of(stored, file)
    try:
        frame = pl.read_parquet(io.BytesIO(data), columns=list(OBSERVATIONS))
        refuse_other_rows(file, frame.height)
        return _from_file_types(frame, OBSERVATIONS)
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"{file.key} does not have the columns of a history file: {error}") from error


def _to_file_types(frame: pl.DataFrame) -> bytes:
    wide = [name for name, dtype in frame.schema.items() if dtype == pl.Int128]
    buffer = io.BytesIO()
    frame.with_columns(pl.col(wide).cast(pl.Decimal(38, 0))).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _from_file_types(frame: pl.DataFrame, schema: dict[str, pl.DataType]) -> pl.DataFrame:
    columns = []
    for name, dtype in schema.items():
        column = pl.col(name)
        if isinstance(frame.schema[name], pl.Datetime):
            column = column.dt.timestamp("us") // 1_000_000
        columns.append(column.cast(dtype))
    return frame.select(columns)


def _encode(series: Series) -> bytes:
    state = msgspec.msgpack.encode(
        _State(
            version=STATE_VERSION,
            through_ledger=series.through_ledger,
            through_time=series.through_time,
            row_count=series.row_count,
            recent=_to_file_types(series.recent),
            closed={name: _to_file_types(frame) for name, frame in series.closed.items()},
            cursors={
                name: sorted((*place, cursor) for place, cursor in cursors.items())
                for name, cursors in series.cursors.items()
            },
            first_seen=dict(sorted(series.first_seen.items())),
        )
    )
    return hashlib.sha256(state).digest() + state


def _decode(data: bytes) -> Series | None:
    """A series from its bytes; None when they are not whole, or of another version."""
    digest, state = data[:32], data[32:]
    if hashlib.sha256(state).digest() != digest:
        return None
    try:
        kept = msgspec.msgpack.decode(state, type=_State)
        if kept.version != STATE_VERSION or set(kept.closed) != {bucket.name for bucket in BUCKETS}:
            return None
        frames = {name: pl.read_parquet(io.BytesIO(frame)) for name, frame in kept.closed.items()}
        return Series(
            through_ledger=kept.through_ledger,
            through_time=kept.through_time,
            row_count=kept.row_count,
            recent=_from_file_types(pl.read_parquet(io.BytesIO(kept.recent)), OBSERVATIONS),
            closed={name: _from_file_types(frame, BUCKETS_FRAME) for name, frame in frames.items()},
            cursors={
                name: {(market, pool): cursor for market, pool, cursor in cursors}
                for name, cursors in kept.cursors.items()
            },
            first_seen=kept.first_seen,
        )
    except (msgspec.DecodeError, RecursionError, pl.exceptions.PolarsError):
        return None
