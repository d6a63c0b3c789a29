"""Slender against the code that mainnet's pool was deployed with: the types it states, and the numbers it computes.

The wasm file is not in the repository: it is ``slender-pool.wasm`` in the folder of real data (scripts/test-real).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from exporter import exact
from exporter.deployments import deployments_of
from exporter.errors import ExactError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u64, vec
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.base import Candidate, ViewCall
from exporter.protocols.slender import Slender, math
from exporter.protocols.slender.layout import WASM_HASH
from exporter.protocols.slender.views import SlenderViews
from tests.entries import name_of, recorded, recorded_instance
from tests.localnet.direct_source import DirectSource
from tests.protocols.contract_spec import Spec, spec_of
from tests.protocols.places import RESERVE, SLENDER, XLM, field
from tests.protocols.world import World

NOW = World("slender").time
POOL = recorded_instance("ReserveAssetKey")

STORED_AS = {
    "ReserveAssetKey": "ReserveData",
    "PriceFeed": "PriceFeedConfig",
    "Pause": "PauseInfo",
    "PoolConfig": "PoolConfig",
}
"""The structs by their key (contracts/pool/src/storage.rs); all other values are plain."""

PLAIN = {
    "Admin": scval.ADDRESS,
    "Reserves": scval.VEC,
    "TokenSupply": scval.I128,
    "TokenBalance": scval.I128,
    "ProtocolFeeVault": scval.I128,
}


@pytest.fixture(scope="module")
def wasm(real_data: Path) -> bytes:
    """The code of mainnet's pool."""
    path = real_data / "slender-pool.wasm"
    if not path.is_file():
        pytest.skip(f"the code of Slender's pool is not at {path}; scripts/test-real --fetch DIR brings it")
    return path.read_bytes()


@pytest.fixture(scope="module")
def spec(wasm: bytes) -> Spec:
    """The types that the code states."""
    return spec_of(wasm)


def test_code(wasm: bytes) -> None:
    """The code is that which the package's list and the module know."""
    assert WASM_HASH == hashlib.sha256(wasm).digest()


def test_recorded_types(spec: Spec) -> None:
    """Every key and value of the recorded pool is of the type that the deployed code has for it."""
    balance = vec(symbol("TokenBalance"), address(XLM), address(XLM))
    misfits, names = [], set()
    for key, value in (*(POOL.storage or ()), (balance, recorded("TokenBalance"))):
        misfits += spec.misfits(key, "DataKey")
        name = name_of(key)
        names.add(name)
        if name in STORED_AS:
            misfits += spec.misfits(value, STORED_AS[name])
        elif PLAIN[name] != value[0]:
            misfits.append(f"{name} is of kind {value[0]}")

    assert [] == misfits
    assert set(spec.enums["DataKey"]) - {"UserConfig"} == names


def test_a_wrong_form_shows(spec: Spec) -> None:
    """The comparison is one: a key of before 2024-06-06 and a struct that lacks a field do not fit."""
    old = (scval.VEC, ((scval.SYMBOL, "STokenUnderlyingBalance"), (scval.ADDRESS, "C")))
    pause = (scval.MAP, (((scval.SYMBOL, "paused"), (scval.BOOL, True)),))

    assert ["DataKey is not in"] == [text[:17] for text in spec.misfits(old, "DataKey")]
    assert ["PauseInfo is not a map of grace_period_secs, paused, unpaused_at"] == spec.misfits(pause, "PauseInfo")


def test_views_exist(spec: Spec) -> None:
    """Every view that is compared with is a function of the deployed code, and takes as many arguments."""
    (market,) = (item.markets[0] for item in deployments_of("local") if item.protocol == "slender")
    candidates = [Candidate("slender", market)]
    source = DirectSource(RecordedNetwork(), False)
    reading = asyncio.run(read_at_one_ledger(source, lambda view: Slender().read(view, candidates, ()))).result
    calls = [item.call for item in SlenderViews().calls(reading) if isinstance(item, ViewCall)]

    assert 3 * 6 == len(calls)
    assert [] == [call for call in calls if len(spec.functions[call.function]) != len(call.arguments)]


@pytest.fixture(scope="module")
def host(wasm: bytes) -> Any:
    """The code, ready to run."""
    pytest.importorskip("wasmtime", reason="the package wasmtime, which runs the deployed code, is not installed")
    return import_module("tests.protocols.wasm_host").WasmHost(wasm)


Reserve = dict[str, int]
"""A reserve's numbers: rates by their field names, ``last_update``, ``s_supply``, ``debt_supply`` and ``cash``."""

RATES = ("lender_ar", "lender_ir", "borrower_ar", "borrower_ir")


def as_stored(reserve: Reserve, window: int = 20) -> dict[tuple[int, ScVal], ScVal]:
    """The entries of the recorded pool with these numbers in one reserve; without ``cash`` that entry is missing."""
    world = World("slender")
    _, *tokens = field(SLENDER, RESERVE, "reserve_type")
    for name in RATES:
        if name in reserve:
            world.put(SLENDER, i128(reserve[name]), RESERVE, name)
    world.put(SLENDER, u64(reserve["last_update"]), RESERVE, "last_update_timestamp")
    world.put(SLENDER, u64(window), "PoolConfig", "timestamp_window")
    for name, owner in zip(("s_supply", "debt_supply"), tokens, strict=True):
        world.put(SLENDER, i128(reserve[name]), vec(symbol("TokenSupply"), owner))
    instance: Any = world.value(SLENDER)
    found = {(2, key): value for key, value in instance[1].storage}
    if "cash" in reserve:
        found[1, vec(symbol("TokenBalance"), address(XLM), tokens[0])] = i128(reserve["cash"])
    return found


def test_vector(host: Any) -> None:
    """Cash is the persistent entry: with it 1000 shares are worth 10,400,004,180, without it the debt alone."""
    reserve = {
        "last_update": NOW - 1_000,
        "lender_ar": 1_100_000_000,
        "lender_ir": 30_000_000,
        "s_supply": 1000 * 10**7,
        "debt_supply": 400 * 10**7,
    }
    found = [
        host.call(as_stored(each), NOW, "collat_coeff", address(XLM))
        for each in (reserve | {"cash": 600 * 10**7}, reserve)
    ]

    assert [(scval.I128, 1_040_000_418), (scval.I128, 440_000_418)] == found


def test_coefficients(host: Any) -> None:
    """For states of every size the math gives what the deployed code gives, and fails where the code fails."""
    random = Random(1)
    differ, compared = [], Counter[bool]()
    for number in range(160):
        huge = number % 2 == 0
        reserve, window = simulated_state(random, huge)
        stored = as_stored(reserve, window)
        for function, ours in (("collat_coeff", collateral_coefficient), ("debt_coeff", debt_coefficient)):
            try:
                theirs: object = host.call(stored, NOW, function, address(XLM))[1]
            except RuntimeError:
                theirs = None
            try:
                mine: object = ours(reserve, window)
            except ExactError:
                mine = None
            compared[theirs is None] += 1
            if mine != theirs:
                differ.append((function, reserve, window, mine, theirs))

    assert [] == differ
    assert min(compared[False], compared[True]) > 20


def simulated_state(random: Random, huge: bool) -> tuple[Reserve, int]:
    """A reserve as the chain may have one, or of numbers of any size."""
    most = {"rate": 5 * 10**9, "amount": 10**18, "since": 10**8, "window": 10**4}

    def any_size(name: str) -> int:
        return random.getrandbits(random.randint(1, 126)) if huge else random.randint(0, most[name])

    since = random.choice((0, random.randint(-100, most["since"])))
    reserve = {"last_update": NOW - since} | {name: any_size("rate") for name in RATES}
    reserve["s_supply"] = random.choice((0, any_size("amount"), any_size("amount")))
    reserve |= {name: any_size("amount") for name in ("debt_supply", "cash")}
    return reserve, random.choice((0, 1, 20, random.randint(0, most["window"])))


def collateral_coefficient(reserve: Reserve, window: int) -> object:
    """By the exporter's math, in the contract's order: without shares nothing is computed."""
    if not reserve["s_supply"]:
        return math.ONE
    lent = math.lent_out(
        grown(reserve, window, reserve["lender_ar"], reserve["lender_ir"]), one(reserve["debt_supply"])
    )
    return math.collateral_coefficient(exact.add(one(reserve["cash"]), lent), one(reserve["s_supply"])).item()


def debt_coefficient(reserve: Reserve, window: int) -> object:
    """By the exporter's math."""
    return grown(reserve, window, reserve["borrower_ar"], reserve["borrower_ir"]).item()


def grown(reserve: Reserve, window: int, accrued: int, rate: int) -> pl.Series:
    """An accrued rate at the time of the call."""
    seconds = math.elapsed_seconds(one(reserve["last_update"]), one(window), NOW)
    return math.accrued_rate(one(accrued), one(rate), seconds)


def one(value: int) -> pl.Series:
    """A column of one number."""
    return exact.column([value])
