"""Keys, byte for byte, and what of each protocol's entries is decoded, up to which bound, or refused with its field.

What all of them decode to is in the golden rows, and what a missing field costs in the one-entry sweep.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Number
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.observation import Entry
from exporter.protocols.alula import layout as alula_layout
from exporter.protocols.blend import layout as blend_layout
from exporter.protocols.k2 import layout as k2_layout
from exporter.protocols.slender import layout as slender_layout
from exporter.protocols.xoxno import layout as xoxno_layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.protocols import alula_chain as alula
from tests.protocols import blend_chain as blend
from tests.protocols import k2_chain as k2
from tests.protocols import slender_chain as slender
from tests.protocols import xoxno_ledger as xoxno
from tests.protocols.made_ledger import Written, account, contract, entry_of, instance

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


NO_STATUS = [
    (vec(), "field MarketStatus has no variant"),
    ((scval.VEC, None), "field MarketStatus has no variant"),
    (vec(string("Active")), "expected symbol, found string"),
]
NO_ROUTER: list[tuple[dict[str, ScVal | None], str]] = [
    ({"ORACFG": struct_map({})}, "router instance.ORACFG: field price_precision is missing"),
    ({"PSTALE": u32(60)}, "router instance: field PSTALE: expected u64, found u32"),
    ({"ASTALMP": u32(60)}, "ASTALMP: expected map, found u32"),
    ({"ASTALMP": struct_map({"x": u64(1)})}, "ASTALMP: an asset: expected address, found symbol"),
]
NO_A_TOKEN: list[tuple[Written, str]] = [
    (k2.a_token("A", "USDC", -1), "aToken State: field total_supply_scaled is -1"),
    (k2.a_token("A", "USDC", 10**38), "field total_supply_scaled is 1000*, above 999*"),
    (k2.debt_token("A", "USDC"), "aToken State: field total_supply_scaled is missing"),
    (instance(contract("A"), [], k2.CODE), "aToken instance: there is no State"),
]
MANY = [f"T{number}" for number in range(blend_layout.MAX_RESERVES + 1)]


@pytest.mark.parametrize(
    ("decode", "written", "message"),
    [
        *(
            (alula_layout.decode_instance, alula.market_instance("A", storage={"MarketStatus": value}), message)
            for value, message in NO_STATUS
        ),
        (
            blend_layout.decode_instance,
            blend.pool_instance("A", bstop_rate=10_000_001),
            "bstop_rate is 10000001, above 10000000",
        ),
        (blend_layout.decode_reserve_list, blend.reserve_list("A", MANY), "ResList: 65 addresses, more than 64"),
        (
            blend_layout.decode_reward_zone,
            blend.reward_zone("Z", vec(*[address(contract("A"))] * 50_001)),
            "reward zone: 50001 addresses, more than 50000",
        ),
        *((k2_layout.decode_router, k2.router_instance("A", storage=value), message) for value, message in NO_ROUTER),
        *((k2_layout.decode_a_token, value, message) for value, message in NO_A_TOKEN),
        (
            lambda entry: k2_layout.decode_rate_model(entry, None),
            k2.rate_model("A", "USDC", optimal_utilization_rate=10**27 + 1),
            "utilization_rate is 1000.*1, above 1",
        ),
        (lambda _: k2_layout.decode_rate_model(None, None), k2.rate_contract("A"), "neither APARAMS nor a rate"),
        (
            xoxno_layout.decode_controller,
            xoxno.controller("A", storage={"Pool": address(account("a"))}),
            "field Pool is not a contract",
        ),
    ],
)
def test_what_is_refused(decode: Callable[[Any], object], written: Written, message: str) -> None:
    """An entry of another form, or with more than a bound allows, is refused, and what is wrong is named."""
    with pytest.raises(DecodeError, match=message):
        decode(entry_of(written))


def kinked(curve: dict[str, ScVal]) -> ScVal:
    """A configuration of Alula with changes to its curve."""
    return alula.pool_config(interest_rate_model=alula.kinked(**curve))


def slender_pool(data: ScVal) -> Written:
    """A pool of Slender with this ReserveData."""
    ledger = slender.SlenderLedger()
    ledger.add_market("A", ["T"])
    ledger.change("A", {slender.variant("ReserveAssetKey", "T"): data})
    return ledger.instance("A")


def slender_reserve(entry: Entry) -> object:
    """The reserve in it."""
    return slender_layout.decode_reserve(slender_layout.decode_instance(entry), contract("T"))


DATA, CONFIG = entry_of(blend.reserve_data("A", "T", "v2")), entry_of(blend.reserve_config("A", "T", "v2"))
Numbers = dict[str, Number]
NUMBERS: list[tuple[Numbers, Callable[..., Written], Callable[[Entry], object]]] = [
    (alula_layout.STATE, partial(alula.pool, "A", "T"), alula_layout.decode_pool),
    (alula_layout.CURVE, lambda **curve: alula.pool("A", "T", config=kinked(curve)), alula_layout.decode_pool),
    (
        blend_layout.POOL_CONFIG,
        lambda **config: blend.pool_instance("A", config=config),
        blend_layout.decode_instance,
    ),
    (
        blend_layout.CONFIG,
        partial(blend.reserve_config, "A", "T", "v2"),
        lambda entry: blend_layout.decode_reserve(entry, DATA),
    ),
    (
        blend_layout.STATE,
        partial(blend.reserve_data, "A", "T", "v2"),
        lambda entry: blend_layout.decode_reserve(CONFIG, entry),
    ),
    (k2_layout.RESERVE, partial(k2.reserve, "A", "T"), k2_layout.decode_reserve),
    (k2_layout.MODEL, partial(k2.rate_model, "A", "T"), lambda entry: k2_layout.decode_rate_model(entry, None)),
    (xoxno_layout.PARAMETERS, partial(xoxno.parameters, "A", 1, "T"), xoxno_layout.decode_parameters),
    (xoxno_layout.STATE, partial(xoxno.state, "A", 1, "T"), xoxno_layout.decode_state),
    (slender_layout.RESERVE, lambda **data: slender_pool(slender.reserve_data("T", **data)), slender_reserve),
    (slender_layout.CONFIGURATION, lambda **data: slender_pool(slender.configuration("T", **data)), slender_reserve),
]
BITS = {scval.U32: (0, 32), scval.U64: (0, 64), scval.U128: (0, 128), scval.I128: (-(2**127), 127)}


@pytest.mark.parametrize(("layout", "written", "decode"), NUMBERS)
def test_every_number_has_bounds(
    layout: Numbers, written: Callable[..., Written], decode: Callable[[Entry], object]
) -> None:
    """At its bounds a number is read, beyond them it is refused with its field; no amount is negative."""
    for name, (kind, least, most) in layout.items():
        smallest, bits = BITS[kind]
        assert kind != scval.I128 or least >= 0
        assert kind != scval.U64 or most < 2**62
        for value in (least, min(most, 2**bits - 1)):
            decode(entry_of(written(**{name: (kind, value)})))
        for value in (least - 1, most + 1):
            if smallest <= value < 2**bits:
                with pytest.raises(DecodeError, match=f"field {name} is {value}, (below|above)"):
                    decode(entry_of(written(**{name: (kind, value)})))


def test_the_longest_list_of_blend() -> None:
    """A pool may list as many reserves as the bound says."""
    assert 64 == len(blend_layout.decode_reserve_list(entry_of(blend.reserve_list("A", MANY[1:]))))


def test_statuses() -> None:
    """Numbers and variants have the names of docs/protocols; one that is not known keeps its own."""
    variants = {name: alula.market_instance("A", name) for name in (*alula_layout.STATUS_NAMES, "OnFire")}
    named = {name: alula_layout.decode_instance(entry_of(written)).status for name, written in variants.items()}
    numbers = [blend.pool_instance("A", status=status) for status in (*range(8), 2**32 - 1)]

    assert 8 == len(named)
    assert {"FrozenByAdmin": "frozen_by_admin", "OnFire": "unknown_OnFire"}.items() <= named.items()
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
    ] == [blend_layout.decode_instance(entry_of(written)).status for written in numbers]
    for paused, status in ((True, "paused"), (False, "active"), (None, "active")):
        value = u32(1) if paused is None else xoxno.flag(paused)
        controller = xoxno.controller("A", storage={"Paused": value})
        assert status == xoxno_layout.decode_controller(entry_of(controller)).status


def test_instance_of_alula_with_more_keys() -> None:
    """Optional keys, keys that carry an address and keys of later versions are no hindrance."""
    more = alula.market_instance("A", storage={"FarmsContract": address(contract("farms")), "Later": u32(1)})
    decoded = alula_layout.decode_instance(entry_of(more))
    reserved = (vec(symbol("FlashReserved"), address(contract("USDC"))), i128(5))

    assert 14 == len(decoded.storage)
    written = instance(contract("A"), [*decoded.storage, reserved], alula.CODE)
    assert 15 == len(alula_layout.decode_instance(entry_of(written)).storage)


def test_what_is_only_shown_costs_nothing() -> None:
    """A part of Alula's configuration that nothing is computed from may be missing or of another kind."""
    parts = alula.pool_config(status=u32(1), health_config=None, ir_reactivity_constant=None)
    whole, fewer = (
        {item.name for item in alula_layout.decode_pool(entry_of(written)).shown}
        for written in (alula.pool("A", "T"), alula.pool("A", "T", config=parts))
    )

    assert {"flags", "ir_reactivity_constant", "supply_limit"} < whole - fewer
    assert set(alula.CURVE) | {"take_rate_bps", "borrow_fee_bps"} <= fewer


@given(st.binary(max_size=200), st.integers(0, 500))
def test_damaged_bytes(noise: bytes, position: int) -> None:
    """An entry with other bytes in it is decoded or refused, and nothing else happens."""
    key, data = alula.pool("A", "T")
    damaged = data[:position] + noise + data[position + len(noise) :]
    with suppress(DecodeError):
        assert min(alula_layout.decode_pool(entry_of((key, damaged))).numbers.values()) >= 0


def test_code_decides_the_generation_of_blend() -> None:
    """Known code decides by itself, whatever fields there are."""
    with_more = blend.pool_instance("A", "v1", config={"min_collateral": i128(1)})
    with_less = blend.pool_instance("A", "v2", config={"min_collateral": None})
    found = [blend_layout.decode_instance(entry_of(written)).generation for written in (with_more, with_less)]

    assert ["v1", "v2"] == found


def test_stated_definition_of_the_configuration_hash() -> None:
    """It is SHA-256 over two maps of canonical XDR: the storage in any order, and each asset with its ResConfig."""
    assets = tuple(map(contract, ["T", "U"]))
    pool = blend_layout.decode_instance(entry_of(blend.pool_instance("A", "v2")))
    configs = [entry_of(blend.reserve_config("A", asset, "v2", index=index)) for index, asset in enumerate("TU")]
    in_order = ["Name", "Admin", "Config", "BLNDTkn", "Backstop"]  # XDR has the length of a symbol first
    storage: ScVal = (scval.MAP, tuple((symbol(name), dict(pool.storage)[symbol(name)]) for name in in_order))
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
    model = k2_layout.decode_rate_model(None, entry_of(k2.rate_contract("A", {"OU": 2})))

    assert 8 == k2_layout.decode_router(entry_of(k2.router_instance("A", storage={"ORACFG": noted}))).price_decimals
    assert [0, 2, 0, 0] == list(model.values())


@pytest.mark.parametrize(
    ("flags", "expected"), [(0b1, "active"), (0b10, "frozen"), (0b100, "borrowing_enabled"), (0b1000, "paused")]
)
def test_each_flag_of_k2(flags: int, expected: str) -> None:
    """Bits 50 to 53 are the four flags, one each."""
    shown = k2_layout.decode_reserve(entry_of(k2.reserve("A", "USDC", configuration=k2.bitmap(flags=flags)))).shown
    names = ("active", "frozen", "borrowing_enabled", "paused", "flashloan_enabled")

    assert [expected] == [item.name for item in shown if item.name in names and item.value]


def test_controller_of_xoxno_with_bare_keys() -> None:
    """Its keys may be variants or bare symbols; others do not matter."""
    bare = [(symbol("Pool"), address(contract("A pool"))), (u32(7), u32(7))]

    assert (
        contract("A pool") == xoxno_layout.decode_controller(entry_of(instance(contract("A"), bare, xoxno.CODE))).pool
    )
