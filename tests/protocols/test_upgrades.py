"""What an upgrade of a contract does to a reading: unknown code is read by its form, or unread with the field."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.compute import Tables
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import i128, string, struct_map, symbol, u32, u64, vec
from tests import alula_chain, blend_chain
from tests.blend_chain import UNKNOWN_CODE, Written, contract

XLM = contract("XLM")


def blend(*written: Written, generation: str = "v2") -> Tables:
    """A Blend market A of unknown code with two reserves and these entries over its own."""
    ledger = blend_chain.BlendLedger()
    ledger.add_market("A", generation, ["USDC", "XLM"])
    ledger.replace(blend_chain.pool_instance("A", generation, wasm_hash=UNKNOWN_CODE), *written)
    return ledger.compute([blend_chain.candidate("A")])


def alula(*written: Written) -> Tables:
    """An Alula market A with two pools and these entries over its own."""
    ledger = alula_chain.AlulaLedger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(*written)
    return ledger.compute([alula_chain.candidate("A")])


config, data, pool = blend_chain.reserve_config, blend_chain.reserve_data, alula_chain.pool
market_of_blend = blend_chain.pool_instance

EXTRA = [
    (blend, config("A", "XLM", "v2", new_limit=7)),
    (blend, data("A", "XLM", "v2", new_total=i128(7))),
    (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"new": u32(1)}, storage={"New": string("x")})),
    (alula, pool("A", "XLM", new_total=i128(7))),
    (alula, pool("A", "XLM", config=alula_chain.pool_config(new_model=vec(symbol("New"))))),
    (alula, alula_chain.market_instance("A", storage={"New": u64(1)})),
]


@pytest.mark.parametrize(("read", "written"), EXTRA)
def test_further_field(read: Callable[..., Tables], written: Written) -> None:
    """A field that was added costs nothing: the numbers are those without it."""
    tables = read(written)

    assert [] == tables.unread
    assert read().pools.equals(tables.pools)


def test_unknown_code_is_flagged() -> None:
    """Where the code of the markets is known, other code is flagged in a notice, with the form it was read as."""
    notices = blend(generation="v1").notices

    assert [f"market {contract('A')} runs contract code {UNKNOWN_CODE.hex()}, which is not known for blend"] == [
        notice.split(";")[0] for notice in notices
    ]
    assert "the form of v1" in notices[0]


RESERVE_CONFIG = ("decimals", "util", "r_base", "r_one", "r_two", "r_three", "reactivity")
RESERVE_DATA = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit", "last_time")
POOL = ("total_available", "total_borrowed", "total_collateral", "take_rate_fees_sum", "interest_rate_modifier_bps",
        "total_j_tokens", "total_d_tokens", "token_decimals", "last_accrual_timestamp", "pool_address",
        "token_address", "config")  # fmt: skip

CHANGED = [
    *((blend, lambda value, name=name: config("A", "XLM", "v2", **{name: value}), name) for name in RESERVE_CONFIG),
    *((blend, lambda value, name=name: data("A", "XLM", "v2", **{name: value}), name) for name in RESERVE_DATA),
    *((alula, lambda value, name=name: pool("A", "XLM", **{name: value}), name) for name in POOL),
]


@pytest.mark.parametrize(
    "value", [None, symbol("other"), struct_map({"value": i128(1)})], ids=["missing", "symbol", "map"]
)
@pytest.mark.parametrize(("read", "write", "name"), CHANGED)
def test_field_that_is_needed(
    read: Callable[..., Tables], write: Callable[..., Written], name: str, value: ScVal | None
) -> None:
    """A needed field that is gone, or of another type, makes that pool unread and is named; the other pool is read."""
    tables = read(write(value))

    assert [(XLM, "undecodable")] == [(item.pool, item.reason) for item in tables.unread]
    assert name in tables.unread[0].detail or name == "config"
    assert [contract("USDC")] == tables.pools["pool"].to_list()


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"oracle": None}), "oracle"),
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"status": i128(1)}), "status"),
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, storage={"Name": symbol("x")}), "Name"),
        (alula, alula_chain.market_instance("A", storage={"Oracle": None}), "Oracle"),
        (alula, alula_chain.market_instance("A", storage={"MarketStatus": u32(1)}), "MarketStatus"),
        (alula, alula_chain.market_instance("A", storage={"Name": symbol("x")}), "Name"),
    ],
)
def test_market_that_cannot_be_read(read: Callable[..., Tables], written: Written, name: str) -> None:
    """A market whose instance lacks a needed field, or has it in another type, is unread with the field."""
    tables = read(written)

    assert [(contract("A"), None, "undecodable")] == [(item.market, item.pool, item.reason) for item in tables.unread]
    assert f"field {name}" in tables.unread[0].detail
