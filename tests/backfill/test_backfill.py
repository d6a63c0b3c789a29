"""A history out of ledger snapshot files: the same whoever does the work, and whatever becomes of the workers."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import polars as pl
import pytest
from click.testing import CliRunner, Result

from exporter.backfill import executors, job
from exporter.backfill.executors import WorkerDiedError, processes, run_all
from exporter.backfill.job import JOURNAL_KEY, backfill, find_files
from exporter.backfill.merge import merge_into_history
from exporter.backfill.work import part_of_snapshot
from exporter.cli import main
from exporter.config import Settings, load
from exporter.errors import CheckError, ConfigError, LostRaceError
from exporter.history.manifest import read_history_manifest
from exporter.localnet.made import MadeNetwork
from exporter.publishing.compaction import compact_history
from exporter.publishing.retention import sweep
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from tests.publishing.published_tree import TestClock
from tests.snapshot_files import write_snapshots

COUNT = 8


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Eight ledgers of a made network, five hours apart."""
    network = MadeNetwork(pools=6, alula_markets=1, close_seconds=5 * 3600, changes_per_ledger=2)
    return write_snapshots(network, tmp_path_factory.mktemp("snapshots"), COUNT)


def settings() -> Settings:
    return load(None, {"network.name": "local"}, environment={}).settings


@contextmanager
def in_line() -> Iterator[Executor]:
    """An executor for tests of everything else: one thread."""
    with ThreadPoolExecutor(1) as executor:
        yield executor


def history_of(store: Store) -> dict[str, bytes]:
    manifest = read_history_manifest(store)
    assert manifest is not None
    return {file.key: stored.data for file in manifest.files if (stored := store.get(file.key)) is not None}


def rows_of(store: Store) -> pl.DataFrame:
    frames = [pl.read_parquet(io.BytesIO(data)) for data in history_of(store).values()]
    return pl.concat(frames).sort("market", "pool", "observed_ledger")


def fill(store: Store, files: list[Path], at_once: int = 2) -> job.BackfillResult:
    return backfill(store, settings(), files, in_line, at_once=at_once)


@pytest.fixture(scope="module")
def whole(snapshots: list[Path]) -> MemoryStore:
    store = MemoryStore()
    result = fill(store, snapshots)
    assert (COUNT, 0, {}, {}) == (result.added, result.known, result.failed, result.unread)
    return store


def test_rows_are_those_of_runs(whole: MemoryStore, snapshots: list[Path]) -> None:
    """Each file is one ledger of the history, with every pool and exact numbers; the made oracles have no rule."""
    rows = rows_of(whole)
    ledgers = [int(path.stem) for path in snapshots]

    assert ledgers == sorted(rows["observed_ledger"].unique())
    assert len({count for _, count in rows.group_by("observed_ledger").len().iter_rows()}) == 1
    assert {"blend", "alula"} == set(rows["protocol"])
    assert 0 == rows["oracle_price"].count()
    assert all("not from storage" in reason for reason in rows["price_reason"])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_order_and_batches_make_no_difference(
    whole: MemoryStore, snapshots: list[Path], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order and batches the files come, the history has the same bytes."""
    random = Random(seed)
    monkeypatch.setattr(job, "BATCH", random.randint(1, 5))
    shuffled = random.sample(snapshots, COUNT)
    store = MemoryStore()

    cut = random.randint(1, COUNT - 1)
    fill(store, shuffled[:cut])
    result = fill(store, shuffled)

    assert (COUNT - cut, cut) == (result.added, result.known)
    assert history_of(whole) == history_of(store)


def test_inside_a_compacted_day(whole: MemoryStore, snapshots: list[Path]) -> None:
    """A ledger inside a compacted file goes into it; the old file stays for the retention time."""
    clock = TestClock()
    store, compacted = MemoryStore(clock=clock), MemoryStore(whole)
    fill(store, [*snapshots[:3], *snapshots[4:6], snapshots[7]])
    compact_history(store, now=clock)
    before = history_of(store)

    result = fill(store, snapshots)

    assert 2 == result.added
    assert rows_of(whole).equals(rows_of(store))
    compact_history(store)
    compact_history(compacted)
    assert history_of(compacted) == history_of(store)
    assert all(store.get(key) for key in before)
    assert 0 == fill(store, snapshots).added


def test_only_before_what_is_published(snapshots: list[Path]) -> None:
    """A ledger above the published one is refused by name, and the others go in."""
    store = MemoryStore()
    fill(store, [snapshots[5]])
    publish_pointer(store, int(snapshots[5].stem))

    result = fill(store, snapshots)

    assert 5 == result.added
    assert sorted(str(path) for path in snapshots[6:]) == sorted(result.failed)
    assert all("above the published ledger" in text for text in result.failed.values())
    assert 6 == len(history_of(store))


def publish_pointer(store: Store, ledger: int) -> None:
    """What a publisher would leave for others to see."""
    pointer = {"run_id": "1-a", "observed_ledger": ledger, "manifest_key": "v1/runs/1-a.json", "manifest_sha256": "0"}
    store.swap("v1/system/status.json", json.dumps(pointer).encode(), None)


def test_another_network(snapshots: list[Path], whole: MemoryStore) -> None:
    """Files of another network than the configured one fail by name; a history of another one is refused."""
    main_net = load(None, {}, environment={}).settings
    result = backfill(MemoryStore(), main_net, snapshots[:1], in_line, at_once=1)
    assert ["is of network local"] == [text[text.index("is of") :][:19] for text in result.failed.values()]

    other = load(None, {"network.name": "local", "network.passphrase": "other"}, environment={}).settings
    store = MemoryStore(whole)
    with pytest.raises(CheckError, match="use an output for each network"):
        merge_into_history(store, _parts(snapshots[0]), other.passphrase)


def _parts(path: Path) -> list[Any]:
    outcome = part_of_snapshot(path.read_bytes(), path.name, settings())
    return [outcome.part]


def test_bad_files(snapshots: list[Path], tmp_path: Path) -> None:
    """Garbage fails by its name and reason, costs no other file, and is tried again next time."""
    bad = {"text.json": b"x", "half.json": snapshots[0].read_bytes()[:-100], "empty.json": b""}
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    store = MemoryStore()
    result = fill(store, [*find_files([tmp_path]), *snapshots[:2], tmp_path / "gone.json"])

    assert 2 == result.added
    assert sorted([*bad, "gone.json"]) == sorted(Path(name).name for name in result.failed)
    assert all(Path(name).name in problem for name, problem in result.failed.items())
    (tmp_path / "half.json").write_bytes(snapshots[2].read_bytes())
    assert 1 == fill(store, [tmp_path / "half.json"]).added


def test_the_journal_may_be_lost(whole: MemoryStore, snapshots: list[Path]) -> None:
    """Without its journal a backfill does the work again, and finds that every ledger is there."""
    for content in (None, b"damaged"):
        store = MemoryStore(whole)
        store.delete([JOURNAL_KEY])
        if content is not None:
            store.put(JOURNAL_KEY, content)
        before = history_of(store)
        result = fill(store, snapshots)
        assert (0, COUNT) == (result.added, result.known)
        assert before == history_of(store)


def test_a_publisher_at_work(snapshots: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill waits for a publisher, and gives up by name when that takes too long."""
    monkeypatch.setattr(job, "WAIT_SECONDS", 0.6)
    store = MemoryStore()
    with store.exclusive(), pytest.raises(LostRaceError):
        fill(store, snapshots[:1])
    assert 1 == fill(store, snapshots[:1]).added


def test_a_sweep_leaves_the_history(snapshots: list[Path]) -> None:
    """What a backfill added is no leftover: a sweep takes none of it, however old the ledgers are."""
    clock = TestClock()
    store = MemoryStore(clock=clock)
    fill(store, snapshots)
    publish_pointer(store, 2**31)
    before = history_of(store)
    clock.advance(timedelta(days=90))
    sweep(store, timedelta(hours=24), now=clock)

    assert before == history_of(store)


class TestFindFiles:
    def test_folders(self, tmp_path: Path) -> None:
        """Folders give every .json in them, sorted; a file that is named twice is taken once."""
        for name in ("b.json", "a/c.json", "a/d.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()

        found = find_files([tmp_path, tmp_path / "b.json", tmp_path / "a" / "d.txt"])

        assert ["a/c.json", "b.json", "a/d.txt"] == [path.relative_to(tmp_path).as_posix() for path in found]

    def test_nothing(self, tmp_path: Path) -> None:
        """A folder without files, and a path that is not there, are named."""
        with pytest.raises(ConfigError, match="no ledger snapshot file"):
            find_files([tmp_path])
        with pytest.raises(ConfigError, match=r"gone is neither a file nor a folder"):
            find_files([tmp_path / "gone"])


class FragileExecutor(Executor):
    """An executor whose workers die over some pieces of work, each for a number of times."""

    deaths: ClassVar[dict[int, int]] = {}

    def __init__(self) -> None:
        self._broken = False

    def submit(self, function: Any, /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()
        piece = arguments[0]
        if self._broken or self.deaths.get(piece, 0):
            self._broken = True
            self.deaths[piece] = max(self.deaths.get(piece, 0) - 1, 0)
            future.set_exception(BrokenProcessPool("a worker died"))
        else:
            future.set_result(function(*arguments, **keywords))
        return future


@contextmanager
def fragile() -> Iterator[Executor]:
    yield FragileExecutor()


def double(number: int) -> int:
    return 2 * number


class TestRunAll:
    @pytest.mark.parametrize("at_once", [1, 3, 50])
    def test_dying_workers(self, at_once: int) -> None:
        """Work that was lost with a worker is given out again, and every piece has its result once."""
        FragileExecutor.deaths = {3: 1, 7: 2}
        results = sorted(run_all(fragile, double, range(20), at_once))

        assert [(number, 2 * number) for number in range(20)] == results

    def test_deadly_work(self) -> None:
        """A piece that kills its workers every time ends the job by its name."""
        FragileExecutor.deaths = {5: 99}
        with pytest.raises(WorkerDiedError, match=r"died 3 times over 5; use fewer --workers"):
            list(run_all(fragile, double, range(5, 9), 1))

    def test_work_is_taken_up_as_there_is_room(self) -> None:
        """Of a long stream only so many pieces are held at a time."""
        taken: list[int] = []

        def stream() -> Iterator[int]:
            for number in range(100):
                taken.append(number)
                yield number

        done = 0
        for _ in run_all(in_line, double, stream(), 4):
            assert len(taken) <= done + 2 * 4
            done += 1
        assert 100 == done


def killed_while_it_told(path_and_marker: tuple[str, str]) -> str:
    """Work that kills its own process the first time, in the middle of a result: the pool waits for the rest of it."""
    path, marker = path_and_marker
    if not Path(marker).exists():
        Path(marker).touch()
        frame = sys._getframe()
        while "result_queue" not in frame.f_locals:
            assert frame.f_back is not None
            frame = frame.f_back
        os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1_000) + b"half of it")
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def test_a_worker_that_is_killed_while_it_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In real processes even a worker that dies in the middle of its result costs nothing: another does its work."""
    monkeypatch.setattr(executors, "SILENT_SECONDS", 0.5)
    work = [(str(number), str(tmp_path / "marker")) for number in range(4)]

    assert sorted(work) == sorted(piece for piece, _ in run_all(partial(processes, 2), killed_while_it_told, work, 4))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["backfill", "--network", "local", *arguments])


def test_command(snapshots: list[Path], whole: MemoryStore, tmp_path: Path) -> None:
    """The command adds a folder of files with its own processes, says so, and does nothing the second time."""
    folder = str(snapshots[0].parent)
    out = tmp_path / "tree"
    first = run(folder, "--out", str(out), "--workers", "2", "--log-format", "json")
    assert 0 == first.exit_code, first.output
    facts = json.loads(first.stderr.splitlines()[-1])
    assert (COUNT, 0, 0) == tuple(facts[name] for name in ("added", "known", "failed"))
    assert history_of(whole) == history_of(FolderStore(out))

    again = run(folder, "--out", str(out), "--workers", "1")
    assert 0 == again.exit_code
    assert f"added 0, known {COUNT}" in again.stderr


def test_command_errors(snapshots: list[Path], tmp_path: Path) -> None:
    """A file that fails makes exit code 3, unread pools 7, and what cannot be meant 2."""
    (tmp_path / "bad.json").write_text("{}")
    out = ("--out", str(tmp_path / "tree"), "--workers", "1")
    failed = run(str(tmp_path / "bad.json"), *out)
    assert (3, True) == (failed.exit_code, "the field 'sequence_number' is missing" in failed.stderr)

    broken = write_snapshots(MadeNetwork(pools=6, missing=1), tmp_path / "broken", 1)
    assert 7 == run(str(broken[0]), *out).exit_code
    both = run(str(snapshots[0]), "--workers", "1", "--scheduler", "tcp://127.0.0.1:1")
    assert (2, True) == (both.exit_code, "a cluster (--scheduler) has its own" in both.stderr)
    assert 2 == run(str(tmp_path / "nowhere")).exit_code
