"""Discovery against the embedded network: what is found, that nothing is lost, what it costs."""

from __future__ import annotations

import asyncio
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
from exporter.job.known_markets_file import MEMORY_KEY
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
from exporter.protocols.base import Candidate, Origin, ProtocolReading
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


@contextmanager
def pluralize(network: RecordedNetwork) -> Iterator[tuple[str, Behaviour]]:
    """A server of a network, and the log of what it is asked."""
    behaviour = Behaviour()
    with running(create_app(network, behaviour)) as url:
        yield url, behaviour


async def read_all(
    urls: str | list[str],
    settings: Settings,
    memory: Memory,
    network: Network = LOCAL,
    said: list[str] | None = None,
) -> Reading[list[ProtocolReading]]:
    """Look around and read everything, without rendering it."""
    limits = RpcLimits(requests_per_second=10_000)
    async with RpcSource([urls] if isinstance(urls, str) else urls, LOCAL.passphrase, limits=limits) as source:
        opened = OpenSource(source, network, [], "made", source.counters)
        around = await discover_context(LedgerView(source), source, network, PROTOCOLS, memory)
        if said is not None:
            said += around.notices

        async def program(view: Any) -> list[ProtocolReading]:
            return await read_protocols(view, settings, opened, around)

        return await read_at_one_ledger(source, program)


def markets_of(reading: Reading[list[ProtocolReading]]) -> set[str]:
    return {market.address for part in reading.result for market in part.markets}


def notices_of(reading: Reading[list[ProtocolReading]]) -> list[str]:
    return [notice for part in reading.result for notice in part.notices]


def test_new_pool_through_events_alone() -> None:
    """Of the events that had gone before the first run nothing is missed but what only they named."""
    network, memory = RecordedNetwork(event_window=2), Memory(network_id(LOCAL.passphrase))
    empty_reward_zones(network)
    lost = network.deploy("lost")
    for _ in range(5):
        network.advance()
    new = network.deploy("new")
    with running(create_app(network)) as url:
        reading = asyncio.run(read_all(url, settings_for(), memory))

    assert {*MARKETS, new} == markets_of(reading)
    assert ("blend", lost, None) not in memory.markets


def test_market_that_vanishes() -> None:
    """A market that is gone from the chain stays remembered, and is absent, which is not a failure."""
    network, memory = RecordedNetwork(), Memory(network_id(LOCAL.passphrase))
    gone = network.deploy("gone")
    with running(create_app(network)) as url:
        first = asyncio.run(read_all(url, settings_for(), memory))
        learn(memory, first.result, memory.candidates(), (), first.certificate.ledger)
        network.close({instance_key(gone): None})
        second = asyncio.run(read_all(url, settings_for(), memory))
        learn(memory, second.result, memory.candidates(), (), second.certificate.ledger)

    [blend] = [part for part in second.result if part.protocol == "blend"]
    assert ([gone], []) == ([item.market for item in blend.absent], blend.unread)
    assert memory.markets["blend", gone, None].confirmed


def test_discovery_off_and_dry_runs_remember_nothing(tmp_path: Path) -> None:
    """With discovery off no events are asked for but those of the close time; a dry run names what it discovers."""
    network, behaviour = RecordedNetwork(), Behaviour()
    network.deploy("new")
    with running(create_app(network, behaviour)) as url:
        run(settings_for(tmp_path, url, **only("blend")))
        assert 1 == behaviour.counts["getEvents"]
        _, facts = run(settings_for(tmp_path, url), dry_run=True)

    assert {BLEND_V1, BLEND_V2} == {path.stem for path in (tmp_path / "v1" / "markets").glob("C*.json")}
    assert facts["discovered"]
    assert not (tmp_path / MEMORY_KEY).exists()


def test_operators_market_is_not_remembered() -> None:
    """A contract outside of the factory that the operator named is read as long as he names it."""
    network, memory = RecordedNetwork(), Memory(network_id(LOCAL.passphrase))
    fake = network.deploy("fake", through_factory=False)
    named = settings_for(markets=[{"protocol": "blend", "address": fake}])
    with running(create_app(network)) as url:
        reading = asyncio.run(read_all(url, named, memory))
        tried = [*memory.candidates(), Candidate("blend", fake, Origin.CONFIGURATION)]
        learn(memory, reading.result, tried, (), reading.certificate.ledger)

    assert fake in markets_of(reading)
    assert ("blend", fake, None) not in memory.markets
    assert [notice for notice in notices_of(reading) if fake in notice and "[[markets]] names them" in notice]


def test_events_that_fail() -> None:
    """An RPC without events costs nothing but a notice; the next run reads from where the last stopped."""
    network, behaviour, said = RecordedNetwork(), Behaviour(), list[str]()
    memory = Memory(network_id(LOCAL.passphrase))
    with running(create_app(network, behaviour)) as url:
        asyncio.run(read_all(url, settings_for(), memory))
        before = dict(memory.streams)
        new = network.deploy("new")
        behaviour.broken["getEvents", 0] = RpcError(-32602, "no such wildcard")
        asyncio.run(read_all(url, settings_for(), memory, said=said))
        assert before == memory.streams
        behaviour.broken.clear()
        network.advance()
        reading = asyncio.run(read_all(url, settings_for(), memory))

    assert [notice for notice in said if "could not be read, a later run tries again" in notice]
    assert new in markets_of(reading)


def test_event_of_a_pool_without_record() -> None:
    """A contract that the factory's event names and its records do not is not read, and said to be left out."""
    network, memory = RecordedNetwork(), Memory(network_id(LOCAL.passphrase))
    fake = network.deploy("fake", through_factory=False)
    network.close(events=[(FACTORIES["mainnet"], (symbol("deploy"),), address(fake))])
    with running(create_app(network)) as url:
        reading = asyncio.run(read_all(url, settings_for(), memory))
        learn(memory, reading.result, memory.candidates(), (), reading.certificate.ledger)

    assert fake not in markets_of(reading)
    assert [notice for notice in notices_of(reading) if fake in notice and "not read, because anybody" in notice]
    assert not memory.markets["blend", fake, None].confirmed


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

    assert {*MARKETS, *network.copies} == markets_of(reading)
    recorded = {market for protocol, market in LISTED if protocol in ("alula", "blend")}
    assert {*recorded, *network.copies} == {market for part in reading.result for market in part.verified}
    assert [] == [notice for notice in notices_of(reading) if "record" in notice]


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

    notices = [notice for notice in notices_of(reading) if "contract code" in notice]
    counts = {market: sum(market in notice for notice in notices) for market in listed}
    assert dict.fromkeys(listed, 1) == counts
    assert len(listed) == len(notices)
    assert [] == [item for part in reading.result for item in part.unread]
