"""Reads the recorded markets: what is asked for, what is said about a market that differs, and what is found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, u64, u128, vec
from exporter.protocols.alula import layout as alula
from exporter.protocols.balances import balance_key
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.k2 import layout as k2
from exporter.protocols.peridot.layout import BOOST_RULES, BoostRule
from exporter.protocols.xoxno import layout as xoxno
from exporter.tables import PoolKey
from tests.protocols.places import (
    A_TOKEN,
    ALULA,
    DEBT_TOKEN,
    FEED,
    K2,
    MARKET,
    PARAMETERS,
    POOL_CONTRACT,
    RESERVE,
    SLENDER,
    SLENDER_DEBT,
    STATE,
    USDC,
    VAULT,
    XLM,
    field,
    vault,
)
from tests.protocols.protocol_facts import NoticeCase, all_facts, list_key
from tests.protocols.world import Change, World, account, answer, contract, put, token


@pytest.mark.parametrize("protocol", all_facts())
def test_reading_takes_few_waves_and_each_call_once(protocol: str) -> None:
    """Few waves, the busiest entries first, and each call once."""
    world = World(protocol)
    world.read()

    assert all_facts()[protocol].waves == world.source.waves
    assert {1} == set(Counter(world.source.calls).values())


M_PERIDOT, M_XOXNO, M_ALULA = (MARKET[name] for name in ("peridot", "xoxno", "alula"))


@pytest.mark.parametrize(
    ("protocol", "case"), [(protocol, case) for protocol, facts in all_facts().items() for case in facts.notices]
)
def test_what_differs_is_noticed_and_no_pool_lost(protocol: str, case: NoticeCase) -> None:
    """A notice names what differs from the lists or the usual contracts, and no readable pool is lost."""
    world = World(protocol)
    case.change(world)
    tables = world.compute()

    assert ([], case.pools) == (tables.unread, tables.pools.height)
    assert [] == [part for part in case.parts if not any(part in notice for notice in tables.notices)], tables.notices


def test_records_of_alula() -> None:
    """The manager's record makes a market verified, an archived record, too."""
    world = World("alula")
    manager = str(world.read().result.verified[world.market])
    world.archive(alula.record_key(manager, world.market))
    assert {world.market: manager} == world.read().result.verified

    world.put(alula.record_key(manager, world.market), None)
    assert {} == world.read().result.verified


def test_pool_of_alula_with_another_address_than_its_token() -> None:
    """If pool and token differ, both are kept, and symbol and price are the token's."""
    world, pool = World("alula"), contract("P")
    entry: Any = world.value(ALULA)
    world.put(alula.pool_key(world.market, pool), entry)
    world.put(alula.pool_key(world.market, pool), address(pool), "pool_address")
    world.put(list_key("alula"), vec(address(pool)))
    tables = world.compute()

    assert [(pool, XLM, "native", "valid")] == tables.pools.select(
        "pool", "token_address", "symbol", "price_reason"
    ).rows()


@pytest.mark.parametrize(("supply", "expected"), [(0, 0), (1, None)])
def test_balance_of_k2_that_is_not_stored(supply: int, expected: int | None) -> None:
    """An aToken without a balance has nothing where nothing is supplied; from one unit on something is missing."""
    world = World("k2")
    world.put(balance_key(XLM, field(K2, "a_token_address")), None)
    world.put(A_TOKEN, i128(supply), "State", "total_supply_scaled")
    world.put(DEBT_TOKEN, i128(0), "State", "total_debt_scaled")

    assert expected == world.row("native")["available_to_withdraw"]


def test_debt_ceiling_of_k2() -> None:
    """A debt ceiling is in whole tokens, even of an archived entry; most reserves have none."""
    world = World("k2")
    key = k2.debt_ceiling_key(world.market, USDC)
    assert world.row("USDC")["borrow_cap"] is None
    world.put(key, u128(5))
    world.archive(key)
    assert 5 * 10**7 == world.row("USDC")["borrow_cap"]


def test_k2_without_what_it_need_not_have() -> None:
    """A rate contract's defaults, a name, and reserves: a market is read without them."""
    world = World("k2")
    own = field(k2.reserve_key(world.market, USDC), "interest_rate_strategy_address")
    world.deployments = [replace(item, contracts=()) for item in world.deployments]
    named = [Candidate("k2", world.market)]
    assert ["K2 Lend"] == world.compute(named).markets["name"].to_list()

    world.put(variant_key(own, "APARAMS", address(USDC)), None)
    world.put(instance_key(own), None)
    assert f"the reserve's rate contract {own} is missing" in {item.detail for item in world.compute(named).unread}

    world.put(list_key("k2"), vec())
    world.put(k2.router_keys(world.market)[2], u32(0))
    tables = world.compute(named)
    assert [(world.market, 0, None)] == tables.markets.select("market", "pool_count", "tvl_usd_cents").rows()
    assert ([], []) == (tables.unread, tables.notices)


class TestRewardsOfK2:
    """What the reward contract pays that a reserve's tokens name."""

    REWARDS = contract("rewards")
    TOKENS = address(field(K2, "a_token_address")), address(field(K2, "debt_token_address"))

    def world(self, paid: str, *, side: int = 0, is_active: bool = True) -> World:
        """Suppliers of XLM (0), or its borrowers (1), are paid 10 of a token a second, without an end."""
        world = World("k2")
        world.put((A_TOKEN, DEBT_TOKEN)[side], address(self.REWARDS), vec(symbol("IncentivesContract")))
        world.put(variant_key(self.REWARDS, "RTL", self.TOKENS[side]), vec(address(paid)))
        fields = {"distribution_end": u64(0), "emission_per_second": u128(10), "is_active": (BOOL, is_active)}
        world.put(self.key(paid, side), struct_map(fields))
        return world

    def key(self, paid: str, side: int = 0) -> bytes:
        """The ledger key of the reward that a side is paid in a token."""
        return variant_key(self.REWARDS, "ARC", self.TOKENS[side], address(paid), u32(side))

    def reward(self, world: World, side: str = "supply") -> tuple[object, ...]:
        """The published reward of a side."""
        row = world.row("native")
        return tuple(row[name] for name in ("reward_token", f"{side}_reward_per_second", f"{side}_reward_reason"))

    def test_what_is_paid(self) -> None:
        """Rewards take two more requests, and have a price if their token is a reserve's; another has none here."""
        world = self.world(USDC)
        assert (USDC, 10, "valid") == self.reward(world)
        assert [3, 17, 18, 1, 1] == world.source.waves
        assert (USDC, 10) == self.reward(self.world(USDC, side=1), "borrow")[:2]
        other = token("EURC")
        assert (other, 10, "no_reward_price") == self.reward(self.world(other))

    def test_a_token_with_absurd_decimals(self) -> None:
        """The reward has no rate; with such decimals in a power of ten, the run would never end."""
        world = self.world(USDC)
        world.put(instance_key(USDC), u32(2**32 - 1), "METADATA", "decimal")
        assert (USDC, 10, "no_reward_price") == self.reward(world)

    def test_switched_off_and_odd(self) -> None:
        """What is switched off pays nothing; an entry of another form is unread, and costs nothing else."""
        assert (None, 0, "no_emissions") == self.reward(self.world(USDC, is_active=False))
        for key in (self.key(USDC), variant_key(self.REWARDS, "RTL", self.TOKENS[0])):
            world = self.world(USDC)
            world.put(key, u32(7))
            assert (None, None, "unread") == self.reward(world)


class TestPeridot:
    """Vaults whose entries do or do not show their cash, and what of it counts."""

    CASH = 441_983_118_535

    def world(self, *changes: Change) -> World:
        """A vault that lends 10^9 and was brought up to date now."""
        world = World("peridot")
        world.put(vault("TotalBorrowed"), u128(10**9))
        world.put(vault("LastUpdateTime"), u64(world.time))
        for change in changes:
            change(world)
        return world

    def rate(self, world: World) -> tuple[int, int]:
        """What is lent by the rate model, and what the vault's suppliers own."""
        row = world.row("native")
        return row["stored_utilization"], row["total_supplied"]

    def of(self, cash: int) -> int:
        """The utilization if the rate model is given this cash."""
        return 10**15 // (cash + 10**9)

    def test_a_gift_moves_the_rate(self) -> None:
        """Tokens sent to a vault lower its rate, and belong to nobody."""
        gift = put(balance_key(XLM, VAULT), i128(10**12), "amount")

        assert (self.of(10**12), self.CASH + 10**9) == self.rate(self.world(gift))

    def test_cash_that_only_the_vault_says(self) -> None:
        """A vault without ``ManagedCash``, or without the supply of receipts, is asked for it."""
        said = answer(VAULT, "get_total_underlying", u128(7 + 10**9))
        assert 7 + 10**9 == self.rate(self.world(put(vault("ManagedCash"), None), said))[1]
        world = self.world(answer(VAULT, "get_total_ptokens", u128(10**6)))
        world.put(instance_key(VAULT), None, "TotalSupply")
        assert (self.CASH + 10**9) * 10**12 == world.row("native")["supply_index"]

    @pytest.mark.parametrize("code", [*BOOST_RULES, None])
    def test_what_counts_of_boosted_cash(self, code: str | None) -> None:
        """A quote counts up to 5 percent above what was cached; code that caches takes that for an hour.

        Which code it is its hash says, or an entry that only caching code writes, also archived.
        """
        world = self.world(
            put(vault("TotalDeposited"), u128(self.CASH + 10**9)),  # by its accounts nothing is boosted
            put(vault("BoostedVault"), address(contract("DeFindex"))),
            put(vault("BoostedUnderlyingCached"), u128(5 * 10**9)),
            answer(VAULT, "get_total_underlying", u128(self.CASH + 11 * 10**9)),
        )
        world.put(vault("BoostedUnderlyingUpdatedAt"), u64(world.time - 3_600))
        world.code(VAULT, bytes(32) if code is None else bytes.fromhex(code))
        if code is None:
            world.put(vault("BoostedAssetCount"), u32(1))
            world.archive(vault("BoostedAssetCount"))
        quotes = code is not None and BOOST_RULES[code] == BoostRule.QUOTED
        counted = 525 * 10**7 if quotes else 5 * 10**9

        assert (self.of(self.CASH + counted), self.CASH + 10**10 + 10**9) == self.rate(world)
        assert self.CASH + 10**10 == world.row("native")["available_to_withdraw"]

    def test_what_is_set_aside_of_a_boosted_vault(self) -> None:
        """Reserves and fees are not the suppliers', but lie in the vault: all that suppliers own can be paid out."""
        owned = self.CASH + 10**10
        world = self.world(
            put(vault("BoostedVault"), address(contract("DeFindex"))),
            put(vault("TotalReserves"), u128(3 * 10**9)),
            put(vault("TotalAdminFees"), u128(10**9)),
            answer(VAULT, "get_total_underlying", u128(owned + 10**9)),
        )
        world.code(VAULT, bytes.fromhex(next(code for code, rule in BOOST_RULES.items() if rule == BoostRule.QUOTED)))
        row = world.row("native")

        assert (owned + 10**9, owned) == (row["total_supplied"], row["available_to_withdraw"])

    def test_factors_that_leave_suppliers_nothing(self) -> None:
        """A vault that keeps exactly all interest accrues as any other, and gives its suppliers none of it."""
        half = (put(vault(name), u128(500_000)) for name in ("ReserveFactorScaled", "AdminFeeScaled"))
        row = self.world(*half, put(vault("LastUpdateTime"), u64(1_700_000_000))).row("native")

        assert (self.CASH + 10**9, 0) == (row["total_supplied"], row["supply_apy_bps"])
        assert row["total_borrowed"] > 10**9

    def test_a_vault_that_nobody_used(self) -> None:
        """A vault that nobody used has no cash, and needs no balance."""
        row = self.world(put(vault("ManagedCash"), u128(0)), put(balance_key(XLM, VAULT), None)).row("native")

        assert (10**9, 0) == (row["total_supplied"], row["available_to_withdraw"])

    def test_vault_without_a_model(self) -> None:
        """A vault without a model has the one rate that it keeps itself."""
        world = self.world(put(vault("InterestModel"), None), put(vault("BorrowYearlyRateScaled"), u128(50_000)))
        row = world.row("native")

        assert (50_000, 50_000) == (row["stored_borrow_apr"], row["accrued_borrow_apr"])

    def test_a_vault_without_a_model_may_lend_for_nothing(self) -> None:
        """A rate of its own that is 0 is a rate, and not one that is missing."""
        world = self.world(put(vault("InterestModel"), None), put(vault("BorrowYearlyRateScaled"), u128(0)))

        assert 0 == world.row("native")["stored_borrow_apr"]

    def test_vaults_that_are_named(self) -> None:
        """One that the operator named and that is not there is unread."""
        world, gone = World("peridot"), contract("gone vault")
        tables = world.compute([*world.candidates(), Candidate("peridot", world.market, Origin.CONFIGURATION, gone)])

        assert [(gone, "absent")] == [(item.pool, item.reason) for item in tables.unread]


class TestSlender:
    """A dormant pool, with cash that is away while the pool is there."""

    def test_a_market_has_an_oracle_if_all_feeds_agree(self) -> None:
        """A market has an oracle if all its reserves have the same feed."""
        world = World("slender")
        (one,) = world.read().result.markets
        world.put(SLENDER, address(contract("another")), FEED, "feeds", 0, "feed")
        (other,) = world.read().result.markets
        assert (True, None) == (one.oracle is not None, other.oracle)

    def test_cash_that_is_missing(self) -> None:
        """If there are shares or debt, missing cash makes a pool unread; before anybody has supplied, it is 0."""
        shares, debt = (
            vec(symbol("TokenSupply"), item) for item in (field(SLENDER, RESERVE, "reserve_type")[1], SLENDER_DEBT)
        )
        cash = variant_key(MARKET["slender"], "TokenBalance", address(XLM), field(SLENDER, RESERVE, "reserve_type")[1])
        for gone in (shares, debt):
            world = World("slender")
            world.put(cash, None)
            world.put(SLENDER, None, gone)
            assert [("absent", True)] == [
                (item.reason, "the reserve's cash" in item.detail) for item in world.compute().unread
            ]
        world.put(SLENDER, None, shares)
        row = world.row("native")
        assert (0, 0) == (row["total_supplied"], row["total_borrowed"])
        world.put(cash, i128(-1))
        assert ["TokenBalance is negative"] == [item.detail for item in world.compute().unread]


class TestXoxno:
    """Hub markets that only somebody names."""

    def pool(self, world: World, hub: int, asset: str) -> str:
        """Write a hub market as that of USDC in hub 1; gives its id."""
        new = xoxno.HubAsset(hub, asset)
        for name, recorded in (("State", STATE), ("Params", PARAMETERS)):
            world.put(xoxno.pool_key(POOL_CONTRACT, name, new), world.value(recorded))
        return new.pool

    def test_a_token_in_two_hubs_is_two_pools(self) -> None:
        """A pool that an event or an earlier run named is read next to those of the list, once, with its own state."""
        world = World("xoxno")
        named = Candidate("xoxno", world.market, Origin.EVENT, self.pool(world, 2, USDC))
        world.put(xoxno.pool_key(POOL_CONTRACT, "State", xoxno.HubAsset(2, USDC)), i128(7), "cash")
        tables = world.compute([*world.candidates(), named, replace(named, origin=Origin.REMEMBERED)])
        rows = {row["pool"]: row for row in tables.pools.rows(named=True)}

        assert 5 == len(rows)
        assert {USDC} == {rows[f"{hub}-{USDC}"]["token_address"] for hub in (1, 2)}
        assert 7 == rows[f"2-{USDC}"]["available_to_withdraw"] < rows[f"1-{USDC}"]["available_to_withdraw"]
        assert {1, 2} == {
            item.value
            for hub in (1, 2)
            for item in tables.parameters[PoolKey(world.market, f"{hub}-{USDC}")]
            if item.name == "hub_id"
        }

    @pytest.mark.parametrize("origin", [Origin.REMEMBERED, Origin.CONFIGURATION])
    @pytest.mark.parametrize(("pool", "reason"), [(f"3-{XLM}", "absent"), ("USDC", "undecodable")])
    def test_found_once_and_gone(self, origin: Origin, pool: str, reason: str) -> None:
        """A pool that was there once, or that the operator named, is never lost: it is unread."""
        world = World("xoxno")
        named = [Candidate("xoxno", world.market, origin, pool)]
        if reason == "absent":  # an event that names it, too, makes no difference
            named.append(replace(named[0], origin=Origin.EVENT))
        tables = world.compute([*world.candidates(), *named])

        assert [(pool, reason)] == [(item.pool, item.reason) for item in tables.unread]
        assert 4 == tables.pools.height

    def test_listed_and_not_created(self) -> None:
        """A pool that an event named and that has no entry is announced; one with half of its entries is unread."""
        world = World("xoxno")
        named = [*world.candidates(), Candidate("xoxno", world.market, Origin.EVENT, f"2-{XLM}")]
        tables = world.compute(named)
        assert ([], [True]) == (tables.unread, [f"not deployed: 2-{XLM}" in notice for notice in tables.notices])

        world.put(xoxno.pool_key(POOL_CONTRACT, "State", xoxno.HubAsset(2, XLM)), world.value(STATE))
        assert [("absent", f"2-{XLM}")] == [(item.reason, item.pool) for item in world.compute(named).unread]


class TestRouterOfAShareToken:
    """K2's isolated router, known only by a share token."""

    def a_token(self) -> str:
        return str(World("k2").row("USDC")["share_token"])

    def test_the_router_that_a_share_token_names(self) -> None:
        """Whoever names a share token gets its router named, and nothing is unread for the token."""
        world = World("k2")
        named_token = [Candidate("k2", self.a_token(), Origin.CONFIGURATION)]
        reading = world.read(named_token, follow=False).result

        named = [(item.address, item.origin, item.configured) for item in reading.named]
        assert [(world.market, Origin.NAMED_BY_CONTRACT, False)] == named
        assert ([], [], []) == (reading.unread, reading.absent, reading.markets)

    def test_a_router_that_is_known(self) -> None:
        """A known router is named once: by its list or its token."""
        world = World("k2")
        both = [
            Candidate("k2", self.a_token(), Origin.CONFIGURATION),
            Candidate("k2", world.market, Origin.CONFIGURATION),
        ]

        assert [] == world.read(both).result.named
        assert [world.market] == [item.address for item in world.read(both).result.markets]

    @pytest.mark.parametrize("value", [u32(1), address(account("G"))])
    def test_a_token_that_names_no_contract(self, value: ScVal) -> None:
        """What is no share token is read as a router, and says why it is none."""
        world, token = World("k2"), self.a_token()
        world.put(instance_key(token), value, "State", "pool_address")
        reading = world.read([Candidate("k2", token, Origin.CONFIGURATION)]).result

        assert ([], [token]) == (reading.named, [item.market for item in reading.unread])
