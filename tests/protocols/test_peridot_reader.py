"""Reading Peridot markets from a chain: what is read, what is asked for, what is not read and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, symbol, u32, u64, u128, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.peridot.layout import BOOST_RULES, BoostRule
from tests.protocols.judged import closed as not_open
from tests.protocols.made_ledger import (
    NOW,
    balance,
    contract,
    entry,
    lastprice,
    rows_of,
    unread_of,
)
from tests.protocols.peridot_chain import (
    FIXED_RATE,
    QUOTING_CODE,
    RECEIPTS,
    PeridotLedger,
    candidate,
    demanded,
    deployment,
    flags,
    stored,
    vault_instance,
)

C = contract("C")
XLM, USDC = contract("XLM vault"), contract("USDC vault")


def market() -> PeridotLedger:
    """A market C with a vault of XLM and one of USDC."""
    ledger = PeridotLedger()
    ledger.add_market("C", ["XLM", "USDC"])
    return ledger


def xlm_of(ledger: PeridotLedger) -> dict[str, Any]:
    """What is published of the XLM vault."""
    return rows_of(ledger.compute([candidate("C")]))[XLM]


def reason_of(ledger: PeridotLedger, pool: str | None = XLM) -> tuple[str, str]:
    """Why the XLM vault, or the market, is not read: reason and detail."""
    return unread_of(ledger.compute([candidate("C")]))[C, pool]


class TestReading:
    """What is read when all is well."""

    def test_requests(self) -> None:
        """With the vaults in the package's list there are two waves of entries and the price calls, no other."""
        ledger = market()
        ledger.read([candidate("C")], [deployment("C", ["XLM vault", "USDC vault"])])
        assert ledger.source is not None

        assert ["entries", "entries"] == [kind for kind, _, _ in ledger.source.log]
        expected = [ContractCall(contract("C oracle"), "decimals")]
        expected += [lastprice("C oracle", "XLM"), lastprice("C oracle", "USDC")]
        assert dict.fromkeys(expected, 1) == Counter(ledger.source.calls)

    def test_vaults_beside_the_list(self) -> None:
        """A vault that only the package or a candidate names is read too, and that the controller lacks it is said."""
        ledger = market()
        ledger.replace(stored("C", "SupportedMarkets", flags({"XLM vault": True, "USDC vault": False})))
        for named in ([candidate("C"), candidate("C", "USDC vault")], [candidate("C")]):
            tables = ledger.compute(named, [deployment("C", ["USDC vault"])])
            assert {XLM, USDC} == set(tables.pools["pool"])
            assert 1 == len(tables.notices)
            assert f"vault {USDC} is known, but market {C} does not list it" in tables.notices[0]
        assert [XLM] == ledger.compute([candidate("C")]).pools["pool"].to_list()

    def test_listed_vault_that_never_was(self) -> None:
        """A vault of the package's list that the controller lacks and the ledger too is a notice, no failure."""
        tables = market().compute([candidate("C")], [deployment("C", ["gone vault"])])

        assert ([], 2) == (tables.unread, tables.pools.height)
        assert ["it does not exist"] == [notice[-17:] for notice in tables.notices]

    @pytest.mark.parametrize(
        ("paused", "status", "shown"),
        [
            ({"PauseBorrow": ["XLM"]}, "partly_paused", {"borrowing_paused"}),
            ({"PauseRedeem": ["XLM"]}, "partly_paused", {"redemptions_paused"}),
            ({"PauseLiquidation": ["XLM"]}, "partly_paused", {"liquidations_paused"}),
            ({"PauseLiquidation": ["USDC"]}, "partly_paused", set()),
            (
                {"PauseDeposit": ["XLM", "USDC"], "PauseBorrow": ["XLM", "USDC"]},
                "paused",
                {"deposits_paused", "borrowing_paused"},
            ),
            ({"PauseRedeem": ["XLM", "USDC"]}, "partly_paused", {"redemptions_paused"}),
            ({"PauseDeposit": []}, "active", set()),
        ],
    )
    def test_status(self, paused: dict[str, list[str]], status: str, shown: set[str]) -> None:
        """The status follows from what the controller has paused, which each vault's parameters say, too."""
        ledger = market()
        for name, assets in paused.items():
            ledger.replace(stored("C", name, flags({f"{asset} vault": asset in assets for asset in ("XLM", "USDC")})))
        tables = ledger.compute([candidate("C")])
        parameters = {item.name: item.value for item in tables.parameters[C, XLM]}

        assert {status} == {*tables.markets["status"], *tables.pools["market_status"]}
        assert shown == {name for name, value in parameters.items() if name.endswith("_paused") and value}
        assert (20_000, 800_000, 10**15) == (parameters["base_rate"], parameters["kink"], parameters["supply_cap"])

    def test_vault_without_model(self) -> None:
        """A vault without a rate model has the one rate that it keeps itself."""
        ledger = market()
        ledger.remove(stored("XLM vault", "InterestModel", VOID))
        row = xlm_of(ledger)

        assert (FIXED_RATE, FIXED_RATE) == (row["stored_borrow_apr"], row["accrued_borrow_apr"])


class TestTerms:
    """Who may do what with a vault, and how much of it."""

    @pytest.mark.parametrize(
        ("name", "closed"),
        [
            ("PauseDeposit", "supply"),
            ("PauseRedeem", "withdraw"),
            ("PauseBorrow", "borrow"),
            ("PauseLiquidation", "liquidate"),
        ],
    )
    def test_pauses(self, name: str, closed: str) -> None:
        """Each pause closes one thing, to its last second, though nobody takes it away; one without an end holds on."""
        ledger = market()
        ledger.replace(stored("C", name, flags({"XLM vault": True})))
        for until in (None, NOW, NOW - 1, 0):
            if until is not None:
                ledger.replace(stored("C", f"{name}Until", (scval.MAP, ((address(XLM), u64(until)),))))
            holds = until in (None, NOW)
            row = xlm_of(ledger)
            assert closed * holds == not_open(row)
            assert ("partly_paused" if holds else "active") == row["market_status"]
            assert not holds or "partly_paused" == row["pool_status"]

    def test_rates_ready(self) -> None:
        """Nothing can be borrowed before the rates are: the flag says so, or else that there is a model."""
        ledger = market()
        ledger.replace(stored("XLM vault", "RatesReady", (scval.BOOL, False)))
        assert "borrow" == not_open(xlm_of(ledger))
        ledger.remove(stored("XLM vault", "RatesReady", VOID))
        assert "" == not_open(xlm_of(ledger))
        ledger.remove(stored("XLM vault", "InterestModel", VOID))
        assert "borrow" == not_open(xlm_of(ledger))

    def test_vault_that_the_controller_lacks(self) -> None:
        """It cannot be liquidated; whether it lends is not known, and said so."""
        ledger = market()
        ledger.replace(stored("C", "SupportedMarkets", flags({"USDC vault": True})))
        row = rows_of(ledger.compute([candidate("C"), candidate("C", "XLM vault")]))[XLM]

        assert (None, None, False) == (row["can_borrow"], row["available_to_borrow"], row["can_liquidate"])
        assert "does not list the vault" in row["can_reason"]

    def test_vault_without_a_controller(self) -> None:
        """Nobody pauses it and nobody can be liquidated; its own collateral factor counts."""
        ledger = market()
        ledger.replace(stored("C", "PauseDeposit", flags({"XLM vault": True})))
        ledger.remove(stored("XLM vault", "Peridottroller", VOID))
        ledger.replace(stored("XLM vault", "CollateralFactorScaled", u128(123_456)))
        row = xlm_of(ledger)

        assert ("liquidate", 1_234, None) == (not_open(row), row["collateral_factor_bps"], row["can_reason"])


class TestBoosted:
    """Vaults part of whose cash is elsewhere."""

    def test_available_tells_the_cash(self) -> None:
        """What a boosted vault can pay out, with what it lends, is what its suppliers own."""
        ledger = market()
        ledger.boost("XLM", u128(1234 * 10**7))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))
        row = xlm_of(ledger)

        assert (1734 * 10**7, 500 * 10**7) == (row["total_supplied"], row["total_borrowed"])
        assert ledger.source is not None
        assert 1 == ledger.source.calls.count(ContractCall(XLM, "get_available_liquidity"))
        assert not any(call.contract == USDC for call in ledger.source.calls)

    def test_vault_that_keeps_no_cash_entry(self) -> None:
        """A vault without ``ManagedCash`` is asked as a boosted one is."""
        ledger = market()
        ledger.remove(stored("XLM vault", "ManagedCash", VOID))
        ledger.set_function("XLM vault", "get_available_liquidity", u128(10**9))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))
        row = xlm_of(ledger)

        assert 10**9 + 500 * 10**7 == row["total_supplied"]

    def test_nothing_available(self) -> None:
        """With nothing to pay out, what suppliers own is asked for; if that is not known either, it is unread."""
        ledger = market()
        ledger.boost("XLM", u128(0))
        ledger.replace(stored("XLM vault", "ManagedCash", u128(10**7)))
        ledger.set_function("XLM vault", "get_total_underlying", u128(499 * 10**7))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))
        row = xlm_of(ledger)
        assert (499 * 10**7, 10_020) == (row["total_supplied"], row["utilization_bps"])

        for answer, detail in (
            (u128(0), "what it lacks is not known"),
            ("HostError: trapped", "get_total_underlying()"),
        ):
            ledger.set_function("XLM vault", "get_total_underlying", answer)
            assert detail in reason_of(ledger)[1]

    @pytest.mark.parametrize(
        ("answer", "detail"),
        [
            ("HostError: Error(WasmVm, InvalidAction)", "get_available_liquidity() failed: HostError: Error(WasmVm"),
            (i128(5), "get_available_liquidity(): expected"),
            (u128(2**127), "more than any token has"),
        ],
    )
    def test_failed_call(self, answer: ScVal | str, detail: str) -> None:
        """A call that fails, or gives something else, costs its vault and no other, with the reason."""
        ledger = market()
        ledger.boost("XLM", answer)
        tables = ledger.compute([candidate("C")])

        assert [USDC] == tables.pools["pool"].to_list()
        assert detail in unread_of(tables)[C, XLM][1]
        assert [(2, 1)] == tables.markets.select("pool_count", "unread_count").rows()

    def test_receipt_supply_elsewhere(self) -> None:
        """Where the instance has no supply of the receipt token, the vault is asked for it."""
        ledger = market()
        ledger.replace(vault_instance("XLM vault", None))
        assert "get_total_ptokens() failed" in reason_of(ledger)[1]
        ledger.set_function("XLM vault", "get_total_ptokens", u128(RECEIPTS))
        first, second = ledger.compute([candidate("C")]).pools["supply_index"].to_list()
        assert first == second


class TestCash:
    """The cash that the vault gives its rate model: what it has of the token, and what counts of the boosted."""

    def rate(self, ledger: PeridotLedger) -> tuple[int, int]:
        """What is lent by the rate model, and what the XLM vault's suppliers own."""
        row = xlm_of(ledger)
        return row["stored_utilization"], row["total_supplied"]

    def test_a_gift_moves_the_rate(self) -> None:
        """Tokens sent to a vault lower its rate, and belong to nobody [calc]."""
        ledger = market()
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))
        ledger.replace(balance("XLM", "XLM vault", 2_500 * 10**7))
        assert (167_336, 1488 * 10**7) == self.rate(ledger)  # 500 / 2988

    def test_no_balance(self) -> None:
        """A missing balance is 0 where the vault counts no cash as its own; else it contradicts it [calc]."""
        ledger = market()
        ledger.remove(balance("XLM", "XLM vault", 0))
        assert "has no balance of its token" in reason_of(ledger)[1]
        ledger.replace(stored("XLM vault", "ManagedCash", u128(0)), stored("XLM vault", "LastUpdateTime", u64(NOW)))
        ledger.replace(vault_instance("XLM vault", code=QUOTING_CODE))
        assert (10**6, 488 * 10**7) == self.rate(ledger)

    def test_what_is_out_of_reach(self) -> None:
        """Where nothing is lent, a balance that cannot be determined costs only what can be withdrawn and borrowed."""
        ledger = market()
        ledger.replace(stored("XLM vault", "TotalBorrowed", u128(0)))
        for lose, why in ((ledger.archive, "is archived"), (ledger.remove, "has no balance of its token")):
            lose(balance("XLM", "XLM vault", 0))
            tables = ledger.compute([candidate("C")])
            row = rows_of(tables)[XLM]

            assert (None, None, True) == tuple(
                row[name] for name in ("available_to_withdraw", "available_to_borrow", "can_withdraw")
            )
            assert [True] == [f"vault {XLM} can pay out" in notice and why in notice for notice in tables.notices], (
                tables.notices
            )

    def test_quoting_code(self) -> None:
        """What the view says is the quote; up to 5 percent above what is known of it counts [calc]."""
        ledger = market()
        ledger.boost("XLM", u128(1_988 * 10**7))  # 1000 of its own, 1000 boosted, 12 set aside
        ledger.replace(stored("XLM vault", "BoostedUnderlyingCached", u128(100 * 10**7)))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))

        assert (500 * 10**6 // 1593, 2_488 * 10**7) == self.rate(ledger)  # 1000 + 105 + 500 - 12

    @pytest.mark.parametrize(("age", "counted"), [(3_600, 100), (3_601, 0)])
    def test_caching_code(self, age: int, counted: int) -> None:
        """Code that counts assets takes what it cached in the last hour; after that, what the accounts say [calc]."""
        ledger = market()
        ledger.boost("XLM", u128(1_988 * 10**7))
        ledger.replace(vault_instance("XLM vault"), stored("XLM vault", "BoostedAssetCount", u32(1)))
        ledger.replace(stored("XLM vault", "BoostedUnderlyingCached", u128(100 * 10**7)))
        ledger.replace(stored("XLM vault", "BoostedUnderlyingUpdatedAt", u64(NOW - age)))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))

        assert (500 * 10**6 // (1_488 + counted), 2_488 * 10**7) == self.rate(ledger)

    @pytest.mark.parametrize("code", [code for code, rule in BOOST_RULES.items() if rule == BoostRule.CACHED])
    def test_caching_code_by_its_hash(self, code: str) -> None:
        """A vault that was just upgraded has no entry of the new code yet: the hash says what it counts."""
        ledger = market()
        ledger.boost("XLM", u128(1_988 * 10**7))
        ledger.replace(vault_instance("XLM vault", code=bytes.fromhex(code)))
        ledger.replace(stored("XLM vault", "BoostedUnderlyingCached", u128(100 * 10**7)))
        ledger.replace(stored("XLM vault", "BoostedUnderlyingUpdatedAt", u64(NOW - 3_600)))
        ledger.replace(stored("XLM vault", "LastUpdateTime", u64(NOW)))

        assert (500 * 10**6 // 1_588, 2_488 * 10**7) == self.rate(ledger)

    def test_archived_mark(self) -> None:
        """An entry that only shows the code does so archived, too."""
        ledger = market()
        ledger.boost("XLM", u128(1_988 * 10**7))
        ledger.replace(vault_instance("XLM vault"), stored("XLM vault", "BoostedAssetCount", u32(1)))
        ledger.archive(stored("XLM vault", "BoostedAssetCount", VOID))

        assert [] == ledger.compute([candidate("C")]).unread


class TestPrices:
    """The controller's oracle, by symbol where the controller keeps one."""

    def test_by_symbol(self) -> None:
        """A token with a symbol is asked for by it, and not by its address."""
        ledger = market()
        ledger.set_symbol_price("C", "XLM", "XLM", 3 * 10**14)
        prices = dict(ledger.compute([candidate("C")]).pools.select("token_address", "oracle_price").iter_rows())

        assert {contract("XLM"): 3 * 10**14, contract("USDC"): 2 * 10**14} == prices
        assert ledger.source is not None
        assert lastprice("C oracle", "XLM") not in ledger.source.calls

    def test_other_age_is_said(self) -> None:
        """A controller that takes older prices than usual is named: the exporter does not."""
        ledger = market()
        ledger.replace(stored("C", "OracleMaxAgeMultiplier", u64(9)))

        assert ["9 times"] == [notice[notice.index("9") :][:7] for notice in ledger.compute([candidate("C")]).notices]

    def test_symbol_of_another_form(self) -> None:
        """A symbol that is none is said, and the price asked for by address."""
        ledger = market()
        ledger.replace(entry(C, vec(symbol("OracleAssetSymbol"), address(contract("XLM"))), u128(1)))
        tables = ledger.compute([candidate("C")])

        assert ([], 1) == (tables.unpriced, len(tables.notices))


class TestUnread:
    """What cannot be read is named with its reason."""

    def test_listed_vault_that_is_not_there(self) -> None:
        """A vault that the controller lists and the ledger lacks is unread, and counts among the market's pools."""
        ledger = market()
        ledger.remove(vault_instance("XLM vault"))
        tables = ledger.compute([candidate("C")])

        assert "absent" == unread_of(tables)[C, XLM][0]
        assert [(2, 1)] == tables.markets.select("pool_count", "unread_count").rows()
        gone = market().compute([demanded("C", "gone vault")])
        assert {contract("gone vault"): "absent"} == {item.pool: item.reason for item in gone.unread}

    def test_controller_without_a_list(self) -> None:
        """Where the list is missing, the vaults that are known are read, and that is said."""
        ledger = market()
        ledger.remove(stored("C", "SupportedMarkets", VOID))
        tables = ledger.compute([candidate("C")], [deployment("C", ["XLM vault"])])

        assert ([XLM], 1) == (tables.pools["pool"].to_list(), len(tables.notices))
