"""Values that a contract would not have: which pool or market they cost, with the reason, and that all others stay.

What becomes of entries that are gone, archived or of another form is in test_one_entry.
"""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, VEC, ScVal
from exporter.ledger.codec.scval_encode import address, symbol, u32, vec
from tests.protocols.places import (
    MARKET,
    XLM,
)
from tests.protocols.protocol_facts import PoolList, UnreadCase, all_facts, list_key
from tests.protocols.world import World, account, contract


@cache
def whole(protocol: str) -> pl.DataFrame:
    """The pools where nothing is changed."""
    return World(protocol).compute().pools


@pytest.mark.parametrize(
    ("protocol", "case"), [(protocol, case) for protocol, facts in all_facts().items() for case in facts.unread]
)
def test_an_unread_pool_changes_no_other_row(protocol: str, case: UnreadCase) -> None:
    """The pool is unread with the reason, and counts among the market's; every other one keeps its row as it was."""
    world = World(protocol)
    case.change(world)
    tables = world.compute()

    (item,) = tables.unread
    assert (MARKET[protocol], case.reason) == (item.market, item.reason), item
    assert case.detail in item.detail
    others = whole(protocol).filter((pl.col("market") != item.market) | (pl.col("pool") != item.pool))
    assert whole(protocol).height - 1 == others.height
    assert others.equals(tables.pools)
    (counts,) = tables.markets.filter(pl.col("market") == item.market).select("pool_count", "unread_count").rows()
    assert (whole(protocol).filter(pl.col("market") == item.market).height, 1) == counts


LISTS = [(protocol, facts.pool_list) for protocol, facts in all_facts().items() if facts.pool_list is not None]
"""The protocols whose markets have a list of their pools, and where it is."""

MANY = [contract(f"T{number}") for number in range(65)]


@pytest.mark.parametrize(("protocol", "pool_list"), LISTS)
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
def test_list_of_pools(protocol: str, pool_list: PoolList, listed: ScVal, detail: str) -> None:
    """A list that no contract would keep costs its market all pools, and is named."""
    world = World(protocol)
    world.put(pool_list.key, listed, *pool_list.path)
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
    world.put(list_key("k2"), vec(*map(address, MANY[:4])))

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
    world.put(list_key(protocol), None)
    world.put(instance_key(MARKET[protocol]), new, *status)
    tables = world.compute()
    assert ([], [f"{protocol} has 1 market without a pool: {MARKET[protocol]}"]) == (tables.unread, tables.notices)
    assert (0, None) in tables.markets.select("pool_count", "tvl_usd_cents").rows()

    world.put(instance_key(MARKET[protocol]), used, *status)
    ((place, (reason, said)),) = world.unread().items()
    assert ((MARKET[protocol], None), "absent") == (place, reason)
    assert said.startswith(detail)
