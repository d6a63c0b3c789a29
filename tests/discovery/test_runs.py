"""Discovery over whole runs against the embedded network: what is found, that nothing is lost, what it costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Settings
from exporter.deployments import FACTORY, MARKET
from exporter.deployments.networks import NETWORKS, Network, network_id
from exporter.discovery import discover_context, learn
from exporter.discovery.known_markets import Memory
from exporter.job.known_markets_file import MEMORY_KEY, load_memory
from exporter.job.reading import read_protocols
from exporter.job.sources import OpenSource
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.ledger.view import LedgerView, Reading, read_at_one_ledger
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.rpc import RpcError
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import ProtocolReading
from exporter.stores.folder import FolderStore
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V1, BLEND_V2, LISTED, only
from tests.protocols.made_ledger import entry

LOCAL = NETWORKS[NETWORK]


LABELS = ("mainnet", "testnet")
"""Of Blend's deployments, one of each generation."""

MARKETS = {market for _, market in LISTED}
FACTORIES = {item.label: item.address(FACTORY) or "" for item in LOCAL.deployments if item.protocol == "blend"}


def empty_reward_zones(network: RecordedNetwork) -> None:
    """Close a ledger in which no backstop rewards any pool any more."""
    backstops = [item.address("backstop") or "" for item in LOCAL.deployments if item.protocol == "blend"]
    network.close(dict(entry(backstop, symbol("RZ"), vec()) for backstop in backstops))


def memory_in(folder: Path) -> Memory:
    return load_memory(FolderStore(folder), network_id(LOCAL.passphrase))


def published_markets(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "v1" / "markets").glob("C*.json")}


class TestRuns:
    """One run after another into the same output."""

    def test_new_pool_through_events_alone(self, tmp_path: Path) -> None:
        """Of the events that had gone before the first run nothing is missed but what only they named."""
        network = RecordedNetwork(event_window=2)
        empty_reward_zones(network)
        lost = network.deploy("lost")
        for _ in range(5):
            network.advance()
        new = network.deploy("new")
        with running(create_app(network)) as url:
            _, facts = run(settings_for(tmp_path, url))

        assert {*MARKETS, new} == published_markets(tmp_path)
        assert lost not in json.dumps(facts)

    def test_market_that_vanishes(self, tmp_path: Path) -> None:
        """A market that is gone from the chain stays remembered, and is reported absent, which is not a failure."""
        network = RecordedNetwork()
        gone = network.deploy("gone")
        with running(create_app(network)) as url:
            run(settings_for(tmp_path, url))
            network.close({instance_key(gone): None})
            code, facts = run(settings_for(tmp_path, url))

        assert 0 == code
        assert [gone] == [item["market"] for item in facts["absent"] if item["protocol"] == "blend"]
        assert ("blend", gone, None) in memory_in(tmp_path).markets

    def test_dry_run(self, tmp_path: Path) -> None:
        """A dry run names what it discovers and remembers nothing."""
        network = RecordedNetwork()
        network.deploy("new")
        with running(create_app(network)) as url:
            _, facts = run(settings_for(tmp_path, url), dry_run=True)

        assert facts["discovered"]
        assert not (tmp_path / MEMORY_KEY).exists()

    def test_discovery_off(self, tmp_path: Path) -> None:
        """With discovery off nothing is remembered, and no events are asked for."""
        network, behaviour = RecordedNetwork(), Behaviour()
        with running(create_app(network, behaviour)) as url:
            run(settings_for(tmp_path, url, **only("blend")))

        assert {BLEND_V1, BLEND_V2} == published_markets(tmp_path)
        assert 1 == behaviour.counts["getEvents"]  # for the close time
        assert not (tmp_path / MEMORY_KEY).exists()

    def test_operators_market_is_not_remembered(self, tmp_path: Path) -> None:
        """A contract outside of the factory that the operator named is read as long as he names it."""
        network = RecordedNetwork()
        fake = network.deploy("fake", through_factory=False)
        with running(create_app(network)) as url:
            _, named = run(settings_for(tmp_path, url, markets=[{"protocol": "blend", "address": fake}]))
            assert fake in published_markets(tmp_path)
            network.advance()
            run(settings_for(tmp_path, url))

        assert fake not in published_markets(tmp_path)
        assert [notice for notice in named["notices"] if fake in notice and "[[markets]] names them" in notice]


class TestFaults:
    """Events that are missing, wrong, hostile, or too many."""

    def test_events_that_fail(self, tmp_path: Path) -> None:
        """An RPC without events costs nothing but a notice; the next run reads from where the last stopped."""
        network, behaviour = RecordedNetwork(), Behaviour()
        with running(create_app(network, behaviour)) as url:
            run(settings_for(tmp_path, url))
            before = memory_in(tmp_path).streams
            new = network.deploy("new")
            behaviour.broken["getEvents", 0] = RpcError(-32602, "no such wildcard")
            code, facts = run(settings_for(tmp_path, url))
            assert before == memory_in(tmp_path).streams
        network.advance()
        with running(create_app(network)) as url:
            run(settings_for(tmp_path, url))

        assert 0 == code
        assert [notice for notice in facts["notices"] if "could not be read, a later run tries again" in notice]
        assert new in published_markets(tmp_path)

    def test_event_of_a_pool_without_record(self, tmp_path: Path) -> None:
        """A contract that the factory's event names and its records do not is not read, and said to be left out."""
        network = RecordedNetwork()
        fake = network.deploy("fake", through_factory=False)
        network.close(events=[(FACTORIES["mainnet"], (symbol("deploy"),), address(fake))])
        with running(create_app(network)) as url:
            code, facts = run(settings_for(tmp_path, url))

        assert 0 == code
        assert fake not in published_markets(tmp_path)
        assert [notice for notice in facts["notices"] if fake in notice and "not read, because anybody" in notice]
        assert not memory_in(tmp_path).markets["blend", fake, None].confirmed


@contextmanager
def pluralize(network: RecordedNetwork) -> Iterator[tuple[str, Behaviour]]:
    """A server of a network, and the log of what it is asked."""
    behaviour = Behaviour()
    with running(create_app(network, behaviour)) as url:
        yield url, behaviour


async def read_all(
    urls: str | list[str], settings: Settings, memory: Memory, network: Network = LOCAL
) -> Reading[list[ProtocolReading]]:
    """Look around and read everything, without rendering it."""
    limits = RpcLimits(requests_per_second=10_000)
    async with RpcSource([urls] if isinstance(urls, str) else urls, LOCAL.passphrase, limits=limits) as source:
        opened = OpenSource(source, network, [], "made", source.counters)
        around = await discover_context(LedgerView(source), source, network, PROTOCOLS, memory)

        async def program(view: Any) -> list[ProtocolReading]:
            return await read_protocols(view, settings, opened, around)

        return await read_at_one_ledger(source, program)


def test_factory_that_no_list_has() -> None:
    """As with v2.1: the backstop names the factory, its events name a pool, its record verifies it; all in one run."""
    network = RecordedNetwork()
    empty_reward_zones(network)
    deployed = {network.deploy(label, label=label) for label in LABELS}
    lists = [
        replace(item, contracts=tuple(known for known in item.contracts if known.role not in (FACTORY, MARKET)))
        for item in LOCAL.deployments
        if item.protocol == "blend"
    ]
    memory = Memory(network_id(LOCAL.passphrase))
    settings = settings_for()
    with pluralize(network) as (url, behaviour):
        reading = asyncio.run(read_all(url, settings, memory, Network(NETWORK, LOCAL.passphrase, tuple(lists))))
        found = learn(memory, reading.result, memory.candidates(), (), reading.certificate.ledger)
        asked = behaviour.counts["getLedgerEntries"]
        asyncio.run(read_all(url, settings, memory, Network(NETWORK, LOCAL.passphrase, tuple(lists))))

    [blend] = [part for part in reading.result if part.protocol == "blend"]
    assert (
        deployed
        == {market.address for market in blend.markets}
        == set(blend.verified)
        == {item.market for item in found}
    )
    assert {("blend", label, FACTORY): factory for label, factory in FACTORIES.items()} == memory.contracts
    assert 1 == 2 * asked - behaviour.counts["getLedgerEntries"]  # the second run knows the factories


def test_event_ahead_of_the_ledger_that_is_read() -> None:
    """A pool that a node names before the others have it is not there yet, and is read by the next run."""
    network, behaviour = RecordedNetwork(), Behaviour(lags=(0, 4))
    empty_reward_zones(network)
    for _ in range(5):
        network.advance()
    new = network.deploy("new")
    memory = Memory(network_id(LOCAL.passphrase))
    settings = settings_for()
    behaviour.broken["getEvents", 1] = RpcError(-32601, "method not found")
    with running(create_app(network, behaviour)) as url:
        nodes = [f"{url}/node/1", f"{url}/node/0"]
        first = asyncio.run(read_all(nodes, settings, memory))
        found = learn(memory, first.result, memory.candidates(), memory.confirmed(), first.certificate.ledger)
        assert MARKETS == {item.market for item in found}
        assert not memory.markets["blend", new, None].confirmed
        for _ in range(4):
            network.advance()
        second = asyncio.run(read_all(nodes, settings, memory))
        found = learn(memory, second.result, memory.candidates(), memory.confirmed(), second.certificate.ledger)

    assert [(new, "event")] == [(item.market, item.origin) for item in found]
    assert memory.markets["blend", new, None].confirmed
    assert first.certificate.ledger == memory.markets["blend", new, None].first_seen_ledger - 4


@pytest.mark.parametrize(("lags", "every"), [((0, 1), None), ((0,), 10), ((0,), 20)])
def test_chain_that_moves(lags: tuple[int, ...], every: int | None) -> None:
    """While ledgers close and nodes lag, records and markets are still those of one ledger, and none is lost."""
    network = RecordedNetwork(copies=10)
    for _ in range(6):
        network.advance()
    behaviour = Behaviour(lags=lags, advance_every_requests=every)
    settings = settings_for()
    with running(create_app(network, behaviour)) as url:
        reading = asyncio.run(read_all(url, settings, Memory(network_id(LOCAL.passphrase))))

    assert {*MARKETS, *network.copies} == {market.address for part in reading.result for market in part.markets}
    recorded = {market for protocol, market in LISTED if protocol in ("alula", "blend")}
    assert {*recorded, *network.copies} == {market for part in reading.result for market in part.verified}
    assert [] == [notice for part in reading.result for notice in part.notices if "record" in notice]


def test_other_code_is_said_once() -> None:
    """Where the lists have other code than all markets run, each market is read by its form, with one notice."""
    network = RecordedNetwork()
    lists = [
        replace(
            item,
            contracts=tuple(
                replace(known, wasm_hash="11" * 32) if known.role == MARKET else known for known in item.contracts
            ),
        )
        for item in LOCAL.deployments
    ]
    listed = {market for item in lists for market in item.markets}
    memory = Memory(network_id(LOCAL.passphrase))
    settings = settings_for()
    with pluralize(network) as (url, _):
        reading = asyncio.run(read_all(url, settings, memory, Network(NETWORK, LOCAL.passphrase, tuple(lists))))

    notices = [notice for part in reading.result for notice in part.notices if "contract code" in notice]
    counts = {market: sum(market in notice for notice in notices) for market in listed}
    assert dict.fromkeys(listed, 1) == counts
    assert len(listed) == len(notices)
    assert [] == [item for part in reading.result for item in part.unread]
