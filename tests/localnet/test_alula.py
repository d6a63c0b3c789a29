"""Tests of the stand-in for Alula: its pools, and the views that its code gives of them."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import made_address
from exporter.ledger.codec.entries import TEMPORARY, data_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.alula import (
    Curve,
    Market,
    Pool,
    PoolConfig,
    cached_price_entry,
    cached_price_key,
    pool_entry,
)
from exporter.localnet.chain import Change
from exporter.localnet.contracts import Simulation, price_entry
from exporter.localnet.made import MadeNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.compute import Tables, compute
from tests.judges import alula_judge as judge
from tests.localnet.direct_source import DirectSource
from tests.localnet.view_values import result


def pool(config: PoolConfig | None = None, **fields: int) -> Pool:
    """A pool of the default configuration of the contract's tests, with these fields."""
    made = Pool(made_address("a token"), "TKN", "Token", 7, config or PoolConfig(), 0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def judged(made: Pool) -> dict[str, int]:
    """The pool as the judge takes one."""
    curve = {name: getattr(made.config.curve, name) for name in Curve.__slots__}
    amounts = (
        "total_available", "total_borrowed", "take_rate_fees_sum", "total_j_tokens", "total_d_tokens",
        "interest_rate_modifier_bps", "last_accrual_timestamp", "borrow_apr_bps", "supply_apr_bps",
    )  # fmt: skip
    return {name: getattr(made, name) for name in amounts} | curve | {
        "take_rate_bps": made.config.take_rate_bps,
        "target_utilization_ratio_bps": made.config.target_utilization_bps,
        "ir_reactivity_constant": made.config.reactivity,
    }  # fmt: skip


@given(
    st.integers(0, 10**30),
    st.integers(0, 10_000),
    st.integers(1_000, 20_000),
    st.integers(0, 10_000_000),
    st.integers(0, 100),
    st.integers(0, 10_000),
)
def test_accrual_equals_the_judge(
    supplied: int, utilization: int, modifier: int, seconds: int, reactivity: int, take_rate: int
) -> None:
    """Accrual, modifier and the noted rates are those of the judge for pools of every kind."""
    lent = supplied * utilization // 10_000
    config = PoolConfig(Curve(100, 400, 4_000, 1_500, 9_000, 5_000), take_rate_bps=take_rate, reactivity=reactivity)
    made = pool(config, total_available=supplied - lent, total_borrowed=lent, interest_rate_modifier_bps=modifier)
    expected = judge.accrue(judged(made), seconds)
    made.accrue(seconds)

    assert expected == judged(made)


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
    """One stale price, no price, or one that is not positive fails the call with its own code (alula.md, "Views")."""
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
    """A division by zero or a yield that does not fit is error 9; the exporter reads all but the former's pool."""
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

    assert {market.pools[0].address: "inconsistent"} == {
        item.pool: item.reason for item in tables.unread if item.market == market.address
    }
    assert {market.pools[1].address} == {item.pool for item in tables.bounded}


def test_cached_price_of_the_same_ledger(network: MadeNetwork) -> None:
    """A cached price counts in the ledger in which it was written, and in no other (alula.md, "Prices")."""
    market = network.alula.markets[0]
    pool = market.pools[0].address
    time = network.chain.close_time(network.chain.latest) + 5
    change(network, cached_price_entry(market.address, pool, 777, time))
    assert 777 == result(view(network, market, "get_pool_data", address(pool)))["oracle_asset_price"]
    change(network)

    assert 777 != result(view(network, market, "get_pool_data", address(pool)))["oracle_asset_price"]
    assert network.chain.entry(data_key(market.address, cached_price_key(pool), TEMPORARY), network.chain.latest)


def test_footprint(network: MadeNetwork) -> None:
    """A view looks at the market, its pools, its cached prices and its oracle's entries, and at no token's."""
    footprint = view(network, network.alula.markets[0]).footprint
    tokens = {token.instance_entry()[0] for token in network.tokens}

    assert 2 + 1 + 3 + 3 + 2 + 3 * 2 == len(footprint)
    assert tokens.isdisjoint(footprint)
