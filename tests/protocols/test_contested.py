"""Contracts that several protocols claim as a market of theirs."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from exporter.deployments.listing import MarketKey, MarketListings
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Control, Market, Pending, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.contested import without_contested
from exporter.tables import PoolKey
from exporter.tree.documents import Unread
from exporter.tree.values import UnreadReason
from tests.localnet.recorded import BLEND_V1, BLEND_V2
from tests.protocols.world import World, contract

OTHER = contract("of K2 alone")


def reading_of_k2(*addresses: str) -> ProtocolReading:
    """A reading in which K2 has some markets without pools, with an admin and a queued change."""
    return ProtocolReading(
        "k2",
        markets=[Market(address, "k2", "v1", "K2", "active", None, "0" * 16, None, ()) for address in addresses],
        controls=[Control(address, "admin", "admin", contract("mallory")) for address in addresses],
        pending=[Pending(address, None, "admin", contract("mallory")) for address in addresses],
    )


def computed(world: World, k2: ProtocolReading, listed: Iterable[MarketKey]) -> Tables:
    """What is published of Blend's markets as they are, and of these of K2."""
    blend = world.read().result
    return compute([blend, k2], PROTOCOLS, world.chain.latest, world.time, MarketListings([], listed))


def unread_of(tables: Tables) -> list[tuple[str, str | None, str, str]]:
    """Every line about something unread, without its words."""
    return [(item.market, item.pool, item.protocol, item.reason) for item in tables.unread]


def test_a_listed_market_stays_what_it_is_listed_for() -> None:
    """Nobody takes a listed market from its protocol: the other reading is unread, and changes no number."""
    world, listed = World("blend"), [MarketKey("blend", BLEND_V2)]
    alone = computed(world, reading_of_k2(OTHER), listed)
    tables = computed(world, reading_of_k2(BLEND_V2, OTHER), listed)

    assert alone.pools.equals(tables.pools)
    assert alone.markets.equals(tables.markets)
    assert (alone.controls, alone.pending, alone.backstops.rows()) == (
        tables.controls,
        tables.pending,
        tables.backstops.rows(),
    )
    assert [(BLEND_V2, None, "k2", "inconsistent")] == unread_of(tables)
    assert tables.unread[0].detail.startswith("its entries are also those of a market of blend;")


@pytest.mark.parametrize("listed", [[], [MarketKey("blend", BLEND_V2), MarketKey("k2", BLEND_V2)]])
def test_a_market_that_nobody_or_two_list(listed: list[MarketKey]) -> None:
    """Where nobody can tell whose it is, it is published as a market of neither; other markets are."""
    tables = computed(World("blend"), reading_of_k2(BLEND_V2, OTHER), listed)

    assert [(BLEND_V2, None, "blend", "inconsistent"), (BLEND_V2, None, "k2", "inconsistent")] == unread_of(tables)
    assert sorted([BLEND_V1, OTHER]) == tables.markets["market"].to_list()
    assert {BLEND_V1} == set(tables.pools["market"])
    assert BLEND_V2 not in {item.market for item in tables.controls} | {item.market for item in tables.pending}
    assert BLEND_V2 not in {key.market for key in tables.parameters} | set(tables.backstops["market"])


UNDECODABLE = Unread(BLEND_V2, None, "blend", UnreadReason.UNDECODABLE, "it has another form")


@pytest.mark.parametrize(
    "blend",
    [[ProtocolReading("blend", unread=[UNDECODABLE])], [ProtocolReading("blend")], []],
    ids=["unread", "skipped", "not run"],
)
def test_a_listed_market_that_its_protocol_could_not_read(blend: list[ProtocolReading]) -> None:
    """Whoever makes a listed market unreadable for its protocol cannot have it published as another one's."""
    listings = MarketListings([], [MarketKey("blend", BLEND_V2)])
    *others, k2 = without_contested([*blend, reading_of_k2(BLEND_V2, OTHER)], listings)
    detail = "it is listed as a market of blend; a contract is a market of one protocol"

    assert blend == others
    assert [OTHER] == [market.address for market in k2.markets]
    assert [OTHER] == [control.market for control in k2.controls]
    assert [OTHER] == [pending.market for pending in k2.pending]
    assert [Unread(BLEND_V2, None, "k2", UnreadReason.INCONSISTENT, detail)] == k2.unread


@pytest.mark.parametrize(
    ("listed", "markets"),
    [((), [BLEND_V2]), (("k2",), [BLEND_V2]), (("k2", "blend"), [])],
    ids=["nobody", "its own", "two"],
)
def test_only_what_reads_or_lists_an_address_claims_it(listed: tuple[str, ...], markets: list[str]) -> None:
    """That another reader fails is no claim: the market stays that of its only reader, unless a second one lists it."""
    listings = MarketListings([], [MarketKey(name, BLEND_V2) for name in listed])
    blend = ProtocolReading("blend", unread=[UNDECODABLE])
    first, k2 = without_contested([blend, reading_of_k2(BLEND_V2)], listings)

    assert blend == first
    assert markets == [market.address for market in k2.markets]


def test_two_readings_of_one_protocol() -> None:
    """Markets of one protocol that were read apart, as unlisted ones are, contest nothing."""
    world = World("blend")
    blend = world.read().result
    apart = [
        replace(
            blend,
            markets=[market for market in blend.markets if market.address == address],
            pools=[pool for pool in blend.pools if pool.market.address == address],
        )
        for address in (BLEND_V1, BLEND_V2)
    ]
    tables = compute(apart, PROTOCOLS, world.chain.latest, world.time, MarketListings([]))

    assert [] == tables.unread
    assert {PoolKey(pool.market.address, pool.pool) for pool in blend.pools} == {
        PoolKey(*row) for row in tables.pools.select("market", "pool").iter_rows()
    }
