"""Values that a contract would not have: which pool or market they cost, with the reason, and that all others stay.

What becomes of entries that are gone, archived or of another form is in test_one_entry.
"""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, VEC, ScVal
from exporter.ledger.codec.scval_encode import address, i128, string, symbol, u32, u64, u128, vec
from exporter.protocols.balances import balance_key
from tests.protocols.places import (
    A_TOKEN,
    ALULA,
    CONFIG,
    DATA,
    DEBT_TOKEN,
    FEED,
    K2,
    LISTS,
    LOW,
    MARKET,
    PARAMETERS,
    RESERVE,
    SLENDER,
    SLENDER_DEBT,
    STATE,
    USDC,
    VAULT,
    XLM,
    vault,
)
from tests.protocols.world import Change, World, account, answer, contract, each, put, token


def bits(value: int, first: int, width: int) -> ScVal:
    """The low word of a K2 reserve's bitmap with other bits."""
    return u128(LOW & ~((1 << width) - 1 << first) | value << first)


BARE = put(instance_key(XLM), None, "METADATA")
LENT = put(vault("TotalBorrowed"), u128(10**9))
FACTORS = ("ReserveFactorScaled", "AdminFeeScaled")
RATES = ("InterestModel", "BorrowYearlyRateScaled")
KINK2 = ("config", "interest_rate_model", 1, "kink2_ur_bps")


def boosted(given: ScVal | str) -> Change:
    """A vault of unknown code that lends and boosts, and what it says of what its suppliers own."""
    return each(
        LENT,
        put(vault("BoostedVault"), address(contract("DeFindex"))),
        lambda world: world.code(VAULT, bytes(32)),
        answer(VAULT, "get_total_underlying", given),
    )


UNDECODABLE: dict[str, list[tuple[Change, str]]] = {
    "alula": [
        (put(ALULA, address(account("T")), "token_address"), "token_address is not a contract"),
        (put(ALULA, vec(symbol("Simple")), "config", "accrual_model"), "Simple is not known"),
        (put(ALULA, vec(symbol("Linear"), u32(1)), "config", "interest_rate_model"), "Linear is not known"),
        (put(ALULA, vec(symbol("Kinked")), "config", "interest_rate_model"), "has not one value"),
        (each(BARE, put(ALULA, string("x" * 201), "token_symbol")), "METADATA is missing; "),
    ],
    "blend": [
        (put(CONFIG, None, "enabled"), "of the fields enabled and supply_cap only one is there"),
        (put(CONFIG, None, "supply_cap"), "of the fields enabled and supply_cap only one is there"),
        (put(instance_key(token("wBTC")), None, "METADATA"), "METADATA is missing; "),
    ],
    "k2": [
        (put(K2, address(account("A")), "a_token_address"), "a_token_address is not a contract"),
        (put(K2, bits(39, 42, 8), "configuration", "data_low"), "39 decimals, more than 38"),
        (put(K2, bits(10_001, 57, 14), "configuration", "data_low"), "factor is 10001, above 10000"),
    ],
    "peridot": [
        (put(vault("ReserveFactorScaled"), u128(10**6 + 1)), "is 1000001, above 1000000"),
        (put(vault("TotalReserves"), u128(2**127)), f"is {2**127}, above {2**127 - 1}"),
        (put(vault("LastUpdateTime"), u64(2**62)), f"is {2**62}, above"),
        (put(vault("BoostedVault"), address(account("a"))), "BoostedVault is not a contract"),
        (put(instance_key(VAULT), i128(-1), "TotalSupply"), "field TotalSupply is -1, below 0"),
        (each(*(put(vault(name), None) for name in RATES)), "InterestModel and BorrowYearlyRateScaled are missing"),
        (BARE, "its token gives no decimals"),
        (put(instance_key(XLM), u32(39), "METADATA", "decimal"), "39 decimals, more than 38"),
        (each(LENT, put(balance_key(XLM, VAULT), None)), "has no balance of its token"),
        (each(LENT, *(put(vault(name), u128(500_001)) for name in FACTORS)), "together above 1"),
        (each(put(vault("ManagedCash"), None), put(vault("RatesReady"), None)), "form of before 2026"),
        (boosted("HostError: Error(WasmVm, InvalidAction)"), "get_total_underlying() failed: HostError"),
        (boosted(i128(5)), "get_total_underlying(): expected"),
        (boosted(u128(2**127)), "more than any token has"),
        (boosted(u128(1)), "what it can pay out is less than the"),
        (boosted(u128(0)), "what it lacks is not known"),
        (put(instance_key(VAULT), None, "TotalSupply"), "get_total_ptokens() failed"),
    ],
    "slender": [
        (put(SLENDER, None, RESERVE), "is listed, but ReserveAssetKey has none of it"),
        (put(SLENDER, vec(symbol("Fungible")), RESERVE, "reserve_type"), "has not two tokens"),
        (put(SLENDER, vec(symbol("Isolated")), RESERVE, "reserve_type"), "is Isolated, neither"),
        (put(SLENDER, vec(), RESERVE, "reserve_type"), "reserve_type is empty, neither"),
        (put(SLENDER, i128(-1), vec(symbol("TokenSupply"), SLENDER_DEBT)), "is negative"),
        (put(SLENDER, vec(symbol("Third")), FEED, "feeds", 0, "feed_asset"), "neither Stellar nor Other"),
        (put(SLENDER, u32(39), FEED, "asset_decimals"), "decimals are 39"),
        (each(BARE, put(SLENDER, None, FEED)), "decimals are None: token instance: field METADATA is missing"),
    ],
    "xoxno": [(put(instance_key(USDC), None, "METADATA"), "METADATA is missing; ")],
}
POOLS: list[tuple[str, Change, str, str]] = [
    *((protocol, *row, "undecodable") for protocol, rows in UNDECODABLE.items() for row in rows),
    ("alula", put(ALULA, address(contract("else")), "pool_address"), contract("else"), "inconsistent"),
    (
        "alula",
        each(put(ALULA, i128(0), "total_available"), put(ALULA, i128(10_000), *KINK2)),
        "kinked APR",
        "inconsistent",
    ),
    (
        "blend",
        each(put(CONFIG, None, "enabled"), put(CONFIG, None, "supply_cap")),
        "has the form of v1",
        "inconsistent",
    ),
    (
        "blend",
        each(*(put(DATA, i128(2**127 - 1), name) for name in ("b_supply", "b_rate"))),
        "the market's own math has no result: total supply: multiply_divide_floor: the result does not fit",
        "overflow",
    ),
    ("k2", put(A_TOKEN, address(USDC), "State", "underlying_asset"), "says that it is of asset", "inconsistent"),
    ("k2", put(DEBT_TOKEN, address(USDC), "State", "pool_address"), "says that it is of asset", "inconsistent"),
    (
        "k2",
        each(put(A_TOKEN, i128(10**38 - 1), "State", "total_supply_scaled"), put(K2, u128(10**28), "liquidity_index")),
        "total supply",
        "overflow",
    ),  # which fits into 128 bits and not into 38 digits
    ("peridot", put(vault("Peridottroller"), address(contract("D"))), f"is {contract('D')}", "inconsistent"),
    ("peridot", put(instance_key(VAULT), None), "no contract at this vault's address", "absent"),
    (
        "peridot",
        each(*(put(vault(name), u128(0)) for name in ("ManagedCash", "TotalBorrowed"))),
        "receipt tokens without anything",
        "inconsistent",
    ),
    ("peridot", boosted(u128(10**12)), "its code is not known", "overflow"),
    ("xoxno", put(PARAMETERS, address(XLM), "asset_id"), XLM, "inconsistent"),
    ("xoxno", each(put(STATE, i128(2**127 - 1), "supplied"), put(STATE, i128(10**28), "supply_index")), "", "overflow"),
]


@cache
def whole(protocol: str) -> pl.DataFrame:
    """The pools where nothing is changed."""
    return World(protocol).compute().pools


@pytest.mark.parametrize(("protocol", "change", "detail", "reason"), POOLS)
def test_pool(protocol: str, change: Change, detail: str, reason: str) -> None:
    """The pool is unread with the reason, and counts among the market's; every other one keeps its row as it was."""
    world = World(protocol)
    change(world)
    tables = world.compute()

    (item,) = tables.unread
    assert (MARKET[protocol], reason) == (item.market, item.reason), item
    assert detail in item.detail
    others = whole(protocol).filter((pl.col("market") != item.market) | (pl.col("pool") != item.pool))
    assert whole(protocol).height - 1 == others.height
    assert others.equals(tables.pools)
    (counts,) = tables.markets.filter(pl.col("market") == item.market).select("pool_count", "unread_count").rows()
    assert (whole(protocol).filter(pl.col("market") == item.market).height, 1) == counts


MANY = [contract(f"T{number}") for number in range(65)]


@pytest.mark.parametrize("protocol", LISTS)
@pytest.mark.parametrize(
    ("listed", "detail"),
    [
        (vec(address(XLM), address(XLM)), ": an address is listed twice"),
        (vec(address(account("a"))), ": an address is not a contract"),
        (vec(*map(address, MANY)), ": 65 addresses, more than 64"),
        (vec(symbol("T")), "[0]: expected address, found symbol"),
        ((VEC, None), ": the vector is missing"),
    ],
)
def test_list_of_pools(protocol: str, listed: ScVal, detail: str) -> None:
    """A list that no contract would keep costs its market all pools, and is named."""
    world = World(protocol)
    key, path = LISTS[protocol]
    world.put(key, listed, *path)
    tables = world.compute()

    assert [(MARKET[protocol], None, "undecodable")] == [
        (item.market, item.pool, item.reason) for item in tables.unread
    ]
    assert detail in tables.unread[0].detail
    assert whole(protocol).filter(pl.col("market") != MARKET[protocol]).equals(tables.pools)
    assert MARKET[protocol] not in tables.markets["market"]


def test_list_of_reserves_that_is_not_the_routers() -> None:
    """A market of K2 whose list names no reserve that it has is unread, once and in all."""
    world = World("k2")
    world.put(LISTS["k2"][0], vec(*map(address, MANY[:4])))

    assert {(world.market, None): "inconsistent"} == {place: reason for place, (reason, _) in world.unread().items()}
    assert world.market not in world.compute().markets["market"]


def test_an_account_among_the_vaults() -> None:
    """An account among the vaults that a controller supports is unread by itself."""
    world, somebody = World("peridot"), account("a")
    world.put(variant_key(world.market, "SupportedMarkets"), (BOOL, True), address(somebody))

    assert {
        (world.market, somebody): ("absent", "the ledger has no contract at this vault's address")
    } == world.unread()
    assert whole("peridot").equals(world.compute().pools)


def test_too_many_vaults() -> None:
    """A controller of Peridot supports as many vaults as its users can enter; of a longer list none is followed."""
    world = World("peridot")
    world.put(
        variant_key(world.market, "SupportedMarkets"), (MAP, tuple((address(item), (BOOL, True)) for item in MANY))
    )

    ((_, (reason, detail)),) = world.unread().items()
    assert ("undecodable", "SupportedMarkets: 65 vaults, more than 64") == (reason, detail)


@pytest.mark.parametrize(
    ("protocol", "status", "new", "used", "detail"),
    [
        (
            "alula",
            ("MarketStatus",),
            vec(symbol("Frozen")),
            vec(symbol("Active")),
            "the market is active and has no list",
        ),
        ("blend", ("Config", "status"), u32(6), u32(3), "the market is on_ice and has no list of reserves"),
    ],
)
def test_market_without_a_list(protocol: str, status: tuple[str, ...], new: ScVal, used: ScVal, detail: str) -> None:
    """A market that has just been deployed has no pools yet; one that is in use lacks its list, and is unread."""
    world = World(protocol)
    world.put(LISTS[protocol][0], None)
    world.put(instance_key(MARKET[protocol]), new, *status)
    tables = world.compute()
    assert ([], [f"{protocol} has 1 market without a pool: {MARKET[protocol]}"]) == (tables.unread, tables.notices)
    assert (0, None) in tables.markets.select("pool_count", "tvl_usd_cents").rows()

    world.put(instance_key(MARKET[protocol]), used, *status)
    ((place, (reason, said)),) = world.unread().items()
    assert ((MARKET[protocol], None), "absent") == (place, reason)
    assert said.startswith(detail)
