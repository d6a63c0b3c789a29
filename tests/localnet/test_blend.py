"""Tests of the stand-in for Blend: its reserves, and the view that v2's code gives of them."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import made_address
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, address
from exporter.ledger.source import ContractCall
from exporter.localnet.blend import SCALE_7, V1, V2, Generation, Reserve, ReserveConfig
from exporter.localnet.contracts import Simulation
from exporter.localnet.made import MadeNetwork
from exporter.numbers import exact
from exporter.protocols.blend import math
from tests.judges import blend_judge as judge
from tests.protocols.at_time import at

# Config A of docs/protocols/blend.md, "Vectors", and the two real ones
CONFIG_A = {"util": 7500000, "r_base": 100000, "r_one": 500000, "r_two": 5000000, "r_three": 15000000}
XLM = {"util": 5000000, "r_base": 100000, "r_one": 500000, "r_two": 5000000, "r_three": 50000000}
USDC = {"util": 8000000, "r_base": 300000, "r_one": 600000, "r_two": 1200000, "r_three": 50000000}


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


VECTORS = {
    "T15": (
        reserve(V1, CONFIG_A, d_rate=1345678123, b_rate=1123456789, d_supply=650000000, b_supply=990000000),
        617280,
        {"d_rate": 1349657800, "b_rate": 1125547124, "ir_mod": 1044981563, "backstop_credit": 517358},
    ),
    "T16": (
        reserve(V1, CONFIG_A, 0, d_rate=1345678123, b_rate=1123456789, d_supply=650000000, b_supply=990000000),
        617280,
        {"d_rate": 1349657800, "b_rate": 1126069708, "ir_mod": 1044981563, "backstop_credit": 0},
    ),
    "T17": (
        reserve(V2, CONFIG_A, d_rate=1345678123000, b_rate=1123456789000, d_supply=650000000, b_supply=990000000),
        617280,
        {"d_rate": 1349657798173, "b_rate": 1125547124242, "ir_mod": 10449815, "backstop_credit": 517357},
    ),
    "T18": (
        reserve(V2, CONFIG_A, 0, d_rate=1345678123000, b_rate=1123456789000, d_supply=650000000, b_supply=990000000),
        617280,
        {"d_rate": 1349657798173, "b_rate": 1126069707070, "ir_mod": 10449815, "backstop_credit": 0},
    ),
    "T19": (
        reserve(
            V2, CONFIG_A, d_rate=1500000000000, b_rate=1300000000000, d_supply=10**26, b_supply=10**28, last_time=995,
        ),
        1000,
        {"b_rate": 1300000000020, "d_rate": 1500000002562, "ir_mod": 9999927, "backstop_credit": 51240000000000000},
    ),
    "T20": (reserve(V1, CONFIG_A, b_supply=5), 617280, {"d_rate": 10**9, "b_rate": 10**9, "ir_mod": 10**9}),
    "XLM": (
        reserve(
            V1, XLM, b_rate=1000042663, b_supply=126425272611101, backstop_credit=645327, d_rate=1001137072,
            d_supply=1175845023630, ir_mod=100000000, last_time=1736756671,
        ),
        1736780911,
        {
            "b_rate": 1000042669, "d_rate": 1001137914, "ir_mod": 100000000, "backstop_credit": 843339,
            "supplied": 126430667051058, "borrowed": 1177183034145,
        },
    ),
    "USDC": (
        reserve(
            V1, USDC, b_rate=1095073860, b_supply=30104839071593, backstop_credit=1286675294, d_rate=1147908295,
            d_supply=18784450084275, ir_mod=1433470882, last_time=1736780875,
        ),
        1736780911,
        {
            "b_rate": 1095073934, "d_rate": 1147908445, "ir_mod": 1433460376, "backstop_credit": 1287238827,
            "supplied": 32967024554566, "borrowed": 21562828886421,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_accrual_gives_the_contracts_own_results(name: str) -> None:
    """The vectors T15 to T20 and the real ledger of docs/protocols/blend.md, "Vectors" come out to the last digit."""
    made, time, expected = VECTORS[name]
    made.accrue(time)

    assert expected == {field: getattr(made, field) for field in expected}
    assert time == made.last_time


@pytest.mark.parametrize(
    ("generation", "utilization", "ir_mod", "expected"),
    [
        (V1, 6540727, 1433470882, 1133238),  # docs/protocols/blend.md, "Vectors", USDC
        (V1, 93109, 100000000, 10932),  # docs/protocols/blend.md, "Vectors", XLM
    ],
)
def test_borrow_rates_of_the_real_ledger(generation: Generation, utilization: int, ir_mod: int, expected: int) -> None:
    """The yearly borrow rate at the stored utilization is that of docs/protocols/blend.md, "Vectors"."""
    config = USDC if utilization == 6540727 else XLM

    assert expected == reserve(generation, config, ir_mod=ir_mod).borrow_rate(utilization)


def test_utilization_is_capped_in_the_second_generation_only() -> None:
    """More debt than supply is 100% in v2 and what it is in v1; no debt is 0 in both (blend.md, "Formulas")."""
    over = {"b_supply": 100, "d_supply": 150}

    assert 15_000_000 == reserve(V1, CONFIG_A, **over).utilization()
    assert SCALE_7 == reserve(V2, CONFIG_A, **over).utilization()
    assert 0 == reserve(V2, CONFIG_A, b_supply=100).utilization()
    assert (
        7864353
        == reserve(
            V2, CONFIG_A, d_rate=1345678123000, b_rate=1123456789000, d_supply=650000000, b_supply=990000000
        ).utilization()
    )


@given(st.integers(0, 2**32), st.sampled_from((V1, V2)), st.integers(0, 6), st.integers(0, SCALE_7))
def test_operations_keep_to_the_rules(seed: int, generation: Generation, status: int, utilization: int) -> None:
    """No operation makes an amount negative, borrows or supplies where it is forbidden, or lends beyond the limit."""
    random = Random(seed)
    supplied = random.randint(0, 10**15)
    made = reserve(generation, CONFIG_A, b_supply=supplied, d_supply=supplied * utilization // SCALE_7)
    for step in range(1, 20):
        before = (made.b_supply, made.d_supply)
        operation = made.operate(random, step * 600, status)
        after = (made.b_supply, made.d_supply)
        assert min(after) >= 0
        assert step * 600 == made.last_time
        if operation == "borrow":
            assert status <= 1
            assert after[1] > before[1]
            assert made.borrowed <= made.supplied + 1
        elif operation == "supply":
            assert status <= 3
            assert after[0] >= before[0]
        else:
            assert after <= before


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
