"""Tests of BLND rewards and of backstops: vectors of the contracts' own tests, and readings of a ledger."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.deployments import BACKSTOP
from exporter.ledger.codec.entries import data_key, instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, u64, vec
from exporter.protocols.balances import balance_key as token_balance_key
from exporter.protocols.blend.backstop import ALLOTMENT, BackstopBalance, Comet, EmissionSource, Funding, PoolBackstop
from exporter.protocols.blend.emissions import Emission, backstop_emission_key, plan_key, reserve_emission_key
from exporter.protocols.blend.layout import reward_zone_key
from exporter.protocols.compute import Tables
from tests.localnet.recorded import BLEND_V1, BLEND_V2
from tests.protocols.places import USDC, XLM
from tests.protocols.world import Change as ChangeOfWorld
from tests.protocols.world import World, contract, put

NOW = World("blend").time
A, B = contract("A"), contract("B")
ONE = 10**7
YEAR = 31_536_000

# Comet's pool in the vectors: 5 BLND and 0.05 USDC behind a share (backstop/src/backstop/pool.rs, tests).
FIVE_BLND = Comet(blnd=5 * ONE, blnd_weight=8_000_000, usdc=ONE // 20, usdc_weight=2_000_000, shares=ONE)


def backstop(**changes: Any) -> PoolBackstop:
    """A v2 pool whose backstop has just enough, with some fields changed."""
    made = PoolBackstop(
        market=A,
        generation="v2",
        status="active",
        backstop=B,
        tokens=None,
        comet=None,
        lp_value=(10 * ONE, ONE // 4),
        balance=BackstopBalance(50_000 * ONE, 50_000 * ONE, 0),
        emission=Emission(reason="no_emissions"),
        funding=Funding(EmissionSource.EMITTER, True, None),
        in_reward_zone=None,
    )
    return replace(made, **changes)


def of_whole_units(generation: str, blnd: int, usdc: int) -> PoolBackstop:
    """A backstop with this much behind it."""
    return backstop(generation=generation, balance=BackstopBalance(ONE, ONE, 0), lp_value=(blnd * ONE, usdc * ONE))


class TestVectors:
    """Numbers of the contracts' own tests."""

    def test_pool_data_is_that_of_the_backstops_own_test(self) -> None:
        """``test_load_pool_data`` of backstop/src/backstop/pool.rs: 250 tokens, a third of 150 shares queued."""
        row = backstop(balance=BackstopBalance(150 * ONE, 250 * ONE, 50 * ONE), comet=FIVE_BLND).row(NOW)

        assert 3_333_334 == row.queued_part  # rounds up
        assert (1_250 * ONE, 12_5000000, 2_500_000) == (row.blnd, row.usdc, row.lp_price_usdc)

    @pytest.mark.parametrize(
        ("generation", "blnd", "usdc", "met"),
        [
            ("v2", 200_000, 6_249, False),
            ("v2", 5_000, 1_000, False),
            ("v2", 200_001, 6_250, True),
            ("v2", 50_000_000, 10_000_000, True),
            ("v1", 300_000, 25_000, False),
            ("v1", 5_000, 1_000, False),
            ("v1", 364_643, 18_100, True),
            ("v1", 50_000_000, 10_000_000, True),
        ],
    )
    def test_the_threshold_is_met_as_in_the_contracts_tests(
        self, generation: str, blnd: int, usdc: int, met: bool
    ) -> None:
        """``test_require_pool_above_threshold_*`` of both generations' backstops."""
        assert met == of_whole_units(generation, blnd, usdc).row(NOW).threshold_met

    def test_the_threshold_product_saturates_as_in_the_contract(self) -> None:
        """A product of 99 % is published as that, and one beyond 128 bits as the contract takes it."""
        assert 9_998 == of_whole_units("v2", 200_000, 6_249).row(NOW).threshold_product_bps
        assert 2**127 - 1 == of_whole_units("v2", 10**9, 10**9).threshold_product

    @pytest.mark.parametrize(
        ("shares", "tokens", "queued", "earning"),
        [(80321, 103302, 40001, 51857), (0, 0, 0, 0), (8765, 0, 4321, 0), (80321, 103302, 80321, 0)],
    )
    def test_tokens_that_are_not_queued(self, shares: int, tokens: int, queued: int, earning: int) -> None:
        """``test_non_queued_tokens*`` of backstop/src/backstop/pool.rs."""
        assert earning == BackstopBalance(shares, tokens, queued).tokens_not_queued

    @pytest.mark.parametrize(
        ("status", "queued", "enough", "after"),
        [
            ("on_ice", 0, True, "active"),
            ("admin_active", 0, True, "admin_active"),
            ("active", 0, False, "on_ice"),
            ("active", 29, True, "active"),
            ("active", 30, True, "on_ice"),
            ("admin_active", 30, True, "admin_active"),
            ("admin_active", 49, True, "admin_active"),
            ("admin_active", 50, True, "on_ice"),
            ("admin_active", 0, False, "on_ice"),
            ("active", 59, True, "on_ice"),
            ("active", 60, True, "frozen"),
            ("frozen", 60, True, "frozen"),
            ("frozen", 0, True, "active"),
            ("admin_on_ice", 74, False, "admin_on_ice"),
            ("admin_on_ice", 75, True, "frozen"),
            ("admin_frozen", 90, False, None),
            ("setup", 0, True, None),
        ],
    )
    def test_status_after_update(self, status: str, queued: int, enough: bool, after: str | None) -> None:
        """``test_update_pool_status_*`` of pool/src/pool/status.rs, and the numbers next to each bound."""
        shares = (50_000 if enough else 9_000) * ONE
        pool = backstop(status=status, balance=BackstopBalance(shares, shares, shares * queued // 100))

        assert after == pool.status_after_update()

    def test_price_by_comet(self) -> None:
        """Mainnet's pool of Comet at ledger 55,261,759: each step rounds down to 7 decimals."""
        comet = Comet(216_834_281_088_055, 8_000_000, 4_416_777_655_708, 2_000_000, 49_272_834_655_960)

        assert (22_083_888_278_540 * ONE // 271_042_851_360_068, 814_774) == (comet.blnd_in_usdc, comet.blnd_in_usdc)
        assert (896_392, 4_481_960) == (comet.per_share[1], comet.share_in_usdc)


class TestEmission:
    """Tests when BLND is paid."""

    @pytest.mark.parametrize(("time", "eps", "reason"), [(99, 7, "valid"), (100, 0, "expired"), (101, 0, "expired")])
    def test_an_expired_emission_pays_nothing_and_shows_its_end(self, time: int, eps: int, reason: str) -> None:
        """Nothing is paid from its expiration on; the end is still shown."""
        assert Emission(eps, 100, reason) == Emission(7, 100).at(time)

    def test_nothing_emitted_is_none_an_unreadable_emission_unknown(self) -> None:
        """One of nothing, and none at all, are no emissions; one that cannot be read is not known."""
        assert Emission(0, 100, "no_emissions") == Emission(0, 100).at(5)
        assert Emission(0, None, "no_emissions") == Emission(reason="no_emissions").at(5)
        assert Emission(None, None, "unread") == Emission(reason="unread").at(5)

    @pytest.mark.parametrize(("generation", "eps"), [("v1", 1_000_496), ("v2", 10_004_960_317_460)])
    def test_shares_queued_for_withdrawal_earn_nothing(self, generation: str, eps: int) -> None:
        """The pace of either generation gives the same year and yield; what is queued for withdrawal earns nothing."""
        pool = backstop(
            generation=generation,
            emission=Emission(eps, NOW + 1),
            balance=BackstopBalance(200_000 * ONE, 400_000 * ONE, 100_000 * ONE),
            comet=FIVE_BLND,
        )
        row = pool.row(NOW)
        year = {"v1": 1_000_496 * YEAR, "v2": 10_004_960_317_460 * YEAR // ONE}[generation]

        assert year == row.emission_per_year
        # A BLND is worth 0.04 USDC, a token 0.25, and 200,000 tokens earn.
        assert year * 400_000 * 10_000 // (200_000 * ONE * 2_500_000) == row.emission_apr_bps
        assert ("valid", NOW + 1) == (row.emission_reason, row.emission_expiration)

    def test_nobody_and_no_price(self) -> None:
        """If no tokens earn, or Comet's pool is missing, the yield is null and the pace is known."""
        paid = Emission(5, NOW + 1)
        nobody = backstop(emission=paid, balance=BackstopBalance(ONE, ONE, ONE), comet=FIVE_BLND).row(NOW)
        unpriced = backstop(emission=paid).row(NOW)

        for row, reason in ((nobody, "no_backstop"), (unpriced, "no_reward_price")):
            assert (None, reason, 5) == (row.emission_apr_bps, row.emission_reason, row.emission_per_second)


BACKSTOP_1, BACKSTOP_2 = (item.address(BACKSTOP) or "" for item in World("blend").deployments)


def named_by(backstop: str, name: str) -> str:
    """A contract that a backstop's instance names."""
    instance: Any = World("blend").value(instance_key(backstop))
    return str(dict(instance[1].storage)[symbol(name)][1])


BLND, COMET = named_by(BACKSTOP_1, "BLNDTkn"), named_by(BACKSTOP_1, "BToken")
EMITTER = named_by(BACKSTOP_2, "Emitter")
Change = tuple[Any, ...]
"""A key, a value, and the path to where it goes; see `World.put`."""


def noted(name: str, value: ScVal | None) -> Change:
    """An entry of v2's backstop: ``Backfill`` or ``BackfillEmis``."""
    return data_key(BACKSTOP_2, symbol(name)), value


def at_emitter(name: str, value: ScVal | None) -> Change:
    """An entry that the emitter has of v2's backstop: ``LastDistro`` or ``Dropped``."""
    return variant_key(EMITTER, name, address(BACKSTOP_2)), value


def paid_by(backstop: str) -> Change:
    """The emitter pays this backstop."""
    return instance_key(EMITTER), address(backstop), "Backstop"


def holding(amount: int) -> Change:
    """The entry with which v2's backstop has this much BLND."""
    held = {"amount": i128(amount), "authorized": (BOOL, True), "clawback": (BOOL, False)}
    return token_balance_key(BLND, BACKSTOP_2), struct_map(held)


RECORDS, SHARES = (variant_key(COMET, name) for name in ("AllRecordData", "TotalShares"))
OF_POOL, LP_VALUE = variant_key(BACKSTOP_1, "PoolBalance", address(BLEND_V1)), data_key(BACKSTOP_1, symbol("LPTknVal"))
PROMISED, LEFT = noted("BackfillEmis", i128(7 * ONE)), ALLOTMENT - 7 * ONE
PAID, DROPPED = at_emitter("LastDistro", u64(5)), at_emitter("Dropped", (BOOL, True))


def tables_of(*changes: Change) -> Tables:
    """What is published about the recorded markets after a change."""
    world = World("blend")
    for key, value, *path in changes:
        if value is not None or path or world.value(key) is not None:
            world.put(key, value, *path)
    return world.compute()


def backstop_of(tables: Tables, market: str = BLEND_V1) -> dict[str, Any]:
    """The row of a market's backstop."""
    return tables.backstops.row(by_predicate=pl.col("market") == market, named=True)


def reward(tables: Tables, *parts: str, market: str = BLEND_V1, asset: str = USDC) -> tuple[object, ...]:
    """The named columns of the suppliers' reward."""
    row = tables.pools.row(by_predicate=(pl.col("market") == market) & (pl.col("pool") == asset), named=True)
    return tuple(row[f"supply_reward_{part}"] for part in parts)


class TestReading:
    """The way from entries to columns."""

    def test_the_reward_zone(self) -> None:
        """A market is in the zone that its own backstop lists it in; without a zone that is known, nobody knows."""
        for value, expected in ((vec(), False), (vec(address(BLEND_V1)), True), (VOID, None)):
            assert expected is backstop_of(tables_of((reward_zone_key(BACKSTOP_1), value)))["in_reward_zone"]

    @pytest.mark.parametrize(
        ("changes", "source", "funded", "remaining"),
        [
            ([], "backfill", True, ALLOTMENT),
            ([noted("Backfill", (BOOL, True))], "backfill", True, ALLOTMENT),
            ([PROMISED], "backfill", False, LEFT),
            ([PROMISED, holding(7 * ONE - 1)], "backfill", False, LEFT),
            ([PROMISED, holding(7 * ONE)], "backfill", True, LEFT),
            ([noted("BackfillEmis", i128(ALLOTMENT + 1))], "backfill", False, 0),
            ([PROMISED, PAID], "none", False, None),
            ([PROMISED, DROPPED], "backfill", True, LEFT),
            ([PROMISED, noted("Backfill", (BOOL, False))], "none", False, None),
            ([PROMISED, paid_by(BACKSTOP_2)], "emitter", False, None),
            ([PROMISED, paid_by(BACKSTOP_2), PAID, DROPPED], "emitter", True, None),
            ([noted("BackfillEmis", u32(7))], "backfill", None, None),
        ],
    )
    def test_a_promise_is_funded_only_by_tokens_that_came(
        self, changes: list[Change], source: str, funded: bool | None, remaining: int | None
    ) -> None:
        """A promise of the allotment is paid once the emitter minted it or somebody gave it, and not before."""
        fields = {"eps": u64(100_000 * ONE), "expiration": u64(NOW + 60), "index": i128(7), "last_time": u64(NOW)}
        promised = struct_map(fields)
        before = [
            noted("Backfill", None),
            (token_balance_key(BLND, BACKSTOP_2), None),
            at_emitter("LastDistro", None),
            paid_by(contract("another")),
            (plan_key(BLEND_V2), (MAP, ((u32(1), u64(ONE)),))),
            (backstop_emission_key("v2", BACKSTOP_2, BLEND_V2), promised),
            *((reserve_emission_key("v2", BLEND_V2, place, "supply"), promised) for place in range(4)),
        ]
        tables = tables_of(*before, *changes)
        row = backstop_of(tables, BLEND_V2)

        names = ("emission_source", "emission_funded", "backfill_remaining")
        assert (source, funded, remaining) == tuple(row[name] for name in names)
        reason = {True: "valid", False: "not_funded", None: "unread"}[funded]
        yearly = None if funded is None else 100_000 * YEAR
        assert (reason, yearly) == (row["emission_reason"], row["emission_per_year"])
        assert (row["emission_apr_bps"] is None) == (reason != "valid")
        (of_pool, apr, index) = reward(tables, "reason", "apr_bps", "index", market=BLEND_V2)
        assert (reason, reason != "valid") == (of_pool, apr is None)
        assert (None if funded is None else 7) == index
        assert ("valid",) == reward(tables, "reason")  # v1 promises what the emitter minted

    @pytest.mark.parametrize(
        ("stored", "shares", "expected"),
        [
            ((7, NOW - 20), 3 * ONE, 7 + 20 * 5 * ONE // (3 * ONE)),
            ((7, NOW - 20), 0, 7),  # nobody has a share
            ((7, NOW + 90), ONE, 7),
            ((7, NOW - 20), 1, 7 + 20 * 5 * ONE),
            ((10**38 - 1, NOW - 20), 1, None),
            (None, ONE, None),
        ],
    )
    def test_what_a_share_was_ever_paid(
        self, stored: tuple[int, int] | None, shares: int, expected: int | None
    ) -> None:
        """The stored index and what was paid since, at most until the expiration, rounded down."""
        assert expected == Emission(5, NOW + 60, stored=stored).index_at(NOW, shares, 7)
        if expected is not None and stored is not None:
            assert expected == Emission(5, NOW, stored=stored).index_at(NOW + 100, shares, 7)

    def test_what_is_not_paid(self) -> None:
        """Nothing was ever paid without a plan; an emission ends at the close time that it names."""
        assert (0, "no_emissions") == reward(tables_of((plan_key(BLEND_V1), None)), "apr_bps", "reason")
        keys = [reserve_emission_key("v1", BLEND_V1, place, "supply") for place in range(2)]
        ended, endless = (tables_of(*((key, u64(end), "expiration") for key in keys)) for end in (NOW, 2**62))
        assert (0, 0, NOW, "expired") == reward(ended, "apr_bps", "per_year", "expiration", "reason")
        assert ("unread",) == reward(endless, "reason")

    @pytest.mark.parametrize(
        "change",
        [
            put(RECORDS, None),
            put(RECORDS, i128(0), address(USDC), "balance"),
            put(RECORDS, i128(10**30), address(BLND), "weight"),
            put(SHARES, i128(0)),
            put(instance_key(BACKSTOP_1), None),
            put(instance_key(BLND), u32(8), "METADATA", "decimal"),
        ],
    )
    def test_without_a_price_of_blnd(self, change: ChangeOfWorld) -> None:
        """If Comet's pool is missing or has other decimals, the amounts stay and the yield is null, with its reason."""
        world = World("blend")
        change(world)
        tables = world.compute()
        apr, yearly, reason = reward(tables, "apr_bps", "per_year", "reason")

        assert (None, "no_reward_price") == (apr, reason)
        assert yearly == reward(tables_of(), "per_year")[0]
        assert backstop_of(tables)["value_usd_cents"] is None

    def test_another_backstop_is_paid(self) -> None:
        """A v1 backstop that the emitter does not name has all that it promised, and gets nothing more."""
        emitter = named_by(BACKSTOP_1, "Emitter")
        never_paid = variant_key(emitter, "LastDistro", address(BACKSTOP_1)), None
        row = backstop_of(tables_of((instance_key(emitter), address(BACKSTOP_2), "Backstop"), never_paid))

        assert ("none", True) == (row["emission_source"], row["emission_funded"])

    @pytest.mark.parametrize(("asset", "reason"), [(USDC, "no_reward_price"), (XLM, "no_token_price")])
    def test_without_a_price_of_the_token(self, asset: str, reason: str) -> None:
        """A token that the oracle does not price has a reward of a known amount and an unknown yield."""
        world = World("blend")
        oracle = world.row("USDC")["oracle"]
        price = struct_map({"price": i128(0), "timestamp": u64(NOW)})
        world.answers[oracle, "lastprice"] = lambda call: price if call.arguments[0][1][1][1] == asset else None

        assert (reason,) == reward(world.compute(), "reason", asset=asset)

    @pytest.mark.parametrize(
        ("changes", "unknown"),
        [
            ([(OF_POOL, i128(6 * 10**20), "q4w")], ("lp_tokens", "status_after_update")),
            ([(OF_POOL, i128(-5), "shares")], ("lp_tokens", "status_after_update")),
            ([(LP_VALUE, vec(i128(1)))], ("threshold_met", "status_after_update")),
            ([(LP_VALUE, vec(i128(-1), i128(5)))], ("threshold_met", "status_after_update")),
            ([(instance_key(BACKSTOP_1), None)], ("lp_token", "blnd", "value_usd_cents")),
            ([(OF_POOL, i128(2**127 - 1), name) for name in ("shares", "tokens")], ("blnd",)),
        ],
    )
    def test_an_unread_backstop(self, changes: list[Change], unknown: tuple[str, ...]) -> None:
        """A part of a backstop that cannot be read is null, and so is what depends on it."""
        row = backstop_of(tables_of((LP_VALUE, vec(i128(4 * ONE), i128(800_000))), *changes))

        assert {None} == {row[name] for name in unknown}
