"""Damage in the files of earlier runs: the next run notices it, names it, and never carries a false manifest on."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.errors import PublishedCheckError, StoreError
from exporter.history.damage import SAMPLE_FILES, find_damage
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.publishing.compaction import compact_history
from exporter.publishing.published_state import read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.jobs import run, settings_for
from tests.localnet.recorded import only
from tests.publishing.test_compaction import DAY, FIRST_DAY, record
from tests.stores.bucket_simulator import BucketSimulator


class Job:
    """Runs of the job over one store and one recorded network, each at a ledger hours after the one before."""

    def __init__(self, store: Store, url: str, network: RecordedNetwork) -> None:
        self.settings = settings_for(None, url, **only("slender"))
        self.store, self.network, self.said = store, network, io.StringIO()
        self.now = datetime(2026, 11, 21, tzinfo=UTC)

    def run(self) -> int:
        """One run; gives its exit code."""
        self.said = io.StringIO()
        self.network.advance()
        self.now += timedelta(hours=5)
        return run(self.settings, self.store, said=self.said, now=self.now)[0]

    def ledger(self) -> int:
        """The ledger that is published."""
        published = read_published(self.store)
        assert published is not None
        return published.pointer.observed_ledger


def keys_of(store: Store) -> list[str]:
    """The files that the manifest names."""
    manifest = read_history_manifest(store)
    assert manifest is not None
    return [file.key for file in manifest.files]


def test_every_kind_of_damage_is_named() -> None:
    """A file that is missing, cut short, or of other bytes is named; a whole history has none."""
    store = MemoryStore()
    record(store, [FIRST_DAY + 60 * number for number in range(5)])
    manifest = read_history_manifest(store)
    assert [] == find_damage(store, manifest, 1)
    missing, short, other = keys_of(store)[:3]
    store.delete([missing])
    for key, end in ((short, b""), (other, b"x")):
        stored = store.get(key)
        assert stored is not None
        store.put(key, stored.data[:-1] + end)

    assert [
        f"{missing} is missing",
        f"{short} has {manifest.files[1].bytes - 1} bytes, not {manifest.files[1].bytes}",  # type: ignore[union-attr]
        f"{other} does not have the digest that the manifest gives",
    ] == find_damage(store, manifest, 1)


def test_every_file_is_read_by_some_run() -> None:
    """Of many files only some are read, other ones by each run, so that none stays unread for long."""
    store = MemoryStore()
    record(store, [FIRST_DAY + 60 * number for number in range(3 * SAMPLE_FILES)])
    manifest = read_history_manifest(store)
    for key in keys_of(store):
        stored = store.get(key)
        assert stored is not None
        store.put(key, stored.data[:-1] + b"x")
    named = [{text.split()[0] for text in find_damage(store, manifest, seed)} for seed in range(40)]

    assert {SAMPLE_FILES} == {len(keys) for keys in named}
    assert set(keys_of(store)) == set.union(*named)


def test_large_files_are_read_as_seldom_as_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run reads does not grow with the files: one of four times the usual size is read every fourth time."""
    store = MemoryStore()
    record(store, [FIRST_DAY + 60 * number for number in range(SAMPLE_FILES)])
    manifest = read_history_manifest(store)
    assert manifest is not None
    monkeypatch.setattr("exporter.history.damage.USUAL_BYTES", manifest.files[0].bytes // 4)
    bucket = BucketSimulator(store)
    for seed in range(100):
        assert [] == find_damage(bucket, manifest, seed)
    read = sum(call.operation == "get" for call in bucket.calls)

    assert 0.2 < read / (100 * SAMPLE_FILES) < 0.3


@pytest.mark.parametrize("damage", ["missing", "other"])
def test_a_run_publishes_names_the_damage_and_fails(damage: str) -> None:
    """The new numbers are published, the file is named, nothing is compacted, and the run fails until it is mended."""
    network = RecordedNetwork(close_seconds=5 * 3600)
    with running(create_app(network)) as url:
        store = MemoryStore()
        job = Job(store, url, network)
        assert [0, 0, 0] == [job.run() for _ in range(3)]
        key = keys_of(store)[0]
        stored = store.get(key)
        assert stored is not None
        store.delete([key])
        if damage == "other":
            store.put(key, stored.data[:-1] + b"x")
        before = job.ledger()

        with pytest.raises(PublishedCheckError, match=f"damage in the history, 1 in all; the first: {key} "):
            job.run()
        assert key in job.said.getvalue()
        assert "compacting" not in job.said.getvalue()
        assert before < job.ledger()
        store.put(key, stored.data)
        assert 0 == job.run()


def test_a_manifest_that_lies_is_not_carried_on() -> None:
    """A manifest that says something else of a file than the file does is refused, and stays; also without a state.

    Lies that cancel each other out are noticed where every file is read, because the state is lost.
    """
    lies: list[tuple[dict[int, dict[str, object]], str]] = [
        ({1: {"rows": 1}}, "has 1 rows, but it has"),
        ({1: {"first_ledger": 5}}, "is not the key of a file with the ledgers 5 to"),
        ({0: {"rows": 4}, 1: {"rows": 2}}, r"says that .* has .* rows, but it has"),
    ]
    network = RecordedNetwork(close_seconds=5 * 3600)
    with running(create_app(network)) as url:
        store = MemoryStore()
        job = Job(store, url, network)
        assert [0, 0, 0] == [job.run() for _ in range(3)]
        named, state, before = store.get(HISTORY_MANIFEST_KEY), store.get(STATE_KEY), job.ledger()
        assert named is not None
        assert state is not None
        for changes, message in lies:
            manifest = json.loads(named.data)
            for number, change in changes.items():
                manifest["files"][number] |= change
            store.put(HISTORY_MANIFEST_KEY, msgspec.json.encode(manifest))
            newest = store.get(HISTORY_MANIFEST_KEY)
            for _ in range(2):
                with pytest.raises(StoreError, match=message):
                    job.run()
                assert (newest, before) == (store.get(HISTORY_MANIFEST_KEY), job.ledger()), changes
                store.delete([STATE_KEY])
            store.put(STATE_KEY, state.data)


def test_files_of_runs_and_compacted_ones_join_as_arrow_tables(tmp_path: Path) -> None:
    """Both kinds of file have the same Arrow types, so that a reader can put them together as they are."""
    store = MemoryStore()
    record(store, [FIRST_DAY, FIRST_DAY + 60, FIRST_DAY + DAY])
    compact_history(store)
    tables = []
    for key in keys_of(store):
        stored = store.get(key)
        assert stored is not None
        (tmp_path / "file.parquet").write_bytes(stored.data)
        tables.append(pq.read_table(tmp_path / "file.parquet"))

    assert 2 == len(tables)
    assert tables[0].schema.equals(tables[1].schema)
    assert sum(table.num_rows for table in tables) == pa.concat_tables(tables).num_rows
