"""The recording and the network that plays it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from exporter.deployments.networks import NETWORKS
from exporter.history.manifest import read_history_manifest
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.source import ContractCall
from exporter.localnet.lake_writer import live_into_lake, remember
from exporter.localnet.mover import Draft, Mover
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.recording import shipped
from exporter.protocols import storage_answers
from exporter.protocols.compute import Tables
from exporter.stores.memory import MemoryStore
from tests.job_runs import direct, read_tables, settings_for
from tests.protocols.protocol_facts import all_facts


def tables_of(network: RecordedNetwork) -> Tables:
    """The tables that the exporter makes of the network's latest ledger."""
    return read_tables(direct(network))


def test_everything_is_read_and_priced() -> None:
    """Every pool of the recording is read and has a price."""
    tables = tables_of(RecordedNetwork())

    assert {name: facts.pools for name, facts in all_facts().items()} == dict(Counter(tables.pools["protocol"]))
    assert ([], []) == (tables.unread, tables.unpriced)


def test_recorded_answers_are_played_at_their_ledger_alone() -> None:
    """A recorded call, for which no storage rule answers, has its answer; a ledger later there is no such function."""
    network = RecordedNetwork()
    ledger, time = network.chain.latest, network.chain.close_time(network.chain.latest)
    rules = storage_answers(lambda key: network.chain.entry(key, ledger), ledger, time)
    later = network.advance([])
    for item in shipped().answers:
        call = ContractCall(item.contract, item.function, tuple(map(decode_scval, item.arguments)))
        assert item.result == network.contracts.simulate(network.chain, ledger, call).result
        assert (rules.answer(call).error or "").startswith(NOT_FROM_STORAGE)
        answer = network.contracts.simulate(network.chain, later, call)
        assert (None, True) == (answer.result, (answer.error or "").startswith("HostError: Error(WasmVm, MissingVal"))


def test_every_pool_moves() -> None:
    """While amounts move, everything stays readable, interest only grows, and supply is cash and debt."""
    network = RecordedNetwork(close_seconds=3_600)
    network.settle(3)
    before = {(row["market"], row["pool"]): row for row in tables_of(network).pools.iter_rows(named=True)}
    for _ in range(4):
        network.advance(network.pools)
    tables = tables_of(network)

    assert ([], [], []) == (tables.unread, tables.unpriced, tables.notices)
    for row in tables.pools.iter_rows(named=True):
        old = before[row["market"], row["pool"]]
        assert old["total_supplied"] != row["total_supplied"]
        assert old["total_borrowed"] != row["total_borrowed"]
        assert int(old["borrow_index"] or 0) <= int(row["borrow_index"] or 0)
        assert int(row["total_borrowed"]) < int(row["total_supplied"])


def test_interest_gives_shares_to_the_protocol_alone() -> None:
    """XOXNO keeps its part of the interest as new shares of the supply; users have as many as before."""
    network = RecordedNetwork()
    network.advance(network.pools)
    network.advance(network.pools)
    pool = next(pool for pool in network.pools if pool.fees and pool.owed(network.look))
    draft = Draft(network.look)
    Mover(Random(1), network.prices).accrue(pool, draft, network.chain.close_time(network.chain.latest) + 86_400)
    supply, fees = pool.supply[0], pool.accrued(pool.fees or "")

    assert fees.read(network.look) < fees.read(draft.look)
    assert 1 == len({supply.read(look) - fees.read(look) for look in (network.look, draft.look)})


def test_the_same_seed_gives_the_same_network() -> None:
    """Equal arguments give equal entries at every ledger; another seed moves otherwise."""
    first, second, other = (RecordedNetwork(seed=seed) for seed in (3, 3, 4))
    for network in (first, second, other):
        for _ in range(4):
            network.advance()

    for ledger in range(first.chain.oldest, first.chain.latest + 1):
        assert first.chain.state(ledger) == second.chain.state(ledger)
    assert first.chain.state(first.chain.oldest) == other.chain.state(other.chain.oldest)
    assert first.chain.state(first.chain.latest) != other.chain.state(other.chain.latest)


def test_another_time_and_ledger() -> None:
    """The recording can be of any time: accruals and prices are as far from it as they were."""
    ages = []
    for network in (RecordedNetwork(), RecordedNetwork(start_ledger=5_000, start_time=1_905_000_123)):
        tables = tables_of(network)
        assert ([], []) == (tables.unread, tables.unpriced)
        now = network.chain.close_time(network.chain.latest)
        ages.append([now - time for time in tables.pools["last_accrual_time"]])

    assert sorted(ages[0]) == sorted(ages[1])


def test_copies_are_deployed_by_the_factories() -> None:
    """Blend's markets again, under other addresses that the factories' events name."""
    network, once = RecordedNetwork(copies=4), RecordedNetwork()
    chain = network.chain
    events = chain.events(chain.latest)
    factories = {item.address("factory") for item in NETWORKS[NETWORK].deployments if item.protocol == "blend"}

    assert 2 * 3 == len(network.copies) == len(events)
    assert list(network.copies) == [event.value[1] for event in events]
    assert factories == {event.contract for event in events}
    for market in network.copies:
        assert chain.entry(instance_key(market), chain.latest) is not None
    assert len(once.pools) + 3 * 6 == len(network.pools)


def test_the_latest_ledger_is_left_to_the_run(tmp_path: Path) -> None:
    """A ledger that closes on the hour is not in the past of the run that publishes it, which may read more of it."""
    network = RecordedNetwork(start_ledger=5_000, start_time=1_794_996_000, close_seconds=1_800)
    state, store = live_into_lake(network, 4, tmp_path / "lake"), MemoryStore()
    remember(network, state, tmp_path / "lake", 3_600, settings_for(), store, ThreadPoolExecutor(1))

    manifest = read_history_manifest(store)
    assert manifest is not None
    assert (5_004, 0) == (network.chain.latest, network.chain.close_time(5_004) % 3_600)
    assert [5_000, 5_002] == [file.first_ledger for file in manifest.files]
