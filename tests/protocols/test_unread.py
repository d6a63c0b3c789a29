"""What costs one pool, or one market, of any protocol its row: the reason in full, and that all the others stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl
import pytest

from exporter.ledger.codec.scval import VEC, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, symbol, u32, u64, u128, vec
from tests.protocols import alula_chain as alula
from tests.protocols import blend_chain as blend
from tests.protocols import k2_chain as k2
from tests.protocols import peridot_chain as peridot
from tests.protocols import slender_chain as slender
from tests.protocols import xoxno_ledger as xoxno
from tests.protocols.all_ledgers import computed, ledger_of, pool_of
from tests.protocols.made_ledger import (
    Change,
    Raw,
    Written,
    account,
    archived,
    balance,
    bare_token,
    contract,
    counts_of,
    entry,
    instance,
    put,
    token_instance,
    unread_of,
    without,
)
from tests.protocols.slender_chain import variant

A, XLM, USDC = contract("A"), contract("XLM"), contract("USDC")


def cut(written: Written) -> Change:
    """Take the last four bytes of an entry away."""
    return put((written[0], written[1][:-4]))


def slender_with(key: ScVal, value: Raw) -> Change:
    """Change what a Slender pool keeps in its instance."""
    return lambda ledger: ledger.change("A", {key: value})


def slender_reserve(**changes: Any) -> Change:
    """Change the second reserve of a Slender pool."""
    return slender_with(variant("ReserveAssetKey", "XLM"), slender.reserve_data("XLM", **changes))


def vault(name: str, value: ScVal) -> Written:
    """An entry of Peridot's second vault."""
    return peridot.stored("XLM vault", name, value)


CONFIG, DATA = blend.reserve_config("A", "XLM", "v2"), blend.reserve_data("A", "XLM", "v2")
K2_RESERVE, K2_MODEL = k2.reserve("A", "XLM"), k2.rate_model("A", "XLM")
K2_TOKENS = (
    (k2.a_token("A", "XLM"), f"aToken {contract('A aXLM')}"),
    (k2.debt_token("A", "XLM"), f"debt token {contract('A dXLM')}"),
)
XOXNO_ENTRIES = ((xoxno.state("A", 1, "XLM"), "State"), (xoxno.parameters("A", 1, "XLM"), "Params"))
OTHER_MODEL = peridot.stored("other", "Kink", u128(1))
CASH = balance("XLM", "XLM vault", 0)
RESTORED = "is archived; it can be restored"
FEED = variant("PriceFeed", "XLM")


def together(*changes: Change) -> Change:
    """One change after the other."""
    return lambda ledger: [change(ledger) for change in changes]


ALULA_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"token_decimals": u32(39)}, "Pool: field token_decimals is 39, above 38"),
    ({"token_address": address(account("T"))}, "token_address is not a contract"),
    ({"config": alula.pool_config(10_001)}, "take_rate_bps is 10001"),
    ({"config": alula.pool_config(accrual_model=alula.unit("Simple"))}, "accrual_model Simple is not known"),
    ({"config": alula.pool_config(interest_rate_model=vec(symbol("Linear"), u32(1)))}, "Linear is not known"),
    ({"config": alula.pool_config(interest_rate_model=alula.unit("Kinked"))}, "has not one value"),
]
K2_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"liquidity_index": 0}, "RDATA: field liquidity_index is 0, below 1"),
    ({"current_liquidity_rate": 10**38}, f"RDATA: field current_liquidity_rate is {10**38}, above {10**38 - 1}"),
    ({"a_token_address": address(account("A"))}, "field a_token_address is not a contract"),
    ({"configuration": k2.bitmap(decimals=39)}, "39 decimals, more than 38"),
    ({"configuration": k2.bitmap(reserve_factor=10_001)}, "the reserve factor is 10001, above 10000"),
]
XOXNO_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"reserve_factor": u32(10_001)}, "reserve_factor is 10001, above 10000"),
    ({"asset_decimals": u32(28)}, "asset_decimals is 28, above 27"),
]
XOXNO_STATE: list[tuple[dict[str, Any], str]] = [
    ({"cash": -1}, "State: field cash is -1, below 0"),
    ({"supply_index": 0}, "field supply_index is 0, below 1"),
    ({"borrow_index": 10**36 + 1}, f"field borrow_index is {10**36 + 1}, above {10**36}"),
    ({"last_timestamp": 2**62}, f"State: field last_timestamp is {2**62}, above"),
]

POOLS: list[tuple[str, Change, str, str]] = [
    *(("alula", put(alula.pool("A", "XLM", **item)), "undecodable", detail) for item, detail in ALULA_FIELDS),
    *(("k2", put(k2.reserve("A", "XLM", **item)), "undecodable", detail) for item, detail in K2_FIELDS),
    *(
        ("xoxno", put(xoxno.parameters("A", 1, "XLM", **item)), "undecodable", detail)
        for item, detail in XOXNO_PARAMETERS
    ),
    *(("xoxno", put(xoxno.state("A", 1, "XLM", **item)), "undecodable", detail) for item, detail in XOXNO_STATE),
    *(
        (
            "blend",
            put(blend.reserve_config("A", "XLM", "v2", **{name: None})),
            "undecodable",
            "of the fields enabled and supply_cap only one is there",
        )
        for name in ("enabled", "supply_cap")
    ),
    ("alula", archived(alula.pool("A", "XLM")), "archived", f"the pool's entry {RESTORED}"),
    ("alula", without(alula.pool("A", "XLM")), "absent", "the pool is listed, but its Pool entry is missing"),
    ("alula", put(alula.pool("A", "XLM", pool_address=address(contract("else")))), "inconsistent", contract("else")),
    ("alula", put(bare_token("XLM"), alula.pool("A", "XLM", token_symbol=(14, b"x" * 201))), "undecodable", "METADATA"),
    (
        "alula",
        put(
            alula.pool(
                "A",
                "XLM",
                total_available=0,
                config=alula.pool_config(interest_rate_model=alula.kinked(kink2_ur_bps=10_000)),
            )
        ),
        "inconsistent",
        "kinked APR",
    ),
    *(
        ("blend", without(item), "absent", f"the reserve's {what} entry is missing")
        for item, what in ((CONFIG, "ResConfig"), (DATA, "ResData"))
    ),
    *(
        ("blend", archived(item), "archived", f"the reserve's {what} entry {RESTORED}")
        for item, what in ((CONFIG, "ResConfig"), (DATA, "ResData"))
    ),
    *(("blend", cut(item), "undecodable", "the bytes end inside") for item in (CONFIG, DATA)),
    (
        "blend",
        put((DATA[0], blend.reserve_data("A", "USDC", "v2")[1])),
        "undecodable",
        "the entry is under another key than the one that was asked for",
    ),
    (
        "blend",
        put(blend.reserve_config("A", "XLM", "v2", decimals=19)),
        "undecodable",
        "ResConfig: field decimals is 19, above 18",
    ),
    (
        "blend",
        put(blend.reserve_data("A", "XLM", "v2", b_supply=2**127 - 1, b_rate=2**127 - 1)),
        "overflow",
        "the market's own math has no result: total supply: multiply_divide_floor: the result does not fit",
    ),
    ("k2", archived(K2_RESERVE), "archived", f"the reserve's RDATA entry {RESTORED}"),
    ("k2", without(K2_RESERVE), "absent", "the reserve's RDATA entry is missing"),
    *(("k2", archived(item), "archived", f"the reserve's {what} {RESTORED}") for item, what in K2_TOKENS),
    *(("k2", without(item), "absent", f"the reserve's {what} is missing") for item, what in K2_TOKENS),
    ("k2", archived(K2_MODEL), "archived", f"the reserve's APARAMS entry {RESTORED}"),
    (
        "k2",
        put(k2.a_token("A", "XLM", underlying_asset=address(USDC))),
        "inconsistent",
        f"the aToken {contract('A aXLM')} says that it is of asset",
    ),
    (
        "k2",
        put(k2.debt_token("A", "XLM", pool_address=address(USDC))),
        "inconsistent",
        f"the debt token {contract('A dXLM')} says that it is of asset",
    ),
    ("k2", put(k2.debt_token("A", "XLM", -5)), "undecodable", "field total_debt_scaled is -5"),
    (
        "k2",
        put(k2.a_token("A", "XLM", 10**38 - 1), k2.reserve("A", "XLM", liquidity_index=10**28)),
        "overflow",
        "total supply",
    ),  # which fits into 128 bits and not into 38 digits
    ("peridot", archived(vault("BorrowIndex", VOID)), "archived", f"the vault's entry BorrowIndex {RESTORED}"),
    ("peridot", put(vault("ReserveFactorScaled", u128(10**6 + 1))), "undecodable", "is 1000001, above 1000000"),
    ("peridot", put(vault("TotalReserves", u128(2**127))), "undecodable", "more than any token has"),
    ("peridot", put(vault("LastUpdateTime", u64(2**62))), "undecodable", "LastUpdateTime is beyond any time"),
    ("peridot", put(vault("BoostedVault", address(account("a")))), "undecodable", "BoostedVault is not a contract"),
    (
        "peridot",
        put(vault("Peridottroller", address(contract("D")))),
        "inconsistent",
        f"the vault says that its controller is {contract('D')}",
    ),
    ("peridot", without(peridot.vault_instance("XLM vault")), "absent", "no contract at this vault's address"),
    ("peridot", put(instance(XLM, None, peridot.CODE)), "undecodable", "its token gives no decimals"),
    ("peridot", put(token_instance("XLM", b"XLM", 39)), "undecodable", "39 decimals, more than 38"),
    ("peridot", without(CASH), "undecodable", "has no balance of its token"),
    ("peridot", archived(CASH), "archived", "balance"),
    ("peridot", put(token_instance("XLM", b"XLM")), "undecodable", "balance() of"),
    (
        "peridot",
        together(lambda ledger: ledger.boost("XLM", u128(10**10)), put(peridot.vault_instance("XLM vault"))),
        "overflow",
        "its code is not known",
    ),
    (
        "peridot",
        together(put(vault("InterestModel", address(contract("other"))), OTHER_MODEL), archived(OTHER_MODEL)),
        "archived",
        "entry Kink of its rate model",
    ),
    (
        "peridot",
        put(*(vault(name, u128(500_001)) for name in ("ReserveFactorScaled", "AdminFeeScaled"))),
        "undecodable",
        "together above 1",
    ),
    ("peridot", without(vault("ManagedCash", VOID), vault("RatesReady", VOID)), "undecodable", "form of before 2026"),
    (
        "peridot",
        put(*(vault(name, u128(0)) for name in ("ManagedCash", "TotalBorrowed"))),
        "inconsistent",
        "receipt tokens without anything",
    ),
    (
        "slender",
        slender_with(variant("ReserveAssetKey", "XLM"), None),
        "undecodable",
        "the reserve is listed, but ReserveAssetKey has none of it",
    ),
    ("slender", slender_reserve(reserve_type=vec(symbol("Fungible"))), "undecodable", "has not two tokens"),
    ("slender", slender_reserve(reserve_type=vec(symbol("Isolated"))), "undecodable", "is Isolated, neither"),
    ("slender", slender_reserve(reserve_type=vec()), "undecodable", "reserve_type is empty, neither"),
    ("slender", slender_with(variant("TokenSupply", "XLM debt"), i128(-1)), "undecodable", "is negative"),
    (
        "slender",
        slender_with(FEED, slender.price_feed("A", vec(symbol("Third")))),
        "undecodable",
        "neither Stellar nor Other",
    ),
    (
        "slender",
        slender_with(FEED, slender.price_feed("A", vec(symbol("Other"), symbol("X")), 39)),
        "undecodable",
        "decimals are 39",
    ),
    ("slender", archived(slender.cash("A", "XLM")), "archived", "it is not 0"),
    ("slender", put(slender.cash("A", "XLM", i128(-1))), "undecodable", "is negative"),
    *(("xoxno", archived(item), "archived", f"the pool's {what} entry {RESTORED}") for item, what in XOXNO_ENTRIES),
    *(("xoxno", without(item), "absent", f"its {what} entry is missing") for item, what in XOXNO_ENTRIES),
    ("xoxno", put(xoxno.parameters("A", 1, "XLM", asset_id=address(USDC))), "inconsistent", USDC),
    ("xoxno", put(xoxno.state("A", 1, "XLM", supplied=2**127 - 1, supply_index=10**28)), "overflow", "value of shares"),
]


@cache
def whole(protocol: str) -> pl.DataFrame:
    """The pools where nothing is broken."""
    return computed(protocol, ledger_of(protocol)).pools


@pytest.mark.parametrize(("protocol", "change", "reason", "detail"), POOLS)
def test_pool(protocol: str, change: Change, reason: str, detail: str) -> None:
    """The pool is unread with the reason, and counts among the market's; the other one keeps its row as it was."""
    ledger: Any = ledger_of(protocol)
    if protocol == "k2":  # whose router then asks for this price alone
        ledger.set_prices("A oracle", {"USDC": 2 * 10**14})
    change(ledger)
    tables = computed(protocol, ledger)

    ((place, (found, said)),) = unread_of(tables).items()
    assert ((A, pool_of(protocol, "XLM")), reason) == (place, found)
    assert detail in said
    assert {A: (2, 1)} == counts_of(tables)
    assert whole(protocol).filter(pl.col("pool") == pool_of(protocol, "USDC")).equals(tables.pools)


MANY = [f"T{number}" for number in range(65)]
MARKETS: list[tuple[str, Change, str, str]] = [
    ("alula", archived(alula.market_instance("A")), "archived", f"the market's instance {RESTORED}"),
    ("alula", archived(alula.all_pools("A", [])), "archived", f"the market's list of pools {RESTORED}"),
    ("blend", archived(blend.pool_instance("A")), "archived", f"the market's instance {RESTORED}"),
    ("blend", archived(blend.reserve_list("A", [])), "archived", f"the market's list of reserves {RESTORED}"),
    ("blend", cut(blend.pool_instance("A", "v2")), "undecodable", "the bytes end inside"),
    ("blend", cut(blend.reserve_list("A", ["XLM"])), "undecodable", "the bytes end inside"),
    (
        "blend",
        put(blend.pool_instance("A", "v2", config={"oracle": None})),
        "undecodable",
        "pool instance.Config: field oracle",
    ),
    ("blend", put(blend.reserve_list("A", ["XLM", "XLM"])), "undecodable", "ResList: an address is listed twice"),
    *(
        ("blend", put(entry(A, symbol("ResList"), value)), "undecodable", f"ResList{detail}")
        for value, detail in (
            (vec(address(account("XLM"))), ": an address is not a contract"),
            ((VEC, None), ": the vector is missing"),
            (vec(symbol("T")), "[0]: expected address, found symbol"),
        )
    ),
    *(
        ("alula", put(entry(A, alula.unit("AllPools"), value)), "undecodable", f"AllPools{detail}")
        for value, detail in (
            (vec(address(XLM), address(XLM)), ": an address is listed twice"),
            ((VEC, None), ": the vector is missing"),
            (vec(symbol("a")), "[0]: expected address"),
            (vec(*map(address, map(contract, MANY))), ": 65 addresses"),
            (vec(address(account("a"))), ": an address is not a contract"),
        )
    ),
    *(
        ("k2", put(entry(A, symbol("RLIST"), value)), "undecodable", detail)
        for value, detail in (
            (vec(*map(address, map(contract, MANY))), "65 addresses, more than 64"),
            (vec(address(XLM), address(XLM)), "an address is listed twice"),
            (vec(address(account("A"))), "is not a contract"),
        )
    ),
    ("k2", without(k2.reserve_list("A", [])), "absent", "list of reserves (RLIST) is missing"),
    ("k2", archived(k2.reserve_list("A", [])), "archived", f"the market's list of reserves {RESTORED}"),
    (
        "peridot",
        put(peridot.stored("A", "SupportedMarkets", peridot.flags(dict.fromkeys(MANY, True)))),
        "undecodable",
        "65 vaults, more than 64",
    ),
    *(
        ("slender", slender_with(variant("Reserves"), vec(*map(address, listed))), "undecodable", detail)
        for listed, detail in (
            ((XLM, XLM), "an address is listed twice"),
            ((account("A"),), "is not a contract"),
            (map(contract, MANY), "65 addresses, more than 64"),
        )
    ),
    ("xoxno", archived(xoxno.controller("A")), "archived", f"the market's instance {RESTORED}"),
]


@pytest.mark.parametrize(("protocol", "change", "reason", "detail"), MARKETS)
def test_market(protocol: str, change: Change, reason: str, detail: str) -> None:
    """The market is unread with the reason and is not a row of the markets; another one of the protocol stays."""
    ledger: Any = ledger_of(protocol)
    if protocol in ("alula", "blend", "k2"):
        ledger.add_market("B", **({"generation": "v2"} if protocol == "blend" else {}))
    stays = {} if protocol in ("peridot", "slender", "xoxno") else {contract("B"): (1, 0)}
    change(ledger)
    tables = computed(protocol, ledger, *("B" for _ in stays))

    ((place, (found, said)),) = unread_of(tables).items()
    assert ((A, None), reason) == (place, found)
    assert detail in said
    assert stays == counts_of(tables)
    assert len(stays) == tables.pools.height
