"""How Blend's entries are decoded, and what the configuration hash is made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, i128, string, symbol, u32, u64, vec
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.blend.layout import (
    MAX_RESERVES,
    STATUS_NAMES,
    WASM_HASHES,
    PoolInstance,
    config_hash,
    decode_instance,
    decode_reserve,
    decode_reserve_list,
    decode_reward_zone,
    form_of_reserve,
    market_keys,
    reserve_config_key,
    reserve_data_key,
    reward_zone_key,
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
from tests.protocols.made_ledger import NOW, UNKNOWN_CODE, Written, account, contract, entry, instance

FIXED = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
GENERATIONS = ("v1", "v2")


def read(written: Written) -> Entry:
    """An entry as it comes from a source."""
    key, data = written
    return Entry(key, RawEntry(data, 1, None))


def reserve(generation: str, config: Mapping[str, Any] | None = None, /, **data: Any) -> dict[str, int | bool]:
    """A decoded reserve with these changes."""
    return decode_reserve(
        read(reserve_config("A", "T", generation, **(config or {}))), read(reserve_data("A", "T", generation, **data))
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

    def test_keys_of_the_builders(self) -> None:
        """The keys that are asked for are those under which contracts keep their entries."""
        assert market_keys(contract("A")) == (pool_instance("A")[0], reserve_list("A", [])[0])
        assert reserve_config_key(contract("A"), contract("T")) == reserve_config("A", "T")[0]
        assert reward_zone_key(contract("B")) == reward_zone("B", VOID)[0]


class TestInstance:
    """A pool's instance."""

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_fields(self, generation: str) -> None:
        """Name, status, oracle and take rate are the instance's; the generation follows from the code."""
        written = pool_instance("A", generation, name="Fixed — XLM".encode(), status=3, bstop_rate=1_234_567)
        decoded = decode_instance(read(written))

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

        assert ["v1", "v2"] == [decode_instance(read(written)).generation for written in (with_more, with_less)]

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_fields_decide_for_unknown_code(self, generation: str) -> None:
        """Of code nobody knows, the field that only v2 has decides."""
        decoded = decode_instance(read(pool_instance("A", generation, wasm_hash=UNKNOWN_CODE)))

        assert (generation, False) == (decoded.generation, decoded.known_code)

    @pytest.mark.parametrize(("status", "name"), [*enumerate(STATUS_NAMES), (7, "unknown_7"), (2**32 - 1, None)])
    def test_status(self, status: int, name: str | None) -> None:
        """Every status number has a name; one the contract does not have today is named by its number."""
        decoded = decode_instance(read(pool_instance("A", status=status)))

        assert (name or f"unknown_{status}") == decoded.status

    def test_seven_statuses(self) -> None:
        """The names are those of docs/protocols/blend.md, "Discovery", in the contract's order."""
        expected = ("admin_active", "active", "admin_on_ice", "on_ice", "admin_frozen", "frozen", "setup")

        assert expected == STATUS_NAMES

    def test_wasm_hashes(self) -> None:
        """The code of both generations is that of docs/protocols/blend.md, "Structure"."""
        assert {CODE["v1"]: "v1", CODE["v2"]: "v2"} == WASM_HASHES

    @pytest.mark.parametrize(
        ("written", "message"),
        [
            (pool_instance("A", config={"status": None}), "Config: field status is missing"),
            (pool_instance("A", config={"oracle": string("x")}), "field oracle: expected address, found string"),
            (pool_instance("A", config={"bstop_rate": None}), "field bstop_rate is missing"),
            (pool_instance("A", bstop_rate=10_000_001), "bstop_rate is 10000001, more than 10000000"),
            (pool_instance("A", storage={"Config": None}), "field Config is missing"),
            (pool_instance("A", storage={"Config": u32(1)}), "field Config: expected map, found u32"),
            (pool_instance("A", storage={"Name": None}), "field Name is missing"),
            (pool_instance("A", storage={"Name": symbol("x")}), "field Name: expected string, found symbol"),
            (instance(contract("A"), None, CODE["v1"]), "field Config is missing"),
            (instance(contract("A"), [], executable=scval.STELLAR_ASSET), "no wasm code of its own"),
            (entry(contract("A"), symbol("ResList"), VOID), "an instance entry holds a void"),
        ],
    )
    def test_refused(self, written: Written, message: str) -> None:
        """What is no pool's instance is refused with the field that is wrong."""
        with pytest.raises(DecodeError, match=message):
            decode_instance(read(written))

    def test_full_take_rate(self) -> None:
        """A backstop that takes everything is the most that makes sense."""
        assert 10_000_000 == decode_instance(read(pool_instance("A", bstop_rate=10_000_000))).backstop_rate


class TestReserveList:
    """The list of a pool's reserves."""

    def test_order_is_the_contracts(self) -> None:
        """Assets are given in the order of the contract."""
        expected = tuple(map(contract, ["Z", "A", "M"]))

        assert expected == decode_reserve_list(read(reserve_list("A", ["Z", "A", "M"])))

    def test_absent_is_empty(self) -> None:
        """A pool in Setup that never had a reserve has no such entry (docs/protocols/blend.md, "Keys")."""
        assert () == decode_reserve_list(None)

    def test_most(self) -> None:
        """Both generations' limits, 32 and 30 (blend.md, "Keys"), are well within the bound; more is refused."""
        names = [f"T{number}" for number in range(MAX_RESERVES + 1)]

        assert MAX_RESERVES == len(decode_reserve_list(read(reserve_list("A", names[:-1]))))
        with pytest.raises(DecodeError, match="ResList: 65 addresses, more than 64"):
            decode_reserve_list(read(reserve_list("A", names)))

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (vec(address(contract("T")), address(contract("T"))), "ResList: an asset stands twice"),
            (vec(address(account("T"))), "ResList: an asset is no contract"),
            (vec(symbol("T")), r"ResList\[0\]: expected address, found symbol"),
            ((scval.VEC, None), "ResList: the vector is missing"),
            (VOID, "ResList: expected vec, found void"),
        ],
    )
    def test_refused(self, value: ScVal, message: str) -> None:
        """A list of anything but different contracts is refused, with what is wrong."""
        with pytest.raises(DecodeError, match=message):
            decode_reserve_list(read(entry(contract("A"), symbol("ResList"), value)))


class TestRewardZone:
    """The list of pools that a backstop rewards."""

    def test_each_once(self) -> None:
        """Addresses of every kind are given, each once, in order."""
        value = vec(*(address(item) for item in (contract("B"), account("x"), contract("A"), contract("B"))))

        assert (contract("B"), account("x"), contract("A")) == decode_reward_zone(read(reward_zone("Z", value)))

    def test_absent_is_empty(self) -> None:
        """A backstop without a zone rewards nobody."""
        assert () == decode_reward_zone(None)

    def test_bounded(self) -> None:
        """A zone longer than an entry can hold is refused."""
        value = vec(*[address(contract("A"))] * 50_001)

        with pytest.raises(DecodeError, match="reward zone: 50001 addresses, more than 50000"):
            decode_reward_zone(read(reward_zone("Z", value)))


class TestReserve:
    """Configuration and state of a reserve."""

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_fields(self, generation: str) -> None:
        """Every number of the math is decoded, in the scale of the ledger."""
        expected: dict[str, int | bool] = {name: RESERVE_CONFIG[name] for name in RESERVE_CONFIG if name != "index"}
        expected |= {"b_rate": 3, "b_supply": 2**127 - 1, "d_rate": RATE[generation], "d_supply": 0, "ir_mod": 5}
        expected |= {"backstop_credit": 7, "last_time": NOW - 100, "enabled": True, "supply_cap": 2**127 - 1}

        assert expected == reserve(generation, b_rate=3, b_supply=2**127 - 1, d_supply=0, ir_mod=5, backstop_credit=7)

    def test_disabled(self) -> None:
        """A v2 reserve may be disabled; v1 has no such switch."""
        assert not reserve("v2", {"enabled": (scval.BOOL, False)})["enabled"]

    @pytest.mark.parametrize("generation", GENERATIONS)
    def test_form(self, generation: str) -> None:
        """A configuration with the two fields that only v2 has is v2's."""
        assert generation == form_of_reserve(read(reserve_config("A", "T", generation)))

    @pytest.mark.parametrize("without", ["enabled", "supply_cap"])
    def test_form_of_neither(self, without: str) -> None:
        """A configuration with only one of these fields is neither generation's."""
        with pytest.raises(DecodeError, match="of the fields enabled and supply_cap only one is there"):
            form_of_reserve(read(reserve_config("A", "T", "v2", **{without: None})))

    @pytest.mark.parametrize("name", ["b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit"])
    def test_negative(self, name: str) -> None:
        """No number of a reserve's state can be below zero; one that is names its field."""
        assert 0 == reserve("v1", **{name: 0})[name]
        with pytest.raises(DecodeError, match=f"ResData: field {name} is negative"):
            reserve("v1", **{name: -1})

    @pytest.mark.parametrize("name", ["b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "last_time"])
    def test_missing_or_other_state(self, name: str) -> None:
        """A state without one of its fields, or with another kind in it, names the field."""
        with pytest.raises(DecodeError, match=f"ResData: field {name} is missing"):
            reserve("v2", **{name: None})
        with pytest.raises(DecodeError, match=f"ResData: field {name}: expected"):
            reserve("v2", **{name: u32(1)})

    @pytest.mark.parametrize("name", ["util", "r_base", "r_one", "r_two", "r_three", "reactivity", "decimals"])
    def test_missing_or_other_configuration(self, name: str) -> None:
        """A configuration without one of its fields, or with another kind in it, names the field."""
        with pytest.raises(DecodeError, match=f"ResConfig: field {name} is missing"):
            reserve("v1", {name: None})
        with pytest.raises(DecodeError, match=f"ResConfig: field {name}: expected u32, found u64"):
            reserve("v1", {name: u64(1)})

    def test_decimals(self) -> None:
        """18 decimals are the most the contract takes."""
        assert 18 == reserve("v1", {"decimals": 18})["decimals"]
        with pytest.raises(DecodeError, match="ResConfig: 19 decimals, more than 18"):
            reserve("v1", {"decimals": 19})

    def test_time_beyond_any(self) -> None:
        """A time that no clock will show is refused, so that it cannot spoil the times of the table."""
        with pytest.raises(DecodeError, match="last_time is beyond"):
            reserve("v1", last_time=2**64 - 1)

    def test_new_fields_are_ignored(self) -> None:
        """Fields of a later contract do not get in the way."""
        assert reserve("v2") == reserve("v2", {"zz_new": VOID}, zz_new=VOID)


class TestConfigHash:
    """The hash changes if and only if the configuration does."""

    ASSETS = tuple(map(contract, ["T", "U"]))

    def hash_of(
        self, written: Written | None = None, configs: Sequence[Written | None] = (), assets: Sequence[str] = ASSETS
    ) -> str:
        """The hash of a v2 pool with two reserves, with an instance and configurations in place of the usual ones."""
        pool = decode_instance(read(written or pool_instance("A", "v2")))
        usual = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", index=1)]
        return config_hash(pool, assets, [None if item is None else read(item) for item in configs or usual])

    def test_form(self) -> None:
        """It is 16 lowercase hex digits, and the same for the same configuration."""
        first = self.hash_of()

        assert 16 == len(first)
        assert set(first) <= set("0123456789abcdef")
        assert first == self.hash_of()

    def test_stated_definition(self) -> None:
        """It is SHA-256 over two maps of canonical XDR: the instance storage, and each asset with its ResConfig."""
        written = pool_instance("A", "v2")
        pool = decode_instance(read(written))
        configs = [read(reserve_config("A", "T", "v2")), read(reserve_config("A", "U", "v2", index=1))]
        in_order = ["Name", "Admin", "Config", "BLNDTkn", "Backstop"]  # XDR has the length of a symbol first
        storage: ScVal = (scval.MAP, tuple((symbol(name), dict(pool.storage)[symbol(name)]) for name in in_order))
        pairs = zip(self.ASSETS, configs, strict=True)
        reserves: ScVal = (scval.MAP, tuple((address(asset), vec(item.value)) for asset, item in pairs))

        expected = hashlib.sha256(encode_scval(storage) + encode_scval(reserves)).hexdigest()[:16]
        assert expected == self.hash_of(written)

    @pytest.mark.parametrize("name", [*RESERVE_CONFIG, "enabled", "supply_cap"])
    def test_every_reserve_field_counts(self, name: str) -> None:
        """Any field of any reserve's configuration changes it, the ones that no number here is made of included."""
        others = {"enabled": (scval.BOOL, False), "supply_cap": i128(5)}
        change = {name: others.get(name, 12345)}
        first = [reserve_config("A", "T", "v2", **change), reserve_config("A", "U", "v2", index=1)]
        second = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", **{"index": 1, **change})]

        assert 3 == len({self.hash_of(), self.hash_of(configs=first), self.hash_of(configs=second)})

    @pytest.mark.parametrize(
        "written",
        [
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
        ],
        ids=["status", "name", "oracle", "take rate", "positions", "collateral", "admin", "backstop", "less", "more"],
    )
    def test_every_instance_field_counts(self, written: Written) -> None:
        """Anything in the pool's own storage changes it."""
        assert self.hash_of() != self.hash_of(written)

    def test_reserves_count(self) -> None:
        """A reserve more, one less, and another order each change it."""
        usual = [reserve_config("A", "T", "v2"), reserve_config("A", "U", "v2", index=1)]
        hashes = {
            self.hash_of(),
            self.hash_of(configs=usual[:1], assets=self.ASSETS[:1]),
            self.hash_of(configs=usual[::-1], assets=self.ASSETS[::-1]),
            self.hash_of(configs=[*usual, usual[0]], assets=[*self.ASSETS, contract("V")]),
        }

        assert 4 == len(hashes)

    def test_order_of_the_storage_does_not_count(self) -> None:
        """The same storage in another order is the same configuration."""
        pool = decode_instance(read(pool_instance("A", "v2")))
        backwards = replace(pool, storage=pool.storage[::-1])

        assert config_hash(pool, (), ()) == config_hash(backwards, (), ())

    def test_missing_and_undecodable_configurations(self) -> None:
        """A configuration that is missing, or cannot be decoded, gives a hash of its own that follows the bytes."""
        key, data = reserve_config("A", "T", "v2")
        other = reserve_config("A", "U", "v2", index=1)
        broken = [(key, data + b"\0\0\0\1"), (key, data + b"\0\0\0\2"), (key, b"")]
        hashes = [self.hash_of(), self.hash_of(configs=[None, other])]
        hashes += [self.hash_of(configs=[item, other]) for item in broken]

        assert len(hashes) == len(set(hashes))

    def test_storage_is_not_mistaken_for_a_reserve(self) -> None:
        """A reserve's configuration in the instance storage is not the same as one in its place."""
        config = reserve_config("A", "T", "v2")
        pool = decode_instance(read(pool_instance("A", "v2")))
        stuffed = replace(pool, storage=(*pool.storage, (address(contract("T")), vec(read(config).value))))

        assert config_hash(pool, [contract("T")], [read(config)]) != config_hash(stuffed, (), ())

    @given(
        st.lists(st.tuples(st.sampled_from(sorted(RESERVE_CONFIG)), st.integers(0, 2**32 - 1)), max_size=4),
        st.lists(st.tuples(st.sampled_from(sorted(RESERVE_CONFIG)), st.integers(0, 2**32 - 1)), max_size=4),
    )
    def test_equal_exactly_when_the_configuration_is(
        self, some: list[tuple[str, int]], others: list[tuple[str, int]]
    ) -> None:
        """Two configurations have the same hash exactly when they are the same."""
        first, second = (RESERVE_CONFIG | dict(changes) for changes in (some, others))
        hashes = [
            self.hash_of(configs=[reserve_config("A", "T", "v2", **config)], assets=self.ASSETS[:1])
            for config in (first, second)
        ]

        assert (first == second) == (hashes[0] == hashes[1])


def test_pool_instance_is_plain() -> None:
    """A decoded instance holds the whole storage, for the hash and for later fields."""
    decoded = decode_instance(read(pool_instance("A", "v1")))

    assert isinstance(decoded, PoolInstance)
    assert ["Admin", "BLNDTkn", "Backstop", "Config", "IsInit", "Name"] == [key[1] for key, _ in decoded.storage]
