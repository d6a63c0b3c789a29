"""Keys, byte for byte, and what of each protocol's entries is decoded, up to which bound, or refused with its field.

What all of them decode to is in the golden rows, and what a missing field costs in the one-entry sweep.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.observation import Entry
from exporter.protocols.alula import layout as alula_layout
from exporter.protocols.base import Parameter
from exporter.protocols.blend import layout as blend_layout
from exporter.protocols.collector import parameters_of
from exporter.protocols.k2 import layout as k2_layout
from exporter.protocols.slender import layout as slender_layout
from exporter.protocols.xoxno import layout as xoxno_layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.localnet.recorded import BLEND_V2
from tests.protocols.places import A_TOKEN, CONFIG, DATA, MARKET, PARAMETERS, RESERVE, SLENDER, STATE, field
from tests.protocols.places import ALULA as ALULA_POOL
from tests.protocols.places import K2 as K2_RESERVE
from tests.protocols.places import XLM as XLM_OF_THE_RECORDING
from tests.protocols.world import World, account, token

XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"


@pytest.mark.parametrize(
    "text",
    [
        f"-{XLM}",
        f"1-{XLM[:-1]}B",
        f"01-{XLM}",
        f"+1-{XLM}",
        f"1-{XLM}-",
        f"4294967296-{XLM}",
        f"{'9' * 5_000}-{XLM}",
        f"\N{ARABIC-INDIC DIGIT ONE}-{XLM}",
        f"1-{account('a')}",
    ],
)
def test_pool_ids_of_xoxno(text: str) -> None:
    """Only the one spelling of a hub's 32-bit number and a contract is a pool id, and comes back as such."""
    assert (f"12-{XLM}", HubAsset(12, XLM)) == (HubAsset(12, XLM).pool, xoxno_layout.hub_asset(f"12-{XLM}"))
    with pytest.raises(DecodeError, match="is not a pool of XOXNO"):
        xoxno_layout.hub_asset(text)


def refuse(decode: Callable[[Entry], object], protocol: str, key: bytes, value: ScVal | None, *path: Any) -> str:
    """Why a recorded entry is refused with another value at a path."""
    with pytest.raises(DecodeError) as refused:
        decode(changed(protocol, key, value, *path))
    return str(refused.value)


def changed(protocol: str, key: bytes, value: ScVal | None = None, *path: Any) -> Entry:
    """A recorded entry, with another value at a path, or in all."""
    world = World(protocol)
    if path or value is not None:
        world.put(key, value, *path)
    return world.entry(key)


INSTANCE = {protocol: instance_key(market) for protocol, market in MARKET.items()}


@pytest.mark.parametrize(
    ("decode", "protocol", "key", "value", "path", "message"),
    [
        *(
            (alula_layout.decode_instance, "alula", INSTANCE["alula"], value, ("MarketStatus",), message)
            for value, message in (
                (vec(), "field MarketStatus has no variant"),
                (vec(string("Active")), "expected symbol, found string"),
            )
        ),
        *(
            (k2_layout.decode_router, "k2", INSTANCE["k2"], value, (name,), message)
            for name, value, message in (
                ("PADMIN", None, "router instance: field PADMIN is missing"),  # so it is another contract
                ("ORACFG", struct_map({}), "router instance.ORACFG: field price_precision is missing"),
                ("PSTALE", u32(60), "router instance: field PSTALE: expected u64, found u32"),
                ("ASTALMP", struct_map({"x": u64(1)}), "ASTALMP: an asset: expected address, found symbol"),
            )
        ),
        *(
            (lambda entry: k2_layout.decode_share_token(entry, "supply"), "k2", A_TOKEN, value, path, message)
            for value, path, message in (
                (i128(-1), ("State", "total_supply_scaled"), "aToken State: field total_supply_scaled is -1"),
                (i128(10**38), ("State", "total_supply_scaled"), f"is {10**38}, above {10**38 - 1}"),
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


Numbers = dict[str, Number]
RATES = field(k2_layout.reserve_key(MARKET["k2"], token("USDC")), "interest_rate_strategy_address")
OWN_MODEL = k2_layout.rate_model_keys(RATES, token("USDC"))[0]
KINKED = ("config", "interest_rate_model", 1)


def slender_reserve(entry: Entry) -> object:
    """The reserve in a pool's entry."""
    return slender_layout.decode_reserve(slender_layout.decode_instance(entry), XLM_OF_THE_RECORDING)


U32 = Number(scval.U32, 0, 2**32 - 1)
UNSIGNED = Number(scval.U128, 0, 10**38 - 1)
K2_DATA = {
    "liquidity_index": Number(scval.U128, 1, 10**38 - 1),
    "variable_borrow_index": Number(scval.U128, 1, 10**38 - 1),
    "current_liquidity_rate": UNSIGNED,
    "current_variable_borrow_rate": UNSIGNED,
    "last_update_timestamp": TIME,
}
K2_MODEL = {
    "base_variable_borrow_rate": UNSIGNED,
    "optimal_utilization_rate": Number(scval.U128, 0, 10**27),
    "variable_rate_slope1": UNSIGNED,
    "variable_rate_slope2": UNSIGNED,
}
SLENDER_DATA = {
    "lender_ar": AMOUNT,
    "lender_ir": AMOUNT,
    "borrower_ar": AMOUNT,
    "borrower_ir": AMOUNT,
    "last_update_timestamp": TIME,
}
SLENDER_CONFIGURATION = {"util_cap": U32, "discount": U32, "liquidity_cap": AMOUNT}

RAY_FIELDS = (
    "base_borrow_rate",
    "max_borrow_rate",
    "mid_utilization",
    "optimal_utilization",
    "slope1",
    "slope2",
    "slope3",
    "max_utilization",
)
XOXNO_PARAMETERS = {
    **dict.fromkeys(RAY_FIELDS, AMOUNT),
    "reserve_factor": Number(scval.U32, 0, 10_000),
    "asset_decimals": Number(scval.U32, 0, 27),
}
XOXNO_STATE = {
    **dict.fromkeys(("borrowed", "cash", "revenue", "supplied"), AMOUNT),
    **dict.fromkeys(("borrow_index", "supply_index"), Number(scval.I128, 1, 10**36)),
    "last_timestamp": TIME,
}
ALULA_STATE = {
    "interest_rate_modifier_bps": AMOUNT,
    "last_accrual_timestamp": TIME,
    "take_rate_fees_sum": AMOUNT,
    "token_decimals": Number(scval.U32, 0, 38),
    "total_available": AMOUNT,
    "total_borrowed": AMOUNT,
    "total_collateral": AMOUNT,
    "total_d_tokens": AMOUNT,
    "total_j_tokens": AMOUNT,
}
ALULA_FEES = {"take_rate_bps": Number(scval.U32, 0, 10_000)}
BLEND_POOL = {"status": U32, "bstop_rate": Number(scval.U32, 0, 10**7)}
BLEND_FACTORS = ("util", "r_base", "r_one", "r_two", "r_three", "reactivity", "max_util", "c_factor", "l_factor")
BLEND_CONFIG = {**dict.fromkeys((*BLEND_FACTORS, "index"), U32), "decimals": Number(scval.U32, 0, 18)}
BLEND_DATA = {
    **dict.fromkeys(("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit"), AMOUNT),
    "last_time": TIME,
}

DATA_ENTRY, CONFIG_ENTRY = changed("blend", DATA), changed("blend", CONFIG)
NUMBERS: list[tuple[Numbers, str, bytes, tuple[Any, ...], Callable[[Entry], object]]] = [
    (ALULA_STATE, "alula", ALULA_POOL, (), alula_layout.decode_pool),
    (dict.fromkeys(alula_layout.CURVE, AMOUNT), "alula", ALULA_POOL, KINKED, alula_layout.decode_pool),
    (ALULA_FEES, "alula", ALULA_POOL, ("config", "fee_config"), alula_layout.decode_pool),
    (BLEND_POOL, "blend", INSTANCE["blend"], ("Config",), blend_layout.decode_instance),
    (BLEND_CONFIG, "blend", CONFIG, (), lambda entry: blend_layout.decode_reserve(entry, DATA_ENTRY, 0)),
    (BLEND_DATA, "blend", DATA, (), lambda entry: blend_layout.decode_reserve(CONFIG_ENTRY, entry, 0)),
    (K2_DATA, "k2", K2_RESERVE, (), k2_layout.decode_reserve),
    (K2_MODEL, "k2", OWN_MODEL, (), lambda entry: k2_layout.decode_rate_model(entry, None)),
    (XOXNO_PARAMETERS, "xoxno", PARAMETERS, (), xoxno_layout.decode_parameters),
    (XOXNO_STATE, "xoxno", STATE, (), xoxno_layout.decode_state),
    (SLENDER_DATA, "slender", SLENDER, (RESERVE,), slender_reserve),
    (SLENDER_CONFIGURATION, "slender", SLENDER, (RESERVE, "configuration"), slender_reserve),
]
BITS = {scval.U32: (0, 32), scval.U64: (0, 64), scval.U128: (0, 128), scval.I128: (-(2**127), 127)}


@pytest.mark.parametrize(("layout", "protocol", "key", "path", "decode"), NUMBERS)
def test_every_number_has_bounds(
    layout: Numbers, protocol: str, key: bytes, path: tuple[Any, ...], decode: Callable[[Entry], object]
) -> None:
    """A number at its bounds is read; beyond them it is refused by its field. No amount is negative."""
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


def test_an_unknown_status_keeps_its_own_name() -> None:
    """Numbers and variants have the names of docs/protocols; one that is not known keeps its own."""
    found = {
        name: alula_layout.decode_instance(
            changed("alula", INSTANCE["alula"], vec(symbol(name)), "MarketStatus")
        ).market.status
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
    """The hash is SHA-256 over two maps of canonical XDR: the storage in any order, and assets with their ResConfig."""
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


def test_what_is_shown_of_a_configuration() -> None:
    """Numbers and yes or no, in the given order with their scale; the largest of a kind limits nothing.

    What is missing, or no number, is left out.
    """
    fields: dict[str, ScVal] = {
        "cap": (scval.I128, 10**30),
        "enabled": (scval.BOOL, True),
        "name": symbol("pool"),
        "since": (scval.U64, 2**63),
        "positions": (scval.U32, 2**32 - 1),
        "most": (scval.I128, 2**127 - 1),
    }
    scales = {"positions": 0, "enabled": 0, "gone": 7, "name": 0, "cap": 18, "since": 0, "most": 7}
    struct = Fields(((symbol(name), value) for name, value in fields.items()), "ResConfig")

    assert [
        Parameter("positions", 2**32 - 1, 0, no_limit=True),
        Parameter("enabled", 1, 0),
        Parameter("cap", 10**30, 18),
        Parameter("since", 2**63, 0),
        Parameter("most", 2**127 - 1, 7, no_limit=True),
    ] == list(parameters_of(struct, scales))
