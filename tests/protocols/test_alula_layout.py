"""How Alula's entries are decoded, and what the configuration hash is made of."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import (
    address,
    i128,
    string,
    symbol,
    u32,
    vec,
)
from exporter.protocols.alula.layout import (
    STATUS_NAMES,
    decode_instance,
    decode_pool,
    market_keys,
    pool_key,
)
from tests.protocols.alula_chain import (
    CODE,
    CURVE,
    market_instance,
    pool,
    pool_config,
)
from tests.protocols.made_ledger import Raw, contract, entry_of, instance

# docs/protocols/alula.md, "Discovery"
MAIN = "CBP76I2FRMUKYKIYYBKN3DH7TSWMFAJF2WTDC7Q2OHQFBIVWP7CAAI5Q"
POOLS = {
    "USDC": "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75",
    "XLM": "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA",
    "PYUSD": "CCCRWH6Q3FNP3I2I57BDLM5AFAT7O6OF6GKQOC6SSJNDAVRZ57SPHGU2",
}
# docs/protocols/alula.md, "Keys": the keys of one market begin alike
_MARKET = "AAAABgAAAAFf/yNFiyisKRjAVN2M/5yswoEl1aYxfhpx4FCitn/EAAAAA"
_POOL = _MARKET + "BAAAAABAAAAAgAAAA8AAAAEUG9vbAAAABIAAAAB"
KEYS = {
    "instance": _MARKET + "BQAAAAB",
    "AllPools": _MARKET + "BAAAAABAAAAAQAAAA8AAAAIQWxsUG9vbHMAAAAB",
    "USDC": _POOL + "re/OWa7lKWj3YGHUlMJSW3Vln6QpamX0me8p5WR35JYAAAAB",
    "XLM": _POOL + "JbT82FmuwvpjSEOMSJs8PBDJi20hvk/TyzDLaJU++XcAAAAB",
    "PYUSD": _POOL + "hRsf0Nla/aNI78I1s6AoJ/d5xfGVBwvSklowVjnv5PMAAAAB",
}


class TestKeys:
    """The keys that are asked for."""

    def test_vectors(self) -> None:
        """Instance, list and pool keys of the market on mainnet are those of alula.md, "Keys", byte for byte."""
        instance_key, list_key = market_keys(MAIN)
        made = {"instance": instance_key, "AllPools": list_key}
        made |= {name: pool_key(MAIN, token) for name, token in POOLS.items()}

        assert {name: base64.b64encode(key).decode() for name, key in made.items()} == KEYS


class TestInstance:
    """A market's instance."""

    def test_every_status(self) -> None:
        """The seven statuses of alula.md, "Statuses" have snake case names; one that is not known keeps its own."""
        read_names = {name: decode_instance(entry_of(market_instance("A", name))).status for name in STATUS_NAMES}

        assert 7 == len(read_names)
        assert {"FrozenByAdmin": "frozen_by_admin", "DepositFrozen": "deposit_frozen"}.items() <= read_names.items()
        for name, shown in read_names.items():
            assert name.lower() == shown.replace("_", "")
        assert "unknown_OnFire" == decode_instance(entry_of(market_instance("A", "OnFire"))).status

    def test_optional_and_unknown_keys(self) -> None:
        """Optional keys, keys that carry an address and keys of later versions are no hindrance."""
        more = market_instance("A", storage={"FarmsContract": address(contract("farms")), "Later": u32(1)})
        decoded = decode_instance(entry_of(more))
        reserved = (vec(symbol("FlashReserved"), address(contract("USDC"))), i128(5))
        with_reserved = entry_of(instance(contract("A"), [*decoded.storage, reserved], CODE))

        assert 14 == len(decoded.storage)
        assert 15 == len(decode_instance(with_reserved).storage)

    @pytest.mark.parametrize(
        ("storage", "message"),
        [
            ({"MarketStatus": vec()}, "field MarketStatus has no variant"),
            ({"MarketStatus": (scval.VEC, None)}, "field MarketStatus has no variant"),
            ({"MarketStatus": vec(string("Active"))}, "expected symbol, found string"),
        ],
    )
    def test_not_a_market(self, storage: Mapping[str, Raw], message: str) -> None:
        """A status that is no variant is named."""
        with pytest.raises(DecodeError, match=message):
            decode_instance(entry_of(market_instance("A", storage=storage)))


class TestPool:
    """A ``Pool`` entry."""

    def test_extremes_are_allowed(self) -> None:
        """The ends of what the contract can hold are read."""
        extreme: dict[str, Any] = dict.fromkeys(("total_available", "total_borrowed", "total_collateral"), 2**127 - 1)
        decoded = decode_pool(entry_of(pool("A", "T", token_decimals=u32(38), config=pool_config(10_000), **extreme)))

        assert extreme.items() <= decoded.numbers.items()
        assert (38, 10_000) == (decoded.numbers["decimals"], decoded.numbers["take_rate_bps"])

    def test_what_is_only_shown_costs_nothing(self) -> None:
        """A part of the configuration that nothing is computed from may be missing or of another kind."""
        whole = {item.name for item in decode_pool(entry_of(pool("A", "T"))).shown}
        parts = pool_config(status=u32(1), health_config=None, ir_reactivity_constant=None)
        fewer = {item.name for item in decode_pool(entry_of(pool("A", "T", config=parts))).shown}

        health = {
            "open_ltv_bps", "close_ltv_bps", "liability_factor_bps", "max_liquidation_incentive_bps", "supply_limit",
            "utilization_ratio_limit_bps",
        }  # fmt: skip
        assert {"flags", "ir_reactivity_constant"} | health == whole - fewer
        assert set(CURVE) | {"take_rate_bps", "borrow_fee_bps"} <= fewer

    @given(st.binary(max_size=200), st.integers(0, 500))
    def test_damaged_bytes(self, noise: bytes, position: int) -> None:
        """An entry with other bytes in it is decoded or refused, and nothing else happens."""
        key, data = pool("A", "T")
        damaged = data[:position] + noise + data[position + len(noise) :]
        with suppress(DecodeError):
            assert min(decode_pool(entry_of((key, damaged))).numbers.values()) >= 0
