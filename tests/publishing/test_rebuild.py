"""Making the history's manifest again of the files that are there (exporter/publishing/rebuild.py)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from exporter.audit.published_tree import check_files
from exporter.errors import LostRaceError, StoreError
from exporter.history.parquet import run_file_of_latest
from exporter.publishing.faults import TreeFaultsError
from exporter.publishing.published_state import read_published
from exporter.publishing.rebuild import Fate, Rebuilt, rebuild_history
from exporter.publishing.retention import CACHE_MARGIN
from exporter.publishing.sweep_state import read_sweep_state, record_replaced
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store, utc_now
from exporter.tree.documents import HistoryManifest
from exporter.tree.families import DAILY_ROLLUP, HISTORY_MANIFEST_KEY, LATEST_PARQUET, STATUS_KEY
from exporter.tree.read_back import render_document
from tests.examples import sampled
from tests.history import frames
from tests.history.frames import manifest_of
from tests.history.runs import frame_of, observe, places
from tests.publishing.held import compact_history, sweep
from tests.publishing.published_tree import START, TestClock, make_run, publish_run
from tests.render.whole_tree import publish_tree
from tests.stores.bucket_simulator import content

DAY = 86_400
FIRST_DAY = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
RETENTION = timedelta(hours=24)


def record(store: Store, ledger: int, time: int, network: str = "made", *, pools: int = 2) -> None:
    """One run of two markets, recorded in the history."""
    frame = frame_of(observe(Random(ledger), places(2, pools), ledger, time), ledger, time)
    frames.record(store, frame, ledger, time, network)


@pytest.fixture
def store() -> MemoryStore:
    """Three runs on one day, two on the next, one on the third."""
    made = MemoryStore(clock=TestClock())
    for position, (day, minute) in enumerate([(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)]):
        record(made, 1000 + position, FIRST_DAY + day * DAY + 60 * minute)
    return made


def test_a_run_without_rows() -> None:
    """The file of a run without rows is replaced by a file that lists the run, and by no other."""
    lists, lacks = MemoryStore(clock=TestClock()), MemoryStore(clock=TestClock())
    for store, ledgers in ((lists, (1000, 1001, 1002)), (lacks, (1000, 1002))):
        for ledger in (*ledgers, 1003):
            time = FIRST_DAY + (ledger - 1000) * 60 + (DAY if ledger == 1003 else 0)
            record(store, ledger, time, pools=0 if ledger == 1001 else 2)
        compact_history(store)
    key = f"history/pools/date=2026-11-01/{1001}.parquet"
    lacks.put(key, content(lists, key))
    holders = [manifest_of(store).files[0].key for store in (lists, lacks)]
    fates = [
        next((each.fate, each.because) for each in rebuild_history(store).findings if each.key == key)
        for store in (lists, lacks)
    ]

    reason = f"it has ledgers in common with {holders[1]}, which lacks some of its rows or runs"
    assert [(Fate.REPLACED, holders[0]), (Fate.LEFT_OUT, reason)] == fates


def every_row(store: Store) -> pl.DataFrame:
    """All rows that the manifest leads to, in one order."""
    files = [pl.read_parquet(io.BytesIO(content(store, file.key))) for file in manifest_of(store).files]
    return pl.concat(files).sort("market", "pool", "observed_ledger")


def fates(rebuilt: Rebuilt) -> dict[Fate, int]:
    """How many files each fate has."""
    found = [each.fate for each in rebuilt.findings]
    return {fate: found.count(fate) for fate in Fate if fate in found}


def put_back(store: Store, manifest: HistoryManifest) -> None:
    store.put(HISTORY_MANIFEST_KEY, render_document(manifest).data)


def without(store: Store, positions: Sequence[int]) -> None:
    """Take files out of the manifest."""
    manifest = manifest_of(store)
    kept = [file for position, file in enumerate(manifest.files) if position not in positions]
    put_back(store, msgspec.structs.replace(manifest, files=kept, observed_ledger=kept[-1].last_ledger))


def spoil(store: Store) -> None:
    store.put(HISTORY_MANIFEST_KEY, b"[" * 1000)


VARIANTS: dict[str, Callable[[Store], None]] = {
    "three runs before": lambda store: without(store, (3, 4, 5)),
    "one run before": lambda store: without(store, (5,)),
    "files in the middle are missing": lambda store: without(store, (1, 3)),
    "lost": lambda store: store.delete([HISTORY_MANIFEST_KEY]),
    "damaged": spoil,
    "its first runs are missing, as before a backfill": lambda store: without(store, (0, 1)),
}


@pytest.mark.parametrize(
    ("variant", "compacted"),
    [
        *((variant, False) for variant in VARIANTS),
        *sampled([(variant, True) for variant in VARIANTS], 5),
    ],
)
def test_every_row_is_back(store: MemoryStore, variant: str, compacted: bool) -> None:
    """Whatever became of the manifest, the rebuilt one has every row that there was, each once, and rollups again."""
    rows, manifest = every_row(store), manifest_of(store)
    VARIANTS[variant](store)
    if compacted:  # with what of the parts is known to be replaced, and without
        other = MemoryStore(store)
        put_back(other, manifest)
        assert compact_history(other).files
        for info in list(other.list("history/pools/")):
            store.put(info.key, content(other, info.key))
    rebuilt = rebuild_history(store)

    assert rebuilt.manifest.files == manifest_of(store).files
    assert rows.equals(every_row(store))
    assert store.has(DAILY_ROLLUP.only_key)
    expected = {Fate.TAKEN: 3, Fate.REPLACED: 5} if compacted else {Fate.TAKEN: 6}
    assert expected == fates(rebuilt)


def test_runs_that_were_undone() -> None:
    """Files of undone runs stay out of the history.

    So do parts that had been joined before, and a run of the ledger of its own that closed on an earlier day.
    """
    store, time = MemoryStore(clock=TestClock()), FIRST_DAY + DAY
    for ledger in (1000, 1001, 1002):
        record(store, ledger, time + (ledger - 1000) * 60 + (DAY if ledger == 1002 else 0))
    (joined,) = compact_history(store).files
    wrong = [info.key for info in store.list("history/pools/")]
    other = MemoryStore(clock=TestClock())
    record(other, 1002, time + 5 * DAY)
    right = manifest_of(other).files[0].key
    store.put(right, content(other, right))
    newest_wrong = manifest_of(store).files[-1].key
    record_replaced(store, {joined.key: right, newest_wrong: right}, utc_now())
    store.delete([HISTORY_MANIFEST_KEY])
    rebuilt = rebuild_history(store)

    assert 4 == len(wrong)
    assert [right] == [file.key for file in rebuilt.manifest.files]
    assert {Fate.LEFT_OUT: 4, Fate.TAKEN: 1} == fates(rebuilt)


@pytest.mark.parametrize("back", ["before a compaction", "after it"])
def test_a_compaction_and_an_older_manifest(store: MemoryStore, back: str) -> None:
    """A manifest older than a compaction loses nothing: parts stay while it names them, the joined file for ever."""
    clock = TestClock()
    before, rows = manifest_of(store), every_row(store)
    publish_run(store, make_run(2000), clock, history=None)
    without(store, (6,))
    store.delete([STATUS_KEY, "v1/system/intent.json"])
    compact_history(store, now=clock)
    if back == "before a compaction":
        put_back(store, before)
    publish_run(store, make_run(2001), clock)
    clock.advance(RETENTION + 2 * CACHE_MARGIN)
    swept = sweep(store, RETENTION, now=clock)

    unnamed = {key.rpartition("/")[2] for key in swept.unnamed}
    joined = {file.key for file in manifest_of(store).files}
    there = {info.key for info in store.list("history/pools/")}
    if back == "after it":
        assert 5 == swept.history
        assert {"2000.parquet"} == unnamed
    else:
        assert 0 == swept.history
        assert 3 == len(unnamed)
        assert joined < there
    assert rows.height == sum(file.rows for file in manifest_of(store).files if file.first_ledger < 2000)


def test_rows_that_no_larger_file_has_are_kept(store: MemoryStore) -> None:
    """A file that shares ledgers with a larger one, which lacks its rows, is left out by name and not recorded."""
    key = manifest_of(store).files[1].key
    own = content(store, key)
    without(store, (1,))
    store.delete([key])
    compact_history(store)
    store.put_new(key, own)
    rebuilt = rebuild_history(store)

    finding = next(each for each in rebuilt.findings if each.key == key)
    assert Fate.LEFT_OUT is finding.fate
    assert "which lacks some of its rows" in finding.because
    assert key not in {file.key for file in manifest_of(store).files}
    assert key not in read_sweep_state(store).history


def with_metadata(data: bytes, metadata: dict[bytes, bytes]) -> bytes:
    """A Parquet file with these values in its metadata."""
    table = pq.read_table(io.BytesIO(data))
    target = io.BytesIO()
    pq.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | metadata), target)
    return target.getvalue()


def test_what_is_no_file_of_the_history(store: MemoryStore) -> None:
    """Foreign names, other networks, other days and broken files are left out, each with its reason."""
    good = content(store, manifest_of(store).files[0].key)
    folder = "history/pools/date=2026-11-01"
    store.put(f"{folder}/notes.parquet", good)
    store.put(f"{folder}/900.parquet", b"PAR1")
    store.put(f"{folder}/901.parquet", good)
    store.put("history/pools/date=2026-10-31/1000.parquet", good)
    other = MemoryStore()
    record(other, 902, FIRST_DAY, "another network")
    store.put(f"{folder}/902.parquet", content(other, f"{folder}/902.parquet"))
    record(store, 903, FIRST_DAY + 5)
    without(store, [len(manifest_of(store).files) - 1])
    store.put(f"{folder}/903.parquet", with_metadata(content(store, f"{folder}/903.parquet"), {b"network": b"\xff"}))
    found = {each.key: each.because for each in rebuild_history(store).findings if each.fate is Fate.LEFT_OUT}

    expected = {
        f"{folder}/notes.parquet": "its name is not",
        f"{folder}/900.parquet": "it is not a Parquet file",
        f"{folder}/901.parquet": "it has runs of other ledgers",
        "history/pools/date=2026-10-31/1000.parquet": "it has runs of other ledgers, or of another day",
        f"{folder}/902.parquet": "it is of another network ('another network')",
        f"{folder}/903.parquet": "it is of another network ('\N{REPLACEMENT CHARACTER}')",
    }
    assert expected.keys() == found.keys()
    assert all(found[key].startswith(text) for key, text in expected.items())


def test_a_dry_run_and_a_publisher_at_work(store: MemoryStore) -> None:
    """A dry run changes nothing; while a publisher is at work, nothing is rebuilt."""
    VARIANTS["three runs before"](store)
    before = {info.key: content(store, info.key) for info in store.list("")}
    assert 6 == len(rebuild_history(store, dry_run=True).manifest.files)
    with store.exclusive(), pytest.raises(LostRaceError):
        rebuild_history(store)
    assert before == {info.key: content(store, info.key) for info in store.list("")}


def test_without_any_file() -> None:
    """There must be files, and they must go as far as what is published."""
    empty, clock = MemoryStore(), TestClock()
    with pytest.raises(StoreError, match="has no Parquet file"):
        rebuild_history(empty)
    publish_run(empty, make_run(100), clock)
    empty.delete([info.key for info in empty.list("history/")])
    published = read_published(empty)
    assert published is not None
    record(empty, 90, int(START.timestamp()), published.status.network or "")
    with pytest.raises(StoreError, match=r"end at ledger 90, but ledger 100 is published.*--replace-ledger 100"):
        rebuild_history(empty)


def test_a_published_tree(tmp_path: Path) -> None:
    """A check names what is wrong in a tree of the job, rebuilding mends it, and the newest run's file comes back."""
    publish_tree(tmp_path, "alula", runs=2, pages=False)
    store = FolderStore(tmp_path)
    rows, manifest = every_row(store), manifest_of(store)
    newest = manifest.files[-1].key
    without(store, [len(manifest.files) - 1])
    with pytest.raises(TreeFaultsError) as caught:
        check_files(str(tmp_path))
    said = str(caught.value)
    assert f"{newest}: belongs to no manifest" in said
    assert f"{HISTORY_MANIFEST_KEY}: ends at ledger" in said

    assert content(store, newest) == run_file_of_latest(content(store, LATEST_PARQUET.only_key))
    store.delete([newest])
    assert Fate.RESTORED in fates(rebuild_history(store))
    assert rows.equals(every_row(store))
    check_files(str(tmp_path))
    store.put(newest, b"damaged")
    without(store, [len(manifest.files) - 1])
    assert Fate.RESTORED in fates(rebuild_history(store))
    assert rows.equals(every_row(store))
