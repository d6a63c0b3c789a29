"""The requests of a run, counted by the server (docs/discovery.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

import pytest

from exporter.deployments.networks import network_id
from exporter.job.evidence import Evidence
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.job.reading import MarketsReading, read_markets
from exporter.job.sources import RpcEndpoints
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.stores.memory import MemoryStore
from tests.job_runs import naming, settings_for
from tests.localnet.recorded import LISTED
from tests.protocols.protocol_facts import recorded_pools

pytestmark = pytest.mark.usefixtures("without_pages")

WAVES = (
    "lists: instances, zones, records, Peridot's vaults and the tokens of XOXNO's hub markets",
    "what these name: pools of zones, reserves of K2 and Alula, rate models, XOXNO's hub markets and spokes",
    "the reserves of Blend's pools with their tokens, what K2's reserves name, what aTokens have and spokes use",
)
"""The waves of keys that each depend on the one before; the protocols share their requests."""


class Counted(NamedTuple):
    """A run, up to its numbers, its evidence, and what the server was asked for."""

    read: MarketsReading
    evidence: Evidence
    methods: Counter[str]


@pytest.fixture(scope="module", params=[1, 24])
def network(request: pytest.FixtureRequest) -> RecordedNetwork:
    """The recorded markets, alone and with copies of Blend's."""
    return RecordedNetwork(copies=request.param)


@pytest.fixture(scope="module")
def runs(network: RecordedNetwork) -> list[Counted]:
    store = MemoryStore()
    return [run(network, store) for _ in range(2)]


def run(network: RecordedNetwork, store: MemoryStore) -> Counted:
    """Read everything, as a run into a store does; what it discovers is remembered there."""
    behaviour = Behaviour()
    with running(create_app(network, behaviour)) as url:
        settings = settings_for(None, url, **naming(network))
        memory = load_memory(store, network_id(settings.passphrase))

        async def work() -> tuple[MarketsReading, Evidence]:
            async with RpcEndpoints().open(settings) as opened:
                return await read_markets(settings, opened, memory)

        read, evidence = asyncio.run(work())
        save_memory(store, memory)
    return Counted(read, evidence, Counter(behaviour.counts))


def test_all_is_read(network: RecordedNetwork, runs: list[Counted]) -> None:
    """Every market and pool is read and priced, at one ledger in one round, and an operator gets no notice."""
    for each in runs:
        tables = each.read.tables()
        assert recorded_pools() + 3 * len(network.copies) == tables.pools.height
        assert {*(market for _, market in LISTED), *network.copies} == {*tables.markets["market"]}
        assert ([], [], [], []) == (tables.unread, tables.unpriced, tables.absent, tables.notices)
        assert 1 == each.read.certificate.rounds


def test_requests_for_entries(runs: list[Counted]) -> None:
    """There are at most ceil(keys / 200) requests and one for each wave, even in a first run that follows events."""
    for each in runs:
        keys = each.read.certificate.keys
        assert each.methods["getLedgerEntries"] <= -(-keys // MAX_KEYS_PER_REQUEST) + len(WAVES)


def test_calls_are_only_for_prices_vaults_and_atokens(runs: list[Counted]) -> None:
    """Calls are made for prices, once an oracle and token, for what vaults could pay and for what aTokens have."""
    for each in runs:
        quotes = {pair for reading in each.read.protocols for pair in reading.quotes}
        single = {pair for pair in quotes if pair[0] == ORACLE}

        assert {
            "decimals": 1,
            "lastprice": len(single),
            "get_asset_prices_vec_fresh": 1,  # all reserves of K2
            "quotes": 1,  # all tokens of XOXNO
            "balance": 2,  # of the aTokens of K2 whose token is not a Stellar asset
        } == Counter(call.function for call in each.evidence.calls)
        assert len(each.evidence.calls) == each.methods["simulateTransaction"]


def test_other_requests_are_only_for_events_and_close_time(runs: list[Counted]) -> None:
    """The first run asks for the oldest ledger of events and for a page, the second once; both for the close time."""
    assert [{"getNetwork": 1, "getEvents": 3}, {"getNetwork": 1, "getEvents": 2}] == [
        {name: count for name, count in each.methods.items() if name not in ("getLedgerEntries", "simulateTransaction")}
        for each in runs
    ]
