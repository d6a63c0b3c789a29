"""The histories in buckets of every pool, market, token and protocol and of the network, carried on from run to run.

Of what was observed, a series keeps what later runs still need:

- ``recent``: the observations of the week that is open, of which every open bucket is made (a median needs them all);
- ``pools`` and ``totals``: for each length of bucket, the closed ones that the newest documents hold, and the page
  before these (`exporter.history.shelves`);
- ``first_seen``: the lowest ledger of each token.

Only closed buckets are published. Whatever is older stands in pages that never change.

The Parquet files that the history's manifest names are the truth. What is kept in the store between runs only saves
reading all of them each time: it is used when it fits the manifest, brought up to date from the files that came after
it, and made anew from all files when it is missing, damaged, or of another history. It is written after a run is
published, so it never knows of a run that is not in the manifest; a run that dies before only leaves more to catch up
with.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec
import polars as pl

from exporter.errors import CheckError, StoreError
from exporter.history.buckets import BUCKETS, LONGEST, OBSERVATIONS, SOURCES, aggregate, observations_of
from exporter.history.damage import refuse_other_rows
from exporter.history.manifest import data_of
from exporter.history.schema import FRAME_SCHEMA
from exporter.history.shelves import POOLS, TOTALS, Form, Place, Shelf
from exporter.history.totals import places_of, totals_of
from exporter.stores.store import Store, StoredObject, read_many
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.files import RenderedFile

STATE_KEY = "state/history-buckets.bin"
"""No part of the API: its ending is none that is served. It may be removed at any time."""

STATE_VERSION = 2
"""Raised whenever what is kept, or how buckets are made, changes: an older state is then made anew."""

BATCH_FILES = 256
"""So many history files are read together when many have to be."""


def _shelves(form: Form) -> dict[str, Shelf]:
    return {bucket.name: Shelf(form, bucket) for bucket in BUCKETS}


@dataclass(slots=True)
class Series:
    """The histories as they stand after the ledger ``through_ledger``, which closed at ``through_time``.

    ``row_count`` counts the observations that went in; 0 for all three means that there was none yet.
    """

    through_ledger: int = 0
    through_time: int = 0
    row_count: int = 0
    recent: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=OBSERVATIONS))
    pools: dict[str, Shelf] = field(default_factory=lambda: _shelves(POOLS))
    totals: dict[str, Shelf] = field(default_factory=lambda: _shelves(TOTALS))
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
        time = pl.col("ledger_close_time")
        for bucket in BUCKETS:
            closed = known.filter((time >= bucket.start(self.through_time)) & (time < bucket.start(close_time)))
            if closed.height:
                rows = aggregate(closed, bucket)
                yield from self.pools[bucket.name].add(rows)
                yield from self.totals[bucket.name].add(totals_of(rows))
        self.recent = known.filter(time >= LONGEST.start(close_time))
        seen = observations.group_by("token_address").agg(pl.col("observed_ledger").min())
        for token, first in seen.iter_rows():
            self.first_seen.setdefault(token, first)
        self.through_ledger, self.through_time = ledger, close_time
        self.row_count += observations.height

    def heads(self) -> Iterator[RenderedFile]:
        """Render the newest document of each history."""
        keys = ("market", "pool", "token_address", "protocol")
        places = self.recent.group_by(keys).agg(pl.col("observed_ledger").min())
        pools: dict[Place, int] = {}
        totals: dict[Place, int] = {}
        for market, pool, token, protocol, ledger in places.iter_rows():
            pools[market, pool] = ledger
            for place in places_of(market, token, protocol):
                totals[place] = min(ledger, totals.get(place, ledger))
        for bucket in BUCKETS:
            yield from self.pools[bucket.name].heads(pools)
            yield from self.totals[bucket.name].heads(totals)

    def _check_later(self, observations: pl.DataFrame, ledger: int, close_time: int) -> None:
        first = observations.select(pl.col("observed_ledger").min(), pl.col("ledger_close_time").min()).row(0)
        lowest, earliest = (ledger if first[0] is None else first[0]), (close_time if first[1] is None else first[1])
        if lowest <= self.through_ledger or earliest < self.through_time:
            raise CheckError(
                f"ledger {lowest} closed at {earliest}, but the history already has ledger {self.through_ledger}, "
                f"which closed at {self.through_time}; a later ledger never closes earlier, so these are of two "
                "networks: use another output for each"
            )


class _KeptShelf(msgspec.Struct, frozen=True):
    closed: bytes
    cursors: list[tuple[str, str, str]]


class _State(msgspec.Struct, frozen=True):
    """A series as bytes: the frames as Parquet, the rest as it is."""

    version: int
    through_ledger: int
    through_time: int
    row_count: int
    recent: bytes
    pools: dict[str, _KeptShelf]
    totals: dict[str, _KeptShelf]
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
    try:
        observations = read_observations(data_of(stored, file))
    except StoreError as error:
        raise StoreError(f"{file.key} {error}") from error
    refuse_other_rows(file, observations.height)
    return observations


def read_observations(data: bytes) -> pl.DataFrame:
    """The observations in a file of the history. StoreError, of which its key is the beginning, for what is none."""
    try:
        frame = pl.read_parquet(io.BytesIO(data), columns=list(SOURCES))
        return observations_of(_from_file_types(frame, {name: FRAME_SCHEMA[name] for name in SOURCES}))
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"does not have the columns of a history file: {error}") from error


def _to_file_types(frame: pl.DataFrame) -> bytes:
    wide = [name for name, dtype in frame.schema.items() if dtype == pl.Int128]
    buffer = io.BytesIO()
    frame.with_columns(pl.col(wide).cast(pl.Decimal(38, 0))).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _from_file_types(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
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
            pools={name: _kept(shelf) for name, shelf in series.pools.items()},
            totals={name: _kept(shelf) for name, shelf in series.totals.items()},
            first_seen=dict(sorted(series.first_seen.items())),
        )
    )
    return hashlib.sha256(state).digest() + state


def _kept(shelf: Shelf) -> _KeptShelf:
    cursors = sorted((*place, cursor) for place, cursor in shelf.cursors.items())
    return _KeptShelf(_to_file_types(shelf.closed), cursors)


def _restore(shelves: Mapping[str, Shelf], kept: Mapping[str, _KeptShelf]) -> None:
    for name, shelf in shelves.items():
        shelf.closed = _from_file_types(pl.read_parquet(io.BytesIO(kept[name].closed)), shelf.form.frame)
        shelf.cursors = {(one, other): cursor for one, other, cursor in kept[name].cursors}


def _decode(data: bytes) -> Series | None:
    """A series from its bytes; None when they are not whole, or of another version."""
    digest, state = data[:32], data[32:]
    if hashlib.sha256(state).digest() != digest:
        return None
    try:
        kept = msgspec.msgpack.decode(state, type=_State)
        if kept.version != STATE_VERSION:
            return None
        series = Series(
            through_ledger=kept.through_ledger,
            through_time=kept.through_time,
            row_count=kept.row_count,
            recent=_from_file_types(pl.read_parquet(io.BytesIO(kept.recent)), OBSERVATIONS),
            first_seen=kept.first_seen,
        )
        _restore(series.pools, kept.pools)
        _restore(series.totals, kept.totals)
        return series
    except (msgspec.DecodeError, KeyError, RecursionError, pl.exceptions.PolarsError):
        return None
