"""All protocols over whole runs into one output: all markets are found, a new one too, and none is ever lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Settings
from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import CheckError
from exporter.job.known_markets_file import load_memory, save_memory
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, vec
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import NETWORK, PROTOCOL_VERSION, RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.protocols.xoxno.layout import HubAsset
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from tests import job_runs
from tests.job_runs import on_chain, settings_for
from tests.protocols.made_ledger import entry
from tests.protocols.protocol_facts import recorded_pools
from tests.recorded_entries import recorded

LOCAL = NETWORKS[NETWORK]


def without_events(network: RecordedNetwork) -> LocalNetwork:
    """The recording forty ledgers later, behind a server that begins there and never saw an event."""
    latest = network.chain.latest
    time = network.chain.close_time(latest)
    chain = Chain(network.chain.state(latest), start_ledger=latest + 40, start_time=time + 200)
    return LocalNetwork(chain, network.passphrase, PROTOCOL_VERSION, network.contracts)


def create_hub_market(network: RecordedNetwork) -> tuple[str, str]:
    """Close a ledger in which hub 9 of XOXNO has a market, which the pool contract publishes; gives market and pool."""
    (xoxno,) = (item for item in LOCAL.deployments if item.protocol == "xoxno")
    parameters, contract = recorded("Params"), xoxno.addresses("pool")[0]
    pool = HubAsset(9, dict(parameters[1])[symbol("asset_id")][1])
    written = [entry(contract, vec(symbol("Params"), pool.value()), parameters)]
    written += [entry(contract, vec(symbol("State"), pool.value()), recorded("State"))]
    state = vec(u32(pool.hub), address(pool.token), u64(1), *[i128(1)] * 6)
    network.close(dict(written), [(contract, (symbol("market"), symbol("batch_state_update")), vec(state))])
    return xoxno.markets[0], pool.pool


def on_chain_refused(settings: Settings) -> str:
    """Why nothing can be compared with contracts whose answers were recorded forty ledgers ago."""
    with pytest.raises(CheckError) as error:
        on_chain(settings)
    return str(error.value)


@pytest.mark.slow
def test_nothing_is_lost(tmp_path: Path) -> None:
    """Every run reads every pool, with empty zones, factories that know one pool, expired events and another RPC."""
    network, store = RecordedNetwork(window=6), MemoryStore()
    counts, facts = list[tuple[int, int, int]](), list[dict[str, Any]]()

    def run(url: str) -> None:
        code, report = job_runs.run(settings_for(tmp_path, url), store)
        stored = store.get("v1/system/status.json")
        status = json.loads(stored.data if stored else b"{}")
        counts.append((code, status["pool_count"], status["unread_count"]))
        facts.append(report)

    backstops = [item.address("backstop") or "" for item in LOCAL.deployments if item.protocol == "blend"]
    with running(create_app(network)) as url:
        run(url)
        network.close(dict(entry(backstop, symbol("RZ"), vec()) for backstop in backstops))
        market, (controller, pool) = network.deploy("new"), create_hub_market(network)
        run(url)
        for _ in range(8):
            network.advance([])
        run(url)
    with running(create_app(without_events(network))) as url:
        run(url)
        memory = load_memory(store, network_id(LOCAL.passphrase))
        save_memory(FolderStore(tmp_path), memory)
        refused = [on_chain_refused(settings_for(out, url)) for out in (tmp_path, tmp_path / "none")]

    pools = recorded_pools()
    assert [(0, pools, 0), *[(0, pools + 3, 0)] * 3] == counts
    assert [
        [],
        [
            {"protocol": "blend", "market": market, "pool": None, "origin": "event"},
            {"protocol": "xoxno", "market": controller, "pool": pool, "origin": "event"},
        ],
        [],
        [],
    ] == [each["discovered"] for each in facts]
    # v1's pools have no getter. The new pool is not listed, so nobody asks its contract, whatever the output remembers.
    assert [1, 1] == [reason.count("Blend v1 pools have no getter of a reserve") for reason in refused]
    assert not (tmp_path / "none").exists()
    assert memory.markets.keys() == memory.confirmed()
    assert [0, 0, 1, 1] == [sum("are gone" in notice for notice in each["notices"]) for each in facts]
