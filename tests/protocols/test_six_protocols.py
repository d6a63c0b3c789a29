"""All six protocols over whole runs into one output: all markets are found, a new one too, and none is ever lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.deployments.networks import NETWORKS, network_id
from exporter.job.known_markets_file import load_memory
from exporter.localnet.chain import Chain
from exporter.localnet.made import PROTOCOL_VERSION, SOME, MadeNetwork
from exporter.localnet.network import CODE, LocalNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols import PROTOCOLS
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from tests import jobs
from tests.jobs import settings_for

LOCAL = NETWORKS["made"]
Place = tuple[str, str, str]
"""Protocol, market and pool."""


def run(store: Store, url: str, out: Path) -> dict[str, Any]:
    """One whole run into a store; gives its report. Everything has to be read."""
    code, facts = jobs.run(settings_for(out, url), store)
    assert 0 == code
    return facts


def published(store: MemoryStore) -> set[Place]:
    """Every pool that has a document of its own, as the newest run has it."""
    status = json.loads(document(store, "v1/system/status.json"))
    found = set()
    for listed in json.loads(document(store, "v1/markets.json"))["data"]:
        market = json.loads(document(store, f"v1/markets/{listed['market']}.json"))
        assert not market["truncated"]
        for pool in market["pools"]:
            detail = json.loads(document(store, f"v1/assets/{listed['market']}/{pool['pool']}.json"))
            assert status["observed_ledger"] == detail["observed_ledger"]
            found.add((listed["protocol"], listed["market"], pool["pool"]))
    assert (len(found), 0) == (status["pool_count"], status["unread_count"])
    return found


def document(store: MemoryStore, key: str) -> bytes:
    """The bytes of a document that has to be there."""
    stored = store.get(key)
    assert stored is not None, key
    return stored.data


def pools_of(network: MadeNetwork) -> set[Place]:
    """Every pool of a made network that can be read."""
    others = network.others
    pools = {("blend", market.address, item.token) for market in network.markets for item in market.reserves}
    pools |= {("alula", market.address, item.address) for market in network.alula.markets for item in market.pools}
    pools |= {("k2", market.address, item.asset) for market in others.k2.markets for item in market.reserves}
    pools |= {("peridot", market.address, item.address) for market in others.peridot.markets for item in market.vaults}
    pools |= {("slender", market.address, item.token) for market in others.slender.markets for item in market.reserves}
    return pools | {("xoxno", others.xoxno.controller, f"{item.hub}-{item.token}") for item in others.xoxno.markets}


def markets_of(pools: set[Place]) -> set[tuple[str, str]]:
    """The markets of pools."""
    return {place[:2] for place in pools}


def without_events(network: MadeNetwork) -> LocalNetwork:
    """The same entries, forty ledgers later, behind a server that begins there: it never saw an event."""
    latest = network.chain.latest
    time = network.chain.close_time(latest)
    chain = Chain(network.chain.state(latest), start_ledger=latest + 40, start_time=time + 200)
    return LocalNetwork(chain, network.passphrase, PROTOCOL_VERSION, CODE)


@pytest.mark.parametrize("markets", [24, pytest.param(300, marks=pytest.mark.slow)])
def test_nothing_is_lost(tmp_path: Path, markets: int) -> None:
    """Zones emptied, factories silent but for one pool, events expired, another RPC: every pool, in each run."""
    others = 3 + 3 + 1 + 1 + 1  # Alula, K2, Peridot, Slender, XOXNO
    blend = markets - others - 1  # one of Blend's is in Setup, without a pool
    network = MadeNetwork(pools=blend, market_count=blend, alula_markets=3, others=SOME, event_window=20)
    store = MemoryStore()
    everything = pools_of(network)
    assert set(PROTOCOLS) == {place[0] for place in everything}
    assert markets - 1 == len(markets_of(everything))

    with running(create_app(network)) as url:
        first = run(store, url, tmp_path)
        assert everything == published(store)

        network.empty_reward_zones()
        pool = network.deploy_market(size=3)
        time = network.chain.close_time(network.chain.latest)
        hub_market = network.others.xoxno.create(9, network.tokens[2], time)
        network.advance()
        new = {("blend", pool.address, reserve.token) for reserve in pool.reserves}
        new.add(("xoxno", network.others.xoxno.controller, f"9-{hub_market.token}"))
        assert new == pools_of(network) - everything
        second = run(store, url, tmp_path)
        assert everything | new == published(store)

        for _ in range(30):
            network.advance()
        third = run(store, url, tmp_path)
        assert everything | new == published(store)
    with running(create_app(without_events(network))) as url:
        fourth = run(store, url, tmp_path)
    assert everything | new == published(store)

    assert {"listed": blend + 1} == Counter(item["origin"] for item in first["discovered"])
    assert [
        {"protocol": "blend", "market": pool.address, "pool": None, "origin": "event"},
        {
            "protocol": "xoxno",
            "market": network.others.xoxno.controller,
            "pool": f"9-{hub_market.token}",
            "origin": "event",
        },
    ] == second["discovered"]
    assert [[], []] == [third["discovered"], fourth["discovered"]]
    memory = load_memory(store, network_id(LOCAL.passphrase))
    assert markets_of(everything | new) <= {place[:2] for place in memory.markets}
    assert memory.markets.keys() == memory.confirmed()
    gaps = [[notice for notice in facts["notices"] if "are gone" in notice] for facts in (first, second, third, fourth)]
    assert [0, 0, 1, 1] == [len(notices) for notices in gaps]
    for facts in (first, second, third, fourth):  # otherwise: a listed pool was never created, a market has no pool
        notices = sorted(notice for notice in facts["notices"] if "are gone" not in notice)
        assert len(notices) == 2, notices
        assert any("these pools are known of and not created, or not yet: 2-" in notice for notice in notices)


class TestOnChain:
    """`exporter check --on-chain`: the numbers of all protocols against their contracts' own views."""

    def network(self) -> MadeNetwork:
        """All protocols, with one pool of Blend and one of XOXNO that no list has and no reward zone names."""
        network = MadeNetwork(pools=12, alula_markets=3, others=SOME, event_window=20)
        for _ in range(40):
            network.advance()
        network.empty_reward_zones()
        network.deploy_market(size=2)  # v1 and v2 take turns
        network.deploy_market(size=2)
        time = network.chain.close_time(network.chain.latest)
        network.others.xoxno.create(9, network.tokens[2], time)
        network.advance()
        return network

    def test_memory_of_an_output(self, tmp_path: Path) -> None:
        """Once the events are gone, markets that only they named are compared where --out names who remembers them."""
        network = self.network()
        with running(create_app(network)) as url:
            run(FolderStore(tmp_path), url, tmp_path)
            for _ in range(30):
                network.advance()
            arguments = ["check", "--on-chain", "--network", "made", "--rpc-url", url, "--log-format", "json"]
            environment = {"EXPORTER_REQUESTS_PER_SECOND": "10000"}
            with_it = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path)], env=environment)
            without = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "none")], env=environment)

        assert (0, 0) == (with_it.exit_code, without.exit_code), with_it.output + without.output
        facts = [json.loads(result.stdout.splitlines()[-1]) for result in (with_it, without)]
        assert [0, 0] == [item["differences"] for item in facts]
        # The two reserves of Blend's v2 pool; XOXNO's new pool is in use, so that later events name it again.
        assert facts[0]["pools"] == facts[1]["pools"] + 2
        assert not (tmp_path / "none").exists()
