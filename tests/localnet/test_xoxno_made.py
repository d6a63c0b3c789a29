"""The XOXNO hub markets of the made network: what is in them, how they move, and what the exporter makes of them."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.ledger.codec.entries import decode_contract_data
from exporter.localnet.xoxno import state_entry
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.xoxno import Xoxno
from tests.judges import xoxno_judge as judge
from tests.localnet.test_xoxno import XoxnoNetwork, judged


def test_each_ledger_changes_pools_as_operations_do() -> None:
    """A pool changes at each ledger, accrued to its close time in milliseconds; lives are extended; events are kept."""
    network = XoxnoNetwork(8)
    keys = {state_entry(network.xoxno.pool, market)[0]: market for market in network.xoxno.markets}
    touched: Counter[str] = Counter()
    for _ in range(60):
        ledger = network.advance()
        state = network.chain.state(ledger)
        written = [key for key in keys if state[key].last_modified == ledger]
        assert 1 == len(written)
        market = keys[written[0]]
        touched[f"{market.hub}-{market.token}"] += 1
        fields = {name: item[1] for (_, name), item in decode_contract_data(state[written[0]].data).value[1]}
        assert network.time * 1_000 == fields["last_timestamp"]
        assert (market.supplied, market.borrowed) == (fields["supplied"], fields["borrowed"])
        assert ledger < (state[written[0]].live_until or 0)
    assert len(touched) > 4
    assert 60 == len(network.xoxno.events)


def test_prices_stay_fresh_but_one() -> None:
    """Prices are renewed before they are too old, but for the stale one."""
    network = XoxnoNetwork(8)
    for _ in range(20):
        network.advance(250)
    tables = network.compute(network.read())
    tokens = dict(tables.pools.select("pool", "token_address").iter_rows())
    unpriced = {tokens[item.pool] for item in tables.unpriced}

    assert {network.xoxno.stale, network.xoxno.unpriced, network.xoxno.deviating} == unpriced


def test_pools_can_be_archived_or_missing() -> None:
    """Archived states and missing ones make their pools unread, and stay so."""
    network = XoxnoNetwork(8, archived=2, missing=1)
    for _ in range(20):
        network.advance()
    tables = network.compute(network.read())

    assert {"archived": 2, "absent": 1} == Counter(item.reason for item in tables.unread)
    assert [(8, 3)] == tables.markets.select("pool_count", "unread_count").rows()
    with pytest.raises(ValueError, match="not that many XOXNO pools"):
        XoxnoNetwork(2, archived=3)


def test_a_new_market_is_found_by_its_events() -> None:
    """A hub market that no list has is named by its creation and read then, with the listed ones."""
    network = XoxnoNetwork(8)
    before = network.compute(network.read())
    made = network.xoxno.create(5, network.tokens[0], network.time)
    network.advance()
    named = {item for event in network.xoxno.events for item in Xoxno().candidates_in(event)}
    after = network.compute(network.read(*named))

    assert {Candidate("xoxno", network.xoxno.controller, Origin.EVENT, f"5-{made.token}")} == named
    assert set(after.pools["pool"]) - set(before.pools["pool"]) == {f"5-{made.token}"}
    assert 0 == after.pools.filter(after.pools["pool"] == f"5-{made.token}")["total_supplied"].item()


def test_unlisted_markets_show_when_they_change() -> None:
    """Of a market that is in no list any change of state is a sign."""
    network = XoxnoNetwork(12)
    for _ in range(120):
        network.advance()
    named = {item.pool for event in network.xoxno.events for item in Xoxno().candidates_in(event)}

    assert {f"{market.hub}-{market.token}" for market in network.xoxno.markets[8:]} == named


def test_reading_while_the_network_moves() -> None:
    """While a ledger closes after every answer, what is read is the state of one ledger, as the judge has it."""
    network = XoxnoNetwork(8)
    reading = network.read(moving=True)
    ledger = reading.certificate.ledger
    tables = network.compute(reading)
    columns = reading.result.columns

    assert network.chain.latest > ledger
    assert 8 == tables.pools.height
    for position, pool in enumerate(columns["pool"]):
        raw = {name: values[position] for name, values in columns.items() if isinstance(values[position], int)}
        expected = judge.project(raw, network.chain.close_time(ledger))  # type: ignore[arg-type]
        (row,) = [row for row in tables.pools.rows(named=True) if row["pool"] == pool]
        assert expected["total_supplied"] == row["total_supplied"]
        assert expected["accrued_borrow_index"] == row["borrow_index"]
        assert {name: row[name] for name in expected if name in row}.items() <= expected.items()


def test_every_made_market_has_rates() -> None:
    """Whatever the seed, no market of the network is unreadable by itself, and its rates are the judge's."""
    for seed in range(5):
        network = XoxnoNetwork(20, seed=seed)
        for market in network.xoxno.markets:
            views = judge.views(judged(market))
            assert views["borrow_rate"] >= views["supply_rate"] >= 0
            assert 0 <= views["utilization"] < judge.RAY
