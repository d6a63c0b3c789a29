"""Reading K2 markets from a chain: what is read, what is not and why, and that nothing is lost in silence."""

from __future__ import annotations

from typing import Any

from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import BOOL
from exporter.ledger.codec.scval_encode import i128, u32
from exporter.protocols.balances import balance_call
from exporter.protocols.compute import Tables
from tests.protocols.k2_chain import (
    CASH,
    SUPPLY,
    K2Ledger,
    a_token,
    candidate,
    cash,
    debt_ceiling,
    demanded,
    deployment,
    prices_call,
    rate_contract,
    rate_model,
    reserve_list,
    reward,
    router_instance,
)
from tests.protocols.made_ledger import bare_token, contract, entry, token_instance

A, B = contract("A"), contract("B")
USDC, XLM = contract("USDC"), contract("XLM")


def market_a() -> K2Ledger:
    """A market A with USDC and XLM."""
    ledger = K2Ledger()
    ledger.add_market("A", ["USDC", "XLM"])
    return ledger


def unread_of(tables: Tables) -> list[tuple[str | None, str, str]]:
    """Pool, reason and detail of what is not read of market A."""
    assert all(item.market == A for item in tables.unread)
    return [(item.pool, item.reason, item.detail) for item in tables.unread]


class TestReading:
    """What is read when all is well."""

    def test_markets_and_pools(self) -> None:
        """All reserves of all routers are read; the pool of a reserve is its token."""
        ledger = market_a()
        ledger.add_market("B", ["USDC"])
        ledger.replace(router_instance("B", storage={"PAUSED": (BOOL, True)}))
        tables = ledger.compute([candidate("A"), candidate("B")], [deployment("A", []), deployment("B", [])])

        assert sorted([(A, USDC), (A, XLM), (B, USDC)]) == tables.pools.select("market", "pool").rows()
        assert {A: "active", B: "paused"} == dict(tables.markets.select("market", "status").iter_rows())
        assert {"USDC", "XLM"} == set(tables.pools["symbol"])
        assert ["Main", "Main"] == tables.markets["name"].to_list()
        assert ([], [], [], []) == (tables.unread, tables.unpriced, tables.absent, tables.notices)

    def test_waves_of_a_listed_market(self) -> None:
        """Three requests and one call for a market of the list: of what its reserves name only balances come late."""
        ledger = market_a()
        ledger.read([candidate("A")], [deployment("A", ["USDC", "XLM"])])
        assert ledger.source is not None

        # RDATA, RDEBTCEIL, aToken, debt token, APARAMS and token for each of two, and the rate contract; two balances
        assert [("entries", 3), ("entries", 2 * 6 + 1), ("entries", 2)] == [item[:2] for item in ledger.source.log]
        assert [prices_call("A oracle", ["USDC", "XLM"])] == ledger.source.calls

    def test_waves_of_an_unlisted_market(self) -> None:
        """No request more where the reserves have to name their contracts first."""
        ledger = market_a()
        ledger.read([candidate("A")])
        assert ledger.source is not None

        assert [3, 2 * 2 + 2, 2 * 4 + 1] == [keys for _, keys, _ in ledger.source.log]
        assert 1 == len(ledger.source.calls)

    def test_a_fifth_reserve(self) -> None:
        """A reserve that the list does not have is found in RLIST, and its own contracts are read with the balances."""
        ledger = K2Ledger()
        ledger.add_market("A", ["USDC", "XLM", "USDT0"])
        tables = ledger.compute([candidate("A")], [deployment("A", ["USDC", "XLM"])])
        assert ledger.source is not None

        assert 3 == tables.pools.height
        assert 2 + 3 == [keys for _, keys, _ in ledger.source.log][2]

    def test_no_total_supply_is_ever_called(self) -> None:
        """A reserve's own tokens are never called: their totals are in their instances."""
        ledger = market_a()
        ledger.replace(bare_token("XLM"))
        ledger.read([candidate("A")])
        assert ledger.source is not None

        assert {"get_asset_prices_vec_fresh", "symbol", "decimals", "balance"} == {
            call.function for call in ledger.source.calls
        }

    def test_default_rate_model(self) -> None:
        """A reserve without parameters of its own has those of the rate contract's instance."""
        ledger = market_a()
        ledger.remove(rate_model("A", "XLM"))
        ledger.replace(rate_contract("A", {"BVR": 7, "OU": 8}))
        columns = ledger.read([candidate("A")]).result.columns

        assert [0, 7] == columns["base_variable_borrow_rate"]
        assert [8 * 10**26, 8] == columns["optimal_utilization_rate"]

    def test_rate_contract_that_is_not_needed(self) -> None:
        """Where every reserve has parameters of its own, a missing rate contract costs nothing."""
        ledger = market_a()
        ledger.remove(rate_contract("A"))

        assert [] == ledger.compute([candidate("A")]).unread

    def test_router_without_reserves(self) -> None:
        """A router whose reserves were all dropped keeps an empty list: a market without pools."""
        ledger = K2Ledger()
        ledger.replace(router_instance("A"), reserve_list("A", []))
        tables = ledger.compute([demanded("A")], [deployment("A", [])])

        assert [(A, 0, None)] == tables.markets.select("market", "pool_count", "tvl_usd_cents").rows()
        assert ([], []) == (tables.unread, tables.notices)

    def test_unlisted_router_has_a_name(self) -> None:
        """A router has no name of its own: one that the lists do not name is called after the protocol."""
        assert ["K2 Lend"] == market_a().compute([candidate("A")]).markets["name"].to_list()


class TestAvailable:
    """What can be withdrawn, borrowed and supplied: by what the aToken has, by caps, by the ceiling of debt."""

    def test_of_what_the_a_token_has(self) -> None:
        """The aToken's balance bounds what goes out; the ceiling of debt what is borrowed, with what is owed now."""
        ledger = market_a()
        ledger.replace(cash("A", "XLM", 7), debt_ceiling("A", "USDC", 501))
        rows = {row["pool"]: row for row in ledger.compute([candidate("A")]).pools.rows(named=True)}

        assert (7, 7, None) == tuple(rows[XLM][f"available_to_{name}"] for name in ("withdraw", "borrow", "supply"))
        usdc = rows[USDC]
        assert (CASH, 501 * 10**7 - usdc["total_borrowed"]) == (
            usdc["available_to_withdraw"],
            usdc["available_to_borrow"],
        )
        assert 501 * 10**7 == usdc["borrow_cap"]

    def test_balance_of_another_token(self) -> None:
        """A token that is not a Stellar asset is asked for the balance."""
        ledger = market_a()
        ledger.replace(token_instance("XLM", b"XLM"))
        ledger.results[balance_call(XLM, contract("A aXLM"))] = i128(8)

        assert 8 == dict(ledger.compute([candidate("A")]).pools.select("pool", "available_to_borrow").rows())[XLM]


class TestRewards:
    """What the reward contract pays that a reserve's tokens name."""

    def rows(self, ledger: K2Ledger) -> dict[str, dict[str, Any]]:
        """What is published, by pool."""
        return {row["pool"]: row for row in ledger.compute([candidate("A")]).pools.rows(named=True)}

    def test_waves(self) -> None:
        """Only where a token names a reward contract are there two requests more."""
        ledger = market_a()
        ledger.replace(a_token("A", "USDC", rewards="rewards"), *reward("A", "USDC", "XLM", 10))
        ledger.read([candidate("A")])
        assert ledger.source is not None

        assert [1, 1] == [keys for _, keys, _ in ledger.source.log][3:]

    def test_another_token(self) -> None:
        """A token that is not one of the market's has no price here: the oracle would refuse all for it."""
        ledger = market_a()
        ledger.replace(a_token("A", "USDC", rewards="rewards"), *reward("A", "USDC", "K2", 10), bare_token("K2"))
        row = self.rows(ledger)[USDC]

        assert (contract("K2"), 10, None, "no_reward_price") == (
            row["reward_token"],
            row["supply_reward_per_second"],
            row["supply_reward_apr_bps"],
            row["supply_reward_reason"],
        )

    def test_switched_off_and_odd(self) -> None:
        """What is switched off is none; an entry of another form is unread, and costs nothing else."""
        ledger = market_a()
        ledger.replace(a_token("A", "USDC", rewards="rewards"), *reward("A", "USDC", "XLM", 10, is_active=False))
        assert "no_emissions" == self.rows(ledger)[USDC]["supply_reward_reason"]
        for _, data in reward("A", "USDC", "XLM", 10):
            ledger.replace(*reward("A", "USDC", "XLM", 10))
            ledger.replace(entry(contract("rewards"), decode_contract_data(data).key, u32(7)))
            row = self.rows(ledger)[USDC]
            assert ("unread", SUPPLY) == (row["supply_reward_reason"], row["total_supplied"] // 10**7 * 10**7)


class TestUnread:
    """Each thing that can be missing, archived or wrong, named, and costing no other pool."""

    def test_no_rate_model_at_all(self) -> None:
        """Without parameters and without a rate contract there is no rate to publish."""
        ledger = market_a()
        ledger.remove(rate_model("A", "XLM"))
        ledger.remove(rate_contract("A"))

        assert [(XLM, "absent", f"the reserve's rate contract {contract('A rates')} is missing")] == unread_of(
            ledger.compute([candidate("A")])
        )
