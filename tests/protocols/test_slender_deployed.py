"""Slender against the code that mainnet's pool was deployed with: the types and functions that it states.

The wasm file is not in the repository: it is ``slender-pool.wasm`` in the folder of real data (scripts/test-real).
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from exporter.deployments import deployments_of
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.base import Candidate, ViewCall
from exporter.protocols.slender import Slender
from exporter.protocols.slender.layout import WASM_HASH
from exporter.protocols.slender.views import SlenderViews
from tests.entries import name_of, recorded, recorded_instance
from tests.localnet.direct_source import DirectSource
from tests.protocols.contract_spec import Spec, spec_of
from tests.protocols.places import XLM
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
