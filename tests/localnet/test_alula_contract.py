"""The views of the made Alula markets: their structs and errors, and that the exporter agrees with their numbers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from exporter.compute import Tables, compute
from exporter.ledger import scval
from exporter.ledger.entries import TEMPORARY, data_key
from exporter.ledger.scval import ScVal, decode_scval
from exporter.ledger.scval_encode import address, symbol
from exporter.ledger.source import ContractCall
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.alula_entries import Market, cached_price_entry, cached_price_key, pool_entry
from exporter.localnet.alula_pool import Curve, PoolConfig
from exporter.localnet.chain import Change
from exporter.localnet.contracts import Simulation
from exporter.localnet.made import MadeNetwork
from exporter.localnet.oracle_contract import price_entry
from exporter.networks import NETWORKS
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin
from exporter.tables import VALID_PRICE
from tests.localnet.direct_source import DirectSource

FOREVER = 70_000_000


@pytest.fixture
def network() -> MadeNetwork:
    """A network with five Alula markets, some ledgers after its start."""
    made = MadeNetwork(pools=3, alula_markets=5)
    for _ in range(40):
        made.advance()
    return made


def view(network: MadeNetwork, market: Market, function: str = "get_market_data", *arguments: ScVal) -> Simulation:
    """A simulated call of a market."""
    call = ContractCall(market.address, function, arguments)
    return network.contracts.simulate(network.chain, network.chain.latest, call)


def plain(value: ScVal) -> Any:
    """A value as Python has it: structs as dicts, in the ledger's order."""
    kind, payload = value
    if kind == scval.MAP:
        return {name: plain(item) for (_, name), item in payload}
    return [plain(item) for item in payload] if kind == scval.VEC else payload


def result(simulation: Simulation) -> Any:
    """The result of a call that must not fail."""
    assert simulation.error is None
    assert simulation.result is not None
    return plain(decode_scval(simulation.result))


def exported(network: MadeNetwork) -> Tables:
    """What the exporter makes of the network's Alula markets."""
    candidates = [Candidate("alula", market.address, Origin.CONFIGURATION) for market in network.alula.markets]
    module = PROTOCOLS["alula"]
    reading = asyncio.run(read_at_one_ledger(DirectSource(network), lambda view: module.read(view, candidates, ())))
    ledger = reading.certificate.ledger
    return compute([reading.result], PROTOCOLS, ledger, network.chain.close_time(ledger))


def change(network: MadeNetwork, *entries: tuple[bytes, bytes]) -> None:
    """Close a ledger in which these entries are written."""
    chain = network.chain
    chain.close([Change(*entry, FOREVER) for entry in entries], close_time=chain.close_time(chain.latest) + 5)


def test_the_exporter_agrees_with_the_views(network: MadeNetwork) -> None:
    """Every number of the exporter is the one that the market's own view has at this ledger, field by field."""
    tables = exported(network)
    compared = 0
    for market in network.alula.markets:
        rows = {row["pool"]: row for row in tables.pools.rows(named=True) if row["market"] == market.address}
        for pool in market.pools:
            row = rows[pool.address]
            simulation = view(network, market, "get_pool_data", address(pool.address))
            if pool.address == network.alula.stale:
                assert row["price_reason"].startswith("the price is ")
                assert "Error(Contract, #501)" in (simulation.error or "")
                continue
            data = result(simulation)
            compared += 1
            assert {
                "supply_apy_bps": data["apy"]["supply_bps"],
                "borrow_apy_bps": data["apy"]["borrow_bps"],
                "supply_index": data["j_token_rate_floor_bps"],
                "borrow_index": data["d_token_rate_ceil_bps"],
                "oracle_price": data["oracle_asset_price"],
                "total_supplied": data["total_supply"],
                "total_borrowed": data["pool"]["total_borrowed"],
                "total_collateral": data["pool"]["total_collateral"],
                "rate_modifier": data["pool"]["interest_rate_modifier_bps"],
                "last_accrual_time": data["pool"]["last_accrual_timestamp"],
                "backstop_credit": data["pool"]["take_rate_fees_sum"],
                "decimals": data["pool"]["token_decimals"],
                "token_address": data["pool"]["token_address"],
                "price_reason": VALID_PRICE,
            } == {name: row[name] for name in row if name in {
                "supply_apy_bps", "borrow_apy_bps", "supply_index", "borrow_index", "oracle_price", "total_supplied",
                "total_borrowed", "total_collateral", "rate_modifier", "last_accrual_time", "backstop_credit",
                "decimals", "token_address", "price_reason",
            }}  # fmt: skip
    assert compared >= 6
    assert compared + 1 == tables.pools.height


def test_market_data(network: MadeNetwork) -> None:
    """The view has the state of the market, the oracle's decimals and all pools in the order of their registration."""
    market = network.alula.markets[0]
    data = result(view(network, market))

    assert ["global_state", "oracle_price_decimals", "pools_data"] == list(data)
    assert {
        "admin": market.admin, "bad_debt_lock_d": 43_200, "deployer": market.manager, "insolvency_ltv_bps": 9_850,
        "insurance_fund": market.insurance_fund, "is_owned": True, "max_positions": 10,
        "min_collateral_value_cents": 500, "name": b"main", "oracle": market.oracle, "status": 0,
        "update_in_queue_period": 43_200,
    } == data["global_state"]  # fmt: skip
    assert 14 == data["oracle_price_decimals"]
    assert [pool.address for pool in market.pools] == [item["pool"]["pool_address"] for item in data["pools_data"]]
    assert [
        "apy", "d_token_rate_ceil_bps", "j_token_rate_floor_bps", "oracle_asset_price", "pool",
        "total_available_adjusted", "total_supply",
    ] == list(data["pools_data"][0])  # fmt: skip
    assert data["pools_data"] == [
        result(view(network, market, "get_pool_data", address(pool.address))) for pool in market.pools
    ]


def test_a_bad_price_fails_the_whole_view(network: MadeNetwork) -> None:
    """One stale price, no price, or one that is not positive fails the call with its own code (facts/alula.md 3)."""
    stale = view(network, network.alula.markets[1])
    assert "HostError: Error(Contract, #501)" == (stale.error or "").split("\n")[0]

    market = network.alula.markets[0]
    token = market.pools[1].address
    now = network.chain.close_time(network.chain.latest) + 5
    for price, time, code in ((0, now, 502), (-3, now, 502), (5, now - 361, 501), (5, now + 10**6, 501)):
        change(network, price_entry(market.oracle, token, price, time, 1))
        assert f"Error(Contract, #{code})" in (view(network, market).error or "")
    key, _ = price_entry(market.oracle, token, 1, 1, 1)
    network.chain.close([Change(key, None)], close_time=network.chain.close_time(network.chain.latest) + 5)
    assert "Error(Contract, #500)" in (view(network, market).error or "")


def test_missing_pools(network: MadeNetwork) -> None:
    """An unknown pool is error 101; a listed one without an entry fails the market's view with error 0."""
    market = network.alula.markets[0]
    assert "#101)" in (view(network, market, "get_pool_data", address(market.address)).error or "")
    key, _ = pool_entry(market, market.pools[0])
    network.chain.close([Change(key, None)], close_time=network.chain.close_time(network.chain.latest) + 5)

    assert "#0)" in (view(network, market).error or "")


def test_a_curve_without_result(network: MadeNetwork) -> None:
    """A division by zero or a yield that does not fit is error 9, and the exporter reads the other pools."""
    market = network.alula.markets[0]
    for pool, config, modifier in (
        (market.pools[0], PoolConfig(Curve(kink2_ur_bps=10_000)), 10_000),
        (market.pools[1], PoolConfig(), 100_000),
    ):
        pool.config, pool.total_available, pool.total_borrowed = config, 0, 10**9
        pool.interest_rate_modifier_bps = modifier
        change(network, pool_entry(market, pool))
        assert "#9)" in (view(network, market, "get_pool_data", address(pool.address)).error or "")
    tables = exported(network)

    assert {pool.address: reason for pool, reason in zip(market.pools, ("inconsistent", "overflow"), strict=False)} == {
        item.pool: item.reason for item in tables.unread if item.market == market.address
    }


def test_cached_price_of_the_same_ledger(network: MadeNetwork) -> None:
    """A cached price counts in the ledger in which it was written, and in no other (facts/alula.md 1.3)."""
    market = network.alula.markets[0]
    pool = market.pools[0].address
    time = network.chain.close_time(network.chain.latest) + 5
    change(network, cached_price_entry(market.address, pool, 777, time))
    assert 777 == result(view(network, market, "get_pool_data", address(pool)))["oracle_asset_price"]
    change(network)

    assert 777 != result(view(network, market, "get_pool_data", address(pool)))["oracle_asset_price"]
    assert network.chain.entry(data_key(market.address, cached_price_key(pool), TEMPORARY), network.chain.latest)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("get_user_obligations", ()),
        ("get_market_data", (symbol("x"),)),
        ("get_pool_data", ()),
        ("get_pool_data", (symbol("x"),)),
    ],
)
def test_calls_that_are_none(network: MadeNetwork, function: str, arguments: tuple[ScVal, ...]) -> None:
    """A function that does not exist, and arguments that do not fit, fail."""
    assert view(network, network.alula.markets[0], function, *arguments).error is not None


def test_footprint(network: MadeNetwork) -> None:
    """A view looks at the market, its pools, its cached prices and its oracle's entries, and at no token's."""
    footprint = view(network, network.alula.markets[0]).footprint
    tokens = {token.instance_entry()[0] for token in network.tokens}

    assert 2 + 1 + 3 + 3 + 2 + 3 * 2 == len(footprint)
    assert tokens.isdisjoint(footprint)


def test_the_known_markets_are_there() -> None:
    """The first three markets are those that the local network's list names."""
    known = [market for item in NETWORKS["local"].deployments if item.protocol == "alula" for market in item.markets]
    made = MadeNetwork(pools=1, alula_markets=3).alula.markets

    assert known == [market.address for market in made]
