"""Makes the two frames of readings, and names everything that is not in them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.deployments.listing import NOTHING_LISTED
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, u32, u64, vec
from exporter.ledger.oracles import PriceKey, Quote
from exporter.ledger.tokens import Token
from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import AnyPool, Candidate, Market, PoolReading, ProtocolReading
from exporter.protocols.blend.layout import reserve_config_key, reserve_data_key, reward_zone_key
from exporter.protocols.collector import Collector
from exporter.protocols.compute import Tables, compute
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, Rewards, Risk
from exporter.protocols.prices import ABSURD_PRICE
from exporter.protocols.protocol import PriceRule, Protocol
from exporter.render.lists import check_pools
from exporter.tables import GATES, OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SHARED
from exporter.tree.documents import Bounded
from tests.localnet.recorded import BLEND_V1, BLEND_V2
from tests.protocols.world import Change, World, account, contract, demanded, put, token

WBTC, WETH, USDC, XLM = map(token, ("wBTC", "wETH", "USDC", "native"))
NOW, DAY = World("blend").time, 86_400
DATA = reserve_data_key(BLEND_V2, WBTC)
TRAP = "HostError: Error(Contract, #2)"


def priced(world: World, **prices: ScVal | bytes | str) -> World:
    """Let the oracle say something else of the price of tokens, which are known by their symbols."""
    given = {token(name): value for name, value in prices.items()}
    oracle = str(world.row("USDC")["oracle"])
    world.answers[oracle, "lastprice"] = lambda call: given.get(call.arguments[0][1][1][1])
    return world


def wbtc_of(world: World) -> dict[str, Any]:
    """What is published about a pool whose token no other market has."""
    (row,) = (row for row in world.compute().pools.rows(named=True) if row["pool"] == WBTC)
    return row


def with_state(*changes: tuple[str, int]) -> World:
    """The pool's state with other numbers, brought up to date now."""
    world = World("blend")
    world.put(DATA, u64(world.time), "last_time")
    for name, value in changes:
        world.put(DATA, u64(value) if name == "last_time" else i128(value), name)
    return world


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        (TRAP, f"lastprice() failed: {TRAP}"),
        (struct_map({"price": i128(10**37), "timestamp": u64(NOW)}), ABSURD_PRICE),
    ],
)
def test_one_bad_asset(price: ScVal | bytes | str, reason: str) -> None:
    """A bad price is null with its reason; the pool keeps its row, the other pools their prices."""
    world = with_state(("b_supply", 10**25))
    tables = priced(world, wBTC=price).compute()
    row = wbtc_of(world)

    assert [(BLEND_V2, WBTC, reason)] == [(item.market, item.pool, item.reason) for item in tables.unpriced]
    names = ("oracle_price", "oracle_decimals", "price_timestamp", "oracle_price_usd", "tvl_usd_cents")
    assert [None] * 5 == [row[name] for name in names]
    assert reason == row["price_reason"]
    assert (6, 5, []) == (tables.pools.height, tables.pools["oracle_price"].count(), tables.unread)


def test_more_digits_than_the_history_has() -> None:
    """A number that 128 bits hold and 38 digits do not makes its pool unread, named with the number."""
    world = with_state(("b_supply", 10**38), ("b_rate", 10**12), ("d_supply", 0))
    for name, value in (("b_supply", 10**38), ("b_rate", 10**9), ("d_supply", 0)):
        world.put(reserve_data_key(BLEND_V1, XLM), i128(value), name)
    tables = world.compute()

    detail = f"numbers have at most 38 digits, but total_supplied is {10**38}"
    assert {(BLEND_V1, XLM, "overflow", detail), (BLEND_V2, WBTC, "overflow", detail)} == {
        (item.market, item.pool, item.reason, item.detail) for item in tables.unread
    }
    assert 4 == tables.pools.height


class TestBounds:
    """One field never costs a row."""

    def test_yield_that_no_json_number_holds(self) -> None:
        """A borrow yield beyond all JSON integers is the largest, named; totals and other yields are exact."""
        world = World("blend")
        before = world.compute().pools
        world.put(reserve_config_key(BLEND_V2, WBTC), u32(2**32 - 1), "r_base")
        world.put(DATA, i128(10**8), "ir_mod")
        tables = world.compute()
        row = wbtc_of(world)

        assert [] == tables.unread
        assert [
            Bounded(BLEND_V2, WBTC, name, "9007199254740991")
            for name in (
                "borrow_apy_bps",
                "comparable_borrow_apy_bps",
                "comparable_supply_apy_bps",
                "supply_apy_bps",
                "total_supply_apy_bps",
            )
        ] == tables.bounded
        assert (2**53 - 1, 2**53 - 1) == (row["borrow_apy_bps"], row["supply_apy_bps"])
        assert wbtc_of(World("blend"))["total_supplied"] <= row["total_supplied"]
        assert before.filter(pl.col("pool") != WBTC).equals(tables.pools.filter(pl.col("pool") != WBTC))

    def test_utilization_that_128_bits_do_not_hold(self) -> None:
        """A v2 reserve that owes 10^37 and has one base unit is read: the contract caps what it computes with."""
        world = with_state(("b_supply", 1), ("d_supply", 10**37), ("b_rate", 10**12), ("d_rate", 10**12))

        assert 10**37 == wbtc_of(world)["total_borrowed"]
        assert [("utilization_bps", str(2**53 - 1))] == [(item.field, item.bound) for item in world.compute().bounded]

    def test_number_of_39_digits_next_to_the_totals(self) -> None:
        """A credit or a time beyond the history's types is at its bound, and is named; the totals are exact."""
        numbers = {"backstop_credit": 10**38, "b_supply": 7, "b_rate": 10**12, "d_supply": 0, "last_time": 2**61}
        world = with_state(*numbers.items())
        tables, row = world.compute(), wbtc_of(world)
        found = {item.field: item.bound for item in tables.bounded}

        assert {"backstop_credit": str(10**38 - 1), "last_accrual_time": "253402300799"} == found
        assert (7, 10**38 - 1, 253_402_300_799) == tuple(
            row[name] for name in ("total_supplied", "backstop_credit", "last_accrual_time")
        )


class TestFrames:
    """The frames themselves."""

    def test_means_of_markets(self) -> None:
        """Yields weigh by what is supplied or borrowed in USD, over the pools that have a price."""
        tables = priced(World("blend"), USDC=VOID, native=VOID).compute()
        rows = tables.pools.filter((pl.col("market") == BLEND_V2) & pl.col("supplied_usd_cents").is_not_null())
        means = tables.markets.rows_by_key("market", named=True, unique=True)

        for rate, side in (
            ("supply", "supplied"),
            ("total_supply", "supplied"),
            ("borrow", "borrowed"),
            ("comparable_supply", "supplied"),
            ("comparable_borrow", "borrowed"),
        ):
            weights = rows[f"{side}_usd_cents"].to_list()
            whole = sum(rate * weight for rate, weight in zip(rows[f"{rate}_apy_bps"], weights, strict=True))
            assert means[BLEND_V2][f"mean_{rate}_apy_bps"] == whole // sum(weights) > 0
            assert means[BLEND_V2][f"{side}_usd_cents"] == sum(weights)
            assert means[BLEND_V2]["tvl_usd_cents"] == sum(rows["tvl_usd_cents"])
            assert means[BLEND_V1]["tvl_usd_cents"] is None
            assert means[BLEND_V1][f"mean_{rate}_apy_bps"] is means[BLEND_V1][f"{side}_usd_cents"] is None

    def test_rows_ascend_whoever_named_a_market_first(self) -> None:
        """Pools ascend by market and pool, and so does everything else, whoever named it first."""
        network = RecordedNetwork(copies=6)
        world = World("blend", network)
        changes: list[Change] = [
            *(put(reserve_data_key(BLEND_V2, asset), None) for asset in (WBTC, WETH)),
            put(reserve_data_key(BLEND_V1, XLM), None),
            *(put(instance_key(market), string("x" * 300), "Name") for market in (BLEND_V1, BLEND_V2)),
            put(reward_zone_key(world.deployments[0].address("backstop") or ""), vec(address(account("nobody")))),
        ]
        for change in changes:
            change(world)
        named = [Candidate("blend", market) for market in (BLEND_V2, BLEND_V1, *network.copies)]
        named += [Candidate("blend", contract(f"gone {number}")) for number in range(2)]
        named += [demanded("blend", contract(f"lost {number}")) for number in range(4)]
        priced(world, USDC=VOID)
        forth, back = world.compute(named), world.compute(named[::-1])

        for tables in (forth, back):
            check_pools(tables.pools)
            ascending: list[list[Any]] = [
                [(row["market"].encode(), row["pool"].encode()) for row in tables.pools.iter_rows(named=True)],
                tables.markets["market"].to_list(),
                [(item.market, item.pool or "") for item in tables.unread],
                [(item.market, item.pool) for item in tables.unpriced],
                [item.market for item in tables.absent],
                tables.notices,
            ]
            assert all(len(each) > 1 and sorted(each) == each for each in ascending)
        assert (7, 12, 2) == (len(forth.unread), len(forth.unpriced), len(forth.absent))
        assert forth.pools.equals(back.pools)
        assert forth.markets.equals(back.markets)
        for name in ("unread", "unpriced", "absent", "notices"):
            assert getattr(forth, name) == getattr(back, name)


GROUPS: dict[str, Any] = {"operations": Operations, "amounts": Amounts, "risk": Risk, "rewards": Rewards}


class TwoPools:
    """A protocol with two pools of one token in a market without an oracle, and plain collateral."""

    def __init__(self, **terms: object) -> None:
        self.terms = terms

    def protocol(self) -> Protocol:
        """The protocol as data."""
        return replace(
            PROTOCOLS["blend"], name="other", project=self.project, prices=PriceRule(failure=self.price_failure)
        )

    def project(self, pool: AnyPool, close_time: int) -> PoolNumbers:
        groups = {
            name: made(**{name: self.terms[name] for name in made.__struct_fields__ if name in self.terms})
            for name, made in GROUPS.items()
        }
        zeros: Any = dict.fromkeys(REQUIRED_COLUMNS.keys() - SHARED, 0)
        return PoolNumbers(**zeros | {"total_collateral": 10**7, "last_accrual_time": close_time} | groups)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        return "never" if quote.price is None else None


def of_other(pools: TwoPools, oracle: str | None, quote: Quote | None = None) -> Tables:
    """What is published about the other protocol's pools, with the price of their token."""
    token = contract("USDC")
    market = Market(contract("O"), "other", "v1", "Other", "active", oracle, "0" * 16, None, ("p-2", "p-1"))
    collector = Collector("other", [])
    for pool in market.members:
        collector.append_pool(PoolReading(market, pool, token, 7, market.oracle, None), [])
    quotes = {} if quote is None else {PriceKey(str(oracle), token): quote}
    tokens = {token: Token(token, "USDC", 7)}
    reading = ProtocolReading("other", markets=[market], pools=collector.reading.pools, tokens=tokens, quotes=quotes)
    return compute([reading], {"other": pools.protocol()}, 7, NOW, NOTHING_LISTED)


@pytest.mark.parametrize(
    ("oracle", "reason"), [(None, "the market has no oracle"), (contract("X"), "the market's oracle was not asked")]
)
def test_market_without_a_quote(oracle: str | None, reason: str) -> None:
    """Pools of a market without an oracle are unpriced for another reason than those whose oracle nobody asked."""
    assert {reason} == {item.reason for item in of_other(TwoPools(), oracle).unpriced}


def test_values_have_the_collateral() -> None:
    """A price is valid by the rules of the protocol that asked; plain collateral counts for the value."""
    quote = Quote(contract("X"), contract("USDC"), 2, 150, NOW - 100 * DAY)
    tables = of_other(TwoPools(), contract("X"), quote)

    assert ["p-1", "p-2"] == tables.pools["pool"].to_list()
    assert [150, 150] == tables.pools["tvl_usd_cents"].to_list()
    assert ["1.50"] * 2 == tables.pools["oracle_price_usd"].to_list()
    assert [] == tables.unpriced


class TestTerms:
    """What a protocol may also say: gates, amounts and risk."""

    def row(self, **terms: object) -> dict[str, object]:
        """The first pool of the other protocol, which says this."""
        return of_other(TwoPools(**terms), None).pools.row(0, named=True)

    def test_a_protocol_that_says_nothing(self) -> None:
        """Every term is null, the reason of its rewards is that nobody looked, and the pool is still read."""
        row = self.row()
        reasons = ("supply_reward_reason", "borrow_reward_reason")

        assert {None} == {row[name] for name in OPTIONAL_COLUMNS if name not in reasons}
        assert {"not_read"} == {row[name] for name in reasons}

    @pytest.mark.parametrize(("is_open", "expected"), [(True, 5), (False, 0), (None, None)])
    @pytest.mark.parametrize(("gate", "amount"), GATES.items())
    def test_amounts_behind_gates(self, gate: str, amount: str, is_open: bool | None, expected: int | None) -> None:
        """An amount is given if its gate is open, 0 if the gate is closed, and null if nobody knows."""
        assert expected == self.row(**{gate: is_open, amount: 5})[amount]

    def test_numbers_out_of_bounds(self) -> None:
        """A cap or factor below zero is 0; one beyond where it is published is at its bound, and is named."""
        given = {"supply_cap": -1, "borrow_cap": 10**38, "reserve_factor_bps": -5, "collateral_factor_bps": 2**60}
        given |= {"can_withdraw": True, "available_to_withdraw": -7}
        tables = of_other(TwoPools(**given), "O", Quote("O", contract("USDC"), 7, 10**7, NOW))
        row = tables.pools.row(0, named=True)

        assert {
            "supply_cap": 0,
            "borrow_cap": 10**38 - 1,
            "reserve_factor_bps": 0,
            "collateral_factor_bps": 2**53 - 1,
            "available_to_withdraw": 0,
            "can_withdraw": True,
        } == {name: row[name] for name in given}
        assert 0 == row["available_usd_cents"]
        assert {"borrow_cap", "collateral_factor_bps"} == {item.field for item in tables.bounded}
