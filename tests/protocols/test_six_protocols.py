"""All six protocols over whole runs into one output: all markets are found, a new one too, and none is ever lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from exporter.deployments.networks import NETWORKS, network_id
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, vec
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import NETWORK, PROTOCOL_VERSION, RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.protocols.xoxno.layout import HubAsset
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from tests import jobs
from tests.entries import recorded
from tests.jobs import on_chain, settings_for
from tests.protocols.made_ledger import entry

LOCAL = NETWORKS[NETWORK]
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


def markets_of(pools: set[Place]) -> set[tuple[str, str]]:
    """The markets of pools."""
    return {place[:2] for place in pools}


def without_events(network: RecordedNetwork) -> LocalNetwork:
    """The same entries, forty ledgers later, behind a server that begins there: it never saw an event."""
    latest = network.chain.latest
    time = network.chain.close_time(latest)
    chain = Chain(network.chain.state(latest), start_ledger=latest + 40, start_time=time + 200)
    return LocalNetwork(chain, network.passphrase, PROTOCOL_VERSION, network.contracts)


def create_hub_market(network: RecordedNetwork) -> Place:
    """Close a ledger in which hub 9 of XOXNO has a market, which the pool contract publishes."""
    (xoxno,) = (item for item in LOCAL.deployments if item.protocol == "xoxno")
    parameters, contract = recorded("Params"), xoxno.addresses("pool")[0]
    pool = HubAsset(9, dict(parameters[1])[symbol("asset_id")][1])
    written = [entry(contract, vec(symbol("Params"), pool.value()), parameters)]
    written += [entry(contract, vec(symbol("State"), pool.value()), recorded("State"))]
    state = vec(u32(pool.hub), address(pool.token), u64(1), *[i128(1)] * 6)
    network.close(dict(written), [(contract, (symbol("market"), symbol("batch_state_update")), vec(state))])
    return "xoxno", xoxno.markets[0], pool.pool


def empty_reward_zones(network: RecordedNetwork) -> None:
    """Close a ledger in which no backstop of Blend rewards any pool any more."""
    backstops = [item.address("backstop") or "" for item in LOCAL.deployments if item.protocol == "blend"]
    network.close(dict(entry(backstop, symbol("RZ"), vec()) for backstop in backstops))


def test_nothing_is_lost(tmp_path: Path) -> None:
    """Zones emptied, factories silent but for one pool, events expired, another RPC: every pool, in each run."""
    network = RecordedNetwork(event_window=6)
    store = MemoryStore()
    with running(create_app(network)) as url:
        run(store, url, tmp_path)
        everything = published(store)
        assert {"alula": 3, "blend": 6, "k2": 4, "peridot": 4, "slender": 3, "xoxno": 4} == Counter(
            place[0] for place in everything
        )

        empty_reward_zones(network)
        market = network.deploy("new")
        hub_market = create_hub_market(network)
        second = run(store, url, tmp_path)
        new = published(store) - everything
        assert [("blend", market), hub_market[:2]] == sorted(markets_of(new))
        assert hub_market in new

        for _ in range(8):
            network.advance([])
        third = run(store, url, tmp_path)
        assert everything | new == published(store)
    with running(create_app(without_events(network))) as url:
        fourth = run(store, url, tmp_path)
        assert everything | new == published(store)
        memory = load_memory(store, network_id(LOCAL.passphrase))
        save_memory(FolderStore(tmp_path), memory)
        checks = [on_chain(settings_for(out, url)) for out in (tmp_path, tmp_path / "none")]
    assert [
        {"protocol": "blend", "market": market, "pool": None, "origin": "event"},
        {"protocol": "xoxno", "market": hub_market[1], "pool": hub_market[2], "origin": "event"},
    ] == second["discovered"]
    assert [[], []] == [third["discovered"], fourth["discovered"]]
    # v1's pools have no view: the new one is tried where the output remembers it, or not.
    assert [2, 1] == [len(check.without) for check in checks]
    assert not (tmp_path / "none").exists()
    assert markets_of(everything | new) <= {place[:2] for place in memory.markets}
    assert memory.markets.keys() == memory.confirmed()
    gaps = [[notice for notice in facts["notices"] if "are gone" in notice] for facts in (second, third, fourth)]
    assert [0, 1, 1] == [len(notices) for notices in gaps]
