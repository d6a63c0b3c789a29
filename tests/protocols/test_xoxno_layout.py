"""How XOXNO's entries are found and decoded, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import address, symbol, u32
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.judges.xoxno_judge import RAY
from tests.protocols.made_ledger import account, contract, entry_of, instance
from tests.protocols.xoxno_ledger import CODE, controller, flag, state

XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
MAINNET_POOL = "CBXRNDQMAJFG4VUKMKFEMFS75UUXE2SPSNV4LEEFCSNBCN66PYRWBKXO"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(
            layout.parameters_key,
            "AAAABgAAAAFvFo4MAkpuVopiikYWX+0pcmpPk2vFkIUUmhE33n4jYAAAABAAAAABAAAAAgAAAA8AAAAGUGFyYW1zAAAAAAARAAAAAQAA"
            "AAIAAAAPAAAABWFzc2V0AAAAAAAAEgAAAAEltPzYWa7C+mNIQ4xImzw8EMmLbSG+T9PLMMtolT75dwAAAA8AAAAGaHViX2lkAAAAAAAD"
            "AAAAAQAAAAE=",
            id="Params",
        ),
        pytest.param(
            layout.state_key,
            "AAAABgAAAAFvFo4MAkpuVopiikYWX+0pcmpPk2vFkIUUmhE33n4jYAAAABAAAAABAAAAAgAAAA8AAAAFU3RhdGUAAAAAAAARAAAAAQAA"
            "AAIAAAAPAAAABWFzc2V0AAAAAAAAEgAAAAEltPzYWa7C+mNIQ4xImzw8EMmLbSG+T9PLMMtolT75dwAAAA8AAAAGaHViX2lkAAAAAAAD"
            "AAAAAQAAAAE=",
            id="State",
        ),
    ],
)
def test_keys(key: Any, expected: str) -> None:
    """The keys of XLM in hub 1 on mainnet are those of stellar-sdk's own encoding, byte for byte."""
    assert base64.b64decode(expected) == key(MAINNET_POOL, HubAsset(1, XLM))


def test_pool_ids() -> None:
    """A pool id is the hub's number and the token, and comes back as such."""
    assert f"12-{XLM}" == HubAsset(12, XLM).pool
    assert HubAsset(12, XLM) == layout.hub_asset(f"12-{XLM}")


@pytest.mark.parametrize(
    "text",
    [
        "", "1", XLM, f"-{XLM}", f"1-{XLM[:-1]}", f"1-{XLM[:-1]}B", f"01-{XLM}", f"+1-{XLM}", f"1 -{XLM}", f"1-{XLM}-",
        f"4294967296-{XLM}", f"{'9' * 5_000}-{XLM}", f"\N{ARABIC-INDIC DIGIT ONE}-{XLM}", f"1-{account('a')}",
    ],
)  # fmt: skip
def test_other_pool_ids(text: str) -> None:
    """Only the one spelling of a hub's 32-bit number and a contract is a pool id."""
    with pytest.raises(DecodeError, match="no pool of XOXNO"):
        layout.hub_asset(text)


def test_controller() -> None:
    """A controller says where its pools are; its keys may be variants or bare symbols."""
    found = layout.decode_controller(entry_of(controller("A")))
    bare = [(symbol("Pool"), address(contract("A pool"))), (u32(7), u32(7))]
    other = layout.decode_controller(entry_of(instance(contract("A"), bare, CODE)))

    assert (contract("A pool"), CODE.hex(), "active") == (found.pool, found.wasm_hash, found.status)
    assert contract("A pool") == other.pool


@pytest.mark.parametrize(("paused", "status"), [(flag(True), "paused"), (flag(False), "active"), (u32(1), "active")])
def test_paused(paused: scval.ScVal, status: str) -> None:
    """A controller that says that it is paused is."""
    assert status == layout.decode_controller(entry_of(controller("A", storage={"Paused": paused}))).status


def test_no_controller() -> None:
    """An account that should hold the pools is refused, with the field."""
    with pytest.raises(DecodeError, match="field Pool is no contract"):
        layout.decode_controller(entry_of(controller("A", storage={"Pool": address(account("a"))})))


def test_indexes_may_be_at_their_bounds() -> None:
    """The lowest and the highest index that the contract can hold are read."""
    found = layout.decode_state(entry_of(state("A", 1, "USDC", supply_index=1, borrow_index=10**36)))

    assert (1, 10**36, 500 * RAY) == (found["supply_index"], found["borrow_index"], found["borrowed"])
