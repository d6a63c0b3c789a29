"""The past that a demo's network gets."""

from __future__ import annotations

from pathlib import Path

from exporter.history.manifest import read_history_manifest
from exporter.localnet.past import live_into_lake, remember
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from tests.backfill.histories import in_line
from tests.jobs import settings_for


def test_the_latest_ledger_is_left_to_the_run(tmp_path: Path) -> None:
    """A ledger that closes on the hour is not in the past of the run that publishes it, which may read more of it."""
    network = RecordedNetwork(start_ledger=5_000, start_time=1_794_996_000, close_seconds=1_800)
    state, store = live_into_lake(network, 4, tmp_path / "lake"), MemoryStore()
    remember(network, state, tmp_path / "lake", 3_600, settings_for(), store, in_line)

    manifest = read_history_manifest(store)
    assert manifest is not None
    assert (5_004, 0) == (network.chain.latest, network.chain.close_time(5_004) % 3_600)
    assert [5_000, 5_002] == [file.first_ledger for file in manifest.files]
