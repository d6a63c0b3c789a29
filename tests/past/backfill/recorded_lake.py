"""A lake of a recorded network, what live runs published at some of its ledgers, and backfilled histories."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from exporter.deployments.networks import network_id
from exporter.history.manifest import read_history_manifest
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.lake_writer import LakeWriter
from exporter.localnet.network import PlayedAnswers
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.past.backfill.lake_job import LakeJob, LakePlan, LakeResult
from exporter.past.backfill.start_state import StartState, snapshot_start
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from tests.job_runs import run, settings_for
from tests.snapshot_files import write_snapshot

IN_LINE = ThreadPoolExecutor(1)
"""An executor of one thread."""


@dataclass
class RecordedLake:
    """The lake's folder, the snapshot of the ledger before it, and live files of the history by key."""

    folder: Path
    start: Path
    network: RecordedNetwork
    first: int
    live: dict[str, bytes] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return self.network.chain.latest

    @cached_property
    def started(self) -> StartState:
        return snapshot_start(self.start, self.network.passphrase)

    def plan(self, every: int, **options: Any) -> LakePlan:
        start = self.started
        time = self.network.chain.close_time
        given: Mapping[str, Any] = {
            "lake": str(self.folder),
            "config": None,
            "start": start,
            "first": start.ledger,
            "last": self.last,
            "begins": time(start.ledger) + 1,
            "ends": time(self.last),
            "every": every,
            "range_ledgers": 64,
        }
        return LakePlan(settings_for(), **{**given, **options})

    def backfill(
        self, every: int, store: Store, changes: Store | None = None, executor: Executor = IN_LINE, **options: Any
    ) -> LakeResult:
        kept = MemoryStore() if changes is None else changes
        return LakeJob(self.plan(every, **options), store, kept, executor, at_once=4).run()


def make_lake(
    folder: Path,
    network: RecordedNetwork,
    ledgers: int,
    *,
    live_at: Collection[int] = (),
    events: Mapping[int, Callable[[RecordedNetwork], object]] | None = None,
    **writer: Any,
) -> RecordedLake:
    """Let a network move on by this many ledgers, with a live run at some; ``events`` happen instead of its own moves.

    Its contracts answer what entries say and nothing else, since a lake has no other answers to compare with.
    """
    chain = network.chain
    network.contracts = PlayedAnswers(balances_of_sdk_tokens=False)
    folder.mkdir(parents=True, exist_ok=True)
    first = chain.latest
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    time = chain.close_time(first)
    snapshot = LedgerSnapshot(network.protocol_version, first, time, network_id(network.passphrase), entries)
    write_snapshot(snapshot, folder / "start.json")
    lake = RecordedLake(folder / "lake", folder / "start.json", network, first)
    live = MemoryStore()
    with LakeWriter(chain, network.passphrase, lake.folder, **writer), running(create_app(network)) as url:
        for count in range(1, ledgers + 1):
            happens = (events or {}).get(count)
            if happens is None:
                network.advance()
            else:
                happens(network)
            if count in live_at:
                run(settings_for(url=url, history__compact=False), live)
    lake.live = history_of(live) if live_at else {}
    return lake


def history_of(store: Store) -> dict[str, bytes]:
    """The files that the manifest names, by key."""
    manifest = read_history_manifest(store)
    assert manifest is not None
    return {file.key: stored.data for file in manifest.files if (stored := store.get(file.key)) is not None}


def rows_of(store: Store) -> pl.DataFrame:
    """All rows of a history, by market, pool and ledger."""
    frames = [pl.read_parquet(io.BytesIO(data)) for data in history_of(store).values()]
    return pl.concat(frames).sort("market", "pool", "observed_ledger")
