"""Carries the histories in time buckets from run to run: of every pool, market, token and protocol, and of the network.

The truth is in the Parquet files that the history's manifest names. A state that is stored between runs only saves
reading all of them again. It is used if it fits the manifest, and files that came later are added to it. If it is
missing or damaged, or belongs to another history, everything is computed again from all files. The state is written
after a run is published, so it never has a run that the manifest lacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest

import msgspec
import polars as pl
from msgspec import Struct, field, structs

from exporter import FORMAT
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.history.buckets import SOURCES, TotalKey, aggregate, in_scopes, observations_of, totals_of
from exporter.history.closed_buckets import OLDER, POOL_HISTORY, TOTALS_HISTORY, Histories, Owner
from exporter.history.empty_runs import EmptyRuns, empty_runs
from exporter.history.manifest import data_of
from exporter.history.parquet import scan_rows, to_frame_types
from exporter.history.time_buckets import BUCKETS, DAY, HOUR, WEEK
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.stores.store import Store, StoredObject, read_many
from exporter.tables import PoolKey, pool_keys
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, HistoryManifest, TotalsHistory
from exporter.tree.families import HISTORY_MANIFEST_KEY, totals_key
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import file_of
from exporter.tree.same_values import same_values

STATE_KEY = "state/history-buckets.bin"
"""The key of the stored state, which is no part of the API. No web server serves its extension. It may be removed."""

OLDER_KEY = "state/older-days.bin"
"""The key of the stored days before those of the newest documents. Only a run that renders days reads them."""

RENDERED_BY = f"{EXPORTER_VERSION} {FORMAT}"
"""The version that renders documents. Another version renders all of them again."""

STATE_VERSION = 15
"""Version of the state. It is raised whenever the state changes, or the way in which buckets are computed. A state of
another version is not used."""

BATCH_ROWS = 100_000
"""Number of observations that are added together when history files have to be read. A larger file is added alone."""


class Series(Struct):
    """All histories up to a ledger.

    Attributes:
        through_ledger: the last ledger that was added; 0 for none.
        through_time: its close time in unix seconds; 0 for none.
        row_count: the number of observations that were added.
        rendered_ledger: the ledger at which this version rendered and published all newest documents; 0 if that is not
            known.
        pools: the histories of pools.
        totals: the histories of markets, tokens, protocols and the network.
        older_sha256: the SHA-256 of the days that are stored under `OLDER_KEY`; empty if none are.
    """

    through_ledger: int = 0
    through_time: int = 0
    row_count: int = 0
    rendered_ledger: int = 0
    pools: Histories[PoolKey] = field(default_factory=lambda: Histories(POOL_HISTORY))
    totals: Histories[TotalKey] = field(default_factory=lambda: Histories(TOTALS_HISTORY))
    older_sha256: str = ""

    def extend(self, observations: pl.DataFrame, ledger: int, close_time: int) -> Iterator[RenderedFile]:
        """Add later observations (`OBSERVATIONS`), and yield the pages that are complete by then, oldest first.

        ``ledger`` is the newest ledger of the observations, and ``close_time`` its close time in unix seconds. They are
        needed even if nothing was observed. Raises `CheckError` for a ledger or time that is not later than what was
        added before.
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
        """The bucket lengths in which no bucket closes between ``ledger`` and ``close_time``.

        There are none unless all newest documents were rendered at ``ledger``, so that they can be reused.
        """
        if not self.rendered_ledger == self.through_ledger == ledger:
            return []
        return [bucket.name for bucket in BUCKETS if bucket.start(self.through_time) == bucket.start(close_time)]

    def newest_documents(self, unchanged: Collection[str] = ()) -> Iterator[RenderedFile]:
        """Render the newest documents.

        In the lengths in ``unchanged``, which are some of `still_open`, only histories that began since are rendered.
        """
        yield from self._newest_documents(self.pools, self._pools_begun(), unchanged)
        yield from self._newest_documents(self.totals, self._totals_begun(), unchanged)

    def documents_without_pools(self, totals: Iterable[TotalKey]) -> Iterator[RenderedFile]:
        """Render an empty document for each of these totals in which no pool was ever observed."""
        first_seen = {TotalKey(*row[:2]) for row in self._totals_begun().iter_rows()}
        for total in totals:
            if total not in first_seen:
                yield file_of(TotalsHistory(*total, DAY.name, self.through_ledger, [], None))

    @property
    def keys_of_totals(self) -> frozenset[str]:
        """The keys of the newest documents of all totals in which a pool was observed."""
        return frozenset(totals_key(*row[:2]) for row in self._totals_begun().iter_rows())

    def _pools_begun(self) -> pl.DataFrame:
        """The first ledger of each pool, whichever token and protocol it had."""
        keys = PoolKey._fields
        return self.pools.get("begun").group_by(keys).agg(pl.col("observed_ledger").min()).sort(keys)

    def _totals_begun(self) -> pl.DataFrame:
        """The first ledger of each total."""
        first_ledgers = in_scopes(self.pools.get("begun")).group_by("scope", "id").agg(pl.col("observed_ledger").min())
        return first_ledgers.sort("scope", "id")

    def _newest_documents(
        self, histories: Histories[Owner], begun: pl.DataFrame, unchanged: Collection[str]
    ) -> Iterator[RenderedFile]:
        new = begun.filter(pl.col("observed_ledger") > self.rendered_ledger)
        buckets = [bucket for bucket in histories.kind.buckets if bucket.name not in unchanged or new.height]
        rendered = [
            histories.empty_documents(bucket, new)
            if bucket.name in unchanged
            else histories.newest_documents(bucket, begun, self.through_time)
            for bucket in buckets
        ]
        # The documents of one pool or total follow each other, because a store then opens their folder once.
        for files in zip_longest(*rendered):
            yield from (file for file in files if file is not None)

    def priced_since(self, time: int) -> set[PoolKey]:
        """The pools that had a price at an observation since the start of the hour of a time (unix seconds)."""
        start = HOUR.start(time)
        closed = self.pools.closed(HOUR).filter((pl.col("start") >= start) & (pl.col("priced_count") > 0))
        newest = self.pools.observed(start, self.through_time + 1).filter(pl.col("oracle_price").is_not_null())
        return {*pool_keys(closed), *pool_keys(newest)}

    @property
    def pools_first_seen(self) -> dict[PoolKey, int]:
        """The first ledger of each pool."""
        begun = self._pools_begun()
        return dict(zip(pool_keys(begun), begun["observed_ledger"], strict=True))

    @property
    def tokens_first_seen(self) -> dict[str, int]:
        """The first ledger of each token."""
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
    """A series as it is stored. Frames are packed as in `Histories`; the older days are stored apart."""

    version: int
    through_ledger: int
    through_time: int
    row_count: int
    rendered_by: str
    pools: dict[str, bytes]
    totals: dict[str, bytes]
    older_sha256: str


def load_series(store: Store, manifest: HistoryManifest | None, before: int) -> Series:
    """The series of the stored state, for a run at the ledger ``before``; an empty one if the state does not fit."""
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
    rendered_ledger = state.through_ledger if state.rendered_by == RENDERED_BY else 0
    pools, totals = Histories(POOL_HISTORY, state.pools), Histories(TOTALS_HISTORY, state.totals)
    series = Series(state.through_ledger, state.through_time, state.row_count, rendered_ledger, pools, totals)
    series.older_sha256 = state.older_sha256
    if state.older_sha256:
        pools.read_older = partial(_read_older, store, manifest, series, state.through_ledger)
    return series


def _read_older(store: Store, manifest: HistoryManifest | None, series: Series, through_ledger: int) -> bytes | None:
    """The older days of a stored state, which has the runs up to ``through_ledger``.

    If they are lost or damaged, they are computed again from the history, and `save_series` stores them again.
    """
    stored = store.get(OLDER_KEY)
    if stored is not None and hashlib.sha256(stored.data).hexdigest() == series.older_sha256:
        return stored.data
    series.older_sha256 = ""
    again = Series()
    for _ in catch_up(store, manifest, through_ledger + 1, again):
        pass
    return again.pools.packed.get(OLDER)


def catch_up(store: Store, manifest: HistoryManifest | None, before: int, series: Series) -> Iterator[RenderedFile]:
    """Add the history files below the ledger ``before`` that the series lacks, and yield the pages that are complete.

    Raises `StoreError` for a file that is missing or damaged, and `CheckError` as `Series.extend` does.
    """
    files = [file for file in files_before(manifest, before) if file.first_ledger > series.through_ledger]
    for batch in _batches(files):
        by_key = {file.key: file for file in batch}
        read = {key: _runs_in(stored, by_key[key]) for key, stored in read_many(store, by_key)}
        observations = pl.concat([read[file.key][0] for file in batch])  # in the order of the ledgers
        newest_runs = [run for file in batch for run in read[file.key][1].items()]
        if observations.height:
            newest_runs.append(observations.select(pl.col("observed_ledger", "ledger_close_time").max()).row(0))
        if newest_runs:
            yield from series.extend(observations, *max(newest_runs))


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
    """Store a series for the next run, and return the size of its state in bytes.

    Older days are stored before the state that names them. If that fails between the two, a later run computes them
    again.
    """
    older = series.pools.packed.get(OLDER)
    if older is not None and hashlib.sha256(older).hexdigest() != series.older_sha256:
        store.put(OLDER_KEY, older)
    data = encoded_state(series)
    store.put(STATE_KEY, data)
    return len(data)


def encoded_state(series: Series) -> bytes:
    """The state of a series, as it is stored under `STATE_KEY`: its SHA-256, and then MessagePack."""
    older = series.pools.packed.get(OLDER)
    state = _State(
        STATE_VERSION,
        series.through_ledger,
        series.through_time,
        series.row_count,
        RENDERED_BY,
        {name: frame for name, frame in series.pools.packed.items() if name != OLDER},
        series.totals.packed,
        series.older_sha256 if older is None else hashlib.sha256(older).hexdigest(),
    )
    data = msgspec.msgpack.encode(state)
    return hashlib.sha256(data).digest() + data


def files_before(manifest: HistoryManifest | None, before: int) -> Sequence[HistoryFile]:
    """The history files whose ledgers are all below ``before``, ascending."""
    files = [] if manifest is None else manifest.files
    return sorted((file for file in files if file.last_ledger < before), key=lambda file: file.first_ledger)


def _runs_in(stored: StoredObject | None, file: HistoryFile) -> tuple[pl.DataFrame, EmptyRuns]:
    """The observations in a history file, and its runs without any.

    Raises `StoreError` if it is not the file that the manifest names.
    """
    data = data_of(stored, file)
    try:
        observations = observations_of(to_frame_types(scan_rows(data).select(SOURCES).collect()))
        without_rows = empty_runs(open_parquet(data))
    except DecodeError as error:
        raise StoreError(f"{file.key}: {error}") from error
    except POLARS_ERRORS as error:
        raise StoreError(f"{file.key} does not have the columns of a history file: {error}") from error
    if observations.height != file.rows:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} says that {file.key} has {file.rows} rows, but it has {observations.height}. "
            "Nothing was published over it: restore it from a copy"
        )
    return observations, without_rows


def same_states(one: bytes, other: bytes) -> bool:
    """Whether two stored states are of the same ledger and version, and have the same values in their own frames."""
    state, other_state = _decode(StoredObject(one, "")), _decode(StoredObject(other, ""))
    if state is None or other_state is None:
        return False
    bare = {"pools": {}, "totals": {}, "older_sha256": ""}
    if structs.replace(state, **bare) != structs.replace(other_state, **bare):
        return False
    return _same_frames(state.pools, other_state.pools) and _same_frames(state.totals, other_state.totals)


def _same_frames(frames: Mapping[str, bytes], others: Mapping[str, bytes]) -> bool:
    """Whether two sets of packed frames have the same names and values."""
    if frames.keys() != others.keys():
        return False
    return all(same_values(".parquet", frames[name], others[name]) for name in frames)


def _decode(stored: StoredObject | None) -> _State | None:
    """Decode a stored state; None if it is missing or damaged, or of another version."""
    if stored is None or hashlib.sha256(stored.data[32:]).digest() != stored.data[:32]:
        return None
    try:
        state = msgspec.msgpack.decode(stored.data[32:], type=_State)
    except (msgspec.DecodeError, RecursionError):
        return None
    return state if state.version == STATE_VERSION else None
