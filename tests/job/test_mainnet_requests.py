"""What a run over all of mainnet's known markets asks for, counted by the server (docs/discovery.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.deployments.networks import network_id
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.job.reading import MarketsRead, read_markets, router_for
from exporter.job.sources import RpcEndpoints
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.contracts import TokenLayout
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols.compute import Tables
from exporter.stores.memory import MemoryStore
from tests.job.mainnet_chain import MainnetChain
from tests.jobs import settings_for

WAVES = (
    "lists: instances, zones, records, Peridot's vaults and XOXNO's hub markets with their tokens",
    "what these name: pools of zones, reserves of K2 and Alula, rate models, XOXNO's spokes, the unlisted factory",
    "the reserves of Blend's pools with their tokens, K2's unlisted tokens, what aTokens have and spokes use",
)
"""The waves of keys that each depend on the one before; the protocols share their requests."""


@dataclass
class Counted:
    """A run over the chain, up to its numbers, and what the server was asked for."""

    read: MarketsRead
    tables: Tables
    methods: Counter[str]
    calls: Counter[tuple[str, str]]

    @property
    def keys(self) -> int:
        """The distinct keys the run is made of."""
        return self.read.certificate.keys


def pluralize(chain: MainnetChain, store: MemoryStore, out: Path, *, router: bool = False) -> Counted:
    """Read everything and compute it, as a run into a store does; what it discovers is remembered there."""
    behaviour = Behaviour()
    before = Counter(chain.called)
    with running(create_app(chain, behaviour)) as url:
        settings = settings_for(out, url, network__name="mainnet", network__router=router)
        memory = load_memory(store, network_id(settings.passphrase))

        async def work() -> MarketsRead:
            async with RpcEndpoints().open(settings) as opened:
                return await read_markets(settings, opened, memory, router_for(settings, opened))

        read = asyncio.run(work())
        save_memory(store, memory)
    return Counted(read, read.tables(), Counter(behaviour.counts), chain.called - before)


@pytest.fixture(scope="module")
def chain() -> MainnetChain:
    """Everything that the lists know, there at one ledger."""
    return MainnetChain()


@pytest.fixture(scope="module")
def runs(chain: MainnetChain, tmp_path_factory: pytest.TempPathFactory) -> list[Counted]:
    """Two runs into one output, with every price asked for by itself."""
    store, out = MemoryStore(), tmp_path_factory.mktemp("out")
    return [pluralize(chain, store, out) for _ in range(2)]


def test_all_is_read(chain: MainnetChain, runs: list[Counted]) -> None:
    """Every listed market and every pool is read, at one ledger in one round; Slender is archived, hence absent."""
    for each in runs:
        tables = each.tables
        assert chain.pools == tables.pools.height
        assert chain.markets == {
            reading.protocol: {market.address for market in reading.markets}
            for reading in each.read.protocols
            if reading.markets
        }
        assert [] == tables.unread
        assert ["slender"] == [item.protocol for item in tables.absent]
        assert 1 == each.read.certificate.rounds


def test_requests_for_entries(runs: list[Counted]) -> None:
    """At most ceil(keys / 200), and one for each wave, also in the first run: what events name is asked for beside."""
    for each in runs:
        print(f"{each.keys} keys, {dict(each.methods)}")
        assert each.keys > 2 * MAX_KEYS_PER_REQUEST  # or the rule would say nothing
        assert each.methods["getLedgerEntries"] <= -(-each.keys // MAX_KEYS_PER_REQUEST) + len(WAVES)


def test_calls(chain: MainnetChain, runs: list[Counted]) -> None:
    """Calls are made for prices, for what boosted vaults could pay and aTokens have, and for tokens of own layouts."""
    for each in runs:
        quotes = {reading.protocol: reading.quotes for reading in each.read.protocols}
        oracles = {oracle for name in ("blend", "alula", "peridot") for oracle, _ in quotes[name]}
        singly = sum(len(quotes[name]) for name in ("blend", "alula", "peridot"))
        odd = [token.contract for token in chain.tokens if token.layout is TokenLayout.OWN]
        functions: Counter[str] = Counter()
        for (contract, function), count in each.calls.items():
            functions["symbol or decimals" if contract in odd and function != "balance" else function] += count

        assert {
            "decimals": len(oracles),
            "lastprice": singly,
            "get_asset_prices_vec_fresh": 1,  # the reserves of both K2 markets
            "quotes": 1,  # XOXNO's tokens, of 31 hub markets
            "get_available_liquidity": 4,
            "balance": 4,  # of the aTokens of K2 whose token is not a Stellar asset
        } == {function: count for function, count in functions.items() if function != "symbol or decimals"}
        assert 2 * len(odd) <= functions["symbol or decimals"] <= 4 * len(odd)  # two protocols may ask at one time
        assert sum(functions.values()) == each.methods["simulateTransaction"]


def test_events(runs: list[Counted]) -> None:
    """The first run asks for the oldest ledger and then for a page; with nothing closed since the second asks once."""
    assert [2, 1] == [each.methods["getEvents"] for each in runs]


def test_nothing_else(runs: list[Counted]) -> None:
    """Beyond these a run asks for the network once, and for its close time only where the events did not state it."""
    read = {"getLedgerEntries", "simulateTransaction", "getEvents"}

    assert [{"getNetwork": 1}, {"getNetwork": 1, "getHealth": 1}] == [
        {name: count for name, count in each.methods.items() if name not in read} for each in runs
    ]


def test_no_false_alarm(runs: list[Counted]) -> None:
    """Where everything is as the lists have it an operator is told nothing."""
    assert [[], []] == [each.tables.notices for each in runs]


def test_what_is_new(runs: list[Counted]) -> None:
    """Pools that only a reward zone lists are named as discovered by the first run, and known to the second."""
    assert [("blend", "listed")] * 2 == [(item.protocol, item.origin) for item in runs[0].read.discovered]
    assert [] == runs[1].read.discovered


def test_all_requests_of_a_small_network(tmp_path: Path) -> None:
    """Of somewhat more pools than mainnet has, a run asks at most 20 times, the first one included.

    The protocols share their calls as they share their keys: through the router, and with one sample for what goes out
    together. What is together depends a little on when answers come.
    """
    chain, store = MainnetChain(found=0, reserves=(1,)), MemoryStore()
    runs = [pluralize(chain, store, tmp_path, router=True) for _ in range(2)]

    assert 57 < chain.pools < 80
    assert [chain.pools] * 2 == [each.tables.pools.height for each in runs]
    assert all(each.methods.total() <= 20 for each in runs), [each.methods for each in runs]
