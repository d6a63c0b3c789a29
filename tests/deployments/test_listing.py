"""Tests which markets are listed, and who says so."""

from __future__ import annotations

import datetime

import pytest

from exporter.deployments import BACKSTOP, MARKET, Deployment, KnownContract
from exporter.deployments.listing import CONFIGURED_SOURCE, UNLISTED, Listing, MarketKey, MarketListings
from exporter.deployments.networks import NETWORKS
from exporter.discovery.candidates import listings_of
from exporter.protocols.base import Candidate, Origin
from exporter.tree.values import ListedReason
from tests.protocols.world import contract

SHOWN, KNOWN, CONFIGURED, FOUND = map(contract, ("shown", "known", "configured", "found"))
DAY = datetime.date(2026, 11, 28)
LISTS = [
    Deployment(
        "blend",
        "v2",
        (
            KnownContract(SHOWN, MARKET, "its list", DAY, listed=True, listed_source="the app"),
            KnownContract(KNOWN, MARKET, "a deploy event", DAY),
        ),
    )
]


def test_who_lists_a_market() -> None:
    """A row that says so lists a market, and the configuration does; a row alone, and a row of others, does not."""
    listings = MarketListings(LISTS, [MarketKey("blend", CONFIGURED), MarketKey("blend", SHOWN)])

    assert Listing(ListedReason.PACKAGE_LIST, "the app") == listings.of("blend", SHOWN)
    assert Listing(ListedReason.CONFIGURED, CONFIGURED_SOURCE) == listings.of("blend", CONFIGURED)
    assert [UNLISTED] * 3 == [listings.of("blend", KNOWN), listings.of("blend", FOUND), listings.of("k2", SHOWN)]
    assert [True, True, False, False] == [
        listings.is_listed("blend", market) for market in (SHOWN, CONFIGURED, KNOWN, FOUND)
    ]


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.CONFIGURATION])
def test_no_candidate_lists_itself(origin: Origin) -> None:
    """How a run came to a market, and that a factory has a record of it, does not list it: both can be bought."""
    listings = listings_of(LISTS, [Candidate("blend", FOUND, origin, voucher=SHOWN), Candidate("blend", KNOWN, origin)])

    assert [UNLISTED, UNLISTED] == [listings.of("blend", FOUND), listings.of("blend", KNOWN)]


@pytest.mark.parametrize(
    ("role", "listed", "source"), [(MARKET, True, None), (MARKET, False, "the app"), (BACKSTOP, True, "the app")]
)
def test_a_listed_market_has_a_source(role: str, listed: bool, source: str | None) -> None:
    """A row that lists without a source, has one without listing, or lists what is no market, is refused by name."""
    with pytest.raises(ValueError, match=f"{role} {SHOWN}: a listed market, and no other contract, has a"):
        KnownContract(SHOWN, role, "its list", DAY, listed=listed, listed_source=source)


def test_the_package_lists_what_protocols_show() -> None:
    """Mainnet's lists have 7 of Blend's 30 pools, one or two markets of each other protocol, and no unused twin."""
    counts = {(item.protocol, item.label): len(item.listed_markets) for item in NETWORKS["mainnet"].deployments}
    names = [market.name for item in NETWORKS["mainnet"].deployments for market in item.listed_markets]

    assert {("blend", "v1"): 2, ("blend", "v2"): 4, ("blend", "v2.1"): 1, ("blend", "precept"): 0} == {
        place: count for place, count in counts.items() if place[0] == "blend"
    }
    assert {("k2", "main"): 1, ("k2", "earn"): 1, ("peridot", "main"): 1, ("peridot", "Aquarius LP pilot"): 0} == {
        place: count for place, count in counts.items() if place[0] in ("k2", "peridot")
    }
    assert [] == [name for name in names if "twin" in name]
    assert all(any(item.listed_markets for item in NETWORKS[name].deployments) for name in ("testnet", "local"))
