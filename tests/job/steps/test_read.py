"""Tests of exporter/job/steps/read.py."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.deployments.networks import network_id
from exporter.discovery.known_markets import KnownMarket, Memory
from exporter.errors import SourceError, StoreError
from exporter.job.known_markets_file import MEMORY_KEY, load_memory
from exporter.job.steps.read import keep_discoveries
from exporter.ledger.codec import strkey
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.protocols.base import Origin
from exporter.stores.memory import MemoryStore
from tests.job.steps.made_job import made_job
from tests.job_runs import run, settings_for
from tests.stores.bucket_simulator import BucketSimulator

NETWORK = network_id(settings_for().passphrase)


def reading(ledger: int, *first_seen: int) -> Any:
    """A reading at a ledger that discovered a market at each of these ledgers."""
    memory = Memory(NETWORK)
    for number, seen in enumerate(first_seen):
        address = strkey.encode_contract(bytes([number] * 32))
        memory.learn(KnownMarket(protocol="blend", address=address, origin=Origin.CENSUS, first_seen_ledger=seen))
    return SimpleNamespace(memory=memory, discovered=(), certificate=SimpleNamespace(ledger=ledger))


@pytest.mark.parametrize(("replaced", "kept"), [(None, [50, 90, 110]), (80, [50, 90, 110]), (120, [50, 90])])
def test_what_later_ledgers_named_is_forgotten_if_the_network_is_behind_the_undone_run(
    replaced: int | None, kept: list[int]
) -> None:
    """A run below the ledger that it undoes keeps no market that was first seen after its own ledger, 100."""
    store = MemoryStore()
    keep_discoveries(made_job(store, replaced_ledger=replaced).job, reading(100, 50, 90, 110))
    saved = load_memory(store, NETWORK)

    assert kept == [market.first_seen_ledger for market in saved.markets.values()]


def test_discoveries_that_cannot_be_saved_cost_a_warning() -> None:
    """The run goes on, and says that the next one discovers them again."""
    bucket = BucketSimulator()
    bucket.fail_from(0, StoreError("the disk is full"))
    made = made_job(bucket)
    keep_discoveries(made.job, reading(100, 50))

    assert "the next run discovers it again: the disk is full" in made.said.getvalue()


def test_a_run_without_discovery_saves_nothing() -> None:
    """Without a memory no file is written."""
    store, read = MemoryStore(), reading(100)
    read.memory = None
    keep_discoveries(made_job(store).job, read)

    assert not store.has(MEMORY_KEY)


def test_an_endpoint_too_slow_ends_the_run_with_3(tmp_path: Path) -> None:
    """An endpoint too slow for the deadline of the whole reading ends the run with exit code 3."""
    with (
        running(create_app(RecordedNetwork(), Behaviour(latency=0.7))) as url,
        pytest.raises(SourceError, match=r"network\.read_deadline = 1s"),
    ):
        run(settings_for(tmp_path / "out", url, network__read_deadline="1s"))
