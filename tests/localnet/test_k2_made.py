"""The made K2 markets: what is in them, how they move, and that the exporter reads them exactly while they do."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.ledger.codec.entries import instance_key
from exporter.localnet.k2 import BORROWING, FROZEN, Market, Reserve
from exporter.protocols.k2.layout import reserve_key
from exporter.tables import VALID_PRICE
from tests.judges import k2_judge as judge
from tests.localnet.k2_network import K2Network, read, tables_of


def reserves_of(network: K2Network) -> list[tuple[Market, Reserve]]:
    """All reserves with their markets."""
    return [(market, reserve) for market in network.k2.markets for reserve in market.reserves]


def judged(reserve: Reserve, now: int) -> dict[str, int]:
    """The judge's numbers of a made reserve."""
    state = {
        "liquidity_index": reserve.liquidity_index,
        "variable_borrow_index": reserve.borrow_index,
        "current_liquidity_rate": reserve.liquidity_rate,
        "current_variable_borrow_rate": reserve.borrow_rate,
        "last_update_timestamp": reserve.last_update,
        "reserve_factor": reserve.reserve_factor,
        "total_supply_scaled": reserve.supply_scaled,
        "total_debt_scaled": reserve.debt_scaled,
        "base_variable_borrow_rate": reserve.model.base,
        "optimal_utilization_rate": reserve.model.optimal,
        "variable_rate_slope1": reserve.model.slope1,
        "variable_rate_slope2": reserve.model.slope2,
    }
    return judge.project(state, now)


def test_the_first_markets_have_their_conditions() -> None:
    """A stale price, a frozen reserve and one with the default model; a paused market; one just made."""
    first, second, third, *_ = K2Network().k2.markets

    assert [False, True, False] == [market.paused for market in (first, second, third)]
    assert [True, False, True, True] == [reserve.own_model for reserve in first.reserves]
    assert first.reserves[3].flags & FROZEN
    assert all(reserve.flags & BORROWING for reserve in first.reserves)
    assert K2Network().k2.stale in {reserve.asset for reserve in first.reserves}
    assert [(0, 0)] == [reserve.totals() for reserve in third.reserves]
    assert first.oracle != third.oracle


def test_each_ledger_changes_reserves_as_operations_do() -> None:
    """A reserve and one of its tokens change at each ledger, accrued to its time; a paused market stands still."""
    network = K2Network(count=6)
    keys = {reserve_key(market.address, item.asset): (market, item) for market, item in reserves_of(network)}
    touched: Counter[str] = Counter()
    for _ in range(60):
        ledger = network.advance()
        state = network.chain.state(ledger)
        (key,) = [key for key in keys if state[key].last_modified == ledger]
        market, reserve = keys[key]
        touched[market.address] += 1
        tokens = [instance_key(token) for token in (reserve.a_token, reserve.debt_token)]
        assert 1 == sum(state[token].last_modified == ledger for token in tokens)
        assert network.chain.close_time(ledger) == reserve.last_update
        supplied, borrowed = reserve.totals()
        assert 0 <= borrowed <= supplied or borrowed == 0
    assert network.k2.markets[1].address not in touched
    assert len(touched) > 1


@pytest.mark.parametrize("seed", [1, 2])
def test_reading_while_the_network_moves(seed: int) -> None:
    """While a ledger closes after every answer, what is read is the state of one ledger, exactly."""
    network = K2Network(count=6, seed=seed, archived=1, missing=1)
    for _ in range(20):
        network.advance()
    reading = read(network, moving=True)
    tables = tables_of(network, reading)
    ledger = reading.certificate.ledger
    now = network.chain.close_time(ledger)
    rows = {(row["market"], row["pool"]): row for row in tables.pools.rows(named=True)}
    compared = 0

    assert network.chain.latest > ledger
    assert {"archived", "absent"} == {item.reason for item in tables.unread}
    assert len(reserves_of(network)) == len(rows) + 2
    for market, reserve in reserves_of(network):
        row = rows.get((market.address, reserve.asset))
        if row is None or reserve.last_update > now:  # unread, or changed after the ledger that was read
            continue
        expected = judged(reserve, now)
        compared += 1
        assert {name: expected[name] for name in expected if name in row} == {
            name: row[name] for name in expected if name in row
        }
    assert compared > len(rows) // 2


def test_one_stale_price_costs_one_pool_its_price() -> None:
    """The stale price fails the call for the whole oracle; asked one by one, only that token has none."""
    network = K2Network()
    tables = tables_of(network, read(network))
    stale = tables.pools.filter(tables.pools["pool"] == network.k2.stale)

    assert ["get_asset_prices_vec_fresh() failed: HostError: Error(Contract, #4)"] == stale["price_reason"].to_list()
    others = tables.pools.filter(tables.pools["pool"] != network.k2.stale)
    assert {VALID_PRICE} == set(others["price_reason"])
    assert [] == tables.notices
