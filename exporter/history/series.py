"""The histories in buckets of every pool, market, token and protocol and of the network, carried on from run to run.

The Parquet files that the history's manifest names are the truth. What is kept in the store between runs only saves
reading all of them each time: it is used when it fits the manifest, brought up to date from the files that came after
it, and recomputed from all files when it is missing, damaged, or of another history. It is written after a run is
published, so it never knows of a run that is not in the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec
import polars as pl
from msgspec import structs

from exporter import FORMAT
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.buckets import SOURCES, aggregate, in_scopes, observations_of, totals_of
from exporter.history.closed_buckets import POOL_HISTORY, TOTALS_HISTORY, Histories, Place
from exporter.history.manifest import data_of
from exporter.history.parquet import scan_rows, to_frame_types
from exporter.history.time_buckets import BUCKETS, HOUR, WEEK
from exporter.stores.store import Store, StoredObject, read_many
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.files import RenderedFile
from exporter.tree.same_values import same_values

STATE_KEY = "state/history-buckets.bin"
"""What is kept. No part of the API: its ending is not served. It may be removed."""

RENDERED_BY = f"{EXPORTER_VERSION} {FORMAT}"
"""The version that renders documents: another one renders all of them again."""

STATE_VERSION = 11
"""Raised whenever what is kept, or how buckets are made, changes: an older state is then recomputed."""

BATCH_ROWS = 100_000
"""How many observations are taken in together when history files have to be read; of a larger file, all."""


@dataclass(slots=True)
class Series:
    """The histories as they are after the ledger ``through_ledger``, which closed at ``through_time``.

    ``row_count`` counts the observations that went in; 0 for all three means that there was none yet. ``settled`` is
    the ledger at which this version rendered and published every newest document; 0 where that is not known.
    """

    through_ledger: int = 0
    through_time: int = 0
    row_count: int = 0
    settled: int = 0
    pools: Histories = field(default_factory=lambda: Histories(POOL_HISTORY))
    totals: Histories = field(default_factory=lambda: Histories(TOTALS_HISTORY))

    def extend(self, observations: pl.DataFrame, ledger: int, close_time: int) -> Iterator[RenderedFile]:
        """Take in later observations (`OBSERVATIONS`); gives the pages that are complete by now, oldest first.

        ``ledger``, which closed at ``close_time``, is the newest that they are of, or would be. Raises `CheckError` for
        an earlier ledger or time than one that went in already.
        """
        self._check_later(observations, ledger, close_time)
        if observations.height:
            self.pools.observe(observations)
        for bucket in BUCKETS:
            begin, end = bucket.start(self.through_time), bucket.start(close_time)
            if begin == end:
                continue
            closed = self.pools.observed(begin, end)
            if not closed.height:
                continue
            rows = aggregate(closed, bucket)
            yield from self.pools.close(bucket, rows, close_time)
            if bucket in TOTALS_HISTORY.buckets:
                yield from self.totals.close(bucket, totals_of(rows), close_time)
        self.pools.forget(before=WEEK.start(close_time))
        self.through_ledger, self.through_time = ledger, close_time
        self.row_count += observations.height

    def still_open(self, ledger: int, close_time: int) -> list[str]:
        """The lengths of which no bucket will have closed by a time since the ledger at which all were rendered."""
        if not self.settled == self.through_ledger == ledger:
            return []
        return [bucket.name for bucket in BUCKETS if bucket.start(self.through_time) == bucket.start(close_time)]

    def heads(self, unchanged: Collection[str] = ()) -> Iterator[RenderedFile]:
        """Render the newest documents; of lengths in ``unchanged`` (`still_open`) only those that began since."""
        begun = self.pools.get("begun")
        yield from self._heads(self.pools, begun.select("market", "pool", "observed_ledger"), unchanged)
        first_ledgers = in_scopes(begun).group_by("scope", "id").agg(pl.col("observed_ledger").min())
        yield from self._heads(self.totals, first_ledgers.sort("scope", "id"), unchanged)

    def _heads(self, histories: Histories, begun: pl.DataFrame, unchanged: Collection[str]) -> Iterator[RenderedFile]:
        new = begun.filter(pl.col("observed_ledger") > self.settled)
        wanted = [bucket for bucket in histories.form.buckets if bucket.name not in unchanged or new.height]
        rendered = [
            histories.empty_heads(bucket, new)
            if bucket.name in unchanged
            else histories.heads(bucket, begun, self.through_time)
            for bucket in wanted
        ]
        # All lengths of a place together: its documents share a folder, which a store then opens once.
        for files in zip_longest(*rendered):
            yield from (file for file in files if file is not None)

    def priced_since(self, time: int) -> set[Place]:
        """The pools that had a price at an observation since a time, or in the hour that it is in."""
        start, priced = HOUR.start(time), set[Place]()
        closed = self.pools.closed(HOUR).filter((pl.col("start") >= start) & (pl.col("priced_count") > 0))
        newest = self.pools.observed(start, self.through_time + 1).filter(pl.col("oracle_price").is_not_null())
        for frame in (closed, newest):
            priced.update(frame.select("market", "pool").unique().iter_rows())
        return priced

    @property
    def pools_first_seen(self) -> dict[Place, int]:
        rows = self.pools.get("begun").select("market", "pool", "observed_ledger").iter_rows()
        return {(market, pool): ledger for market, pool, ledger in rows}

    @property
    def first_seen(self) -> dict[str, int]:
        tokens = self.pools.get("begun").group_by("token_address").agg(pl.col("observed_ledger").min())
        return dict(tokens.iter_rows())

    def _check_later(self, observations: pl.DataFrame, ledger: int, close_time: int) -> None:
        first = observations.select(pl.col("observed_ledger").min(), pl.col("ledger_close_time").min()).row(0)
        lowest, earliest = (ledger if first[0] is None else first[0]), (close_time if first[1] is None else first[1])
        if lowest <= self.through_ledger or earliest < self.through_time:
            raise CheckError(
                f"ledger {lowest} closed at {earliest}, but the history already has ledger {self.through_ledger}, "
                f"which closed at {self.through_time}; a later ledger never closes earlier, so these are of two "
                "networks: use another output for each"
            )


class _State(msgspec.Struct, frozen=True):
    version: int
    through_ledger: int
    through_time: int
    row_count: int
    rendered_by: str
    pools: dict[str, bytes]
    totals: dict[str, bytes]


def load_series(store: Store, manifest: HistoryManifest | None, before: int) -> Series:
    """The series as far as it is known and of use for a run at the ledger ``before``; an empty one otherwise."""
    state = _decode(store.get(STATE_KEY))
    if state is None or state.through_ledger >= before:
        return Series()
    covered = [file for file in files_before(manifest, before) if file.first_ledger <= state.through_ledger]
    fits = (
        covered
        and covered[-1].last_ledger == state.through_ledger
        and sum(file.rows for file in covered) == state.row_count
    )
    if not fits:
        return Series()
    settled = state.through_ledger if state.rendered_by == RENDERED_BY else 0
    frames = Histories(POOL_HISTORY, state.pools), Histories(TOTALS_HISTORY, state.totals)
    return Series(state.through_ledger, state.through_time, state.row_count, settled, *frames)


def catch_up(store: Store, manifest: HistoryManifest | None, before: int, series: Series) -> Iterator[RenderedFile]:
    """Take in files of the history below the ledger ``before``; gives the pages. Raises `StoreError`, `CheckError`."""
    files = [file for file in files_before(manifest, before) if file.first_ledger > series.through_ledger]
    for batch in _batches(files):
        by_key = {file.key: file for file in batch}
        read = {key: _observations(stored, by_key[key]) for key, stored in read_many(store, by_key)}
        observations = pl.concat([read[file.key] for file in batch])  # in the order of the ledgers
        if observations.height:
            newest = observations.select(pl.col("observed_ledger", "ledger_close_time").max()).row(0)
            yield from series.extend(observations, *newest)


def _batches(files: Sequence[HistoryFile]) -> Iterator[list[HistoryFile]]:
    batch: list[HistoryFile] = []
    for file in files:
        if batch and file.rows + sum(each.rows for each in batch) > BATCH_ROWS:
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


def save_series(store: Store, series: Series) -> int:
    """Keep a series for the next run; gives its size in bytes."""
    data = encoded_state(series)
    store.put(STATE_KEY, data)
    return len(data)


def encoded_state(series: Series) -> bytes:
    """A series as it is kept under `STATE_KEY`."""
    state = _State(
        STATE_VERSION,
        series.through_ledger,
        series.through_time,
        series.row_count,
        RENDERED_BY,
        series.pools.packed,
        series.totals.packed,
    )
    data = msgspec.msgpack.encode(state)
    return hashlib.sha256(data).digest() + data


def files_before(manifest: HistoryManifest | None, before: int) -> Sequence[HistoryFile]:
    """The files of a history with ledgers below ``before`` alone, ascending."""
    files = [] if manifest is None else manifest.files
    return sorted((file for file in files if file.last_ledger < before), key=lambda file: file.first_ledger)


def _observations(stored: StoredObject | None, file: HistoryFile) -> pl.DataFrame:
    data = data_of(stored, file)
    try:
        observations = observations_of(to_frame_types(scan_rows(data).select(SOURCES).collect()))
    except DecodeError as error:
        raise StoreError(f"{file.key}: {error}") from error
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"{file.key} does not have the columns of a history file: {error}") from error
    if observations.height != file.rows:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} says that {file.key} has {file.rows} rows, but it has {observations.height}. "
            "Nothing was published over it: restore it from a copy"
        )
    return observations


def same_states(one: bytes, other: bytes) -> bool:
    """Whether two states that were kept are of the same ledger, by the same version, with the same frames."""
    states = [_decode(StoredObject(data, "")) for data in (one, other)]
    mine, theirs = states
    if mine is None or theirs is None:
        return False
    if structs.replace(mine, pools={}, totals={}) != structs.replace(theirs, pools={}, totals={}):
        return False
    pairs = (mine.pools, theirs.pools), (mine.totals, theirs.totals)
    return all(
        ours.keys() == others.keys() and all(same_values(".parquet", ours[name], others[name]) for name in ours)
        for ours, others in pairs
    )


def _decode(stored: StoredObject | None) -> _State | None:
    if stored is None or hashlib.sha256(stored.data[32:]).digest() != stored.data[:32]:
        return None
    try:
        state = msgspec.msgpack.decode(stored.data[32:], type=_State)
    except (msgspec.DecodeError, RecursionError):
        return None
    return state if state.version == STATE_VERSION else None
