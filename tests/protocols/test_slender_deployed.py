"""Slender against the code that mainnet's pool was deployed with: what its own interface says of keys, types and views.

The wasm file is not in the repository: it is ``slender-pool.wasm`` in the folder of real data (scripts/test-real).
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from exporter.ledger import scval
from exporter.ledger.entries import decode_contract_data
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY
from exporter.ledger.view import read_at_one_ledger
from exporter.localnet.made import DEFAULT_START_TIME
from exporter.localnet.slender import CODE
from exporter.localnet.slender_made import SlenderMarkets
from exporter.protocols.base import Candidate
from exporter.protocols.slender import Slender
from exporter.protocols.slender.layout import WASM_HASH
from exporter.protocols.slender.views import SlenderViews
from exporter.protocols.views import ViewCall
from tests.contract_spec import Spec, spec_of
from tests.localnet.direct_source import DirectSource
from tests.localnet.moving import TOKENS, MovingNetwork

STORED_AS = {
    "ReserveAssetKey": "ReserveData", "PriceFeed": "PriceFeedConfig", "Pause": "PauseInfo", "PoolConfig": "PoolConfig",
}  # fmt: skip
"""The structs by the key they stand under (contracts/pool/src/storage.rs); all other values are plain."""

PLAIN = {
    "Admin": scval.ADDRESS, "Reserves": scval.VEC, "TokenSupply": scval.I128, "TokenBalance": scval.I128,
    "ProtocolFeeVault": scval.I128,
}  # fmt: skip


@pytest.fixture(scope="module")
def wasm(real_data: Path) -> bytes:
    """The code of mainnet's pool."""
    path = real_data / "slender-pool.wasm"
    if not path.is_file():
        pytest.skip(f"the code of Slender's pool is not at {path}; scripts/test-real --fetch DIR brings it")
    return path.read_bytes()


@pytest.fixture(scope="module")
def spec(wasm: bytes) -> Spec:
    """What the code tells of its types."""
    return spec_of(wasm)


def moved() -> tuple[MovingNetwork, SlenderMarkets]:
    """A network of one made market, some operations after its start."""
    markets = SlenderMarkets(1, 1, TOKENS, DEFAULT_START_TIME)
    network = MovingNetwork(markets, CODE)
    for _ in range(60):
        network.advance()
    return network, markets


def stored(network: MovingNetwork, market: str) -> list[tuple[ScVal, ScVal]]:
    """All that a made pool keeps, in its instance and beside it."""
    found: list[tuple[ScVal, ScVal]] = []
    for entry in network.chain.state(network.chain.latest).values():
        if entry.data[:4] != b"\0\0\0\x06":
            continue
        data = decode_contract_data(entry.data)
        if data.contract == market:
            found += data.value[1].storage if data.key == INSTANCE_KEY else [(data.key, data.value)]
    return found


def test_code(wasm: bytes) -> None:
    """The code is that which the package's list and the module know."""
    assert WASM_HASH == hashlib.sha256(wasm).digest()


def test_stand_in_keeps_what_the_contract_keeps(spec: Spec) -> None:
    """Every key and value of the embedded network's pool is of the type that the deployed code has for it."""
    network, markets = moved()
    misfits, names = [], set()
    for key, value in stored(network, markets.markets[0].address):
        misfits += spec.misfits(key, "DataKey")
        name = str(key[1][0][1])
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

    assert ["DataKey is none of"] == [text[:18] for text in spec.misfits(old, "DataKey")]
    assert ["PauseInfo is not a map of grace_period_secs, paused, unpaused_at"] == spec.misfits(pause, "PauseInfo")


def test_views_exist(spec: Spec) -> None:
    """Every view that is compared with is a function of the deployed code, and takes as many arguments."""
    network, markets = moved()
    candidates = [Candidate("slender", markets.markets[0].address)]
    source = DirectSource(network, False)
    reading = asyncio.run(read_at_one_ledger(source, lambda view: Slender().read(view, candidates, ()))).result
    calls = [item.call for item in SlenderViews().calls(reading) if isinstance(item, ViewCall)]

    assert 3 * 6 == len(calls)
    assert [] == [call for call in calls if len(spec.functions[call.function]) != len(call.arguments)]
