"""Compaction: the same rows in fewer files, and no moment at which a reader misses one."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.audit.history_files import check_as_written, rewritten
from exporter.errors import CheckError, LostRaceError, StoreError
from exporter.history.empty_runs import empty_runs
from exporter.history.export import rows_of
from exporter.history.manifest import read_history_manifest
from exporter.history.series import Series, catch_up, load_series, save_series
from exporter.parquet_bounds import open_parquet
from exporter.publishing.checker import read_parquet
from exporter.publishing.compaction import plan_compaction
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tables import OPTIONAL_COLUMNS
from exporter.tree.documents import HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.read_back import render_document
from tests.examples import examples, spread, strides
from tests.history import frames
from tests.history.frames import manifest_of
from tests.history.runs import frame_of, observe, places
from tests.publishing.held import compact_history, sweep
from tests.publishing.published_tree import START, TestClock, make_run, publish_run
from tests.stores.bucket_simulator import BucketSimulator, SimulatedKill, content

DAY = 86_400
MONTHS = ["date=2026-08-01/1", "date=2026-08-31/2", "date=2026-09-01/3", "date=2026-09-02/4", "date=2026-11-30/5"]
FIRST_DAY = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())


def record(store: Store, times: Sequence[int], *, network: str = "made") -> None:
    """One run at each time; ledgers count from 1000."""
    random, known = Random(7), read_history_manifest(store)
    for ledger, time in enumerate(times, 1000 + (0 if known is None else len(known.files))):
        frames.record(store, frame_of(observe(random, places(2, 2), ledger, time), ledger, time), ledger, time, network)


@pytest.fixture
def store() -> MemoryStore:
    """Two runs on one day and one on the next."""
    made = MemoryStore()
    record(made, [FIRST_DAY, FIRST_DAY + 1, FIRST_DAY + DAY])
    return made


def every_row(store: Store) -> pl.DataFrame:
    """All rows that the manifest leads to, in one order."""
    found = []
    for file in manifest_of(store).files:
        found.append(pl.read_parquet(io.BytesIO(content(store, file.key))))
        assert file.rows == found[-1].height
    return pl.concat(found).sort("market", "pool", "observed_ledger")


def keys_of(store: Store) -> list[str]:
    return [file.key for file in manifest_of(store).files]


@pytest.mark.parametrize("empty", [{0}, {2}, {0, 1, 2}], ids=["the first", "the last", "all"])
def test_runs_without_rows_of_a_day(empty: set[int]) -> None:
    """A joined file lists the runs of its day that have no rows, so it is judged as its parts are, and gives them back.

    Joining it again keeps the list.
    """
    store = MemoryStore()
    for number, time in enumerate([FIRST_DAY, FIRST_DAY + 1, FIRST_DAY + 2, FIRST_DAY + 100 * DAY]):
        observed = [] if number in empty else observe(Random(number), places(1, 2), 1000 + number, time)
        frames.record(store, frame_of(observed, 1000 + number, time), 1000 + number, time)
    parts = manifest_of(store).files
    compact_history(store, months=9)
    of_day = manifest_of(store).files[0]
    compact_history(store)
    of_month = manifest_of(store).files[0]

    assert [(1000, 1002)] * 2 == [(file.first_ledger, file.last_ledger) for file in (of_day, of_month)]
    assert "month=2026-11" in of_month.key
    for file in (*parts, of_day, of_month):
        data = content(store, file.key)
        assert (file.first_ledger, file.last_ledger) == read_parquet(data, file.sha256).ledgers
        assert check_as_written(data, file, "made")
    data = content(store, of_month.key)
    rows, without_rows = rows_of(data, of_month), empty_runs(open_parquet(data))
    assert {1000 + number: FIRST_DAY + number for number in empty} == without_rows
    for part in parts[:3]:
        own_rows = rows.filter(pl.col("observed_ledger") == part.first_ledger)
        assert content(store, part.key) == rewritten(own_rows, without_rows, part, "made")


def entry(key: str, ledger: int, size: int = 10) -> HistoryFile:
    """An entry of a manifest that is only planned with."""
    return HistoryFile(f"history/pools/{key}", "../x", 2, size, "0" * 64, ledger, ledger)


def planned(*files: HistoryFile, months: int = 2) -> list[tuple[str, list[int]]]:
    pieces = plan_compaction(HistoryManifest(1, files[-1].last_ledger, list(files)), months)
    return [
        (piece.folder.removeprefix("history/pools/"), [file.first_ledger for file in piece.files]) for piece in pieces
    ]


def rewrite(store: Store, key: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Make a file what another version could have written there."""
    manifest, data, buffer = manifest_of(store), content(store, key), io.BytesIO()
    frame, metadata = pl.read_parquet(io.BytesIO(data)), pl.read_parquet_metadata(io.BytesIO(data))
    change(frame).write_parquet(buffer, metadata={name: metadata[name] for name in metadata if name != "ARROW:schema"})
    store.delete([key])
    store.put_new(key, buffer.getvalue())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    files = [
        file if file.key != key else msgspec.structs.replace(file, bytes=len(buffer.getvalue()), sha256=digest)
        for file in manifest.files
    ]
    store.put(HISTORY_MANIFEST_KEY, render_document(msgspec.structs.replace(manifest, files=files)).data)


def without_terms(frame: pl.DataFrame) -> pl.DataFrame:
    """A file that is older than the columns of terms."""
    return frame.drop(*OPTIONAL_COLUMNS, "supplied_usd_cents", "borrowed_usd_cents", "available_usd_cents")


@pytest.mark.parametrize(
    ("files", "months", "expected"),
    [
        pytest.param(
            [f"date=2026-11-0{1 + number // 3}/{1 + number}" for number in range(8)],
            2,
            [("date=2026-11-01/", [1, 2, 3]), ("date=2026-11-02/", [4, 5, 6])],
            id="the-newest-day-is-open",
        ),
        pytest.param(["date=2026-11-01/1", "date=2026-11-02/2"], 2, [], id="days-of-one-file"),
        pytest.param(MONTHS, 2, [("month=2026-08/", [1, 2])], id="a-month-before-two-whole-ones"),
        pytest.param(MONTHS, 1, [("month=2026-08/", [1, 2]), ("month=2026-09/", [3, 4])], id="before-one"),
        pytest.param(MONTHS, 1200, [], id="never"),
        pytest.param(["date=2026-01-05/1", "date=2026-11-30/2"], 2, [("month=2026-01/", [1])], id="a-single-day-moves"),
        pytest.param(["month=2026-01/1-1-0123456789ab", "date=2026-11-30/2"], 2, [], id="done"),
        pytest.param(["date=2025-11-05/1", "date=2026-01-05/2"], 2, [], id="a-year-ends"),
        pytest.param(["date=2025-11-05/1", "date=2026-01-05/2"], 1, [("month=2025-11/", [1])], id="the-year-before"),
    ],
)
def test_only_closed_days_and_old_whole_months_are_compacted(
    files: list[str], months: int, expected: list[tuple[str, list[int]]]
) -> None:
    """Closed days are compacted, each by itself, and months with that many whole months between them and the newest."""
    assert expected == planned(*(entry(f"{key}.parquet", number) for number, key in enumerate(files, 1)), months=months)


def test_months_that_stay_a_file_a_day() -> None:
    """A month whose files are very large together is not compacted."""
    files = [entry(f"date=2026-01-0{day}/{day}.parquet", day, 200 * 2**20) for day in (1, 2)]

    assert [] == planned(*files, entry("date=2026-11-30/9.parquet", 9))


class TestRows:
    @examples(fast=3, thorough=150)
    @given(st.lists(st.integers(0, 100 * DAY), min_size=1, max_size=12, unique=True), st.integers(0, 3))
    def test_nothing_is_lost(self, offsets: list[int], months: int) -> None:
        """Whenever runs were made, compaction leaves every row, also between two stretches of pools.

        Doing it again changes nothing.
        """
        store = MemoryStore()
        record(store, [FIRST_DAY + offset for offset in sorted(offsets)])
        before = every_row(store)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("exporter.publishing.compaction.STRETCH_ROWS", 3)
            compact_history(store, months=months)

        assert before.equals(every_row(store))
        manifest = store.get(HISTORY_MANIFEST_KEY)
        assert () == compact_history(store, months=months).files
        assert manifest == store.get(HISTORY_MANIFEST_KEY)

    def test_a_large_market(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A few pools are unpacked at once, also of one market: the rows of a stretch are one row group."""
        monkeypatch.setattr("exporter.publishing.compaction.STRETCH_ROWS", 6)
        store = MemoryStore()
        record(store, [FIRST_DAY + 3600 * hour for hour in range(5)] + [FIRST_DAY + DAY])

        (file,) = compact_history(store).files

        metadata = pq.ParquetFile(io.BytesIO(content(store, file.key))).metadata
        assert [10, 10] == [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def test_sorted_and_named(self) -> None:
        """A day's file is sorted by market, pool and ledger; its key says its ledgers, its metadata the network."""
        store = MemoryStore()
        record(store, [FIRST_DAY + 3600 * hour for hour in range(26)])

        done = compact_history(store)

        (file,) = done.files
        assert (24, 1) == (len(done.joined), len(done.files))
        assert f"history/pools/date=2026-11-01/1000-1023-{file.sha256[:12]}.parquet" == file.key
        assert [file.key, *keys_of(store)[1:]] == keys_of(store)
        data = content(store, file.key)
        frame = pl.read_parquet(io.BytesIO(data))
        assert frame.equals(frame.sort("market", "pool", "observed_ledger"))
        assert "made" == pl.read_parquet_metadata(io.BytesIO(data))["network"]

    def test_a_month_of_days_equals_one_of_runs(self) -> None:
        """The same files give the same bytes, whether a month is made of its days or of its runs."""
        times = [FIRST_DAY - 100 * DAY + 7200 * number for number in range(20)] + [FIRST_DAY]
        at_once, by_day = MemoryStore(), MemoryStore()
        record(at_once, times)
        record(by_day, times)

        compact_history(at_once)
        compact_history(by_day, months=1200)
        assert 1 < len(keys_of(by_day)) < 20
        compact_history(by_day)

        assert 2 == len(keys_of(at_once))
        assert keys_of(at_once) == keys_of(by_day)

    def test_columns_that_an_earlier_version_had_not(self, store: MemoryStore) -> None:
        """A day of files with and without the terms keeps every value; they are null if there were none."""
        before = every_row(store)
        rewrite(store, keys_of(store)[0], without_terms)

        compact_history(store)

        after, old = every_row(store), pl.col("observed_ledger") == 1000
        assert without_terms(before).equals(without_terms(after))
        assert before.filter(~old).equals(after.filter(~old))
        assert {4} == {
            after.filter(old)[name].null_count() for name in set(after.columns) - {*without_terms(after).columns}
        }


class TestRefusals:
    @pytest.mark.parametrize("data", [None, b"other bytes"])
    def test_missing_and_damaged(self, store: MemoryStore, data: bytes | None) -> None:
        """A file that is missing, or not the one that is named, stops the compaction and changes nothing."""
        key, before = keys_of(store)[0], store.get(HISTORY_MANIFEST_KEY)
        store.delete([key])
        if data is not None:
            store.put_new(key, data)
        with pytest.raises(StoreError, match="missing" if data is None else "not the file"):
            compact_history(store)
        assert before == store.get(HISTORY_MANIFEST_KEY)

    def test_columns_of_a_later_version(self, store: MemoryStore) -> None:
        """A file with a column that this version does not know is left alone: the column would be lost."""
        rewrite(store, keys_of(store)[0], lambda frame: frame.with_columns(pl.lit(1).alias("later")))
        with pytest.raises(StoreError, match="columns later, which this version does not know"):
            compact_history(store)

    def test_networks_do_not_mix(self) -> None:
        """Files of different networks are never put together."""
        store = MemoryStore()
        record(store, [FIRST_DAY])
        record(store, [FIRST_DAY + 1, FIRST_DAY + DAY], network="other")
        with pytest.raises(CheckError, match="different networks: made, other"):
            compact_history(store)

    def test_a_publisher_at_work(self, store: MemoryStore) -> None:
        """While a publisher holds the store nothing is compacted."""
        with store.exclusive(), pytest.raises(LostRaceError):
            compact_history(store)

    def test_an_output_without_history_is_not_compacted(self) -> None:
        """An output without a history has nothing to compact."""
        assert () == compact_history(MemoryStore()).files


class TestReaders:
    @strides(5)
    def test_a_crash_at_any_operation_loses_no_row(self, stride: int) -> None:
        """Killed after any operation, the history has every row; the next compaction does the rest."""
        times = [FIRST_DAY, FIRST_DAY + 1, FIRST_DAY + DAY, FIRST_DAY + DAY + 1, FIRST_DAY + 2 * DAY]
        whole = MemoryStore()
        record(whole, times)
        expected = every_row(whole)
        counted = BucketSimulator(MemoryStore(whole))
        compact_history(counted)
        for position in spread(range(len(counted.calls)), stride):
            left = MemoryStore(whole)
            bucket = BucketSimulator(left)
            bucket.die_at(position)
            with pytest.raises(SimulatedKill):
                compact_history(bucket)
            assert expected.equals(every_row(left))
            compact_history(left)
            assert expected.equals(every_row(left))
            assert keys_of(counted) == keys_of(left)

    def test_files_outlive_the_retention(self) -> None:
        """A reader of the manifest before finds its files for the retention time after the compaction, then no more."""
        clock = TestClock()
        store = MemoryStore(clock=clock)
        record(store, [FIRST_DAY, FIRST_DAY + 1, FIRST_DAY + DAY])
        publish_run(store, make_run(2000), clock)
        before = keys_of(store)

        clock.now = START + timedelta(days=30)
        compact_history(store, now=clock)
        clock.advance(timedelta(hours=24))
        sweep(store, timedelta(hours=24), now=clock)
        assert all(store.get(key) for key in before)

        clock.advance(timedelta(hours=1))
        swept = sweep(store, timedelta(hours=24), now=clock)
        gone = [key for key in before if store.get(key) is None]
        assert 2 == swept.history == len(gone)
        assert gone == [key for key in before if key not in keys_of(store)]
        assert all(store.get(key) for key in keys_of(store))

    @pytest.mark.slow
    def test_the_buckets_go_on(self) -> None:
        """The state of the buckets stays of use after a compaction, and without it they are recomputed, the same."""
        times = [FIRST_DAY + 3600 * hour for hour in range(30)]
        store = MemoryStore()
        record(store, times)
        manifest = read_history_manifest(store)
        series = Series()
        pages = list(catch_up(store, manifest, 2000, series))
        save_series(store, series)

        compact_history(store)

        manifest = read_history_manifest(store)
        assert series.row_count == load_series(store, manifest, 2000).row_count
        fresh = Series()
        assert sorted(page.key for page in pages) == sorted(page.key for page in catch_up(store, manifest, 2000, fresh))
        assert [head.data for head in series.newest_documents()] == [head.data for head in fresh.newest_documents()]
