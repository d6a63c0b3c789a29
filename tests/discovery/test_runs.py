"""Discovery against the embedded network: what is found, that nothing is lost, what it costs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments import FACTORY, MARKET
from exporter.deployments.networks import NETWORKS, Network, network_id
from exporter.discovery.known_markets import CandidateKey, Memory
from exporter.job.known_markets_file import MEMORY_KEY
from exporter.job.reading import MarketsReading, read_markets
from exporter.job.sources import OpenSource
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.rpc import RpcError
from exporter.localnet.server import Behaviour, create_app, running
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V1, BLEND_V2, LISTED, only
from tests.protocols.made_ledger import entry

pytestmark = pytest.mark.usefixtures("without_pages")

LOCAL = NETWORKS[NETWORK]


LABELS = ("mainnet", "testnet")
"""One of Blend's deployments of each generation."""

MARKETS = {market for _, market in LISTED}
FACTORIES = {item.label: item.address(FACTORY) or "" for item in LOCAL.deployments if item.protocol == "blend"}


def empty_reward_zones(network: RecordedNetwork) -> None:
    """Close a ledger in which no backstop rewards any pool any more."""
    backstops = [item.address("backstop") or "" for item in LOCAL.deployments if item.protocol == "blend"]
    network.close(dict(entry(backstop, symbol("RZ"), vec()) for backstop in backstops))


class Watched:
    """Readings of a network that is served, with what they remember."""

    def __init__(self, network: RecordedNetwork, behaviour: Behaviour | None = None, lists: Network = LOCAL) -> None:
        self.network, self.behaviour, self.lists = network, behaviour or Behaviour(), lists
        self.memory = Memory(network_id(LOCAL.passphrase))

    def read(self, *nodes: str, settings: Settings | None = None) -> MarketsReading:
        """Look around, read everything without rendering it, and remember what was found."""

        async def work() -> MarketsReading:
            urls = [url + node for node in nodes or ("",)]
            async with RpcSource(urls, LOCAL.passphrase, limits=RpcLimits(requests_per_second=10_000)) as source:
                opened = OpenSource(source, self.lists, [], "made", source.counters)
                return (await read_markets(settings or settings_for(), opened, self.memory))[0]

        with running(create_app(self.network, self.behaviour)) as url:
            return asyncio.run(work())


def markets_of(found: MarketsReading) -> set[str]:
    return {market.address for part in found.protocols for market in part.markets}


def notices_of(found: MarketsReading) -> list[str]:
    return [notice for part in found.protocols for notice in part.notices]


def test_market_that_vanishes() -> None:
    """A market that is gone from the chain stays remembered, and is absent, which is not a failure."""
    watched = Watched(network := RecordedNetwork())
    gone = network.deploy("gone")
    watched.read()
    network.close({instance_key(gone): None})
    parts = watched.read().protocols

    assert [gone] == [item.market for part in parts for item in part.absent]
    assert [] == [item for part in parts for item in part.unread]
    assert watched.memory.markets[CandidateKey("blend", gone)].confirmed


def test_discovery_off_and_dry_runs_remember_nothing(tmp_path: Path) -> None:
    """A run without discovery asks only for the event that has the close time. A dry run names what it discovers."""
    network, behaviour = RecordedNetwork(), Behaviour()
    network.deploy("new")
    with running(create_app(network, behaviour)) as url:
        run(settings_for(tmp_path, url, **only("blend")))
        assert 1 == behaviour.counts["getEvents"]
        _, facts = run(settings_for(tmp_path, url), dry_run=True)

    assert {BLEND_V1, BLEND_V2} == {path.stem for path in (tmp_path / "v1" / "markets").glob("C*.json")}
    assert facts["discovered"]
    assert not (tmp_path / MEMORY_KEY).exists()


def test_contracts_without_a_record() -> None:
    """If the factory has no record, only a contract that the operator named is read, and it is not remembered."""
    watched = Watched(network := RecordedNetwork())
    fake, named = (network.deploy(label, through_factory=False) for label in ("fake", "named"))
    network.close(events=[(FACTORIES["mainnet"], (symbol("deploy"),), address(fake))])
    reading = watched.read(settings=settings_for(markets=[{"protocol": "blend", "address": named}]))

    assert {*MARKETS, named} == markets_of(reading)
    for market, said in ((fake, "not read, because anybody"), (named, "[[markets]] names them")):
        assert [notice for notice in notices_of(reading) if market in notice and said in notice]
    assert not watched.memory.markets[CandidateKey("blend", fake)].confirmed
    assert ("blend", named, None) not in watched.memory.markets


def test_factory_that_no_list_has() -> None:
    """One run learns the factory from the backstop, a pool from the factory's event, and verifies it by the record."""
    network = RecordedNetwork()
    empty_reward_zones(network)
    deployed = {network.deploy(label, label=label) for label in LABELS}
    lists = tuple(
        replace(item, contracts=tuple(known for known in item.contracts if known.role not in (FACTORY, MARKET)))
        for item in LOCAL.deployments
        if item.protocol == "blend"
    )
    watched = Watched(network, lists=Network(NETWORK, LOCAL.passphrase, lists))
    found = watched.read()
    asked = watched.behaviour.counts["getLedgerEntries"]
    watched.read()

    assert (
        deployed
        == markets_of(found)
        == {market for part in found.protocols for market in part.verified}
        == {item.market for item in found.discovered}
    )
    contracts = {("blend", label, FACTORY): factory for label, factory in FACTORIES.items()}
    assert contracts == watched.memory.contracts
    assert 1 == 2 * asked - watched.behaviour.counts["getLedgerEntries"]  # the second run knows all of it


def test_event_ahead_of_the_ledger_that_is_read() -> None:
    """A pool that a node names before the others have it is not there yet, and is read by the next run."""
    watched = Watched(network := RecordedNetwork(), Behaviour(lags=(0, 4)))
    empty_reward_zones(network)
    for _ in range(5):
        network.advance()
    new = network.deploy("new")
    watched.behaviour.broken["getEvents", 1] = RpcError(-32601, "method not found")
    first = watched.read("/node/1", "/node/0")
    assert [] == first.discovered
    assert not watched.memory.markets[CandidateKey("blend", new)].confirmed
    for _ in range(4):
        network.advance()
    second = watched.read("/node/1", "/node/0")

    assert [(new, "event")] == [(item.market, item.origin) for item in second.discovered]
    assert watched.memory.markets[CandidateKey("blend", new)].confirmed
    assert first.certificate.ledger == watched.memory.markets[CandidateKey("blend", new)].first_seen_ledger - 4


def test_other_code_is_said_once() -> None:
    """If all markets run other code than the lists have, each is read by its form, with one notice."""
    lists = tuple(
        replace(
            item,
            contracts=tuple(
                replace(known, wasm_hash="11" * 32) if known.role == MARKET else known for known in item.contracts
            ),
        )
        for item in LOCAL.deployments
    )
    reading = Watched(RecordedNetwork(), lists=Network(NETWORK, LOCAL.passphrase, lists)).read()
    notices = [notice for notice in notices_of(reading) if "contract code" in notice]

    assert dict.fromkeys(MARKETS, 1) == {market: sum(market in notice for notice in notices) for market in MARKETS}
    assert len(MARKETS) == len(notices)
    assert [] == [item for part in reading.protocols for item in part.unread]
