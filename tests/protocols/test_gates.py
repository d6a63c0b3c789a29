"""Who may do what with the recorded pools, and how much of it, where their entries say otherwise than recorded.

Contract code judges K2's, XOXNO's and Peridot's gates and amounts in test_contract_states and test_peridot_states,
Blend's in tests/host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, WASM, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, symbol, u32, u64, u128, vec
from exporter.protocols.balances import balance_call
from exporter.protocols.k2.math import ONLY_LISTED, UNKNOWN_LISTS
from exporter.protocols.xoxno import layout as xoxno
from exporter.protocols.xoxno.terms import UNKNOWN_SPOKES
from exporter.tables import PoolKey
from tests.protocols.judged import OPERATIONS, closed
from tests.protocols.places import ALULA, K2, MARKET, USDC, VAULT, XLM, field, vault
from tests.protocols.world import World, put

AMOUNTS = ("available_to_withdraw", "available_to_borrow", "available_to_supply")


class TestAlula:
    """Gates of the market and the pool, and what the limits leave."""

    def row(self, *changes: tuple[Any, ...], status: str = "Active") -> dict[str, Any]:
        """A pool of 1000 tokens that has lent 500, and lends up to nine tenths."""
        world = World("alula")
        world.put(instance_key(world.market), vec(symbol(status)), "MarketStatus")
        values = dict.fromkeys(("total_available", "total_borrowed"), 500 * 10**7) | {"take_rate_fees_sum": 0}
        for name, value in values.items():
            world.put(ALULA, i128(value), name)
        limits = {"supply_limit": 1_200 * 10**7, "utilization_ratio_limit_bps": 9_000}
        for name, value in limits.items():
            world.put(ALULA, i128(value), "config", "health_config", name)
        for value, *path in changes:
            world.put(ALULA, value, *path)
        return world.row("native")

    @pytest.mark.parametrize(
        ("status", "gates"),
        [
            ("Active", (True, True, True, True, True)),
            ("BorrowFrozen", (True, True, False, True, True)),
            ("BorrowFrozenByAdmin", (False, True, False, True, True)),
            ("DepositFrozen", (False, True, False, True, True)),
            ("DepositFrozenByAdmin", (False, True, False, True, True)),
            ("Frozen", (False, None, False, None, None)),
            ("FrozenByAdmin", (False, None, False, None, None)),
            ("Odd", (None, None, None, None, None)),
        ],
    )
    def test_gates_of_the_market(self, status: str, gates: tuple[bool | None, ...]) -> None:
        """Depositing is open in two statuses and borrowing in one; of a frozen market only that much is known."""
        row = self.row(status=status)

        assert gates == tuple(row[f"can_{name}"] for name in OPERATIONS)
        assert (None in gates) == (row["can_reason"] is not None)

    @pytest.mark.parametrize(
        ("flags", "shut", "status"),
        [
            (2**32 - 1, "", "enabled"),
            (1 | 2 | 4, "", "partly_disabled"),
            (14, "supply", "partly_disabled"),
            (13, "borrow", "partly_disabled"),
            (16, "supply borrow", "disabled"),
        ],
    )
    def test_flags_of_the_pool(self, flags: int, shut: str, status: str) -> None:
        """A bit that is not set closes depositing or borrowing in one pool; leaving it stays open."""
        row = self.row((u32(flags), "config", "status", "flags"))

        assert (shut, status, "borrow" not in shut) == (closed(row), row["pool_status"], row["can_be_borrowed"])

    def test_flags_that_are_not_there(self) -> None:
        """If they are missing, it is not known what is open, and the reason says so; bad debt still closes all."""
        for changes, is_open in (((), None), (((u32(1), "bad_debt_request_count"),), False)):
            row = self.row((None, "config", "status"), *changes)
            assert (is_open, is_open, None) == tuple(row[n] for n in ("can_supply", "can_borrow", "pool_status"))
            assert "does not have all that its operations hang on" in row["can_reason"]

    def test_bad_debt_that_waits(self) -> None:
        """While the insurance fund is asked, and until the lock ends, one can only repay and liquidate."""
        now = World("alula").time
        for lock in ((u32(1), "bad_debt_request_count"), (u64(now + 1), "bad_debt_lock_d")):
            row = self.row(lock)
            assert ("supply withdraw borrow", "bad_debt_locked") == (closed(row), row["pool_status"])
        assert "" == closed(self.row((u64(now), "bad_debt_lock_d")))

    @pytest.mark.parametrize(
        ("changes", "amounts"),
        [
            ([], (500, 400, 200)),
            # 900 supplied, 55.56 % lent: 9000 - 5556 parts of it
            ([(i128(100 * 10**7), "take_rate_fees_sum")], (400, 309, 300)),
            ([(i128(600 * 10**7), "take_rate_fees_sum")], (0, 0, 700)),
            ([(i128(0), "total_borrowed")], (500, 450, 700)),
            ([(i128(4_999), "config", "health_config", "utilization_ratio_limit_bps")], (500, 0, 200)),
            ([(i128(10_000), "config", "health_config", "utilization_ratio_limit_bps")], (500, 500, 200)),
            ([(i128(999 * 10**7), "config", "health_config", "supply_limit")], (500, 400, 0)),
            ([(i128(0), "config", "health_config", "supply_limit")], (500, 400, None)),
        ],
    )
    def test_amounts_keep_to_cash_utilization_and_supply_limits(
        self, changes: list[tuple[Any, ...]], amounts: tuple[int | None, ...]
    ) -> None:
        """Amounts are what the pool has, what the limit of utilization leaves, and what the limit of supply lets in."""
        row = self.row(*changes)

        assert list(amounts) == [None if row[name] is None else row[name] // 10**7 for name in AMOUNTS]

    @pytest.mark.parametrize(
        ("limit", "expected"),
        [(0, (0, None, 0, False)), (2**127 - 1, (2**53 - 1, 10**38 - 1, 500, True)), (-(2**127), (0, 0, 0, False))],
    )
    def test_limits_of_any_size(self, limit: int, expected: tuple[int | bool | None, ...]) -> None:
        """Without a limit any supply is taken; one that no contract takes is published as the nearest that fits."""
        names = ("open_ltv_bps", "supply_limit", "utilization_ratio_limit_bps")
        row = self.row(*((i128(limit), "config", "health_config", name) for name in names))
        found = tuple(row[name] for name in ("collateral_factor_bps", "supply_cap", "available_to_borrow"))

        assert expected == (*found[:2], found[2] // 10**7, row["can_be_collateral"])

    @pytest.mark.parametrize(("farm", "reason", "paid"), [(VOID, "no_emissions", 0), (u32(1), "not_read", None)])
    def test_a_side_without_a_farm_is_paid_nothing(self, farm: ScVal, reason: str, paid: int | None) -> None:
        """A side without a farm is paid nothing; what a farm pays is not read."""
        row = self.row((farm, "farm_supply"))

        assert (reason, paid) == (row["supply_reward_reason"], row["supply_reward_apr_bps"])
        assert "no_emissions" == row["borrow_reward_reason"]


class TestPeridot:
    """Pauses, which end by themselves, and what a vault needs to lend."""

    @pytest.mark.parametrize(
        ("name", "shut"),
        [
            ("PauseDeposit", "supply"),
            ("PauseRedeem", "withdraw"),
            ("PauseBorrow", "borrow"),
            ("PauseLiquidation", "liquidate"),
        ],
    )
    def test_each_pause_closes_one_thing_to_its_last_second(self, name: str, shut: str) -> None:
        """Each pause closes one thing, to its last second, though nobody takes it away; one without an end holds on."""
        world = World("peridot")
        world.put(variant_key(world.market, name), (MAP, ((address(VAULT), (BOOL, True)),)))
        for until in (None, world.time, world.time - 1):
            if until is not None:
                world.put(variant_key(world.market, f"{name}Until"), (MAP, ((address(VAULT), u64(until)),)))
            holds = until in (None, world.time)
            tables = world.compute()
            row = tables.pools.row(by_predicate=pl.col("pool") == VAULT, named=True)
            assert (shut * holds, "partly_paused" if holds else "active") == (closed(row), row["market_status"])
            assert row["market_status"] == row["pool_status"]
            shown = {item.name: item.value for item in tables.parameters[PoolKey(world.market, VAULT)]}
            assert holds == sum(value for key, value in shown.items() if key.endswith("_paused"))

    def test_rewards_of_no_token(self) -> None:
        """A speed without a token, or of another form, is not known; without a speed nothing is paid."""
        world = World("peridot")
        for speed, reason in ((u128(5), "unread"), (u32(5), "unread"), (u128(0), "no_emissions")):
            world.put(variant_key(world.market, "SupplySpeed", address(VAULT)), speed)
            world.put(variant_key(world.market, "PeridotToken"), VOID)
            assert reason == world.row("native")["supply_reward_reason"]

    def test_a_market_is_paused_when_nothing_new_is_open(self) -> None:
        """A market is paused when neither depositing nor borrowing is open in any vault; not when all else is."""
        pools = World("peridot").compute().pools["pool"].to_list()
        everywhere: ScVal = (MAP, tuple((address(pool), (BOOL, True)) for pool in pools))
        for names, status in ((("PauseDeposit", "PauseBorrow"), "paused"), (("PauseRedeem",), "partly_paused")):
            world = World("peridot")
            for name in names:
                world.put(variant_key(world.market, name), everywhere)
            assert {status} == {*world.compute().markets["status"], *world.compute().pools["pool_status"]}

    def test_what_a_loan_needs(self) -> None:
        """Nothing can be borrowed before the rates are ready: the flag says so, or else that there is a model."""
        world = World("peridot")
        for key, value, shut in (
            (vault("RatesReady"), (BOOL, False), "borrow"),
            (vault("RatesReady"), None, ""),
            (vault("InterestModel"), None, "borrow"),
        ):
            world.put(key, value)
            assert shut == closed(world.row("native"))

    def test_vault_that_the_controller_lacks(self) -> None:
        """Such a vault cannot be liquidated, and whether it lends is unknown; the reason also names a missing list."""
        world = World("peridot")
        world.put(variant_key(world.market, "SupportedMarkets"), (BOOL, False), address(VAULT))
        row = world.row("native")
        assert (None, None, False) == tuple(row[n] for n in ("can_borrow", "available_to_borrow", "can_liquidate"))
        assert "does not list the vault" in row["can_reason"]

        world.put(variant_key(world.market, "SupportedMarkets"), None)
        assert "has no list of the vaults" in world.row("native")["can_reason"]

    def test_vault_without_a_controller(self) -> None:
        """Nobody pauses it and nobody can be liquidated; its own collateral factor counts."""
        world = World("peridot")
        world.put(variant_key(world.market, "PauseDeposit"), (MAP, ((address(VAULT), (BOOL, True)),)))
        world.put(vault("Peridottroller"), None)
        world.put(vault("CollateralFactorScaled"), u128(123_456))
        row = world.row("native")

        assert ("liquidate", 1_234, None) == (closed(row), row["collateral_factor_bps"], row["can_reason"])


def test_available_of_k2() -> None:
    """The aToken's balance of a token that is no Stellar asset is asked for, and bounds what goes out."""
    world, holder = World("k2"), field(K2, "a_token_address")
    call = balance_call(XLM, holder)
    instance: Any = world.value(instance_key(XLM))
    world.put(instance_key(XLM), (instance[0], instance[1]._replace(executable=WASM, wasm_hash=bytes(32))))
    world.answers[call.contract, call.function] = i128(8)

    assert (8, 8, None) == tuple(world.row("native")[name] for name in AMOUNTS)


class TestXoxno:
    """What spokes and hubs allow, as the controller keeps it."""

    def test_hub_and_spokes(self) -> None:
        """A hub that is missing or switched off, spokes that are deprecated or missing: nothing new."""
        market = MARKET["xoxno"]
        spokes = [xoxno.controller_key(market, "Spoke", number) for number in (1, 2)]
        for keys, changed, status in (
            ([xoxno.controller_key(market, "Hub", 1)], "is_active", "hub_inactive"),
            (spokes, "is_deprecated", "active"),
        ):
            for gone in (False, True):
                world = World("xoxno")
                for key in keys:
                    world.put(key, None) if gone else world.put(key, (BOOL, changed == "is_deprecated"), changed)
                row = world.row("USDC")
                assert (False, True, status) == (row["can_supply"], row["can_withdraw"], row["pool_status"])

    @pytest.mark.parametrize("spokes", [0, None])
    def test_a_controller_without_spokes_opens_nothing(self, spokes: int | None) -> None:
        """A controller without spokes opens nothing and costs no request; with an unknown number, all is unknown."""
        world = World("xoxno")
        put(instance_key(world.market), None if spokes is None else u32(spokes), "LastSpokeId")(world)
        row = world.row("USDC")

        expected = (None, None, None, UNKNOWN_SPOKES) if spokes is None else (False, "unlisted", 0, None)
        assert expected == tuple(row[name] for name in ("can_borrow", "pool_status", "supply_cap", "can_reason"))
        assert 2 == len(world.source.waves)


class TestK2:
    """White lists of a router: of those who use a reserve, and of liquidators."""

    LISTED, NOT_LISTED = ((BOOL, flag) for flag in (True, False))

    def gates(self, changes: Mapping[str, ScVal]) -> tuple[list[bool | None], str | None]:
        world = World("k2")
        for name, value in changes.items():
            world.put(instance_key(world.market), value, name)
        row = world.row("native")
        return [row[f"can_{operation}"] for operation in OPERATIONS], row["can_reason"]

    def of_reserve(self, flag: ScVal, asset: str = XLM) -> Mapping[str, ScVal]:
        return {"RWLMAP": (MAP, ((address(asset), flag),))}

    @pytest.mark.parametrize(
        ("lists", "expected", "reason"),
        [
            ("RWLMAP", [None, None, None, None, True], ONLY_LISTED),
            ("LWLF", [True, True, True, True, None], ONLY_LISTED),
            ("RWLMAP LWLF", [None] * 5, ONLY_LISTED),
        ],
    )
    def test_only_listed_accounts(self, lists: str, expected: list[bool | None], reason: str) -> None:
        """What only listed accounts may do is null, and the reason says so (kinetic-router/src/operations.rs)."""
        flags = {**self.of_reserve(self.LISTED), "LWLF": self.LISTED}
        chosen = {name: flags[name] for name in lists.split()}

        assert (expected, reason) == self.gates(chosen)
        assert ([False] * 5, None) == self.gates({**chosen, "PAUSED": (BOOL, True)})

    def test_amounts_of_listed_accounts(self) -> None:
        """How much anybody can move is not known where it is not known who may."""
        world = World("k2")
        world.put(instance_key(world.market), self.of_reserve(self.LISTED)["RWLMAP"], "RWLMAP")
        row = world.row("native")

        assert [None] * 3 == [row[name] for name in AMOUNTS]

    def test_a_list_of_another_reserve_closes_nothing(self) -> None:
        """A list of another reserve, an empty one or none closes nothing."""
        everybody = ([True] * 5, None)
        for flags in ({}, self.of_reserve(self.NOT_LISTED), self.of_reserve(self.LISTED, USDC)):
            assert everybody == self.gates({**flags, "LWLF": self.NOT_LISTED})

    @pytest.mark.parametrize("odd", [u32(1), (MAP, ((symbol("a"), (BOOL, True)),)), (MAP, ((address(XLM), u32(1)),))])
    def test_lists_of_another_form(self, odd: ScVal) -> None:
        """A flag that cannot be read leaves open who may, and costs no number."""
        assert ([None, None, None, None, True], UNKNOWN_LISTS) == self.gates({"RWLMAP": odd})
        assert ([True, True, True, True, None], UNKNOWN_LISTS) == self.gates({"LWLF": odd})
