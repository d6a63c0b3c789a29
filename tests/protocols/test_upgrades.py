"""What an upgrade of a contract does to a reading: unknown code is read by its form, or unread with the field."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, i128, string, struct_map, symbol, u32, u64, vec
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables, compute
from tests.protocols import alula_chain, blend_chain, k2_chain, peridot_chain, slender_chain, xoxno_ledger
from tests.protocols.made_ledger import NOW, UNKNOWN_CODE, MadeLedger, Written, contract

ASSETS = ("USDC", "XLM")
HUB_MARKETS = ((1, "USDC"), (1, "XLM"))


@dataclass(frozen=True)
class Gone:
    """An entry that is not there any more."""

    written: Written


Change = Written | Gone


def change(ledger: MadeLedger, changes: Sequence[Change]) -> None:
    """Write entries over those of a ledger, or take them away."""
    for item in changes:
        if isinstance(item, Gone):
            ledger.remove(item.written)
        else:
            ledger.replace(item)


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


def k2(*changes: Change) -> Tables:
    """A K2 router A with two reserves and these entries over its own."""
    ledger = k2_chain.K2Ledger()
    ledger.add_market("A", ASSETS)
    change(ledger, changes)
    return ledger.compute([k2_chain.candidate("A")])


def xoxno(*changes: Change) -> Tables:
    """A XOXNO controller A with two hub markets and these entries over its own."""
    ledger = xoxno_ledger.XoxnoLedger()
    ledger.add_market("A", HUB_MARKETS)
    change(ledger, changes)
    return ledger.compute([xoxno_ledger.candidate("A")], [xoxno_ledger.deployment("A", HUB_MARKETS)])


def peridot(*changes: Change) -> Tables:
    """A Peridot controller A with two vaults and these entries over its own."""
    ledger = peridot_chain.PeridotLedger()
    ledger.add_market("A", ASSETS)
    change(ledger, changes)
    return ledger.compute([peridot_chain.candidate("A")])


def slender(*changes: Change) -> Tables:
    """A Slender pool A with two reserves and these entries over its own."""
    ledger = slender_chain.SlenderLedger()
    ledger.add_market("A", ASSETS)
    change(ledger, changes)
    return ledger.compute([slender_chain.candidate("A")])


def pool_of(read: Callable[..., Tables], asset: str) -> str:
    """The pool id of a token, which not all protocols have pools named after."""
    if read is xoxno:
        return xoxno_ledger.pool_id(1, asset)
    return contract(f"{asset} vault" if read is peridot else asset)


def slender_pool(changes: dict[ScVal, ScVal | None]) -> Written:
    """The one entry of a Slender pool, with changes to its storage."""
    ledger = slender_chain.SlenderLedger()
    ledger.add_market("A", ASSETS)
    ledger.change("A", changes)
    return ledger.instance("A")


def slender_reserve(**changes: ScVal | None) -> Written:
    """The same with changes to the fields of a reserve."""
    data = slender_chain.reserve_data("XLM", **changes)
    return slender_pool({slender_chain.variant("ReserveAssetKey", "XLM"): data})


def peridot_entry(owner: str, name: str, value: ScVal | None) -> Change:
    """An entry of a Peridot contract, which has one for each value."""
    written = peridot_chain.stored(owner, name, VOID if value is None else value)
    return Gone(written) if value is None else written


config, data, pool = blend_chain.reserve_config, blend_chain.reserve_data, alula_chain.pool
market_of_blend = blend_chain.pool_instance

EXTRA = [
    (blend, config("A", "XLM", "v2", new_limit=7)),
    (blend, data("A", "XLM", "v2", new_total=i128(7))),
    (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"new": u32(1)}, storage={"New": string("x")})),
    (alula, pool("A", "XLM", new_total=i128(7))),
    (alula, pool("A", "XLM", config=alula_chain.pool_config(new_model=vec(symbol("New"))))),
    (alula, alula_chain.market_instance("A", storage={"New": u64(1)})),
    (k2, k2_chain.reserve("A", "XLM", new_index=k2_chain.u128(7))),
    (k2, k2_chain.rate_model("A", "XLM", new_slope=k2_chain.u128(7))),
    (k2, k2_chain.a_token("A", "XLM", new_total=i128(7))),
    (k2, k2_chain.router_instance("A", storage={"NEW": u32(1)})),
    (xoxno, xoxno_ledger.state("A", 1, "XLM", new_total=i128(7))),
    (xoxno, xoxno_ledger.parameters("A", 1, "XLM", new_slope=i128(7))),
    (xoxno, xoxno_ledger.controller("A", storage={"New": u32(1)})),
    (peridot, peridot_entry("XLM vault", "NewTotal", i128(7))),
    (peridot, peridot_entry("A", "New", i128(7))),
    (slender, slender_reserve(new_total=i128(7))),
    (slender, slender_pool({slender_chain.variant("New"): i128(7)})),
]


@pytest.mark.parametrize(("read", "written"), EXTRA)
def test_further_field(read: Callable[..., Tables], written: Change) -> None:
    """A field that was added costs nothing: the numbers are those without it."""
    tables = read(written)

    assert [] == tables.unread
    assert read().pools.equals(tables.pools)


def ledger_of(protocol: str) -> MadeLedger:
    """A market A with two pools."""
    ledgers: dict[str, Callable[[], MadeLedger]] = {
        "alula": alula_chain.AlulaLedger,
        "blend": blend_chain.BlendLedger,
        "k2": k2_chain.K2Ledger,
        "peridot": peridot_chain.PeridotLedger,
        "slender": slender_chain.SlenderLedger,
        "xoxno": xoxno_ledger.XoxnoLedger,
    }
    ledger: Any = ledgers[protocol]()
    if protocol == "xoxno":
        ledger.add_market("A", HUB_MARKETS)
    elif protocol == "blend":
        ledger.add_market("A", "v2", ASSETS)
        ledger.replace(market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE))
    else:
        ledger.add_market("A", ASSETS)
    made: MadeLedger = ledger
    return made


def listed(protocol: str, code: bytes | None) -> list[Deployment]:
    """A list that has market A, with the hash of its code or without."""
    known = KnownContract(
        contract("A"), MARKET, "test", datetime.date(2026, 11, 18), wasm_hash=None if code is None else code.hex()
    )
    pools = xoxno_ledger.deployment("A", HUB_MARKETS)
    around = replace(pools, contracts=(known, *pools.contracts[1:])) if protocol == "xoxno" else None
    return [around or Deployment(protocol, "test", (known,))]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_code_other_than_listed(protocol: str) -> None:
    """Where a list has the hash of a market's code, other code is read all the same, with one notice that says so."""
    candidate = replace(blend_chain.candidate("A"), protocol=protocol)
    ledger, lists = ledger_of(protocol), listed(protocol, b"\1" * 32)
    reading = ledger.read([candidate], lists)
    tables = compute([reading.result], PROTOCOLS, reading.certificate.ledger, NOW)

    (market,) = reading.result.markets
    told = [notice for notice in tables.notices if "runs contract code" in notice]
    assert [f"market {contract('A')} runs contract code {market.wasm_hash}, which is not known for {protocol}"] == [
        notice.split(";")[0] for notice in told
    ]
    assert {contract("A")} == reading.result.unknown_code
    assert (2, []) == (tables.pools.height, tables.unread)


@pytest.mark.parametrize("protocol", sorted(set(PROTOCOLS) - {"blend"}))
def test_code_that_is_known_or_that_no_list_has(protocol: str) -> None:
    """The listed code needs no word, nor does any where no list has a hash: there is nothing to compare with."""
    candidate = replace(blend_chain.candidate("A"), protocol=protocol)
    unknown = ledger_of(protocol).read([candidate], listed(protocol, None)).result
    code = bytes.fromhex(unknown.markets[0].wasm_hash or "")
    known = ledger_of(protocol).read([candidate], listed(protocol, code)).result

    for reading in (unknown, known):
        assert set() == reading.unknown_code
        assert [] == [notice for notice in reading.notices if "contract code" in notice]


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

K2_RESERVE = (*k2_chain.STATE, "a_token_address", "debt_token_address", "interest_rate_strategy_address",
              "last_update_timestamp", "configuration")  # fmt: skip
XOXNO_PARAMETERS = (*xoxno_ledger.PARAMETERS, "asset_decimals", "asset_id", "reserve_factor")
PERIDOT_VAULT = ("TotalBorrowed", "BorrowIndex", "LastUpdateTime", "UnderlyingToken")
SLENDER_RESERVE = ("borrower_ar", "borrower_ir", "lender_ar", "lender_ir", "last_update_timestamp", "reserve_type")

CHANGED = [
    *((blend, lambda value, name=name: config("A", "XLM", "v2", **{name: value}), name) for name in RESERVE_CONFIG),
    *((blend, lambda value, name=name: data("A", "XLM", "v2", **{name: value}), name) for name in RESERVE_DATA),
    *((alula, lambda value, name=name: pool("A", "XLM", **{name: value}), name) for name in POOL),
    *((k2, lambda value, name=name: k2_chain.reserve("A", "XLM", **{name: value}), name) for name in K2_RESERVE),
    *((k2, lambda value, name=name: k2_chain.rate_model("A", "XLM", **{name: value}), name) for name in k2_chain.MODEL),
    (k2, lambda value: k2_chain.a_token("A", "XLM", total_supply_scaled=value), "total_supply_scaled"),
    (k2, lambda value: k2_chain.debt_token("A", "XLM", total_debt_scaled=value), "total_debt_scaled"),
    *((xoxno, lambda value, name=name: xoxno_ledger.state("A", 1, "XLM", **{name: value}), name)
      for name in xoxno_ledger.STATE),
    *((xoxno, lambda value, name=name: xoxno_ledger.parameters("A", 1, "XLM", **{name: value}), name)
      for name in XOXNO_PARAMETERS),
    *((peridot, lambda value, name=name: peridot_entry("XLM vault", name, value), name) for name in PERIDOT_VAULT),
    *((slender, lambda value, name=name: slender_reserve(**{name: value}), name) for name in SLENDER_RESERVE),
]  # fmt: skip


@pytest.mark.parametrize(
    "value", [None, symbol("other"), struct_map({"value": i128(1)})], ids=["missing", "symbol", "map"]
)
@pytest.mark.parametrize(("read", "write", "name"), CHANGED)
def test_field_that_is_needed(
    read: Callable[..., Tables], write: Callable[..., Change], name: str, value: ScVal | None
) -> None:
    """A needed field that is gone, or of another type, makes that pool unread and is named; the other pool is read."""
    tables = read(write(value))

    assert [(pool_of(read, "XLM"), "undecodable")] == [(item.pool, item.reason) for item in tables.unread]
    assert name in tables.unread[0].detail or name == "config"
    assert [pool_of(read, "USDC")] == tables.pools["pool"].to_list()


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"oracle": None}), "oracle"),
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, config={"status": i128(1)}), "status"),
        (blend, market_of_blend("A", "v2", wasm_hash=UNKNOWN_CODE, storage={"Name": symbol("x")}), "Name"),
        (alula, alula_chain.market_instance("A", storage={"Oracle": None}), "Oracle"),
        (alula, alula_chain.market_instance("A", storage={"MarketStatus": u32(1)}), "MarketStatus"),
        (alula, alula_chain.market_instance("A", storage={"Name": symbol("x")}), "Name"),
        (k2, k2_chain.router_instance("A", storage={"ORACLE": u32(1)}), "ORACLE"),
        (k2, k2_chain.router_instance("A", storage={"PAUSED": u32(1)}), "PAUSED"),
        (xoxno, xoxno_ledger.controller("A", storage={"Pool": None}), "Pool"),
        (xoxno, xoxno_ledger.controller("A", storage={"Pool": symbol("x")}), "Pool"),
        (peridot, peridot_entry("A", "SupportedMarkets", None), "SupportedMarkets"),
        (peridot, peridot_entry("A", "SupportedMarkets", u32(1)), "SupportedMarkets"),
        (peridot, peridot_entry("A", "Oracle", symbol("x")), "Oracle"),
        (slender, slender_pool({slender_chain.variant("Reserves"): None}), "Reserves"),
        (slender, slender_pool({slender_chain.variant("Reserves"): u32(1)}), "Reserves"),
    ],
)
def test_market_that_cannot_be_read(read: Callable[..., Tables], written: Change, name: str) -> None:
    """A market whose instance lacks a needed field, or has it in another type, is unread with the field."""
    tables = read(written)

    assert [(contract("A"), None, "undecodable")] == [(item.market, item.pool, item.reason) for item in tables.unread]
    assert name in tables.unread[0].detail
