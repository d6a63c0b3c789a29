"""Tests of the stand-in for Blend: its reserves, and the view that v2's code gives of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from exporter.deployments.local import made_address
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.localnet.blend import SCALE_7, V1, V2, Generation, Reserve, ReserveConfig
from exporter.localnet.contracts import Simulation
from exporter.localnet.made import MadeNetwork
from exporter.numbers import exact
from exporter.protocols.blend import math
from tests.judges import blend_judge as judge
from tests.protocols.at_time import at

# Config A of docs/protocols/blend.md, "Vectors", and the two real ones


def reserve(generation: Generation, config: dict[str, int], take_rate: int = 2000000, **fields: int) -> Reserve:
    """A reserve with reactivity 20, limits that allow everything, and these fields."""
    limits: dict[str, Any] = {
        "index": 0,
        "decimals": 7,
        "c_factor": 0,
        "l_factor": 0,
        "max_util": SCALE_7,
        "supply_cap": 2**127 - 1,
    }
    made: dict[str, Any] = {"b_supply": 0, "d_supply": 0, "backstop_credit": 0, "last_time": 0} | fields
    made = {
        "b_rate": generation.rate_scale,
        "d_rate": generation.rate_scale,
        "ir_mod": generation.modifier_scale,
    } | made
    settings = ReserveConfig(reactivity=20, **limits | config)
    return Reserve(generation, made_address("reserve"), settings, take_rate, **made)


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
                at(
                    pl.DataFrame(
                        [pl.Series("generation", ["v2"])]
                        + [exact.column([raw[name]], name) for name in math.RESERVE_COLUMNS]
                    ),
                    now,
                ),
            ).row(0, named=True)
            assert ["asset", "config", "data", "scalar"] == list(view)
            assert (reserve.token, config, 10 ** config["decimals"]) == (view["asset"], view["config"], view["scalar"])
            assert data | judged | {"last_time": now} == view["data"]
            assert {name: row[f"accrued_{name}"] for name in judged} == judged
            moved += view["data"]["d_rate"] != data["d_rate"]
    assert moved > 20


def test_the_code_is_in_the_footprint(network: MadeNetwork) -> None:
    """Everything that the view looked at is in the chain, so that its result can be known to hold for a ledger."""
    market = next(market for market in network.markets if market.generation is V2)
    footprint = call(network, market.address, address(market.reserves[0].token)).footprint

    assert 4 == len(footprint)
    assert None not in footprint.values()
