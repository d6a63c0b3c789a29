"""Keys, byte for byte, and what of each protocol's entries is decoded, up to which bound, or refused with its field.

What all of them decode to is in the golden rows, and what a missing field costs in the one-entry sweep.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Number
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import (
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    u128,
    vec,
)
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.protocols.alula import layout as alula_layout
from exporter.protocols.blend import layout as blend_layout
from exporter.protocols.k2 import layout as k2_layout
from exporter.protocols.slender import layout as slender_layout
from exporter.protocols.xoxno import layout as xoxno_layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.localnet.recorded import BLEND_V2
from tests.protocols.places import A_TOKEN, CONFIG, DATA, LOW, MARKET, PARAMETERS, RESERVE, SLENDER, STATE, field
from tests.protocols.places import ALULA as ALULA_POOL
from tests.protocols.places import K2 as K2_RESERVE
from tests.protocols.places import XLM as XLM_OF_THE_RECORDING
from tests.protocols.world import World, account, contract, token

XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
ALULA = "CBP76I2FRMUKYKIYYBKN3DH7TSWMFAJF2WTDC7Q2OHQFBIVWP7CAAI5Q"
BLEND = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
K2 = "CCTUJZLYFAW7ZNQD2SXMUZIHBUUJJICYRKWLZJ6SK6TGNAWNXOJIV6J7"
XOXNO_POOL = "CBXRNDQMAJFG4VUKMKFEMFS75UUXE2SPSNV4LEEFCSNBCN66PYRWBKXO"
_ALULA = "AAAABgAAAAFf/yNFiyisKRjAVN2M/5yswoEl1aYxfhpx4FCitn/EAAAAA"
_BLEND = "AAAABgAAAAHrCqnY1iV5aQL6m+Y0EpHeB36N1SOnN45GpKYVLagYOwAAA"
_K2 = "AAAABgAAAAGnROV4KC38tgPUrsplBw0olKBYiqy8p9JXpmaCzbuSigAAA"
_XOXNO = "AAAABgAAAAFvFo4MAkpuVopiikYWX+0pcmpPk2vFkIUUmhE33n4jYAAAABAAAAABAAAAAgAAAA8AAAA"
_HUB_XLM = (
    "AAAARAAAAAQAAAAIAAAAPAAAABWFzc2V0AAAAAAAAEgAAAAEltPzYWa7C+mNIQ4xImzw8EMmLbSG+T9PLMMtolT75dwAAAA8AAAAGaHViX2lk"
    "AAAAAAADAAAAAQAAAAE="
)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (instance_key(ALULA), _ALULA + "BQAAAAB"),
        (alula_layout.market_keys(ALULA)[1], _ALULA + "BAAAAABAAAAAQAAAA8AAAAIQWxsUG9vbHMAAAAB"),
        (
            alula_layout.pool_key(ALULA, USDC),
            _ALULA + "BAAAAABAAAAAgAAAA8AAAAEUG9vbAAAABIAAAABre/OWa7lKWj3YGHUlMJSW3Vln6QpamX0me8p5WR35JYAAAAB",
        ),
        (blend_layout.market_keys(BLEND)[1], _BLEND + "A8AAAAHUmVzTGlzdAAAAAAB"),
        (
            blend_layout.reserve_data_key(BLEND, USDC),
            _BLEND + "BAAAAABAAAAAgAAAA8AAAAHUmVzRGF0YQAAAAASAAAAAa3vzlmu5Slo92Bh1JTCUlt1ZZ+kKWpl9JnvKeVkd+SWAAAAAQ==",
        ),
        (k2_layout.router_keys(K2)[1], _K2 + "A8AAAAFUkxJU1QAAAAAAAAB"),
        (
            k2_layout.reserve_key(K2, XLM),
            _K2 + "BAAAAABAAAAAgAAAA8AAAAFUkRBVEEAAAAAAAASAAAAASW0/NhZrsL6Y0hDjEibPDwQyYttIb5P08swy2iVPvl3AAAAAQ==",
        ),
        (xoxno_layout.parameters_key(XOXNO_POOL, HubAsset(1, XLM)), _XOXNO + "GUGFyYW1zAAA" + _HUB_XLM),
        (xoxno_layout.state_key(XOXNO_POOL, HubAsset(1, XLM)), _XOXNO + "FU3RhdGUAAAA" + _HUB_XLM),
    ],
)
def test_keys(key: bytes, expected: str) -> None:
    """The keys of markets on mainnet are those of docs/protocols and of stellar-sdk's own encoding, byte for byte."""
    assert expected == base64.b64encode(key).decode()


def test_keys_of_a_reserve_of_blend() -> None:
    """Configuration and state have keys that differ by the symbol alone."""
    data, config = (key(BLEND, USDC) for key in (blend_layout.reserve_data_key, blend_layout.reserve_config_key))

    assert config == data.replace(b"\0\0\0\x07ResData\0", b"\0\0\0\x09ResConfig\0\0\0")


def test_pool_ids_of_xoxno() -> None:
    """A pool id is the hub's number and the token, and comes back as such."""
    assert f"12-{XLM}" == HubAsset(12, XLM).pool
    assert HubAsset(12, XLM) == xoxno_layout.hub_asset(f"12-{XLM}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        XLM,
        f"-{XLM}",
        f"1-{XLM[:-1]}",
        f"1-{XLM[:-1]}B",
        f"01-{XLM}",
        f"+1-{XLM}",
        f"1 -{XLM}",
        f"1-{XLM}-",
        f"4294967296-{XLM}",
        f"{'9' * 5_000}-{XLM}",
        f"\N{ARABIC-INDIC DIGIT ONE}-{XLM}",
        f"1-{account('a')}",
    ],
)
def test_other_pool_ids_of_xoxno(text: str) -> None:
    """Only the one spelling of a hub's 32-bit number and a contract is a pool id."""
    with pytest.raises(DecodeError, match="is not a pool of XOXNO"):
        xoxno_layout.hub_asset(text)


def refuse(decode: Callable[[Entry], object], protocol: str, key: bytes, value: ScVal | None, *path: Any) -> str:
    """Why a recorded entry is refused with another value at a path."""
    with pytest.raises(DecodeError) as refused:
        decode(changed(protocol, key, value, *path))
    return str(refused.value)


def changed(protocol: str, key: bytes, value: ScVal | None = None, *path: Any) -> Entry:
    """A recorded entry, with another value at a path."""
    world = World(protocol)
    if path:
        world.put(key, value, *path)
    return world.entry(key)


INSTANCE = {protocol: instance_key(market) for protocol, market in MARKET.items()}
MANY = [contract(f"T{number}") for number in range(blend_layout.MAX_RESERVES + 1)]
ZONE = blend_layout.reward_zone_key(
    next(item.address("backstop") or "" for item in World("blend").deployments if BLEND_V2 in item.markets)
)


@pytest.mark.parametrize(
    ("decode", "protocol", "key", "value", "path", "message"),
    [
        *(
            (alula_layout.decode_instance, "alula", INSTANCE["alula"], value, ("MarketStatus",), message)
            for value, message in (
                (vec(), "field MarketStatus has no variant"),
                ((scval.VEC, None), "field MarketStatus has no variant"),
                (vec(string("Active")), "expected symbol, found string"),
            )
        ),
        *(
            (k2_layout.decode_router, "k2", INSTANCE["k2"], value, (name,), message)
            for name, value, message in (
                ("ORACFG", struct_map({}), "router instance.ORACFG: field price_precision is missing"),
                ("PSTALE", u32(60), "router instance: field PSTALE: expected u64, found u32"),
                ("ASTALMP", u32(60), "ASTALMP: expected map, found u32"),
                ("ASTALMP", struct_map({"x": u64(1)}), "ASTALMP: an asset: expected address, found symbol"),
            )
        ),
        *(
            (k2_layout.decode_a_token, "k2", A_TOKEN, value, path, message)
            for value, path, message in (
                (i128(-1), ("State", "total_supply_scaled"), "aToken State: field total_supply_scaled is -1"),
                (i128(10**38), ("State", "total_supply_scaled"), f"is {10**38}, above {10**38 - 1}"),
                (None, ("State", "total_supply_scaled"), "aToken State: field total_supply_scaled is missing"),
                (None, ("State",), "aToken instance: there is no State"),
            )
        ),
        (
            xoxno_layout.decode_controller,
            "xoxno",
            INSTANCE["xoxno"],
            address(account("a")),
            ("Pool",),
            "field Pool is not a contract",
        ),
    ],
)
def test_what_is_refused(
    decode: Callable[[Entry], object],
    protocol: str,
    key: bytes,
    value: ScVal | None,
    path: tuple[str, ...],
    message: str,
) -> None:
    """An entry of another form is refused, and what is wrong is named."""
    assert message in refuse(decode, protocol, key, value, *path)


def test_lists_that_are_too_long() -> None:
    """A reserve list of Blend, and a reward zone, may have as many addresses as the bound says, and no more."""
    world, key = World("blend"), blend_layout.market_keys(BLEND_V2)[1]
    world.put(key, vec(*map(address, MANY[1:])))
    assert 64 == len(blend_layout.decode_reserve_list(world.entry(key)))
    for place, decode, many, detail in (
        (key, blend_layout.decode_reserve_list, MANY, "ResList: 65 addresses, more than 64"),
        (ZONE, blend_layout.decode_reward_zone, MANY[:1] * 50_001, "reward zone: 50001 addresses, more than 50000"),
    ):
        world.put(place, vec(*map(address, many)))
        with pytest.raises(DecodeError, match=detail):
            decode(world.entry(place))


Numbers = dict[str, Number]
RATES = field(k2_layout.reserve_key(MARKET["k2"], token("USDC")), "interest_rate_strategy_address")
OWN_MODEL = k2_layout.rate_model_keys(RATES, token("USDC"))[0]
KINKED = ("config", "interest_rate_model", 1)


def slender_reserve(entry: Entry) -> object:
    """The reserve in a pool's entry."""
    return slender_layout.decode_reserve(slender_layout.decode_instance(entry), XLM_OF_THE_RECORDING)


DATA_ENTRY, CONFIG_ENTRY = changed("blend", DATA), changed("blend", CONFIG)
NUMBERS: list[tuple[Numbers, str, bytes, tuple[Any, ...], Callable[[Entry], object]]] = [
    (alula_layout.STATE, "alula", ALULA_POOL, (), alula_layout.decode_pool),
    (alula_layout.CURVE, "alula", ALULA_POOL, KINKED, alula_layout.decode_pool),
    (alula_layout.FEES, "alula", ALULA_POOL, ("config", "fee_config"), alula_layout.decode_pool),
    (blend_layout.POOL_CONFIG, "blend", INSTANCE["blend"], ("Config",), blend_layout.decode_instance),
    (blend_layout.CONFIG, "blend", CONFIG, (), lambda entry: blend_layout.decode_reserve(entry, DATA_ENTRY)),
    (blend_layout.STATE, "blend", DATA, (), lambda entry: blend_layout.decode_reserve(CONFIG_ENTRY, entry)),
    (k2_layout.RESERVE, "k2", K2_RESERVE, (), k2_layout.decode_reserve),
    (k2_layout.MODEL, "k2", OWN_MODEL, (), lambda entry: k2_layout.decode_rate_model(entry, None)),
    (xoxno_layout.PARAMETERS, "xoxno", PARAMETERS, (), xoxno_layout.decode_parameters),
    (xoxno_layout.STATE, "xoxno", STATE, (), xoxno_layout.decode_state),
    (slender_layout.RESERVE, "slender", SLENDER, (RESERVE,), slender_reserve),
    (slender_layout.CONFIGURATION, "slender", SLENDER, (RESERVE, "configuration"), slender_reserve),
]
BITS = {scval.U32: (0, 32), scval.U64: (0, 64), scval.U128: (0, 128), scval.I128: (-(2**127), 127)}


@pytest.mark.parametrize(("layout", "protocol", "key", "path", "decode"), NUMBERS)
def test_every_number_has_bounds(
    layout: Numbers, protocol: str, key: bytes, path: tuple[Any, ...], decode: Callable[[Entry], object]
) -> None:
    """At its bounds a number is read, beyond them it is refused with its field; no amount is negative."""
    for name, (kind, least, most) in layout.items():
        smallest, bits = BITS[kind]
        assert kind != scval.I128 or least >= 0
        assert kind != scval.U64 or most < 2**62
        for value in (least, min(most, 2**bits - 1)):
            decode(changed(protocol, key, (kind, value), *path, name))
        for value in (least - 1, most + 1):
            if smallest <= value < 2**bits:
                said = refuse(decode, protocol, key, (kind, value), *path, name)
                assert f"field {name} is {value}, {'below' if value < least else 'above'}" in said


def test_statuses() -> None:
    """Numbers and variants have the names of docs/protocols; one that is not known keeps its own."""
    found = {
        name: alula_layout.decode_instance(
            changed("alula", INSTANCE["alula"], vec(symbol(name)), "MarketStatus")
        ).status
        for name in (*alula_layout.STATUS_NAMES, "OnFire")
    }
    numbers = [
        blend_layout.decode_instance(changed("blend", INSTANCE["blend"], u32(status), "Config", "status")).status
        for status in (*range(8), 2**32 - 1)
    ]

    assert 8 == len(set(found.values()))
    assert {"FrozenByAdmin": "frozen_by_admin", "OnFire": "unknown_OnFire"}.items() <= found.items()
    assert [
        "admin_active",
        "active",
        "admin_on_ice",
        "on_ice",
        "admin_frozen",
        "frozen",
        "setup",
        "unknown_7",
        "unknown_4294967295",
    ] == numbers


def test_what_is_only_shown_costs_nothing() -> None:
    """A part of Alula's configuration that nothing is computed from may be missing or of another kind."""
    world = World("alula")
    whole = {item.name for item in alula_layout.decode_pool(changed("alula", ALULA_POOL)).shown}
    for value, name in ((u32(1), "status"), (None, "health_config"), (None, "ir_reactivity_constant")):
        world.put(ALULA_POOL, value, "config", name)
    fewer = {item.name for item in alula_layout.decode_pool(world.entry(ALULA_POOL)).shown}

    assert {"flags", "ir_reactivity_constant", "supply_limit"} < whole - fewer
    assert set(alula_layout.CURVE) | {"take_rate_bps", "borrow_fee_bps"} <= fewer


@given(st.binary(max_size=200), st.integers(0, 500))
def test_damaged_bytes(noise: bytes, position: int) -> None:
    """An entry with other bytes in it is decoded or refused, and nothing else happens."""
    data = changed("alula", ALULA_POOL).raw.data
    damaged = data[:position] + noise + data[position + len(noise) :]
    with suppress(DecodeError):
        entry = Entry(ALULA_POOL, RawEntry(damaged, 1, None))
        assert min(alula_layout.decode_pool(entry).numbers.values()) >= 0


def test_code_decides_the_generation_of_blend() -> None:
    """Known code decides by itself, whatever fields there are; of unknown code the fields do, which is noticed."""
    world, key = World("blend"), INSTANCE["blend"]
    world.put(key, None, "Config", "min_collateral")
    generations = []
    for code in (None, bytes(32)):
        if code is not None:
            world.code(BLEND_V2, code)
        generations.append(blend_layout.decode_instance(world.entry(key)).generation)

    assert ["v2", "v1"] == generations


def test_stated_definition_of_the_configuration_hash() -> None:
    """It is SHA-256 over two maps of canonical XDR: the storage in any order, and each asset with its ResConfig."""
    pool = blend_layout.decode_instance(changed("blend", INSTANCE["blend"]))
    assets = blend_layout.decode_reserve_list(changed("blend", blend_layout.market_keys(BLEND_V2)[1]))
    configs = [changed("blend", blend_layout.reserve_config_key(BLEND_V2, asset)) for asset in assets]
    storage: ScVal = (scval.MAP, tuple(sorted(pool.storage, key=lambda pair: encode_scval(pair[0]))))
    pairs = zip(assets, configs, strict=True)
    reserves: ScVal = (scval.MAP, tuple((address(asset), vec(item.value)) for asset, item in pairs))

    expected = hashlib.sha256(encode_scval(storage) + encode_scval(reserves)).hexdigest()[:16]
    assert expected == blend_layout.config_hash(pool, assets, configs)
    assert blend_layout.config_hash(pool, (), ()) == blend_layout.config_hash(
        replace(pool, storage=pool.storage[::-1]), (), ()
    )


def test_what_a_router_of_k2_notes() -> None:
    """Its note of the oracle's configuration says how many decimals a price has; parameters that are not set are 0."""
    noted = struct_map({"price_precision": u32(8), "price_staleness_threshold": u64(60)})
    instance = World("k2")
    key = instance_key(RATES)
    stored: Any = instance.value(key)
    instance.put(key, (stored[0], stored[1]._replace(storage=((symbol("OU"), u128(2)),))))
    model = k2_layout.decode_rate_model(None, instance.entry(key))

    assert 8 == k2_layout.decode_router(changed("k2", INSTANCE["k2"], noted, "ORACFG")).price_decimals
    assert [0, 2, 0, 0] == list(model.values())


@pytest.mark.parametrize(("bit", "expected"), [*enumerate(("active", "frozen", "borrowing_enabled", "paused"), 50)])
def test_each_flag_of_k2(bit: int, expected: str) -> None:
    """Bits 50 to 53 are the four flags, one each."""
    low = u128(LOW & ~(0b1001111 << 50) | 1 << bit)
    shown = k2_layout.decode_reserve(changed("k2", K2_RESERVE, low, "configuration", "data_low")).shown
    names = ("active", "frozen", "borrowing_enabled", "paused", "flashloan_enabled")

    assert [expected] == [item.name for item in shown if item.name in names and item.value]


def test_controller_of_xoxno_with_bare_keys() -> None:
    """Its keys may be variants or bare symbols; others do not matter."""
    world, key = World("xoxno"), INSTANCE["xoxno"]
    stored: Any = world.value(key)
    bare = ((symbol("Pool"), address(contract("A pool"))), (u32(7), u32(7)))
    world.put(key, (stored[0], stored[1]._replace(storage=bare)))

    assert contract("A pool") == xoxno_layout.decode_controller(world.entry(key)).pool
