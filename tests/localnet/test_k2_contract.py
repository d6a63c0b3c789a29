"""The views of the made K2 contracts: their shapes and errors, and that the exporter agrees with their numbers."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.source import ContractCall
from exporter.localnet.chain import Change
from exporter.localnet.contracts import Simulation
from exporter.localnet.k2 import reserve_entry
from exporter.protocols.base import Compared, ViewCall
from exporter.protocols.k2.views import K2Views
from tests.localnet.k2_network import K2Network, read, tables_of

FOREVER = 70_000_000


@pytest.fixture
def network() -> K2Network:
    """Five markets, some ledgers after their start."""
    made = K2Network(count=5)
    for _ in range(30):
        made.advance()
    return made


def simulate(network: K2Network, contract: str, function: str, *arguments: ScVal) -> Simulation:
    """A simulated call."""
    return network.contracts.simulate(network.chain, network.chain.latest, ContractCall(contract, function, arguments))


def result(simulation: Simulation) -> Any:
    """The payload of the result of a call that must not fail."""
    assert simulation.error is None
    assert simulation.result is not None
    return decode_scval(simulation.result)[1]


def error(simulation: Simulation) -> str:
    """The error of a call that must fail."""
    assert simulation.result is None
    return simulation.error or ""


def compared(network: K2Network, function: str | None = None) -> list[Compared]:
    """The exporter's numbers beside the contracts', as `exporter check` has them; ``function`` is the one to call."""
    reading = read(network)
    tables = tables_of(network, reading)
    raw = {
        (reading.result.columns["market"][index], reading.result.columns["pool"][index]): {
            name: values[index] for name, values in reading.result.columns.items()
        }
        for index in range(len(reading.result.columns["market"]))
    }
    views = K2Views()
    found: list[Compared] = []
    for asked in views.calls(reading.result):
        assert isinstance(asked, ViewCall)
        if function is not None and asked.call.function != function:
            (asked,) = asked.instead
        value = network.contracts.simulate(network.chain, reading.certificate.ledger, asked.call)
        assert value.result is not None
        rows = {
            row["pool"]: row | {"raw": raw[row["market"], row["pool"]]}
            for row in tables.pools.rows(named=True)
            if row["market"] == asked.market
        }
        decoded = decode_scval(value.result)
        assert views.time_of(decoded) in (None, tables.close_time)
        found += views.compare(asked, decoded, rows, tables.close_time)
    return found


def test_the_borrow_index_alone(network: K2Network) -> None:
    """Where a router has no other view, its current borrow index is compared."""
    found = compared(network, "get_current_var_borrow_idx")

    assert {"borrow_index"} == {item.field for item in found}
    assert [] == [item for item in found if not item.agrees]


def test_a_difference_shows(network: K2Network) -> None:
    """The views compare for real: a state that differs by one unit of a scaled total differs in the total."""
    reading = read(network)
    (asked, *_) = K2Views().calls(reading.result)
    assert isinstance(asked, ViewCall)
    tables = tables_of(network, reading)
    row = tables.pools.filter((tables.pools["market"] == asked.market) & (tables.pools["pool"] == asked.pools[0])).row(
        0, named=True
    )
    raw = {name: values[0] for name, values in reading.result.columns.items()}
    wrong = row | {"raw": raw | {"total_supply_scaled": int(str(raw["total_supply_scaled"])) + 10**9}}
    simulation = simulate(network, asked.market, asked.call.function, *asked.call.arguments)
    assert simulation.result is not None
    value = decode_scval(simulation.result)
    found = list(K2Views().compare(asked, value, {asked.pools[0]: wrong}, tables.close_time))

    assert "total_supplied" in {item.field for item in found if not item.agrees}
    assert [] == list(K2Views().compare(asked, value, {}, tables.close_time))


def test_totals_of_the_tokens_are_indexed(network: K2Network) -> None:
    """total_supply() of both tokens is the published total: both ask the router for its current index."""
    tables = tables_of(network, read(network))
    market = network.k2.markets[0]
    rows = {row["pool"]: row for row in tables.pools.rows(named=True) if row["market"] == market.address}
    for reserve in market.reserves:
        supply = result(simulate(network, reserve.a_token, "total_supply"))
        assert rows[reserve.asset]["total_supplied"] == supply
        debt = result(simulate(network, reserve.debt_token, "total_supply"))
        assert rows[reserve.asset]["total_borrowed"] == debt
        assert reserve.debt_scaled == result(simulate(network, reserve.debt_token, "scaled_total_supply"))


def test_views_of_a_router(network: K2Network) -> None:
    """The list of reserves, the pause, the stored reserve, and errors for what is not there."""
    market = network.k2.markets[1]
    asset = market.reserves[0].asset

    assert result(simulate(network, market.address, "is_paused"))
    assert [item.asset for item in market.reserves] == [
        found for _, found in result(simulate(network, market.address, "get_reserves_list"))
    ]
    stored = dict(result(simulate(network, market.address, "get_reserve_data", address(asset))))
    assert (scval.U64, market.reserves[0].last_update) == stored[symbol("last_update_timestamp")]
    assert "#24)" in error(simulate(network, market.address, "get_reserve_data", address(market.address)))
    assert "WasmVm, MissingValue" in error(simulate(network, market.address, "no_such"))
    assert "UnexpectedSize" in error(simulate(network, market.address, "get_reserve_data"))


def test_prices_of_an_oracle(network: K2Network) -> None:
    """Both functions give the same, the published source has one of them, and one bad asset fails them all."""
    k2 = network.k2
    good = vec(symbol("Stellar"), address(k2.markets[1].reserves[0].asset))
    stale, unknown = vec(symbol("Stellar"), address(k2.stale)), vec(symbol("Stellar"), address(k2.oracle))
    fresh, plain = "get_asset_prices_vec_fresh", "get_asset_prices_vec"

    assert result(simulate(network, k2.oracle, fresh, vec(good))) == result(
        simulate(network, k2.oracle, plain, vec(good))
    )
    assert "#4)" in error(simulate(network, k2.oracle, fresh, vec(good, stale)))
    assert "#7)" in error(simulate(network, k2.oracle, fresh, vec(good, unknown)))
    assert "WasmVm, MissingValue" in error(simulate(network, k2.plain_oracle, fresh, vec(good)))


def test_an_update_of_the_future_has_no_index(network: K2Network) -> None:
    """A reserve of a later time than the ledger's is an error of the router, and is not published either."""
    chain = network.chain
    market = network.k2.markets[0]
    reserve = market.reserves[0]
    reserve.last_update = chain.close_time(chain.latest) * 1_000
    chain.close([Change(*reserve_entry(market, reserve), FOREVER)], close_time=chain.close_time(chain.latest) + 5)
    tables = tables_of(network, read(network))

    asked = simulate(network, market.address, "get_current_var_borrow_idx", address(reserve.asset))
    assert "#37)" in error(asked)
    assert [(market.address, reserve.asset, "overflow")] == [
        (item.market, item.pool, item.reason) for item in tables.unread
    ]
