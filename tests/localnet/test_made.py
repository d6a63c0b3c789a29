"""The made network: size, determinism, realism, and how it moves."""

from __future__ import annotations

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import entries
from exporter.ledger.codec.entries import ContractData, decode_contract_data, instance_of
from exporter.ledger.codec.scval_encode import address
from exporter.localnet.made import SOME, MadeNetwork


def read(network: MadeNetwork, key: bytes) -> ContractData:
    entry = network.chain.entry(key, network.chain.latest)
    assert entry is not None
    return decode_contract_data(entry.data)


def test_the_same_seed_makes_the_same_network() -> None:
    """Equal arguments give equal entries at every ledger, whatever was read in between; another seed gives others."""
    first, second, other = (MadeNetwork(pools=40, seed=seed, alula_markets=3, others=SOME) for seed in (3, 3, 4))
    for _ in range(5):
        first.advance()
        first.chain.state(first.chain.latest)
    for _ in range(5):
        second.advance()

    for ledger in range(first.chain.oldest, first.chain.latest + 1):
        assert first.chain.state(ledger) == second.chain.state(ledger)
    assert first.chain.state(first.chain.oldest) != other.chain.state(other.chain.oldest)


def test_protocols_stand_beside_each_other() -> None:
    """Without the other protocols the rest of the network is the same."""
    alone, every = MadeNetwork(pools=40), MadeNetwork(pools=40, alula_markets=3, others=SOME)
    for _ in range(3):
        alone.advance()
        every.advance()
    state = every.chain.state(every.chain.latest)

    assert alone.chain.state(alone.chain.latest).items() <= state.items()


def test_the_known_contracts_are_there() -> None:
    """Everything that the local network's lists name is there, with the code that a list states."""
    network = MadeNetwork(pools=40, alula_markets=3, others=SOME)
    for deployment in NETWORKS["made"].deployments:
        for known in deployment.contracts:
            code = instance_of(read(network, entries.instance_key(known.address))).wasm_hash
            assert known.wasm_hash in (None, (code or b"").hex()), known.address


def test_reserves_can_be_archived_or_missing() -> None:
    """Archived reserves show live_until 0 with their data, missing ones have no ResData, and both stay so."""
    network = MadeNetwork(pools=30, archived=3, missing=2)
    for _ in range(20):
        network.advance()

    assert (3, 2) == (len(network.archived), len(network.missing))
    for pairs, expected in ((network.archived, 0), (network.missing, None)):
        for market, reserve in pairs:
            key = entries.variant_key(market.address, "ResData", address(reserve.token))
            entry = network.chain.entry(key, network.chain.latest)
            assert expected == (entry.live_until if entry else None)
    rewards = {key for key, _ in network.blend_rewards.first_entries(network.markets, network.chain.latest)}
    state = network.chain.state(network.chain.latest)
    assert 6 == len([key for key in state.keys() - rewards if state[key].live_until == 0])
    with pytest.raises(ValueError, match="not that many reserves"):
        MadeNetwork(pools=3, archived=3, missing=1)
