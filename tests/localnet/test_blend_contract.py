"""The view of the made Blend v2 pools: the accrued reserve, and that the exporter agrees with its numbers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from exporter import exact
from exporter.ledger import entries, scval
from exporter.ledger.entries import decode_contract_data
from exporter.ledger.scval import ScVal, decode_scval
from exporter.ledger.scval_encode import VOID, address
from exporter.ledger.source import ContractCall
from exporter.localnet.blend_reserve import V1, V2
from exporter.localnet.contracts import Simulation
from exporter.localnet.made import MadeNetwork
from exporter.protocols.blend import math
from tests import judge


@pytest.fixture(scope="module")
def network() -> MadeNetwork:
    """A network of many pools of both generations, some ledgers after its start."""
    made = MadeNetwork(pools=150, seed=3)
    for _ in range(5):
        made.advance()
    return made


def call(network: MadeNetwork, market: str, *arguments: ScVal, function: str = "get_reserve") -> Simulation:
    """A simulated call of a pool."""
    return network.contracts.simulate(network.chain, network.chain.latest, ContractCall(market, function, arguments))


def plain(value: ScVal) -> Any:
    """A value as Python has it: structs as dicts, in the ledger's order."""
    kind, payload = value
    return {name: plain(item) for (_, name), item in payload} if kind == scval.MAP else payload


def stored(network: MadeNetwork, market: str, name: str, asset: str) -> Any:
    """An entry of a reserve."""
    entry = network.chain.entry(entries.variant_key(market, name, address(asset)), network.chain.latest)
    assert entry is not None
    return plain(decode_contract_data(entry.data).value)


def test_the_reserve_is_accrued(network: MadeNetwork) -> None:
    """The view has the stored configuration, and the state that exporter and judge both compute for this ledger."""
    now = network.chain.close_time(network.chain.latest)
    moved = 0
    for market in network.markets:
        for reserve in market.reserves:
            simulation = call(network, market.address, address(reserve.token))
            if market.generation is V1:
                assert simulation.error is not None
                continue
            assert simulation.result is not None
            view = plain(decode_scval(simulation.result))
            config = stored(network, market.address, "ResConfig", reserve.token)
            data = stored(network, market.address, "ResData", reserve.token)
            raw = config | data | {"generation": "v2", "bstop_rate": market.take_rate}
            judged = judge.accrue(raw, now)
            row = math.project(
                pl.DataFrame(
                    [pl.Series("generation", ["v2"])]
                    + [exact.column([raw[name]], name) for name in math.RESERVE_COLUMNS]
                ),
                now,
            ).row(0, named=True)
            assert ["asset", "config", "data", "scalar"] == list(view)
            assert (reserve.token, config, 10 ** config["decimals"]) == (view["asset"], view["config"], view["scalar"])
            assert data | judged | {"last_time": now} == view["data"]
            assert {name: row[f"accrued_{name}"] for name in judged} == judged
            moved += view["data"]["d_rate"] != data["d_rate"]
    assert moved > 20


def test_calls_that_are_none(network: MadeNetwork) -> None:
    """An asset that is no reserve, arguments that do not fit and other functions fail."""
    market = next(market for market in network.markets if market.generation is V2)
    asset = address(market.reserves[0].token)

    assert call(network, market.address, asset).error is None
    for arguments in ((), (VOID,), (asset, asset), (address(market.address),)):
        assert call(network, market.address, *arguments).error is not None
    assert call(network, market.address, asset, function="submit").error is not None


def test_the_code_is_in_the_footprint(network: MadeNetwork) -> None:
    """Everything that the view looked at is in the chain, so that its result can be known to hold for a ledger."""
    market = next(market for market in network.markets if market.generation is V2)
    footprint = call(network, market.address, address(market.reserves[0].token)).footprint

    assert 4 == len(footprint)
    assert None not in footprint.values()
