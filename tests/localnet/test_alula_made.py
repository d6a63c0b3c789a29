"""The Alula markets of the made network: what is in them, and how they move."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import ContractData, decode_contract_data
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import Entry
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.alula import STATUSES, Market, Pool
from exporter.localnet.alula_made import AlulaMarkets
from exporter.localnet.made import MadeNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.alula.layout import decode_pool
from exporter.protocols.base import Candidate
from exporter.protocols.compute import compute
from tests.judges import alula_judge as judge
from tests.localnet.direct_source import DirectSource


@pytest.fixture(scope="module")
def network() -> MadeNetwork:
    """A network with eight Alula markets, as it begins."""
    return MadeNetwork(pools=20, alula_markets=8)


def pools_of(alula: AlulaMarkets) -> Iterator[tuple[Market, Pool]]:
    """All pools with their markets."""
    return ((market, pool) for market in alula.markets for pool in market.pools)


def pool_key(market: Market, pool: Pool) -> bytes:
    """The ledger key of a pool."""
    return entries.variant_key(market.address, "Pool", address(pool.address))


def read(network: MadeNetwork, key: bytes) -> ContractData:
    """A contract data entry at the latest ledger."""
    entry = network.chain.entry(key, network.chain.latest)
    assert entry is not None
    return decode_contract_data(entry.data)


def test_the_manager_vouches_for_every_market(network: MadeNetwork) -> None:
    """The manager that a market names has an entry for it, and no list (docs/protocols/alula.md, "Discovery")."""
    for market in network.alula.markets:
        vouched = read(network, entries.variant_key(market.manager, "DeployedMarket", address(market.address)))
        assert (scval.U64, 43_200) == vouched.value


def test_the_first_markets_have_their_conditions(network: MadeNetwork) -> None:
    """One in order, one with borrowing frozen and a stale price, one frozen and half configured, more of all kinds."""
    first, second, third, *more = network.alula.markets
    queued = read(network, entries.variant_key(third.address, "QueuedPoolSet", address(third.queued[0])))

    assert ("main", 3, 0) == (first.name, len(first.pools), first.status)
    assert all(pool.total_borrowed and pool.take_rate_fees_sum >= 0 for pool in first.pools)
    assert network.alula.stale in {pool.address for pool in second.pools}
    assert "BorrowFrozen" == STATUSES[second.status]
    assert "Frozen" == STATUSES[third.status]
    assert [0] == [pool.supply for pool in third.pools]
    assert scval.MAP == queued.value[0]
    assert third.queued[0] not in {pool.address for pool in third.pools}
    assert len({market.status for market in more}) > 1
    assert {7, 18} <= {pool.decimals for _, pool in pools_of(network.alula)}
    assert any(
        [pool.address for pool in market.pools] != sorted(pool.address for pool in market.pools)
        for market in network.alula.markets
    )


def test_each_ledger_changes_pools_as_operations_do() -> None:
    """A pool changes at each ledger, accrued to its close time; frozen markets stand still; lives are extended."""
    network = MadeNetwork(pools=0, changes_per_ledger=0, prices_per_ledger=0, alula_markets=6)
    keys = {pool_key(market, pool): (market, pool) for market, pool in pools_of(network.alula)}
    touched: Counter[str] = Counter()
    for _ in range(80):
        ledger = network.advance()
        time = network.chain.close_time(ledger)
        written = [key for key in keys if network.chain.state(ledger)[key].last_modified == ledger]
        assert 1 == len(written)
        market, pool = keys[written[0]]
        touched[market.address] += 1
        entry = network.chain.entry(written[0], ledger)
        assert entry is not None
        fields = {key[1]: item[1] for key, item in decode_contract_data(entry.data).value[1]}
        assert time == fields["last_accrual_timestamp"] == pool.last_accrual_timestamp
        assert (pool.total_borrowed, pool.total_j_tokens) == (fields["total_borrowed"], fields["total_j_tokens"])
        assert 720_000 <= (entry.live_until or 0) - ledger <= 734_400
    frozen = {market.address for market in network.alula.markets if market.status >= 5}
    assert frozen
    assert frozen.isdisjoint(touched)
    assert len(touched) > 1


def test_prices_stay_fresh_but_one() -> None:
    """At every ledger all prices but the stale one are at most 360 s old, and the stale one is older."""
    network = MadeNetwork(pools=0, alula_markets=3)
    alula = network.alula
    tokens = {pool.address for _, pool in pools_of(alula)}
    seen: set[int] = set()
    for _ in range(100):
        ledger = network.advance()
        for token in tokens:
            value = read(network, entries.variant_key(alula.oracle, "Price", address(token))).value
            fields = {key[1]: item[1] for key, item in value[1]}
            age = network.chain.close_time(ledger) - fields["timestamp"]
            assert (token == alula.stale) == (age > 360)
            assert fields["price"] > 0
            seen.add(fields["price"])
    assert len(seen) > 2 * len(tokens)


def test_pools_can_be_archived_or_missing() -> None:
    """Archived pools keep their data with live_until 0, missing ones are listed without an entry, and both stay so."""
    network = MadeNetwork(pools=5, alula_markets=3, alula_archived=2, alula_missing=1)
    for _ in range(20):
        network.advance()
    found = {
        pool_key(market, pool): network.chain.entry(pool_key(market, pool), network.chain.latest)
        for market, pool in pools_of(network.alula)
    }

    assert (2, 1) == (len(network.alula.archived), len(network.alula.missing))
    for market, pool in network.alula.archived:
        archived = found[pool_key(market, pool)]
        assert archived is not None
        assert 0 == archived.live_until
    assert [None] == [found[pool_key(market, pool)] for market, pool in network.alula.missing]
    assert 1 == sum(entry is None for entry in found.values())
    with pytest.raises(ValueError, match="not that many Alula pools"):
        MadeNetwork(pools=5, alula_markets=3, alula_archived=7)


def test_reading_while_the_network_moves() -> None:
    """While a ledger closes after every answer, what is read is the state of one ledger, exactly."""
    network = MadeNetwork(pools=3, alula_markets=4, alula_archived=1, alula_missing=1)
    module = PROTOCOLS["alula"]
    candidates = [Candidate("alula", market.address) for market in network.alula.markets]
    source = DirectSource(network, moving=True)
    reading = asyncio.run(read_at_one_ledger(source, lambda view: module.read(view, candidates, ())))
    ledger = reading.certificate.ledger
    tables = compute([reading.result], PROTOCOLS, ledger, network.chain.close_time(ledger))
    rows = {(row["market"], row["pool"]): row for row in tables.pools.rows(named=True)}

    assert network.chain.latest > ledger
    assert {"archived", "absent"} == {item.reason for item in tables.unread}
    assert len(list(pools_of(network.alula))) == len(rows) + 2
    for market, pool in pools_of(network.alula):
        if (market.address, pool.address) not in rows:
            continue
        raw = network.chain.entry(pool_key(market, pool), ledger)
        assert raw is not None
        judged = judge.project(decode_pool(Entry(pool_key(market, pool), raw)).numbers)
        row = rows[market.address, pool.address]
        assert {name: judged[name] for name in judged if name in row} == {
            name: row[name] for name in judged if name in row
        }
