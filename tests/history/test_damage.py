"""Damage in the files of earlier runs: the next run notices it, names it, and never carries a false manifest on."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from exporter.errors import PublishedCheckError, StoreError
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.publishing.published_state import read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.jobs import run, settings_for
from tests.localnet.recorded import only


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


def test_a_run_publishes_names_the_damage_and_fails() -> None:
    """The new numbers are published, the files are named, nothing is compacted; it fails until they are mended."""
    network = RecordedNetwork(close_seconds=5 * 3600)
    with running(create_app(network)) as url:
        store = MemoryStore()
        job = Job(store, url, network)
        assert [0, 0, 0] == [job.run() for _ in range(3)]
        whole = {key: stored.data for key in keys_of(store)[:2] if (stored := store.get(key)) is not None}
        (missing, _), (short, data) = whole.items()
        store.delete([missing])
        store.put(short, data[:-1])
        before = job.ledger()

        with pytest.raises(PublishedCheckError, match=f"damage in the history, 2 in all; the first: {missing} is miss"):
            job.run()
        assert f"{short} has {len(data) - 1} bytes, not {len(data)}" in job.said.getvalue()
        assert "compacting" not in job.said.getvalue()
        assert before < job.ledger()
        for key, content in whole.items():
            store.put(key, content)
        assert 0 == job.run()


def test_a_manifest_that_lies_is_not_carried_on() -> None:
    """A manifest that says something else of a file than the file does is refused, and stays.

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
        named, before = store.get(HISTORY_MANIFEST_KEY), job.ledger()
        assert named is not None
        for changes, message in lies:
            manifest = json.loads(named.data)
            for number, change in changes.items():
                manifest["files"][number] |= change
            store.put(HISTORY_MANIFEST_KEY, msgspec.json.encode(manifest))
            newest = store.get(HISTORY_MANIFEST_KEY)
            if len(changes) > 1:
                store.delete([STATE_KEY])
            with pytest.raises(StoreError, match=message):
                job.run()
            assert (newest, before) == (store.get(HISTORY_MANIFEST_KEY), job.ledger()), changes
