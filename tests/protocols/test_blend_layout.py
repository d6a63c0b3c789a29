"""How Blend's entries are decoded, and what the configuration hash is made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, i128, symbol, u32, vec
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
    CODE,
    RATE,
    RESERVE_CONFIG,
    pool_instance,
    reserve_config,
    reserve_data,
    reserve_list,
    reward_zone,
)
from tests.protocols.made_ledger import NOW, Written, account, contract, entry_of

FIXED = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
GENERATIONS = ("v1", "v2")
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

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_fields(self, generation: str) -> None:
        """Name, status, oracle and take rate are the instance's; the generation follows from the code."""
        written = pool_instance("A", generation, name="Fixed — XLM".encode(), status=3, bstop_rate=1_234_567)
        decoded = decode_instance(entry_of(written))

        assert (generation, CODE[generation].hex(), True) == (
            decoded.generation,
            decoded.wasm_hash,
            decoded.known_code,
        )
        assert ("Fixed — XLM", "on_ice", contract("A oracle"), 1_234_567) == (
            decoded.name,
            decoded.status,
            decoded.oracle,
            decoded.backstop_rate,
        )

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

    def test_order_is_the_contracts(self) -> None:
        """Assets are given in the order of the contract."""
        expected = tuple(map(contract, ["Z", "A", "M"]))

        assert expected == decode_reserve_list(entry_of(reserve_list("A", ["Z", "A", "M"])))

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

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_fields(self, generation: str) -> None:
        """Every number of the math is decoded, in the scale of the ledger."""
        expected: dict[str, int | bool] = {name: RESERVE_CONFIG[name] for name in RESERVE_CONFIG if name != "index"}
        expected |= {"b_rate": 3, "b_supply": 2**127 - 1, "d_rate": RATE[generation], "d_supply": 0, "ir_mod": 5}
        expected |= {"backstop_credit": 7, "last_time": NOW - 100, "enabled": True, "supply_cap": 2**127 - 1}

        assert expected == reserve(generation, b_rate=3, b_supply=2**127 - 1, d_supply=0, ir_mod=5, backstop_credit=7)
        assert not reserve("v2", {"enabled": (scval.BOOL, False)})["enabled"]
        least = reserve("v1", {"decimals": 18}, **dict.fromkeys(STATE, 0))
        assert (18, {0}) == (least["decimals"], {least[name] for name in STATE})


class TestConfigHash:
    """The hash changes if and only if the configuration does."""

    ASSETS = tuple(map(contract, ["T", "U"]))

    def hash_of(
        self, written: Written | None = None, configs: Sequence[Written | None] = (), assets: Sequence[str] = ASSETS
    ) -> str:
        """The hash of a v2 pool with two reserves, with an instance and configurations in place of the usual ones."""
        pool = decode_instance(entry_of(written or pool_instance("A", "v2")))
        usual = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", index=1)]
        return config_hash(pool, assets, [None if item is None else entry_of(item) for item in configs or usual])

    def test_stated_definition(self) -> None:
        """It is SHA-256 over two maps of canonical XDR: the storage in any order, and each asset with its ResConfig."""
        written = pool_instance("A", "v2")
        pool = decode_instance(entry_of(written))
        configs = [entry_of(reserve_config("A", "T", "v2")), entry_of(reserve_config("A", "U", "v2", index=1))]
        in_order = ["Name", "Admin", "Config", "BLNDTkn", "Backstop"]  # XDR has the length of a symbol first
        storage: ScVal = (scval.MAP, tuple((symbol(name), dict(pool.storage)[symbol(name)]) for name in in_order))
        pairs = zip(self.ASSETS, configs, strict=True)
        reserves: ScVal = (scval.MAP, tuple((address(asset), vec(item.value)) for asset, item in pairs))

        expected = hashlib.sha256(encode_scval(storage) + encode_scval(reserves)).hexdigest()[:16]
        assert expected == self.hash_of(written)
        backwards = replace(pool, storage=pool.storage[::-1])
        assert config_hash(pool, (), ()) == config_hash(backwards, (), ())

    @pytest.mark.parametrize("name", [*RESERVE_CONFIG, "enabled", "supply_cap"])
    def test_every_reserve_field_counts(self, name: str) -> None:
        """Any field of any reserve's configuration changes it, the ones that no number here is made of included."""
        others = {"enabled": (scval.BOOL, False), "supply_cap": i128(5)}
        change = {name: others.get(name, 12345)}
        first = [reserve_config("A", "T", "v2", **change), reserve_config("A", "U", "v2", index=1)]
        second = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", **{"index": 1, **change})]

        assert 3 == len({self.hash_of(), self.hash_of(configs=first), self.hash_of(configs=second)})

    def test_everything_counts(self) -> None:
        """Anything in the pool's own storage, the reserves and their order change it; a missing configuration, too.

        One that cannot be decoded gives a hash of its own that follows its bytes.
        """
        instances = [
            pool_instance("A", "v2", status=2),
            pool_instance("A", "v2", name=b"Test2"),
            pool_instance("A", "v2", oracle=contract("another oracle")),
            pool_instance("A", "v2", bstop_rate=0),
            pool_instance("A", "v2", config={"max_positions": u32(5)}),
            pool_instance("A", "v2", config={"min_collateral": i128(1)}),
            pool_instance("A", "v2", storage={"Admin": address(account("another admin"))}),
            pool_instance("A", "v2", storage={"Backstop": address(contract("another backstop"))}),
            pool_instance("A", "v2", storage={"BLNDTkn": None}),
            pool_instance("A", "v2", storage={"New": VOID}),
        ]
        first, second = usual = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", index=1)]
        key, data = first
        broken = [(key, data + b"\0\0\0\1"), (key, data + b"\0\0\0\2"), (key, b"")]
        hashes = [self.hash_of(), *map(self.hash_of, instances)]
        hashes += [self.hash_of(configs=[item, second]) for item in (None, *broken)]
        hashes += [
            self.hash_of(configs=usual[:1], assets=self.ASSETS[:1]),
            self.hash_of(configs=usual[::-1], assets=self.ASSETS[::-1]),
            self.hash_of(configs=[*usual, first], assets=[*self.ASSETS, contract("V")]),
        ]

        assert len(hashes) == len(set(hashes))

    def test_storage_is_not_mistaken_for_a_reserve(self) -> None:
        """A reserve's configuration in the instance storage is not the same as one in its place."""
        config = reserve_config("A", "T", "v2")
        pool = decode_instance(entry_of(pool_instance("A", "v2")))
        stuffed = replace(pool, storage=(*pool.storage, (address(contract("T")), vec(entry_of(config).value))))

        assert config_hash(pool, [contract("T")], [entry_of(config)]) != config_hash(stuffed, (), ())
