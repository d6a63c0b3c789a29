"""What oracles give for the recorded pools: which calls are made, and which prices are none, with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import lasting
from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval import BOOL, MAP, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, u64, u128, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.k2.layout import router_keys
from exporter.protocols.k2.reader import FRESH, PLAIN
from exporter.protocols.xoxno import layout as xoxno
from exporter.protocols.xoxno import prices as xoxno_prices
from exporter.tables import VALID_PRICE
from tests.protocols.places import FEED, MARKET, SLENDER, USDC, VAULT, XLM, field
from tests.protocols.protocol_facts import list_key
from tests.protocols.world import Result, World, account

NOW = World("k2").time
DOLLAR = 10**14
TOO_OLD = "HostError: Error(Contract, #4)\n\nEvent log (newest first):\n"
MISSING = "HostError: Error(WasmVm, MissingValue)"


def reasons(world: World) -> dict[str, str]:
    """The reason of each pool's price, by the token's symbol."""
    return dict(world.compute().pools.select("symbol", "price_reason").iter_rows())


def price(value: int, time: int = NOW) -> ScVal:
    """What K2's oracle gives for an asset."""
    return struct_map({"price": u128(value), "timestamp": u64(time)})


class TestK2:
    """One call for all reserves, one for each if it fails, and the router's rules of age."""

    ROUTER = instance_key(MARKET["k2"])
    ORACLE = field(ROUTER, "ORACLE")

    def world(self, item: Any, function: str = FRESH, batch: Any = None) -> World:
        """The oracle gives a dollar for each token but XLM, for which it gives this, and for all of them ``batch``."""
        world = World("k2")

        def given(call: ContractCall) -> Result:
            tokens = [asset[1][1][1] for asset in call.arguments[0][1]]
            if batch is not None and len(tokens) > 1:
                return (batch[0], batch[1])
            found = [item if each == XLM else price(DOLLAR) for each in tokens]
            return next((each for each in found if isinstance(each, str)), None) or vec(*found)

        world.answers |= {(self.ORACLE, FRESH): MISSING, (self.ORACLE, function): given}
        return world

    @pytest.mark.parametrize("function", [FRESH, PLAIN])
    def test_prices_of_14_decimals_come_from_one_simulation(self, function: str) -> None:
        """Prices of 14 decimals from one simulation, of the published source's function where the other is missing."""
        world = self.world(price(3 * DOLLAR, NOW - 1), function)
        row = world.row("native")

        assert (14, 3 * DOLLAR, NOW - 1) == tuple(
            row[name] for name in ("oracle_decimals", "oracle_price", "price_timestamp")
        )
        asked = [call.function for call in world.source.calls if call.contract == self.ORACLE]
        assert [FRESH] * (function == PLAIN) + [function] == asked

    def test_one_refused_price_costs_the_others_nothing(self) -> None:
        """The call for all fails with one stale asset; asked one by one, the others have their prices."""
        world = self.world(TOO_OLD)
        refused = f"{FRESH}() failed: HostError: Error(Contract, #4)"

        assert {"USDC": VALID_PRICE, "native": refused}.items() <= reasons(world).items()
        asked = [call.function for call in world.source.calls if call.contract == self.ORACLE]
        assert [FRESH] * 5 == asked  # the function exists, so that the other is not asked for what it refuses

    def test_fewer_prices_than_tokens(self) -> None:
        """A result that does not have a price for each token does not say which is whose: each is asked for alone."""
        assert {VALID_PRICE} == set(reasons(self.world(price(DOLLAR), batch=vec(price(1)))).values())

    def test_oracle_that_is_gone(self) -> None:
        """If no call gives anything, every pool is read and none has a price; each has the reason."""
        world = World("k2")
        world.answers |= dict.fromkeys(((self.ORACLE, FRESH), (self.ORACLE, PLAIN)), MISSING)

        assert {f"{PLAIN}() failed: {MISSING}"} == set(reasons(world).values())
        world.put(list_key("k2"), vec(address(XLM)))
        world.put(router_keys(MARKET["k2"])[2], u32(1))
        assert {"native": f"{PLAIN}() failed: {MISSING}"} == reasons(world)

    @pytest.mark.parametrize(
        ("item", "reason"),
        [
            (VOID, "the oracle has no price for this token"),
            (price(2**128 - 1), f"{FRESH}(): field price is {2**128 - 1}, above {10**38 - 1}"),
            (struct_map({"price": u128(1)}), f"{FRESH}(): field timestamp is missing"),
            (u32(1), f"{FRESH}(): expected map, found u32"),
        ],
    )
    def test_an_invalid_answer_gives_no_price_but_the_reason(self, item: ScVal, reason: str) -> None:
        """An answer that is missing, too large or of another form gives no price, with the reason."""
        assert reason == reasons(self.world(item))["native"]

    @pytest.mark.parametrize(
        ("storage", "most"),
        [
            ({}, 3_600),
            ({"PSTALE": u64(600)}, 600),
            ({"ASTALMP": (MAP, ((address(XLM), u64(43_200)),))}, 43_200),
            ({"PSTALE": u64(7_200), "ASTALMP": (MAP, ((address(XLM), u64(60)),))}, 60),
            ({"PSTALE": u64(7_200), "ASTALMP": (MAP, ((address(USDC), u64(60)),))}, 7_200),
        ],
    )
    def test_the_routers_limits_of_age(self, storage: dict[str, ScVal], most: int) -> None:
        """A price counts up to the asset's own limit, else the router's, else an hour."""
        for older, reason in ((0, VALID_PRICE), (1, f"more than the market's own limit of {lasting(most)}")):
            world = self.world(price(DOLLAR, NOW - most - older))
            for name, value in storage.items():
                world.put(self.ROUTER, value, name)
            assert reasons(world)["native"].endswith(reason)

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            ("ORACLE", None, "the market has no oracle"),
            ("ORACLE", address(account("A")), "the market's oracle is not a contract"),
            ("ORACFG", struct_map({"price_precision": u32(8)}), "have 8 decimals, not the 14 that are known"),
        ],
    )
    def test_oracles_that_give_no_price(self, name: str, value: ScVal | None, reason: str) -> None:
        """A router without an oracle, with an account for one, or with one of other decimals has no prices."""
        world = World("k2")
        world.put(self.ROUTER, value, name)

        assert [True] * 4 == [reason in each for each in reasons(world).values()]


WAD = 10**18
GOOD: dict[str, ScVal | None] = {
    "final_wad": i128(2 * WAD),
    "primary_wad": i128(2 * WAD),
    "secondary_wad": i128(2 * WAD),
    "price_timestamp": u64(NOW),
    "stale": (BOOL, False),
    "deviation": (BOOL, False),
    "valid": (BOOL, True),
}
LEGS = ("final_wad", "primary_wad", "secondary_wad")
SAYS = "the price aggregator says that"
NO, STALE, DEVIATES, ZERO = (
    {"valid": (BOOL, False)},
    {"stale": (BOOL, True)},
    {"deviation": (BOOL, True)},
    {"final_wad": i128(0)},
)


class TestXoxno:
    """One call gives a map of statuses; if it fails, each is asked for alone. Tests say which are refused.

    If a test is about the contracts' behaviour, it names the line of XOXNO/rs-lending-xlm at 5a27d74f.
    """

    AGGREGATOR = World("xoxno").deployments[0].address("price_aggregator") or ""

    def world(self, item: Any, limit: int = 57_600) -> World:
        """The aggregator gives good prices, and this status for USDC; an error fails each call with USDC in it."""
        world = World("xoxno")
        good = struct_map({name: value for name, value in GOOD.items() if value is not None})

        def given(call: ContractCall) -> Result:
            keys = call.arguments[0][1]
            if xoxno.price_key(USDC) in keys and isinstance(item, str):
                return item
            found = {key: item if key == xoxno.price_key(USDC) else good for key in reversed(keys)}
            return MAP, tuple((key, value) for key, value in found.items() if value is not None)

        world.answers[self.AGGREGATOR, "quotes"] = given
        world.put(xoxno.oracle_key(self.AGGREGATOR, USDC), u64(limit), "max_price_stale_seconds")
        return world

    def reason(self, changes: dict[str, ScVal | None], limit: int = 57_600) -> str:
        """Why the price of a status is refused, which costs no other token its price."""
        status = {name: value for name, value in (GOOD | changes).items() if value is not None}
        found = reasons(self.world(struct_map(status), limit))
        assert {VALID_PRICE} == {reason for name, reason in found.items() if name != "USDC"}
        return found["USDC"]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({}, VALID_PRICE),
            (STALE, f"{SAYS} the price is stale"),
            (NO | STALE, f"{SAYS} the price is stale"),
            (NO | DEVIATES, f"{SAYS} its two sources deviate too much"),
            (NO | ZERO | DEVIATES | {"primary_wad": i128(0)}, "the price aggregator gave one price of its two"),
            (NO | ZERO, "the price is 0, not above zero"),
            (NO, f"{SAYS} the price is outside the bounds that it allows this token"),
            (
                NO | dict.fromkeys(LEGS, i128(0)) | {"price_timestamp": u64(0)},
                "the price aggregator could not get a price",
            ),
            ({"final_wad": None}, "quotes(): field final_wad is missing"),
            ({"stale": VOID}, "quotes(): field stale: expected bool, found void"),
        ],
    )
    def test_which_prices_are_refused(self, changes: dict[str, ScVal | None], reason: str) -> None:
        """What ``prices`` would fail on is not a price, and why: contracts/price-aggregator/src/engine.rs:123."""
        assert reason == self.reason(changes)

    def test_limits_of_age(self) -> None:
        """A price as old as its token's oracle allows is good, an older one is not; one of a minute to come is good.

        common/src/oracle/observation.rs:58 and :13, common/src/types/composable_oracle.rs:189 (the field).
        """
        limit = 86_400
        allowed = f"more than the {limit} s that the price aggregator allows this token"
        for age, reason in (
            (limit, VALID_PRICE),
            (limit + 1, f"the price is {limit + 1} s old, {allowed}"),
            (-60, VALID_PRICE),
            (-61, "the price is of 61 s after the ledger, more than 60 s"),
        ):
            assert reason == self.reason({"price_timestamp": u64(NOW - age)}, limit)

    def test_an_archived_limit(self) -> None:
        """A token whose oracle is archived keeps its price and limit of age: the next call restores it as it was."""
        world = self.world(struct_map({name: value for name, value in GOOD.items() if value is not None}))
        live = world.row("USDC")
        world.archive(xoxno.oracle_key(self.AGGREGATOR, USDC))

        assert live | {"archived": True} == world.row("USDC")
        assert VALID_PRICE == live["price_reason"]

    def test_a_failed_common_call_is_asked_for_each_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One call has all tokens, in any order; one that fails is asked again for each token, a single one is not."""
        world = self.world("HostError: Error(Budget, ExceededLimit)")
        found = reasons(world)
        assert "quotes() failed: HostError: Error(Budget, ExceededLimit)" == found.pop("USDC")
        assert ({VALID_PRICE}, 1 + 4) == (set(found.values()), len(world.source.calls))

        monkeypatch.setattr(xoxno_prices, "TOKENS_PER_CALL", 3)
        world = self.world(None)
        assert "quotes() gave no status of this token" == reasons(world)["USDC"]
        assert [3, 1] == [len(call.arguments[0][1]) for call in world.source.calls]

    def test_a_result_that_is_not_a_map(self) -> None:
        """Statuses without their keys do not say which is whose: no price is guessed from them."""
        world = World("xoxno")
        world.answers[self.AGGREGATOR, "quotes"] = vec()

        assert [True] * 4 == ["quotes(): expected map" in reason for reason in reasons(world).values()]
        assert 1 == len(world.source.calls)


class TestByName:
    """Tokens that an oracle, one for both protocols, knows by a symbol."""

    OTHER = vec(symbol("Other"), symbol("XLM"))

    def given(self, value: int, time: int) -> dict[tuple[str, str], Any]:
        """What each oracle gives for the symbol; for addresses what the recording has."""

        def lastprice(call: ContractCall) -> Result:
            named = call.arguments == (self.OTHER,)
            return struct_map({"price": i128(value), "timestamp": u64(time)}) if named else None

        return {(World("slender").row("native")["oracle"], "lastprice"): lastprice}

    def test_a_token_is_asked_for_by_its_symbol(self) -> None:
        """A token with a symbol is asked for by it, and not by its address."""
        world = World("peridot")
        world.put(variant_key(world.market, "OracleAssetSymbol", address(XLM)), symbol("XLM"))
        world.answers |= self.given(7, NOW)
        row = world.row("native")

        assert (7, VAULT) == (row["oracle_price"], row["pool"])
        assert 1 == [call.arguments for call in world.source.calls].count((self.OTHER,))

    def test_the_first_feed_says_what_to_ask_for(self) -> None:
        """The first feed of a reserve says what to ask for, and up to which age its price counts."""
        world = World("slender")
        world.put(SLENDER, self.OTHER, FEED, "feeds", 0, "feed_asset")
        world.put(SLENDER, u64(660), FEED, "feeds", 0, "min_timestamp_delta")
        old = "the price is 11 minutes 1 second old, more than the market's own limit of 11 minutes"
        for age, reason in ((660, VALID_PRICE), (661, old)):
            world.answers |= self.given(5, NOW - age)
            found = reasons(world)
            assert (reason, VALID_PRICE) == (found["native"], found["USDC"]), age

    def test_slender_without_a_feed(self) -> None:
        """A reserve without a feed has no oracle and no price, and the decimals of its token."""
        for path in ((FEED,), (FEED, "feeds")):
            world = World("slender")
            world.put(SLENDER, None if len(path) == 1 else vec(), *path)
            row = world.row("native")
            assert (None, "the market has no oracle", 7) == (row["oracle"], row["price_reason"], row["decimals"])
