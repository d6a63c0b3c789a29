"""K2's keys and entries: the bytes of keys, every bit of the bitmap, and an error that names what is wrong."""

from __future__ import annotations

import base64

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import struct_map, u32, u64
from exporter.protocols.k2.layout import (
    decode_a_token,
    decode_rate_model,
    decode_reserve,
    decode_router,
    reserve_key,
    router_keys,
)
from tests.protocols.k2_chain import (
    CODE,
    a_token,
    bitmap,
    debt_token,
    rate_contract,
    rate_model,
    reserve,
    router_instance,
)
from tests.protocols.made_ledger import Written, contract, entry_of, instance

ROUTER = "CCTUJZLYFAW7ZNQD2SXMUZIHBUUJJICYRKWLZJ6SK6TGNAWNXOJIV6J7"
XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"


def test_keys() -> None:
    """The keys of RLIST and of RDATA(XLM) are the bytes that stellar-sdk makes of them."""
    rlist = "AAAABgAAAAGnROV4KC38tgPUrsplBw0olKBYiqy8p9JXpmaCzbuSigAAAA8AAAAFUkxJU1QAAAAAAAAB"
    rdata = (
        "AAAABgAAAAGnROV4KC38tgPUrsplBw0olKBYiqy8p9JXpmaCzbuSigAAABAAAAABAAAAAgAAAA8AAAAFUkRBVEEAAAAAAAASAAAAASW0/Nh"
        "ZrsL6Y0hDjEibPDwQyYttIb5P08swy2iVPvl3AAAAAQ=="
    )

    assert rlist == base64.b64encode(router_keys(ROUTER)[1]).decode()
    assert rdata == base64.b64encode(reserve_key(ROUTER, XLM)).decode()


class TestRouter:
    """The instance of a router."""

    def test_noted_decimals_of_prices(self) -> None:
        """The router's note of the oracle's configuration says how many decimals a price has."""
        noted = struct_map({"price_precision": u32(8), "price_staleness_threshold": u64(60)})

        assert 8 == decode_router(entry_of(router_instance("A", storage={"ORACFG": noted}))).price_decimals

    @pytest.mark.parametrize(
        ("storage", "message"),
        [
            ({"ORACFG": struct_map({})}, "router instance.ORACFG: field price_precision is missing"),
            ({"PSTALE": u32(60)}, "router instance: field PSTALE: expected u64, found u32"),
            ({"ASTALMP": u32(60)}, "ASTALMP: expected map, found u32"),
            ({"ASTALMP": struct_map({"x": u64(1)})}, "ASTALMP: an asset: expected address, found symbol"),
        ],
    )
    def test_another_form(self, storage: dict[str, ScVal | None], message: str) -> None:
        """What is no router, or keeps a field as another kind, is refused with the field."""
        with pytest.raises(DecodeError, match=message):
            decode_router(entry_of(router_instance("A", storage=storage)))


class TestReserve:
    """``RDATA``."""

    @pytest.mark.parametrize(
        ("flags", "expected"), [(0b1, "active"), (0b10, "frozen"), (0b100, "borrowing_enabled"), (0b1000, "paused")]
    )
    def test_each_flag(self, flags: int, expected: str) -> None:
        """Bits 50 to 53 are the four flags, one each."""
        shown = decode_reserve(entry_of(reserve("A", "USDC", configuration=bitmap(flags=flags)))).shown
        names = ("active", "frozen", "borrowing_enabled", "paused", "flashloan_enabled")

        assert [expected] == [item.name for item in shown if item.name in names and item.value]

    def test_largest_numbers(self) -> None:
        """38 digits are taken, and every bit of the bitmap may be set but for the values that have bounds."""
        decoded = decode_reserve(entry_of(reserve("A", "USDC", current_liquidity_rate=10**38 - 1)))

        assert 10**38 - 1 == decoded.numbers["current_liquidity_rate"]


class TestTokens:
    """The instances of a reserve's two tokens."""

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            (a_token("A", "USDC", -1), "aToken State: field total_supply_scaled is -1"),
            (a_token("A", "USDC", 10**38), "field total_supply_scaled is 1000*: negative, or of more than 38 digits"),
            (debt_token("A", "USDC"), "aToken State: field total_supply_scaled is missing"),
            (instance(contract("A"), [], CODE), "aToken instance: there is no State"),
        ],
    )
    def test_another_form(self, written: Written, message: str) -> None:
        """What is no aToken is refused."""
        with pytest.raises(DecodeError, match=message):
            decode_a_token(entry_of(written))


class TestRateModel:
    """``APARAMS``, and the defaults."""

    def test_defaults_that_are_not_set(self) -> None:
        """They are 0, as in the contract."""
        assert [0, 2, 0, 0] == list(decode_rate_model(None, entry_of(rate_contract("A", {"OU": 2}))).values())

    def test_another_form(self) -> None:
        """An optimum above 1 cannot be computed with, and nothing without entries."""
        written = rate_model("A", "USDC", optimal_utilization_rate=10**27 + 1)
        with pytest.raises(DecodeError, match=r"optimal_utilization_rate is 1000.*1, above 1"):
            decode_rate_model(entry_of(written), None)
        with pytest.raises(DecodeError, match="neither APARAMS nor a rate contract"):
            decode_rate_model(None, None)
