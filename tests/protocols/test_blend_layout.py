"""How Blend's entries are decoded, and what the configuration hash is made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, symbol, vec
from exporter.protocols.blend.layout import (
    MAX_RESERVES,
    config_hash,
    decode_instance,
    decode_reserve,
    decode_reserve_list,
    decode_reward_zone,
    market_keys,
    reserve_config_key,
    reserve_data_key,
)
from tests.protocols.blend_chain import (
    pool_instance,
    reserve_config,
    reserve_data,
    reserve_list,
    reward_zone,
)
from tests.protocols.made_ledger import contract, entry_of

FIXED = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
STATE = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit")


def reserve(generation: str, config: Mapping[str, Any] | None = None, /, **data: Any) -> dict[str, int | bool]:
    """A decoded reserve with these changes."""
    return decode_reserve(
        entry_of(reserve_config("A", "T", generation, **(config or {}))),
        entry_of(reserve_data("A", "T", generation, **data)),
    )


class TestKeys:
    """The keys that are asked for, against docs/protocols/blend.md, "Keys"."""

    def test_vectors(self) -> None:
        """Instance, list and state keys of the pool of the facts are its keys, byte for byte."""
        instance_key, list_key = market_keys(FIXED)

        assert (
            "6dfb1f5df20340a95d5b308a5804a80dfe551763e536924aff29c8065a8fed91"
            == hashlib.sha256(instance_key).hexdigest()
        )
        assert (
            "AAAABgAAAAHrCqnY1iV5aQL6m+Y0EpHeB36N1SOnN45GpKYVLagYOwAAAA8AAAAHUmVzTGlzdAAAAAAB"
            == base64.b64encode(list_key).decode()
        )
        assert (
            "AAAABgAAAAHrCqnY1iV5aQL6m+Y0EpHeB36N1SOnN45GpKYVLagYOwAAABAAAAABAAAAAgAAAA8AAAAHUmVzRGF0YQAAAAASAAAAAa3v"
            "zlmu5Slo92Bh1JTCUlt1ZZ+kKWpl9JnvKeVkd+SWAAAAAQ=="
            == base64.b64encode(reserve_data_key(FIXED, USDC)).decode()
        )
        assert reserve_data_key(FIXED, USDC).replace(b"ResData\0", b"ResConfig\0\0\0").replace(
            b"\0\0\0\x07Res", b"\0\0\0\x09Res"
        ) == reserve_config_key(FIXED, USDC)


class TestInstance:
    """A pool's instance."""

    def test_code_decides_the_generation(self) -> None:
        """Known code decides by itself, whatever fields there are."""
        with_more = pool_instance("A", "v1", config={"min_collateral": i128(1)})
        with_less = pool_instance("A", "v2", config={"min_collateral": None})

        assert ["v1", "v2"] == [decode_instance(entry_of(written)).generation for written in (with_more, with_less)]

    def test_status(self) -> None:
        """The names of docs/protocols/blend.md, "Discovery"; one the contract does not have today is its number."""
        numbers = (*range(8), 2**32 - 1)
        named = [decode_instance(entry_of(pool_instance("A", status=status))).status for status in numbers]

        assert ["admin_active", "active", "admin_on_ice", "on_ice", "admin_frozen", "frozen", "setup"] == named[:7]
        assert ["unknown_7", "unknown_4294967295"] == named[7:]

    def test_full_take_rate(self) -> None:
        """A backstop that takes everything is the most that makes sense."""
        with pytest.raises(DecodeError, match="bstop_rate is 10000001, more than 10000000"):
            decode_instance(entry_of(pool_instance("A", bstop_rate=10_000_001)))
        assert 10_000_000 == decode_instance(entry_of(pool_instance("A", bstop_rate=10_000_000))).backstop_rate


class TestReserveList:
    """The list of a pool's reserves."""

    def test_most(self) -> None:
        """Both generations' limits, 32 and 30 (blend.md, "Keys"), are well within the bound; more is refused."""
        names = [f"T{number}" for number in range(MAX_RESERVES + 1)]

        assert MAX_RESERVES == len(decode_reserve_list(entry_of(reserve_list("A", names[:-1]))))
        with pytest.raises(DecodeError, match="ResList: 65 addresses, more than 64"):
            decode_reserve_list(entry_of(reserve_list("A", names)))


class TestRewardZone:
    """The list of pools that a backstop rewards."""

    def test_bounded(self) -> None:
        """A zone longer than an entry can hold is refused."""
        value = vec(*[address(contract("A"))] * 50_001)

        with pytest.raises(DecodeError, match="reward zone: 50001 addresses, more than 50000"):
            decode_reward_zone(entry_of(reward_zone("Z", value)))


class TestReserve:
    """Configuration and state of a reserve."""

    def test_bounds(self) -> None:
        """Numbers at the ends of what they can be are read."""
        least = reserve("v1", {"decimals": 18}, **dict.fromkeys(STATE, 0))

        assert (18, {0}) == (least["decimals"], {least[name] for name in STATE})
        assert not reserve("v2", {"enabled": (scval.BOOL, False)})["enabled"]


def test_stated_definition_of_the_configuration_hash() -> None:
    """It is SHA-256 over two maps of canonical XDR: the storage in any order, and each asset with its ResConfig."""
    assets, pool = tuple(map(contract, ["T", "U"])), decode_instance(entry_of(pool_instance("A", "v2")))
    configs = [entry_of(reserve_config("A", "T", "v2")), entry_of(reserve_config("A", "U", "v2", index=1))]
    in_order = ["Name", "Admin", "Config", "BLNDTkn", "Backstop"]  # XDR has the length of a symbol first
    storage: ScVal = (scval.MAP, tuple((symbol(name), dict(pool.storage)[symbol(name)]) for name in in_order))
    pairs = zip(assets, configs, strict=True)
    reserves: ScVal = (scval.MAP, tuple((address(asset), vec(item.value)) for asset, item in pairs))

    expected = hashlib.sha256(encode_scval(storage) + encode_scval(reserves)).hexdigest()[:16]
    assert expected == config_hash(pool, assets, configs)
    assert config_hash(pool, (), ()) == config_hash(replace(pool, storage=pool.storage[::-1]), (), ())
