"""The history as a Delta table: what its readers find after every step, whatever became of the step before."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import polars as pl
import pytest
from deltalake.exceptions import TableNotFoundError

from exporter.check.table_log import table_faults
from exporter.errors import LostRaceError, StoreError
from exporter.history.delta_log import Log
from exporter.history.manifest import HistoryPart, extend_history, history_below, read_history_manifest
from exporter.history.parquet import render_history
from exporter.history.schema import HISTORY_COLUMNS
from exporter.publishing.compaction import compact_history
from exporter.publishing.delta_table import CHECKPOINT_EVERY, follow, newest_version
from exporter.publishing.history_step import replace_history
from exporter.publishing.retention import sweep
from exporter.stores.folder import FolderStore
from exporter.stores.store import Store
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import HISTORY_MANIFEST_KEY, HISTORY_PREFIX, LOG_PREFIX
from tests.history.frames import pools_frame
from tests.publishing.published_tree import TestClock, make_run, publish_run
from tests.stores.bucket_simulator import BucketSimulator

START = datetime(2026, 11, 10, 0, 0, tzinfo=UTC)
RETENTION = timedelta(hours=24)
EVERY = timedelta(hours=6)
POOLS = 2


def part_of(ledger: int, moment: datetime) -> HistoryPart:
    rows = [{"total_supplied": 10**37 + ledger}, {"total_supplied": ledger}]
    return render_history(
        pools_frame(rows, ledger, int(moment.timestamp())),
        observed_ledger=ledger,
        ledger_close_time=int(moment.timestamp()),
        network="made",
    )


def manifest_of(store: Store) -> HistoryManifest:
    manifest = read_history_manifest(store)
    assert manifest is not None
    return manifest


@dataclass
class History:
    """A history in a folder, and a clock."""

    store: FolderStore
    clock: TestClock = field(default_factory=TestClock)
    ledger: int = 1000

    @property
    def table(self) -> str:
        return str(self.store.root / HISTORY_PREFIX)

    def add(self, store: Store | None = None) -> None:
        """What a run does with its Parquet file."""
        store = store or self.store
        self.ledger += 1
        part = part_of(self.ledger, self.clock())
        store.put_new(part.file.key, part.file.data)
        replace_history(store, extend_history(read_history_manifest(store), part.entry), [], self.clock())
        self.clock.advance(EVERY)

    def publish(self) -> None:
        """A whole run, at a ledger before the others, so that a sweep finds one."""
        run = replace(make_run(900), history=part_of(900, START - timedelta(days=1)))
        publish_run(self.store, run, self.clock)

    def faults(self) -> list[str]:
        keys = {info.key for info in self.store.list(HISTORY_PREFIX)}
        log = {key: (self.store.root / key).read_bytes() for key in keys if key.startswith(LOG_PREFIX)}
        return list(table_faults(log, manifest_of(self.store), keys))

    def assert_told(self) -> None:
        """A reader of Delta tables finds the manifest's files, and Polars each of their rows once."""
        files = [file.key for file in manifest_of(self.store).files]
        found = deltalake.DeltaTable(self.table)
        assert sorted(str(self.store.root / key) for key in files) == sorted(found.file_uris())
        parts = [pl.read_parquet(self.store.root / key, hive_partitioning=False) for key in files]
        order = ["observed_ledger", "pool"]
        expected = pl.concat(parts, how="diagonal").sort(order)
        rows = pl.scan_delta(self.table).collect().sort(order)
        assert expected.select(rows.columns).equals(rows)
        assert [] == self.faults()


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Eight days of four runs a day, of which none is compacted."""
    made = History(FolderStore(tmp_path / "public", durable=False))
    made.clock.now = START
    for _ in range(9):
        made.add()
    return made


def log_of(history: History) -> list[str]:
    return sorted(path.name for path in (history.store.root / LOG_PREFIX).iterdir())


def test_each_step_is_a_version(history: History) -> None:
    """Runs, compactions, a backfill and the withdrawal of ledgers each make a version that the manifest agrees with."""
    history.assert_told()
    assert 2 == len(compact_history(history.store, now=history.clock).pieces)
    history.assert_told()
    late = part_of(999, START - timedelta(days=3))
    history.store.put_new(late.file.key, late.file.data)
    replace_history(history.store, extend_history(manifest_of(history.store), late.entry), [], history.clock())
    history.assert_told()
    history.add()
    *_, kept, withdrawn = manifest_of(history.store).files
    below = history_below(manifest_of(history.store), kept)
    assert below is not None
    replace_history(history.store, below, [withdrawn.key], history.clock())
    history.assert_told()

    told = deltalake.DeltaTable(history.table).history()
    assert list(range(13, -1, -1)) == [version["version"] for version in told]
    assert "observed_ledger=1009" == told[3]["userMetadata"]


def test_compaction_changes_no_data(history: History) -> None:
    """A reader who follows the table is told which rows are new, and that compacted ones are those that he has."""
    compact_history(history.store, now=history.clock)
    changes = [
        {name: entry["dataChange"]}
        for line in (history.store.root / LOG_PREFIX / f"{9:020d}.json").read_text().splitlines()
        for name, entry in json.loads(line).items()
        if name in ("add", "remove")
    ]

    assert [{"remove": False}] * 4 + [{"add": False}] == changes
    assert '"dataChange":true' in (history.store.root / LOG_PREFIX / f"{8:020d}.json").read_text()


def test_a_run_of_the_past(history: History) -> None:
    """The table as of a run is a version within the retention time, and a filter by ledger for ever."""
    whole = pl.scan_delta(history.table)
    for version in (0, 4, 8):
        then = pl.scan_delta(history.table, version=version).collect()
        assert then.height == POOLS * (version + 1)
        assert then["observed_ledger"].max() == 1001 + version
        by_ledger = whole.filter(pl.col("observed_ledger") <= 1001 + version).collect()
        assert then.sort("observed_ledger", "pool").equals(by_ledger.sort("observed_ledger", "pool"))


def test_the_log_is_bounded_and_every_version_in_it_whole(history: History) -> None:
    """With a sweep after each run the log keeps to what the retention time needs, and names nothing that is gone."""
    history.publish()
    sizes = []
    for _ in range(24):
        history.add()
        compact_history(history.store, now=history.clock)
        sweep(history.store, RETENTION, now=history.clock)
        sizes.append(len(log_of(history)))
        assert [] == history.faults()
    found = deltalake.DeltaTable(history.table)
    first = min(int(name.split(".")[0]) for name in log_of(history))

    assert max(sizes[6:]) <= 12
    assert first > CHECKPOINT_EVERY
    for version in range(first, found.version() + 1):
        assert pl.scan_delta(history.table, version=version).collect()["observed_ledger"].is_not_null().all()
    with pytest.raises(TableNotFoundError):
        pl.scan_delta(history.table, version=first - 1).collect()
    history.assert_told()


def test_a_version_that_another_made(history: History) -> None:
    """Who has lost the hold without knowing it, and finds its version standing, is told of the other publisher."""
    table, manifest = newest_version(history.store), manifest_of(history.store)
    history.add()
    late = extend_history(manifest, part_of(999, START - timedelta(days=3)).entry)

    with pytest.raises(LostRaceError, match=f"another publisher wrote .*{9:020d}"):
        follow(history.store, table, late, history.clock())
    history.assert_told()


def test_a_crash_after_any_operation(tmp_path: Path) -> None:
    """Wherever a run dies, the table can be read in full, and the next run brings it to the manifest."""
    for fatal in range(1, 40):
        history = History(FolderStore(tmp_path / f"{fatal}", durable=False))
        for _ in range(CHECKPOINT_EVERY):
            history.add()
        dying = BucketSimulator(history.store)
        dying.fail_from(fatal, StoreError("died"))
        try:
            history.add(dying)
        except StoreError:
            died = True
        else:
            died = False
        named = {fault for fault in history.faults() if "which is not there" in fault or "cannot be told" in fault}
        assert set() == named
        deltalake.DeltaTable(history.table).file_uris()
        if not died:
            break
        history.ledger -= 1
        history.add()
        history.assert_told()
    assert not died
    assert fatal > 6


@pytest.mark.parametrize("damage", ["missing", "garbled"])
def test_a_damaged_log_is_begun_anew(history: History, damage: str) -> None:
    """Where a version is lost, the next run names every file once more, in a version above; nothing else is lost."""
    victim = history.store.root / LOG_PREFIX / f"{5:020d}.json"
    victim.unlink() if damage == "missing" else victim.write_bytes(b"{")
    assert history.faults()

    history.add()
    found = deltalake.DeltaTable(history.table)
    assert 9 == found.version()
    assert 10 == len(found.file_uris())
    assert POOLS * 10 == pl.scan_delta(history.table).collect().height
    history.publish()
    history.clock.advance(2 * RETENTION)
    history.add()
    history.clock.advance(2 * RETENTION)
    history.add()
    sweep(history.store, RETENTION, now=history.clock)
    history.assert_told()


def without_last_column(folder: Path, line: str) -> str:
    """A line of the log as it was before the last column came."""
    action = json.loads(line)
    if "metaData" in action:
        columns = json.loads(action["metaData"]["schemaString"])
        action["metaData"]["schemaString"] = json.dumps(columns | {"fields": columns["fields"][:-1]})
    if "add" in action:
        action["add"]["size"] = (folder / action["add"]["path"]).stat().st_size
    return json.dumps(action) + "\n"


def test_a_column_that_came_later(history: History) -> None:
    """A table of an earlier version gets the new column with the next run; rows of before have null in it."""
    newest, name = HISTORY_COLUMNS[-1], HISTORY_COLUMNS[-1].name
    assert newest.nullable
    for file in manifest_of(history.store).files:
        path = history.store.root / file.key
        pl.read_parquet(path, hive_partitioning=False).drop(name).write_parquet(path)
    for path in (history.store.root / LOG_PREFIX).iterdir():
        path.write_text(
            "".join(without_last_column(Path(history.table), line) for line in path.read_text().splitlines())
        )
    assert name not in pl.scan_delta(history.table).collect_schema()

    history.add()
    rows = pl.scan_delta(history.table).collect()
    assert POOLS * 9 == rows[name].null_count()
    assert POOLS * 10 == rows.height
    assert name not in pl.scan_delta(history.table, version=8).collect_schema()


def test_a_history_of_before_the_table(history: History) -> None:
    """The first run of a version that writes the table names all files of the history at once."""
    for path in (history.store.root / LOG_PREFIX).iterdir():
        path.unlink()
    (history.store.root / LOG_PREFIX).rmdir()
    assert -1 == Log.standing(history.store).newest

    history.add()
    assert [f"{0:020d}.json"] == log_of(history)
    history.assert_told()


def test_the_table_moves_with_its_folder(history: History) -> None:
    """A copy of the folder elsewhere is the same table."""
    moved = history.store.root.rename(history.store.root.with_name("elsewhere"))

    assert POOLS * 9 == pl.scan_delta(str(moved / HISTORY_PREFIX)).collect().height
    assert (moved / HISTORY_MANIFEST_KEY).is_file()
