"""The history of every pool in buckets, carried on from run to run without reading it all again.

Of what was observed, a series keeps what later runs still need:

- ``recent``: the observations of the week that is open, of which every open bucket is made (a median needs them all);
- ``closed``: the closed buckets that the newest page of each history holds. These are those of the span of the page
  that is open, and of the newest span before it that has any, so that the newest page is never nearly empty;
- ``cursors``: the page before these, for each bucket and pool;
- ``first_seen``: the lowest ledger of each token.

Whatever is older stands in pages that never change: a page covers a fixed span, holds only closed buckets, and is
named by its content, so that it is the same whenever and in however many steps it is made.

The Parquet files that the history's manifest names are the truth. What is kept in the store between runs only saves
reading all of them each time: it is used when it fits the manifest, brought up to date from the files that came after
it, and made anew from all files when it is missing, damaged, or of another history. It is written after a run is
published, so it never knows of a run that is not in the manifest; a run that dies before only leaves more to catch up
with.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import msgspec
import polars as pl

from exporter.errors import CheckError, StoreError
from exporter.history.buckets import BUCKETS, BUCKETS_FRAME, LONGEST, OBSERVATIONS, Bucket, aggregate
from exporter.history.damage import refuse_other_rows
from exporter.history.manifest import data_of
from exporter.stores.store import Store, StoredObject, read_many
from exporter.tree.documents import AssetHistory, HistoryBucket, HistoryFile, HistoryManifest, encode, page_token
from exporter.tree.families import bucket_page_key
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import read_back, render_document

STATE_KEY = "state/history-buckets.bin"
"""No part of the API: its ending is none that is served. It may be removed at any time."""

STATE_VERSION = 1
"""Raised whenever what is kept, or how buckets are made, changes: an older state is then made anew."""

BATCH_FILES = 256
"""So many history files are read together when many have to be."""

_ORDER = ("market", "pool", "start")
_Place = tuple[str, str]


@dataclass(slots=True)
class Series:
    """The histories as they stand after the ledger ``through_ledger``, which closed at ``through_time``.

    ``row_count`` counts the observations that went in; 0 for all three means that there was none yet.
    """

    through_ledger: int = 0
    through_time: int = 0
    row_count: int = 0
    recent: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=OBSERVATIONS))
    closed: dict[str, pl.DataFrame] = field(
        default_factory=lambda: {bucket.name: pl.DataFrame(schema=BUCKETS_FRAME) for bucket in BUCKETS}
    )
    cursors: dict[str, dict[_Place, str]] = field(default_factory=lambda: {bucket.name: {} for bucket in BUCKETS})
    first_seen: dict[str, int] = field(default_factory=dict)

    def extend(self, observations: pl.DataFrame, ledger: int, close_time: int) -> Iterator[RenderedFile]:
        """Take in later observations; gives the pages that are complete by now, oldest first.

        Args:
            observations: rows of `OBSERVATIONS`, of ledgers above ``through_ledger``.
            ledger: the newest ledger that they are of; it may have none itself.
            close_time: its close time, unix seconds.

        Raises:
            CheckError: they are of a ledger or a time before those that went in already.
        """
        self._check_later(observations, ledger, close_time)
        known = pl.concat([self.recent, observations])
        for bucket in BUCKETS:
            yield from self._close(bucket, known, close_time)
        self.recent = known.filter(pl.col("ledger_close_time") >= LONGEST.start(close_time))
        seen = observations.group_by("token_address").agg(pl.col("observed_ledger").min())
        for token, first in seen.iter_rows():
            self.first_seen.setdefault(token, first)
        self.through_ledger, self.through_time = ledger, close_time
        self.row_count += observations.height

    def heads(self) -> Iterator[RenderedFile]:
        """Render the newest page of each history, which ends with the bucket that is open."""
        for bucket in BUCKETS:
            start = bucket.start(self.through_time)
            open_rows = aggregate(self.recent.filter(pl.col("ledger_close_time") >= start), bucket)
            rows = pl.concat([self.closed[bucket.name], open_rows]).sort(_ORDER)
            for place, buckets in _histories(rows, bucket):
                cursor = self.cursors[bucket.name].get(place)
                document = AssetHistory(*place, bucket.name, self.through_ledger, buckets, cursor)
                yield render_document(document)

    def _check_later(self, observations: pl.DataFrame, ledger: int, close_time: int) -> None:
        first = observations.select(pl.col("observed_ledger").min(), pl.col("ledger_close_time").min()).row(0)
        lowest, earliest = (ledger if first[0] is None else first[0]), (close_time if first[1] is None else first[1])
        if lowest <= self.through_ledger or earliest < self.through_time:
            raise CheckError(
                f"ledger {lowest} closed at {earliest}, but the history already has ledger {self.through_ledger}, "
                f"which closed at {self.through_time}; a later ledger never closes earlier, so these are of two "
                "networks: use another output for each"
            )

    def _close(self, bucket: Bucket, known: pl.DataFrame, close_time: int) -> Iterator[RenderedFile]:
        """Move what is closed by now from the observations to the buckets, and from these to pages."""
        opened = bucket.start(close_time)
        time = pl.col("ledger_close_time")
        finished = known.filter((time >= bucket.start(self.through_time)) & (time < opened))
        if finished.is_empty() and bucket.page_start(close_time) == bucket.page_start(self.through_time):
            return
        rows = pl.concat([self.closed[bucket.name], aggregate(finished, bucket)])
        page = bucket.page_starts(pl.col("start")).alias("page")
        past = page < bucket.page_start(opened)
        rows = rows.with_columns(page, past.alias("past"))
        newest = pl.col("page").filter("past").max().over("market", "pool")
        leaving = (pl.col("page") < newest).fill_null(False)
        for place, pages in groupby(_rows(rows.filter(leaving), bucket), key=itemgetter(0, 1)):
            for _, page_rows in groupby(pages, key=itemgetter(2)):
                buckets = [HistoryBucket(*row[3:]) for row in page_rows]
                yield self._page(bucket, place, buckets)
        self.closed[bucket.name] = rows.filter(~leaving).select(BUCKETS_FRAME.keys()).sort(_ORDER)

    def _page(self, bucket: Bucket, place: _Place, buckets: list[HistoryBucket]) -> RenderedFile:
        cursors = self.cursors[bucket.name]
        document = AssetHistory(*place, bucket.name, buckets[-1].last_ledger, buckets, cursors.get(place))
        data = encode(document)
        cursors[place] = page_token(data)
        return read_back(RenderedFile(bucket_page_key(cursors[place]), data, FileKind.PAGE), document)


def _histories(rows: pl.DataFrame, bucket: Bucket) -> Iterator[tuple[_Place, list[HistoryBucket]]]:
    """The buckets of each pool, from rows that are sorted."""
    wire = rows.with_columns(pl.lit(0).alias("page"))
    for place, group in groupby(_rows(wire, bucket), key=itemgetter(0, 1)):
        yield place, [HistoryBucket(*row[3:]) for row in group]


def _rows(rows: pl.DataFrame, bucket: Bucket) -> Iterable[tuple[Any, ...]]:
    """Market, pool and page of each row, sorted by these and the start, with the fields of a `HistoryBucket`."""

    def text(seconds: pl.Expr) -> pl.Expr:
        return pl.from_epoch(seconds, "s").dt.strftime("%Y-%m-%dT%H:%M:%SZ")

    start = pl.col("start")
    digits = {"total_supplied", "total_borrowed", "tvl_usd_cents"}
    return (
        rows.sort(_ORDER)
        .select(
            "market",
            "pool",
            "page",
            text(start).alias("start_time"),
            text(start + bucket.seconds).alias("end_time"),
            *(
                pl.col(name).cast(pl.String) if name in digits else pl.col(name)
                for name in HistoryBucket.__struct_fields__[2:]
            ),
        )
        .iter_rows()
    )


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
