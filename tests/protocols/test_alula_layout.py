"""How Alula's entries are decoded, and what the configuration hash is made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    VOID,
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.protocols.alula.layout import (
    STATUS_NAMES,
    config_hash,
    decode_instance,
    decode_pool,
    decode_pool_list,
    market_keys,
    pool_key,
)
from tests.protocols.alula_chain import (
    CODE,
    CURVE,
    STATE,
    all_pools,
    market_instance,
    pool,
    pool_config,
)
from tests.protocols.made_ledger import NOW, Raw, Written, account, contract, entry, entry_of, instance

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

    def test_the_twelve_keys(self) -> None:
        """Name, status, oracle and code are read from a storage whose keys are enum variants (alula.md, "Keys")."""
        decoded = decode_instance(entry_of(market_instance("A")))

        assert ("main", "active") == (decoded.name, decoded.status)
        assert (contract("A oracle"), CODE.hex()) == (decoded.oracle, decoded.wasm_hash)
        assert 12 == len(decoded.storage)

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


class TestPoolList:
    """``AllPools``."""

    def test_order_of_registration(self) -> None:
        """The pools come in the order of the entry; without an entry there are none."""
        assert tuple(map(contract, ("b", "a", "c"))) == decode_pool_list(entry_of(all_pools("A", ["b", "a", "c"])))
        assert () == decode_pool_list(entry_of(all_pools("A", [])))
        assert () == decode_pool_list(None)


class TestPool:
    """A ``Pool`` entry."""

    def test_fields(self) -> None:
        """All that is computed with is taken by name from the 21 fields and the nested configuration (1.4)."""
        decoded = decode_pool(entry_of(pool("A", "T")))
        state = {name: value for name, value in STATE.items() if name not in {
            "borrow_apr_bps", "supply_apr_bps", "operation_fees_sum",
        }}  # fmt: skip

        assert (contract("T"), contract("T"), "COPY") == (
            decoded.pool_address,
            decoded.token_address,
            decoded.token_symbol,
        )
        rest = {"take_rate_bps": 1_000, "decimals": 7, "last_accrual_timestamp": NOW - 100}
        assert state | CURVE | rest == decoded.numbers

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


class TestConfigHash:
    """What changes the hash, and what does not."""

    def hash_of(self, instance_entry: Written, pools: tuple[str, ...] = ("T", "U"), *entries: Written | None) -> str:
        """The hash of a market with these entries of its pools."""
        decoded = decode_instance(entry_of(instance_entry))
        given = entries or tuple(pool("A", label) for label in pools)
        return config_hash(
            decoded, [contract(label) for label in pools], [None if item is None else entry_of(item) for item in given]
        )

    def test_what_it_is_made_of(self) -> None:
        """It is the start of SHA-256 over two maps: the storage by the XDR of its keys, then token and config."""
        plain = market_instance("A")
        storage = sorted(decode_instance(entry_of(plain)).storage, key=lambda pair: encode_scval(pair[0]))
        pools = [(address(contract(label)), vec(address(contract(label)), pool_config())) for label in ("T", "U")]
        hashed = b"".join(encode_scval((scval.MAP, tuple(pairs))) for pairs in (storage, pools))

        assert hashlib.sha256(hashed).hexdigest()[:16] == self.hash_of(plain)

    @pytest.mark.parametrize("name", sorted({*STATE, "last_accrual_timestamp", "farm_debt", "name"}))
    def test_state_does_not_change_it(self, name: str) -> None:
        """No total, fee, rate or time of a pool is configuration."""
        kinds: dict[str, Callable[[], ScVal]] = {
            "last_accrual_timestamp": lambda: u64(NOW),
            "farm_debt": lambda: (scval.BYTES, bytes(32)),
            "name": lambda: string("other"),
        }
        changes: dict[str, Any] = {name: kinds.get(name, lambda: i128(12_345))()}
        changed = pool("A", "T", **changes)

        assert self.hash_of(market_instance("A")) == self.hash_of(
            market_instance("A"), ("T", "U"), changed, pool("A", "U")
        )

    def test_what_is_no_configuration_of_the_market(self) -> None:
        """What is proposed, queued, or reserved for a flash loan is none, nor is the order of the storage."""
        storage = decode_instance(entry_of(market_instance("A"))).storage
        reserved = (vec(symbol("FlashReserved"), address(contract("T"))), i128(7))
        for same in (
            market_instance("A", storage={"ProposedAdmin": address(account("next"))}),
            market_instance("A", storage={"MarketConfigUpdate": struct_map({"new_max_positions": u32(3)})}),
            instance(contract("A"), [*storage, reserved], CODE),
            instance(contract("A"), storage[::-1], CODE),
        ):
            assert self.hash_of(market_instance("A")) == self.hash_of(same)

    def test_configuration_changes_it(self) -> None:
        """Every value of the instance, the list of pools, its order, and every pool's config and token do."""
        plain = market_instance("A")
        changed = {
            "status": self.hash_of(market_instance("A", "Frozen")),
            "name": self.hash_of(market_instance("A", name=b"other")),
            "positions": self.hash_of(market_instance("A", storage={"MaxPositions": u32(11)})),
            "farms": self.hash_of(market_instance("A", storage={"FarmsContract": address(contract("farms"))})),
            "unknown key": self.hash_of(market_instance("A", storage={"Later": u32(1)})),
            "order": self.hash_of(plain, ("U", "T")),
            "fewer": self.hash_of(plain, ("T",)),
            "missing": self.hash_of(plain, ("T", "U"), None, pool("A", "U")),
            "plain": self.hash_of(plain),
        }

        firsts = [
            pool("A", "T", config=pool_config(1_001)),
            pool("A", "T", config=pool_config(status=struct_map({"flags": u32(0)}))),
            pool("A", "T", token_address=address(contract("V"))),
            pool("A", "T", config=None),
            entry(contract("A"), vec(symbol("Pool")), VOID),
        ]
        hashes = [*changed.values(), *(self.hash_of(plain, ("T", "U"), first, pool("A", "U")) for first in firsts)]

        assert len(hashes) == len(set(hashes))
