"""Reading Slender pools from a chain: what is read, what an archived pool becomes, and what is not read and why."""

from __future__ import annotations

import pytest

from exporter.ledger.codec.scval_encode import i128, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall
from tests.protocols.made_ledger import (
    NOW,
    contract,
    lastprice,
    price_data,
    rows_of,
    struct_of,
)
from tests.protocols.slender_chain import (
    SlenderLedger,
    candidate,
    cash,
    demanded,
    pause,
    pool_config,
    price_feed,
    reserve_data,
    variant,
)

S = contract("S")
XLM, USDC = contract("XLM"), contract("USDC")


def market() -> SlenderLedger:
    """A pool S with reserves of XLM and of USDC."""
    ledger = SlenderLedger()
    ledger.add_market("S", ["XLM", "USDC"])
    return ledger


def details(ledger: SlenderLedger) -> dict[str | None, str]:
    """What is said of what could not be read, by pool."""
    return {item.pool: f"{item.reason}: {item.detail}" for item in ledger.compute([candidate("S")]).unread}


class TestReading:
    """What is read when all is well."""

    def test_requests(self) -> None:
        """One key a pool, then cash and token of each reserve, then the prices: the rest is in the pool's instance."""
        ledger = market()
        ledger.read([candidate("S")])
        assert ledger.source is not None

        assert [("entries", 1), ("entries", 4)] == [(kind, keys) for kind, keys, _ in ledger.source.log]
        assert 3 == len(ledger.source.calls)

    def test_status(self) -> None:
        """A pool is paused or active; one without a pause was never paused."""
        ledger = market()
        for value, status in ((pause(True), "paused"), (None, "active")):
            ledger.change("S", {variant("Pause"): value})
            tables = ledger.compute([candidate("S")])
            assert [status] == tables.markets["status"].to_list()
            assert {status} == set(tables.pools["market_status"])

    def test_window(self) -> None:
        """The window of time is that of the pool's configuration."""
        ledger = market()
        ledger.change("S", {variant("PoolConfig"): pool_config(ledger, "S", timestamp_window=u64(7))})

        assert {7} == set(ledger.read([candidate("S")]).result.columns["window"])

    def test_reserve_of_another_type(self) -> None:
        """A reserve without shares and debt lends nothing: it is not a pool, and that is said."""
        ledger = market()
        rwa = reserve_data("XLM", reserve_type=vec(symbol("RWA")))
        ledger.change("S", {variant("ReserveAssetKey", "XLM"): rwa})
        tables = ledger.compute([candidate("S")])

        assert ([USDC], [], [1]) == (
            tables.pools["pool"].to_list(),
            tables.unread,
            tables.markets["pool_count"].to_list(),
        )
        assert ["is of type RWA"] == [notice[notice.index("is of") :][:14] for notice in tables.notices]


class TestArchived:
    """A dormant pool: archived, or gone."""

    def test_published(self) -> None:
        """An archived pool of the published list is absent with that reason, and nothing is unread: no run fails."""
        ledger = market()
        ledger.archive(ledger.instance("S"))
        tables = ledger.compute([candidate("S")])

        assert ([S], ["archived"]) == ([item.market for item in tables.absent], [tables.absent[0].reason[:8]])
        assert (0, 0, [], []) == (tables.pools.height, tables.markets.height, tables.unread, tables.notices)

    def test_demanded(self) -> None:
        """One that the operator named is unread, as every market is."""
        ledger = market()
        ledger.archive(ledger.instance("S"))
        tables = ledger.compute([demanded("S")])

        assert [(S, None, "archived")] == [(item.market, item.pool, item.reason) for item in tables.unread]
        assert [] == tables.absent


class TestCash:
    """What lies in a reserve is an entry of its own, which can be away while the pool is there."""

    def test_missing_beside_shares_or_debt(self) -> None:
        """Where there are shares or debt somebody has supplied, so that a missing balance is not 0 but out of reach."""
        for token in ("XLM s", "XLM debt"):
            ledger = market()
            ledger.remove(cash("S", "XLM"))
            ledger.change("S", {variant("TokenSupply", token): None})
            assert "absent: the reserve's cash" in details(ledger)[XLM]

    def test_missing_in_a_new_reserve(self) -> None:
        """Nobody has supplied anything yet: there is no balance, and it is 0."""
        ledger = market()
        ledger.remove(cash("S", "XLM"))
        ledger.change("S", {variant("TokenSupply", "XLM s"): None, variant("TokenSupply", "XLM debt"): None})
        rows = rows_of(ledger.compute([candidate("S")]))

        assert (0, 0) == (rows[XLM]["total_supplied"], rows[XLM]["total_borrowed"])

    def test_balance_of_before_2024(self) -> None:
        """What revisions before 2024-06-06 kept in the instance is not what lies there now."""
        ledger = market()
        ledger.change("S", {variant("STokenUnderlyingBalance", "XLM s"): i128(7)})

        assert {600 * 10**7} == set(ledger.read([candidate("S")]).result.columns["cash"])


class TestPrices:
    """The reserve's first feed, asked for what the feed knows the token as."""

    @pytest.mark.parametrize(
        ("price", "age", "reason"),
        [
            (5, 660, "valid"),
            (5, 661, "the price is 11 minutes 1 second old, more than the market's own limit of 11 minutes"),
            (5, -1, "the price is of 1 second after the ledger"),
            (0, 0, "the price is 0, not above zero"),
        ],
    )
    def test_by_symbol(self, price: int, age: int, reason: str) -> None:
        """A token can be known by a symbol, or another contract's address; old prices and zero are none."""
        ledger = market()
        asset = vec(symbol("Other"), symbol("XLM"))
        ledger.change("S", {variant("PriceFeed", "XLM"): price_feed("S", asset)})
        ledger.results[ContractCall(contract("S oracle"), "lastprice", (asset,))] = price_data(price, NOW - age)
        found = dict(ledger.compute([candidate("S")]).pools.select("pool", "price_reason").iter_rows())

        assert {XLM: reason, USDC: "valid"} == found
        assert ledger.source is not None
        assert lastprice("S oracle", "XLM") not in ledger.source.calls

    def test_no_feed(self) -> None:
        """A reserve without a feed has no oracle and no price, and the decimals of its token."""
        for feed in (None, struct_of({"asset_decimals": u32(7), "feeds": vec()})):
            ledger = market()
            ledger.change("S", {variant("PriceFeed", "XLM"): feed})
            row = rows_of(ledger.compute([candidate("S")]))[XLM]
            assert (None, "the market has no oracle", 7) == (row["oracle"], row["price_reason"], row["decimals"])
