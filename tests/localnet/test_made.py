"""The made network: size, determinism, realism, and how it moves."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import ContractData, decode_contract_data, instance_of
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.localnet.made import SOME, MadeNetwork
from exporter.localnet.made_assets import FeedKind
from tests.localnet.rpc_client import stellar_asset


@pytest.fixture(scope="module")
def made() -> MadeNetwork:
    """A network of a thousand pools, as it begins."""
    return MadeNetwork(pools=1_000, seed=5)


def read(network: MadeNetwork, key: bytes) -> ContractData:
    entry = network.chain.entry(key, network.chain.latest)
    assert entry is not None
    return decode_contract_data(entry.data)


@pytest.mark.parametrize("pools", [0, 1, 2, 12, 60, 333])
def test_the_number_of_pools_is_exact(pools: int) -> None:
    """All markets together have as many reserves as were asked for, and one more market is empty in Setup."""
    network = MadeNetwork(pools=pools)

    assert pools == sum(len(market.reserves) for market in network.markets)
    assert (6, False, []) == (
        network.markets[-1].status,
        network.markets[-1].listed,
        network.markets[-1].reserves,
    )
    assert len({market.address for market in network.markets}) == len(network.markets)


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
    for deployment in NETWORKS["local"].deployments:
        for known in deployment.contracts:
            code = instance_of(read(network, entries.instance_key(known.address))).wasm_hash
            assert known.wasm_hash in (None, (code or b"").hex()), known.address


def test_the_network_has_what_real_ones_have(made: MadeNetwork) -> None:
    """All statuses, repeated names and symbols, decimals from 6 to 18, unused and over-used reserves, and losses."""
    reserves = [reserve for market in made.markets for reserve in market.reserves]

    assert set(range(7)) == {market.status for market in made.markets}
    assert max(Counter(market.name for market in made.markets).values()) > 1
    assert max(Counter(token.symbol for token in made.tokens).values()) > 1
    assert {6, 7, 8, 18} <= {token.decimals for token in made.tokens}
    assert {reserve.config.decimals for reserve in reserves} <= {token.decimals for token in made.tokens}
    assert any(reserve.b_supply == 0 for reserve in reserves)
    assert any(reserve.d_supply == 0 and reserve.b_supply for reserve in reserves)
    assert any(reserve.b_rate < reserve.generation.rate_scale for reserve in reserves)
    assert any(reserve.borrowed > reserve.supplied for reserve in reserves)
    assert not all(reserve.config.enabled for reserve in reserves)
    assert {7, 14} == {oracle.decimals for oracle in made.oracles}


def test_every_kind_of_feed_answers_as_its_kind(made: MadeNetwork) -> None:
    """Normal, constant, missing, unknown, stale, zero and negative prices all occur and answer accordingly."""
    now = made.chain.close_time(made.chain.latest)
    seen: Counter[FeedKind] = Counter()
    for feed in made.feeds:
        call = ContractCall(feed.oracle.contract, "lastprice", (stellar_asset(feed.token),))
        simulation = made.contracts.simulate(made.chain, made.chain.latest, call)
        seen[feed.kind] += 1
        if feed.kind is FeedKind.UNKNOWN:
            assert simulation.error is not None
            continue
        assert simulation.result is not None
        value = scval.decode_scval(simulation.result)
        if feed.kind is FeedKind.MISSING:
            assert (scval.VOID, None) == value
            continue
        fields = {key[1]: item[1] for key, item in value[1]}
        age = now - fields["timestamp"]
        assert (feed.kind is FeedKind.STALE) == (age > 86_400)
        assert (feed.kind is FeedKind.CONSTANT) <= (age == 0)
        signs = {FeedKind.ZERO: 0, FeedKind.NEGATIVE: -1}
        assert signs.get(feed.kind, 1) == (fields["price"] > 0) - (fields["price"] < 0)
    assert set(FeedKind) == set(seen)
    assert seen[FeedKind.NORMAL] > 0.8 * len(made.feeds)


def test_an_expiring_price_vanishes() -> None:
    """A temporary price that is not renewed is gone after a few ledgers, with no change of its entry."""
    network = MadeNetwork(pools=1_000, seed=5)
    feed = next(feed for feed in network.feeds if feed.kind is FeedKind.EXPIRING)
    for _ in range(4):
        assert network.chain.entry(feed.key, network.chain.latest) is not None
        network.advance()

    assert network.chain.entry(feed.key, network.chain.latest) is None


def test_each_ledger_changes_a_few_reserves_as_operations_do() -> None:
    """At each ledger so many ResData and prices change, accrued to its close time, and nothing else does."""
    network = MadeNetwork(pools=200, seed=2, changes_per_ledger=4, prices_per_ledger=3, close_seconds=6)
    data_of = {
        entries.variant_key(market.address, "ResData", address(reserve.token)): reserve
        for market in network.markets
        for reserve in market.reserves
    }
    price_keys = {feed.key for feed in network.feeds if feed.has_price_entry}
    rewards = {key for key, _ in network.blend_rewards.first_entries(network.markets, network.chain.latest)}
    for _ in range(30):
        before = network.chain.state(network.chain.latest)
        ledger = network.advance()
        time = network.chain.close_time(ledger)
        after = network.chain.state(ledger)
        written = {key for key in after if after[key].last_modified == ledger}
        assert ledger == network.chain.latest
        assert 6 == time - network.chain.close_time(ledger - 1)
        assert 4 == len(written & data_of.keys())
        assert 3 == len(written & price_keys)
        assert 7 == len(written - rewards)
        assert all(before[key] == after[key] for key in after if key not in written)
        for key in written & data_of.keys():
            fields = {name[1]: value[1] for name, value in decode_contract_data(after[key].data).value[1]}
            assert time == fields["last_time"]
            assert fields == {name: getattr(data_of[key], name) for name in fields}
            assert (after[key].live_until or 0) >= ledger + 45 * 17_280


def test_the_first_pool_goes_on_paying() -> None:
    """It takes the rewards that it is given before a week is over; of the others some have run out after a month."""
    network = MadeNetwork(pools=80, seed=3, close_seconds=86_400)
    for _ in range(30):
        network.advance()
    time = network.chain.close_time(network.chain.latest)
    first, *others = network.blend_rewards.insured.values()
    renewed = [item for item in (first.paid, *first.sides.values()) if item and item.renewed]

    assert renewed
    assert all(item.expiration > time for item in renewed)
    assert all(item.expiration < time for insured in others for item in insured.sides.values())


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
