"""Rollups are what plain Polars makes of all rows, however a history came about and whatever died on the way."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.audit.rollup_faults import rollup_faults
from exporter.errors import CheckError, StoreError
from exporter.history import rollups
from exporter.history.approximate import APPROXIMATE_NAMES, with_approximate
from exporter.history.manifest import extend_history, history_below, read_history_manifest
from exporter.history.parquet import FILE_SCHEMA, ORDER, render_history
from exporter.history.time_buckets import DAY, HOUR, HOURLY_APPROXIMATE, HOURLY_COLUMNS
from exporter.publishing.published_history import replace_history
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, etag_of
from tests.examples import examples, spread, strides
from tests.history.frames import manifest_of
from tests.history.runs import MONDAY, frame_of, observe, places
from tests.publishing.held import compact_history
from tests.stores.bucket_simulator import BucketSimulator, SimulatedKill

NOW = datetime(2026, 12, 1, tzinfo=UTC)
FIRST = 100_000
"""The ledger of that Monday; one closes each minute."""

DAILY, HOURLY = "history/daily.parquet", "history/hourly.parquet"


@pytest.fixture(autouse=True, scope="module")
def small_groups() -> Iterator[None]:
    """Most groups of rows are more than one row group of a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollups, "ROW_GROUP_ROWS", 5)
        yield


def run(store: Store, time: int, *, pools: int = 2, rollups: bool = True) -> None:
    """A run at a time: its file, then the step in which the history changes."""
    ledger = FIRST + (time - MONDAY) // 60
    frame = frame_of(observe(Random(ledger), places(2, pools), ledger, time), ledger, time)
    part = render_history(frame, observed_ledger=ledger, ledger_close_time=time, network="made")
    store.put_new(part.file.key, part.file.data)
    manifest = extend_history(read_history_manifest(store), part.entry)
    replace_history(store, manifest, {}, NOW, rollups=rollups)


def read(store: Store, key: str) -> bytes | None:
    stored = store.get(key)
    return None if stored is None else stored.data


def files_of(store: Store) -> dict[str, bytes]:
    """The rollups in the tree."""
    keys = [info.key for info in store.list("history/") if not info.key.startswith("history/pools/")]
    return {key: read(store, key) or b"" for key in keys}


def judged(store: Store) -> dict[str, pl.DataFrame]:
    """The rollups, computed out of all rows at once, and of the close time that the newest run's file states."""
    newest = read(store, max(manifest_of(store).files, key=lambda file: file.first_ledger).key) or b""
    newest_time = int(pl.read_parquet_metadata(io.BytesIO(newest))["ledger_close_time"])
    frames = [pl.read_parquet(io.BytesIO(read(store, file.key) or b"")) for file in manifest_of(store).files]
    rows = pl.concat(frames)
    expected = {}
    wanted = (
        (DAILY, DAY.seconds, list(FILE_SCHEMA), APPROXIMATE_NAMES),
        (HOURLY, HOUR.seconds, list(HOURLY_COLUMNS), HOURLY_APPROXIMATE),
    )
    for key, seconds, names, approximate in wanted:
        bucketed = rows.with_columns(bucket=pl.col("ledger_close_time").dt.epoch("s") // seconds)
        last = pl.col("observed_ledger") == pl.col("observed_ledger").max().over("bucket")
        chosen = bucketed.filter(last & (pl.col("bucket") < newest_time // seconds))
        expected[key] = with_approximate(chosen, approximate).select(*names, *approximate).sort(ORDER)
    return expected


def assert_right(store: Store) -> None:
    """The files are those that the manifest names, and have the rows that they ought to have, each once."""
    manifest, files = manifest_of(store), files_of(store)
    frames = {key: pl.read_parquet(io.BytesIO(data)) for key, data in files.items()}
    hours = pl.concat([frame for key, frame in frames.items() if key != DAILY])
    expected = judged(store)

    assert [] == list(
        rollup_faults(manifest, lambda key: read(store, key), files.keys() - {DAILY, HOURLY}, recompute=True)
    )
    assert {entry.key: entry.rows for entry in manifest.rollups} == {key: len(frame) for key, frame in frames.items()}
    assert expected[DAILY].equals(frames[DAILY].sort(ORDER))
    assert expected[HOURLY].equals(hours.sort(ORDER))
    for key, frame in frames.items():
        if key not in (DAILY, HOURLY):
            assert {key[15:22]} == set(frame["ledger_close_time"].dt.strftime("%Y-%m"))


def from_nothing(store: Store) -> dict[str, bytes]:
    """The rollups as the files of the history alone make them."""
    copy = MemoryStore(store)
    copy.delete(list(files_of(store)))
    replace_history(copy, msgspec.structs.replace(manifest_of(store), rollups=[]), {}, NOW)
    return files_of(copy)


@examples(fast=2, thorough=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [300, 900, HOUR.seconds, 5 * HOUR.seconds, DAY.seconds, 20 * DAY.seconds, 70 * DAY.seconds]
            ),
            st.sampled_from([0, 2, 2, 2]),
            st.booleans(),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_rollups_are_those_made_from_nothing_at_any_pace(steps: list[tuple[int, int, bool]]) -> None:
    """The files are right at any pace, compacted or not, and the same as if they were made from nothing."""
    store, time = MemoryStore(), MONDAY
    for step, pools, compacts in steps:
        run(store, time, pools=pools)
        if compacts:
            compact_history(store)
        time += step

    assert_right(store)
    assert from_nothing(store) == files_of(store)


def test_a_history_without_rows() -> None:
    """From the first run on there are both lasting files, which the data package names, even if no run has a row."""
    store = MemoryStore()
    run(store, MONDAY, pools=0)

    assert [DAILY, HOURLY] == sorted(files_of(store))
    for time in (MONDAY + HOUR.seconds, MONDAY + DAY.seconds):
        run(store, time, pools=0)
    compact_history(store)
    run(store, MONDAY + 2 * DAY.seconds, pools=0)

    assert_right(store)
    assert ["2026-11-25T00:00:00Z"] * 2 == [entry.ends for entry in manifest_of(store).rollups]
    assert from_nothing(store) == files_of(store)


def test_a_run_without_rows_closes_buckets() -> None:
    """The rows of an hour and a day are in their files as soon as a later run was published, though it has no row."""
    store = MemoryStore()
    run(store, MONDAY)
    run(store, MONDAY + DAY.seconds, pools=0)

    assert [4, 4] == [entry.rows for entry in manifest_of(store).rollups]
    assert_right(store)


def test_few_reads_and_writes() -> None:
    """A file is written when its bucket closes, and of the history only what it takes is read."""
    inner = MemoryStore()
    for number in (*range(4), 5, 6, 71, 72, 73):
        store, time = BucketSimulator(inner), MONDAY + number * 1_200
        run(store, time)
        expected = ["v1/history.json"]
        if number in (0, 3, 6, 71, 72):
            expected.insert(0, HOURLY)
        if number in (0, 72):
            expected.insert(0, DAILY)
        assert expected == [call.key for call in store.calls if call.operation == "put"]
        assert sum(call.operation == "get" for call in store.calls) <= 8


@pytest.mark.parametrize(
    ("wide", "days", "months", "begins"),
    [
        (2_000, [0, 40, 80, 100, 200], ["2026-11", "2027-01", "2027-02"], datetime(2027, 3, 1, tzinfo=UTC)),
        (3, [0, 8, 40, 48], ["2026-11", "2026-12"], datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_months_of_hours(
    monkeypatch: pytest.MonkeyPatch, wide: int, days: list[int], months: list[str], begins: datetime
) -> None:
    """The hourly file begins with the month of 90 days ago, or with the current one if a run has too many pools.

    A month before that is a file of its own.
    """
    monkeypatch.setattr(rollups, "MAX_POOLS_FOR_WINDOW", wide)
    store = MemoryStore()
    for day in days:
        run(store, MONDAY + day * DAY.seconds)

    assert_right(store)
    first = pl.read_parquet(io.BytesIO(files_of(store)[HOURLY]))["ledger_close_time"].min()
    assert begins <= first < begins + timedelta(days=8)  # type: ignore[operator]
    assert [DAILY, *(f"history/hourly-{month}.parquet" for month in months), HOURLY] == sorted(files_of(store))


@cache
def long_history() -> MemoryStore:
    """Runs each nine hours for two days, and for two days 130 days later."""
    store = MemoryStore()
    for begin in (MONDAY, MONDAY + 130 * DAY.seconds):
        for number in range(6):
            run(store, begin + number * 9 * HOUR.seconds)
    return store


def half_a_history() -> MemoryStore:
    """A copy of it."""
    return MemoryStore(long_history())


@cache
def files_after_a_run() -> dict[str, bytes]:
    """The files, which are right, after the next run over that history; nothing had happened to it."""
    store = half_a_history()
    run(store, MONDAY + 135 * DAY.seconds)
    assert_right(store)
    return files_of(store)


@pytest.mark.parametrize("key", [DAILY, HOURLY, "history/hourly-2026-11.parquet"])
@pytest.mark.parametrize("damage", [None, *(pytest.param(how, marks=pytest.mark.slow) for how in ("other", "cut"))])
def test_what_is_lost_is_recomputed(key: str, damage: str | None) -> None:
    """A file that is missing or damaged is a fault for the check, and right again when its next bucket closes."""
    store = half_a_history()
    whole = read(store, key)
    assert whole is not None
    store.delete([key])
    if damage is not None:
        store.put(key, whole[: len(whole) // 2] if damage == "cut" else b"x")
    faults = list(rollup_faults(manifest_of(store), lambda each: read(store, each), None, recompute=True))

    assert [key] == [fault.key for fault in faults]
    run(store, MONDAY + 135 * DAY.seconds)
    assert files_after_a_run() == files_of(store)


def test_a_manifest_that_names_no_rollup_is_a_fault_of_each() -> None:
    """Each rollup that the manifest leaves out is named, with the reason."""
    store = half_a_history()
    manifest = replace(manifest_of(store), rollups=[])
    faults = list(rollup_faults(manifest, lambda key: read(store, key), None, recompute=True))

    expected = {(key, "is not named by the history's manifest") for key in (DAILY, HOURLY)}
    assert expected <= {(fault.key, fault.text) for fault in faults}


def test_rows_that_came_into_the_past() -> None:
    """Ledgers that a backfill added are in the files after the next step, wherever they lie."""
    store = half_a_history()
    for time in (
        MONDAY - 40 * DAY.seconds,
        MONDAY + 2 * HOUR.seconds,
        MONDAY + 60 * DAY.seconds,
        MONDAY + 130 * DAY.seconds + 600,
    ):
        run(store, time, rollups=False)
    faults = list(rollup_faults(manifest_of(store), lambda key: read(store, key), None, recompute=True))

    assert [] == faults  # they are as they were, and known to be
    replace_history(store, manifest_of(store), {}, NOW)
    assert_right(store)


def test_a_version_with_other_columns_makes_the_files_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of a version with other columns makes the files again, though no bucket closed."""
    store = MemoryStore()
    with monkeypatch.context() as patch:
        patch.setattr(
            rollups, "KINDS", (rollups.DAILY, replace(rollups.HOURLY, columns=HOURLY_COLUMNS[:3] + HOURLY_COLUMNS[4:]))
        )
        for day in range(2):
            run(store, MONDAY + day * DAY.seconds)
    run(store, MONDAY + DAY.seconds + 60)

    assert_right(store)


def test_a_wrong_row_is_a_fault() -> None:
    """The check sees a row that the history does not have, in a file that agrees with the manifest."""
    store, other = half_a_history(), MemoryStore()
    for begin in (MONDAY, MONDAY + 130 * DAY.seconds):
        for number in range(6):
            run(other, begin + number * 9 * HOUR.seconds, pools=1, rollups=False)
    replace_history(other, manifest_of(other), {}, NOW)
    wrong = {entry.key: entry for entry in manifest_of(other).rollups}
    entries = [
        replace(wrong[entry.key], source_rows=entry.source_rows, last_ledger=entry.last_ledger)
        for entry in manifest_of(store).rollups
    ]
    manifest = replace(manifest_of(store), rollups=entries)
    faults = list(
        rollup_faults(manifest, lambda key: read(other if key in wrong else store, key), None, recompute=True)
    )

    assert sorted(wrong) == sorted(fault.key for fault in faults)


def test_a_file_of_another_library_is_no_fault() -> None:
    """Rows that another version of a library packed are as good, if the manifest has the digest of their bytes."""
    store = half_a_history()
    own = read(store, HOURLY) or b""
    data = own.replace(b"parquet-cpp-arrow version", b"parquet-cpp-other version")
    entries = [
        replace(entry, sha256=etag_of(data)) if entry.key == HOURLY else entry for entry in manifest_of(store).rollups
    ]
    manifest = replace(manifest_of(store), rollups=entries)

    def other(key: str) -> bytes | None:
        return data if key == HOURLY else read(store, key)

    assert data != own
    assert [] == list(rollup_faults(manifest, other, None, recompute=True))


@pytest.mark.parametrize(("first", "months"), [(5, 0), (-1, 1)])
def test_the_rows_of_withdrawn_ledgers_go(first: int, months: int) -> None:
    """If ledgers are undone, their rows go, and so do those of a bucket that is open again.

    A month that is one of the window again has no file.
    """
    store = half_a_history()
    manifest = manifest_of(store)
    kept = history_below(manifest, manifest.files[first].first_ledger, manifest.files[4])
    assert kept is not None
    replace_history(store, kept, {}, NOW)

    assert_right(store)
    assert 2 + months == len(files_of(store))


@pytest.mark.parametrize("lost", [0, 7, -1])
def test_a_damaged_history(lost: int) -> None:
    """If a file of the history is gone, a run is still published, and makes what does not need that file."""
    store = half_a_history()
    before = files_of(store)
    store.delete([manifest_of(store).files[lost].key])
    run(store, MONDAY + 135 * DAY.seconds)

    assert FIRST + 135 * 1_440 == manifest_of(store).observed_ledger
    assert before.keys() == files_of(store).keys() == {entry.key for entry in manifest_of(store).rollups}
    for entry in manifest_of(store).rollups:
        assert entry.sha256 == etag_of(read(store, entry.key) or b"")


@pytest.mark.parametrize("damage", [None, b"", b"PAR1"])
def test_rollups_stay_if_the_newest_history_file_cannot_be_read(damage: bytes | None) -> None:
    """Only the newest file says up to when buckets are closed. Without it, no rollup changes or leaves the manifest."""
    store = MemoryStore()
    for day in range(2):
        run(store, MONDAY + day * DAY.seconds)
    manifest = manifest_of(store)
    newest = manifest.files[-1].key
    entries, files = rollups.updated_rollups(manifest, lambda key: damage if key == newest else read(store, key))

    assert [DAILY, HOURLY] == [entry.key for entry in entries]
    assert (manifest.rollups, []) == (entries, list(files))


@pytest.mark.parametrize(
    ("time", "folder"),
    [
        (MONDAY, "date=2026-11-22"),
        (MONDAY + DAY.seconds - 60, "date=2026-11-24"),
        (MONDAY, "date=2026-11-23"),
    ],
)
def test_a_file_in_the_folder_of_another_day(time: int, folder: str) -> None:
    """Rows in a wrong folder get into no file of days, so the run is published without it; in their own they do."""
    store = MemoryStore()
    run(store, time, rollups=False)
    run(store, time + 30 * DAY.seconds, rollups=False)
    manifest = manifest_of(store)
    key = manifest.files[0].key
    moved = key.replace("date=2026-11-23", folder)
    store.put(moved, read(store, key) or b"")
    url = manifest.files[0].url.replace(key, moved)
    files = [replace(manifest.files[0], key=moved, url=url), *manifest.files[1:]]
    replace_history(store, replace(manifest, files=files), {}, NOW)

    assert (DAILY in files_of(store)) is (moved == key)


def test_too_many_files_wait_for_compaction() -> None:
    """A run does not read thousands of files to make the files from nothing."""
    store = half_a_history()
    lost = msgspec.structs.replace(manifest_of(store), rollups=[])
    replace_history(store, lost, {}, NOW, most_reads=5)
    assert [] == manifest_of(store).rollups
    replace_history(store, manifest_of(store), {}, NOW)

    assert_right(store)


CRASHED = [MONDAY, MONDAY + 20 * DAY.seconds, MONDAY + 50 * DAY.seconds, MONDAY + 130 * DAY.seconds + 100]


@strides(7)
def test_a_crash_at_every_step(stride: int) -> None:
    """Wherever a step dies, each file is whole, and the next run makes them right."""
    before = MemoryStore()
    for time in CRASHED[:-1]:
        run(before, time)
    counted = BucketSimulator(MemoryStore(before))
    run(counted, CRASHED[-1])
    assert len(counted.calls) > 8

    for at in spread(range(len(counted.calls)), stride):
        inner = MemoryStore(before)
        store = BucketSimulator(inner)
        store.die_at(at)
        with pytest.raises(SimulatedKill):
            run(store, CRASHED[-1])
        for data in files_of(inner).values():
            pl.read_parquet(io.BytesIO(data))
        run(inner, CRASHED[-1] + HOUR.seconds)
        assert_right(inner)


def test_a_refused_write_ends_the_step() -> None:
    """If the store refuses, that is not damage of the history: the step fails, and the manifest stays."""

    class Full(MemoryStore):
        def put(self, key: str, data: bytes) -> bool:
            if key == HOURLY:
                raise StoreError("no space left")
            return super().put(key, data)

    store = half_a_history()
    with pytest.raises(StoreError, match="no space left"):
        run(Full(store), MONDAY + 140 * DAY.seconds)
    assert FIRST + 140 * 1_440 > manifest_of(store).observed_ledger


def test_a_rollup_that_does_not_read_back_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a library loses rows, the previous rollups and their manifest stay."""
    store, write = MemoryStore(), pq.ParquetWriter.write_table
    run(store, MONDAY)
    run(store, MONDAY + DAY.seconds)
    before = files_of(store), manifest_of(store)

    def lossy(writer: pq.ParquetWriter, table: pa.Table, **options: Any) -> None:
        if "tvl_usd" in table.column_names:  # a rollup
            table = table.slice(1)
        write(writer, table, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", lossy)
    with pytest.raises(CheckError, match=rf"{DAILY}: 8 rows up to ledger \d+ were written, and 6 up to ledger"):
        run(store, MONDAY + 2 * DAY.seconds)
    assert before == (files_of(store), manifest_of(store))
