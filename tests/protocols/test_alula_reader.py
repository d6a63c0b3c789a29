"""Reading Alula markets from a chain: what is read, what is not and why, and that nothing is lost in silence."""

from __future__ import annotations

from collections import Counter

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, string, symbol, u32, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import Absent, Unread
from exporter.protocols.compute import Tables
from tests.protocols.alula_chain import (
    CURVE,
    AlulaLedger,
    all_pools,
    candidate,
    demanded,
    deployed_market,
    market_instance,
    pool,
    pool_config,
    unit,
)
from tests.protocols.blend_chain import deployment
from tests.protocols.made_ledger import account, bare_token, contract, entry, lastprice, token_instance

A, B = contract("A"), contract("B")


def two_markets() -> AlulaLedger:
    """A market A with XLM and USDC, and a frozen market B with USDC."""
    ledger = AlulaLedger()
    ledger.add_market("A", ["XLM", "USDC"])
    ledger.add_market("B", ["USDC"], "FrozenByAdmin")
    return ledger


def read_pools_of(tables: Tables) -> set[tuple[str, str]]:
    """The (market, pool) pairs that have a row."""
    return set(tables.pools.select("market", "pool").iter_rows())


def counts_of(tables: Tables) -> dict[str, tuple[int, int]]:
    """The pool count and the unread count of each market that was read."""
    rows = tables.markets.select("market", "pool_count", "unread_count").iter_rows()
    return {market: (count, unread) for market, count, unread in rows}


ALL = {(A, contract("XLM")), (A, contract("USDC")), (B, contract("USDC"))}


class TestReading:
    """What is read when all is well."""

    def test_markets_and_pools(self) -> None:
        """All pools of all markets are read, a frozen market's too, in the order of their addresses."""
        tables = two_markets().compute([candidate("A"), candidate("B")])

        assert ALL == read_pools_of(tables)
        assert sorted(ALL) == tables.pools.select("market", "pool").rows()
        assert {A: "active", B: "frozen_by_admin"} == dict(tables.markets.select("market", "status").iter_rows())
        assert {A: (2, 0), B: (1, 0)} == counts_of(tables)
        assert {"USDC", "XLM"} == set(tables.pools["symbol"])
        assert ([], [], [], []) == (tables.unread, tables.unpriced, tables.absent, tables.notices)

    def test_requests(self) -> None:
        """Three waves: markets, pools with tokens, and the calls; an oracle's decimals are asked once."""
        ledger = two_markets()
        ledger.read([candidate("A"), candidate("B")])
        assert ledger.source is not None

        waves = [(kind, keys) for kind, keys, _ in ledger.source.log]
        assert [("entries", 4), ("entries", 3 + 2 + 2)] == waves
        expected = [ContractCall(contract(f"{name} oracle"), "decimals") for name in "AB"]
        expected += [lastprice("A oracle", "XLM"), lastprice("A oracle", "USDC"), lastprice("B oracle", "USDC")]
        assert dict.fromkeys(expected, 1) == Counter(ledger.source.calls)

    def test_order_and_repetition_of_candidates(self) -> None:
        """The same markets in another order, or named twice, give the same reading."""
        ledger = two_markets()
        named = [candidate("A"), candidate("B"), candidate("C")]
        forth, back = (ledger.read(items).result for items in (named, [*named[::-1], *named]))

        assert (forth.markets, forth.columns, forth.absent) == (back.markets, back.columns, back.absent)

    def test_deployments_list_no_markets(self) -> None:
        """A market manager lists nothing, so a deployment itself adds nothing to read."""
        ledger = two_markets()
        tables = ledger.compute([candidate("A")], [deployment("backstop", ["B"])])

        assert {A: (2, 0)} == counts_of(tables)

    def test_market_just_deployed(self) -> None:
        """A market without a list of pools is read, and has none."""
        ledger = AlulaLedger()
        ledger.replace(market_instance("A", "Frozen"), deployed_market("A"))
        ledger.set_decimals("A oracle", u32(14))
        tables = ledger.compute([demanded("A")])

        assert {A: (0, 0)} == counts_of(tables)
        assert [("frozen", None)] == tables.markets.select("status", "tvl_usd_cents").rows()
        assert ([], []) == (tables.unread, tables.notices)

    def test_active_market_without_list(self) -> None:
        """A market that is active must have had a list of pools: without one it is unread."""
        ledger = AlulaLedger()
        ledger.replace(market_instance("A", "Active"), deployed_market("A"))
        tables = ledger.compute([demanded("A")])

        assert {} == counts_of(tables)
        assert [(A, None, "absent")] == [(item.market, item.pool, item.reason) for item in tables.unread]
        assert tables.unread[0].detail.startswith("the market is active and has no list of pools")

    def test_parameters(self) -> None:
        """The rate model and the limits of every pool are at hand, with their scales, to be shown."""
        reading = two_markets().read([candidate("A"), candidate("B")]).result
        shown = {item.name: (item.value, item.decimals) for item in reading.parameters[A, contract("XLM")]}

        assert set(ALL) == set(reading.parameters)
        assert {name: (value, 4) for name, value in CURVE.items()}.items() <= shown.items()
        assert {
            "take_rate_bps": (1_000, 4),
            "target_utilization_ratio_bps": (6_500, 4),
            "ir_reactivity_constant": (0, 0),
            "open_ltv_bps": (7_500, 4),
            "supply_limit": (10**15, 7),
            "flags": (2**32 - 1, 0),
        }.items() <= shown.items()

    def test_unknown_code_is_no_notice(self) -> None:
        """The hash of the deployed code is not known in full, so no code is remarked upon."""
        reading = two_markets().read([candidate("A")]).result

        assert [] == reading.notices
        assert [64] == [len(market.wasm_hash or "") for market in reading.markets]

    def test_long_name(self) -> None:
        """A name of thousands of characters is cut, and that is said."""
        ledger = two_markets()
        ledger.replace(market_instance("A", name=b"x" * 5_000))
        tables = ledger.compute([candidate("A")])

        assert ["x" * 200] == tables.markets["name"].to_list()
        assert [f"market {A} has a name of 5000 characters; 200 of them are shown"] == tables.notices

    def test_known_markets(self) -> None:
        """The markets of alula.md, "Discovery" are known: one on mainnet, one on testnet, and three made ones."""
        known = {
            name: [item for item in network.deployments if item.protocol == "alula"]
            for name, network in NETWORKS.items()
        }

        assert {"mainnet": 1, "testnet": 1, "local": 3} == {
            name: sum(len(item.markets) for item in deployments) for name, deployments in known.items()
        }
        assert ("CBP76I2F", "AI5Q") == (known["mainnet"][0].markets[0][:8], known["mainnet"][0].markets[0][-4:])
        assert ("CBAK5PM2", "WKQZ") == (known["testnet"][0].markets[0][:8], known["testnet"][0].markets[0][-4:])


class TestRecords:
    """The market manager that a market names has a record of it."""

    def test_verified(self) -> None:
        """The manager's record makes a market verified, an archived record, too."""
        ledger = two_markets()
        ledger.archive(deployed_market("B"))
        reading = ledger.read([candidate("A"), candidate("B")]).result

        assert {A: contract("manager"), B: contract("manager")} == reading.verified
        assert [] == reading.notices

    @pytest.mark.parametrize("manager", [None, address(account("manager")), address(contract("other")), u32(1)])
    def test_no_record(self, manager: ScVal | None) -> None:
        """A market without a record at the manager it names is read all the same, with a notice."""
        ledger = two_markets()
        ledger.replace(market_instance("B", storage={"DeployerHost": manager}))
        tables = ledger.compute([candidate("A"), candidate("B")])
        assert ledger.reading is not None

        assert ALL == read_pools_of(tables)
        assert {A: contract("manager")} == ledger.reading.verified
        assert [f"market {B} names "] == [notice[: len(f"market {B} names ")] for notice in tables.notices]
        assert "has no record of it" in tables.notices[0]


class TestTokens:
    """Symbols and decimals: the token's own first, the pool's copy where it has none."""

    def test_token_before_copy(self) -> None:
        """The token's own symbol is published, not the copy the pool took when it was made."""
        assert {"USDC"} == set(two_markets().compute([candidate("B")]).pools["symbol"])

    def test_copy_where_the_token_says_nothing(self) -> None:
        """Where the token cannot be read the pool's copy is shown, once and with the reason."""
        ledger = two_markets()
        ledger.replace(bare_token("USDC"))
        reading = ledger.read([candidate("A"), candidate("B")]).result

        assert (reading.tokens[contract("USDC")].symbol, reading.tokens[contract("USDC")].decimals) == ("COPY", 7)
        assert 1 == len(reading.notices)
        assert "does not give its symbol" in reading.notices[0]
        assert ALL == read_pools_of(ledger.compute([candidate("A"), candidate("B")]))

    def test_missing_token_contract(self) -> None:
        """A token contract that is gone costs neither the pool nor its symbol."""
        ledger = two_markets()
        ledger.remove(token_instance("USDC"))

        assert {"COPY"} == set(ledger.compute([candidate("B")]).pools["symbol"])

    def test_absurd_copy(self) -> None:
        """A copy that is no symbol does not fill every page: the pool is unread, with the token's failure."""
        ledger = two_markets()
        ledger.replace(bare_token("USDC"), pool("B", "USDC", token_symbol=string("x" * 201)))
        tables = ledger.compute([candidate("B")])

        assert [(contract("USDC"), "undecodable")] == [(item.pool, item.reason) for item in tables.unread]

    def test_other_decimals(self) -> None:
        """Amounts are in the decimals the market computes with; that the token says others is remarked."""
        ledger = two_markets()
        ledger.replace(pool("B", "USDC", token_decimals=u32(9)))
        tables = ledger.compute([candidate("B")])

        assert [9] == tables.pools["decimals"].to_list()
        assert 1 == sum("9 decimals" in notice and "has 7" in notice for notice in tables.notices)

    def test_pool_with_another_address_than_its_token(self) -> None:
        """Where pool and token differ both are kept, and token and price are the token's."""
        ledger = two_markets()
        ledger.replace(
            all_pools("B", ["P"]),
            pool("B", "USDC", "P", pool_address=address(contract("P"))),
        )
        tables = ledger.compute([candidate("B")])

        assert [(contract("P"), contract("USDC"), "USDC")] == tables.pools.select(
            "pool", "token_address", "symbol"
        ).rows()
        assert [] == tables.unpriced


class TestFailures:
    """What cannot be read is named, and costs nothing else."""

    def test_absent_market(self) -> None:
        """A published address without a contract is absent; one that the operator named is unread."""
        tables = two_markets().compute([candidate("A"), candidate("gone"), demanded("lost")])

        assert [Absent(contract("gone"), "alula", "the ledger has no contract at this address")] == tables.absent
        assert [
            Unread(
                contract("lost"),
                None,
                "alula",
                "absent",
                "the ledger has no contract at this address; check [[markets]]",
            )
        ] == tables.unread
        assert {A: (2, 0)} == counts_of(tables)

    @pytest.mark.parametrize(("which", "what"), [(market_instance("A"), "instance"), (all_pools("A", []), "list")])
    def test_archived_market(self, which: tuple[bytes, bytes], what: str) -> None:
        """A market whose instance or list is archived is unread, and not an empty one."""
        ledger = two_markets()
        ledger.archive(which)
        tables = ledger.compute([candidate("A"), candidate("B")])

        assert [(A, None, "archived")] == [(item.market, item.pool, item.reason) for item in tables.unread]
        assert what in tables.unread[0].detail
        assert {B: (1, 0)} == counts_of(tables)

    def test_archived_pool(self) -> None:
        """An archived pool is unread, not zero, and still a member."""
        ledger = two_markets()
        ledger.archive(pool("A", "XLM"))
        tables = ledger.compute([candidate("A")])

        assert [(contract("XLM"), "archived")] == [(item.pool, item.reason) for item in tables.unread]
        assert {A: (2, 1)} == counts_of(tables)

    def test_listed_pool_without_entry(self) -> None:
        """A listed pool without an entry is unread."""
        ledger = two_markets()
        ledger.remove(pool("A", "XLM"))
        tables = ledger.compute([candidate("A")])

        assert [(contract("XLM"), "absent")] == [(item.pool, item.reason) for item in tables.unread]
        assert {(A, contract("USDC"))} == read_pools_of(tables)

    def test_unknown_models(self) -> None:
        """A model of interest or accrual that is not known makes the pool unread, with the variant's name."""
        ledger = two_markets()
        ledger.replace(
            pool("A", "XLM", config=pool_config(interest_rate_model=vec(symbol("Linear"), u32(1)))),
            pool("A", "USDC", config=pool_config(accrual_model=unit("Simple"))),
        )
        tables = ledger.compute([candidate("A")])
        details = {item.pool: item.detail for item in tables.unread}

        assert {"undecodable"} == {item.reason for item in tables.unread}
        assert "Linear" in details[contract("XLM")]
        assert "Simple" in details[contract("USDC")]
        assert {A: (2, 2)} == counts_of(tables)

    def test_entry_of_another_pool(self) -> None:
        """An entry that says it is of another pool is not taken for the one it stands under."""
        ledger = two_markets()
        ledger.replace(pool("A", "XLM", pool_address=address(contract("else"))))
        tables = ledger.compute([candidate("A")])

        assert [(contract("XLM"), "inconsistent")] == [(item.pool, item.reason) for item in tables.unread]

    def test_not_a_market(self) -> None:
        """A contract with other entries is unread, with what is missing."""
        ledger = two_markets()
        ledger.replace(token_instance("T"))
        ledger.replace(entry(B, unit("AllPools"), VOID))
        tables = ledger.compute([candidate("A"), candidate("B"), candidate("T")])

        assert {B, contract("T")} == {item.market for item in tables.unread}
        assert {A: (2, 0)} == counts_of(tables)

    def test_oracle_that_is_an_account(self) -> None:
        """A market whose oracle is no contract has pools without prices."""
        ledger = two_markets()
        ledger.replace(market_instance("B", storage={"Oracle": address(account("oracle"))}))
        tables = ledger.compute([candidate("B")])

        assert ["the market's oracle is no contract"] == [item.reason for item in tables.unpriced]

    def test_one_price_that_fails_costs_no_other(self) -> None:
        """An oracle that traps for one token leaves the others priced, unlike the contract's own view."""
        ledger = two_markets()
        ledger.set_lastprice("A oracle", "XLM", "HostError: Error(Contract, #2)")
        tables = ledger.compute([candidate("A")])

        assert [contract("XLM")] == [item.pool for item in tables.unpriced]
        assert 1 == tables.pools["tvl_usd_cents"].null_count()
