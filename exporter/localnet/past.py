"""A past for the embedded network: weeks of moving markets, replayed from its own lake into a history."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from itertools import cycle, islice
from pathlib import Path

from exporter.backfill.executors import processes
from exporter.backfill.lake_job import LakeJob, LakePlan, LakeResult
from exporter.backfill.start_state import StartState
from exporter.config import Settings
from exporter.localnet.lake_writer import LakeWriter
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store

RANGE_LEDGERS = 64
MAX_WORKERS = 8


def live_through(network: RecordedNetwork, ledgers: int) -> None:
    """Let a network close this many ledgers, in each of which the pools of one protocol move: that costs least."""
    protocols = sorted({pool.protocol for pool in network.pools})
    together = [[pool for pool in network.pools if pool.protocol == name] for name in protocols]
    for pools in islice(cycle(together), ledgers):
        network.advance(pools)


def live_into_lake(network: RecordedNetwork, ledgers: int, folder: Path) -> StartState:
    """The same, with the ledgers written into a lake; gives the state before."""
    chain = network.chain
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    state = StartState(
        chain.latest,
        chain.close_time(chain.latest),
        network.protocol_version,
        lambda contracts, keys: {key: entry for key, entry in entries.items() if key[8:40] in contracts or key in keys},
        "the embedded network",
    )
    with LakeWriter(chain, network.passphrase, folder, protocol=network.protocol_version):
        live_through(network, ledgers)
    return state


def remember(
    network: RecordedNetwork,
    state: StartState,
    folder: Path,
    every: int,
    settings: Settings,
    store: Store,
    workers: AbstractContextManager[Executor] | None = None,
) -> LakeResult:
    """Put into a history what runs would have published since a state, by the network's lake.

    The latest ledger is left for the run that follows. ``every`` is in seconds. The work is done by processes of this
    machine, or by ``workers``.
    """
    chain = network.chain
    begins, ends = state.close_time, chain.close_time(chain.latest) - 1
    first, last = state.ledger, chain.latest
    plan = LakePlan(settings, str(folder), None, state, first, last, begins, ends, every, range_ledgers=RANGE_LEDGERS)
    count = min(os.cpu_count() or 1, MAX_WORKERS)
    with workers or processes(count) as executor:
        return LakeJob(plan, store, MemoryStore(), executor, at_once=2 * count).run()
