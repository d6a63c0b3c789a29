"""K2's prices: one call for all reserves, one each where it fails, and the router's rules of age."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.errors import lasting
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, u32, u64, u128, vec
from exporter.protocols.compute import Tables
from exporter.tables import VALID_PRICE
from tests.protocols.k2_chain import (
    FRESH,
    PLAIN,
    K2Ledger,
    candidate,
    deployment,
    price_data,
    prices_call,
    router_instance,
)
from tests.protocols.made_ledger import NOW, account, contract

ASSETS = ("USDC", "XLM", "PYUSD")
DOLLAR = 10**14
TOO_OLD = "HostError: Error(Contract, #4)\n\nEvent log (newest first):\n"


def three_reserves() -> K2Ledger:
    """A market of three reserves whose oracle has not said anything."""
    ledger = K2Ledger()
    ledger.add_market("A", ASSETS)
    ledger.results.clear()
    return ledger


def set_batch(ledger: K2Ledger, *items: Any, function: str = FRESH) -> None:
    """What the call for all three gives."""
    ledger.results[prices_call("A oracle", ASSETS, function)] = vec(*items)


def reasons_of(tables: Tables) -> dict[str, str]:
    """The reason of each pool's price by the token's label."""
    labels = {contract(label): label for label in ASSETS}
    return {labels[pool]: reason for pool, reason in tables.pools.select("pool", "price_reason").iter_rows()}


def computed(ledger: K2Ledger) -> Tables:
    return ledger.compute([candidate("A")], [deployment("A", [])])


def test_one_call_for_all() -> None:
    """Prices of 14 decimals in the order of the reserves, from one simulation."""
    ledger = three_reserves()
    set_batch(ledger, *(price_data(number * DOLLAR, NOW - number) for number in (1, 2, 3)))
    tables = computed(ledger)
    assert ledger.source is not None

    assert [prices_call("A oracle", ASSETS)] == ledger.source.calls
    rows = {row["pool"]: row for row in tables.pools.rows(named=True)}
    for number, asset in enumerate(ASSETS, 1):
        row = rows[contract(asset)]
        assert (14, number * DOLLAR, NOW - number) == (
            row["oracle_decimals"],
            row["oracle_price"],
            row["price_timestamp"],
        )
    (supplied,) = set(tables.pools["total_supplied"])  # at 1, 2 and 3 dollars
    assert [sum(supplied * number * 100 // 10**7 for number in (1, 2, 3))] == tables.markets["tvl_usd_cents"].to_list()


def test_oracle_of_the_published_source() -> None:
    """Without the function that the deployed router uses, the one of the source is asked, once."""
    ledger = three_reserves()
    set_batch(ledger, *(price_data(DOLLAR) for _ in ASSETS), function=PLAIN)
    tables = computed(ledger)
    assert ledger.source is not None

    assert dict.fromkeys(ASSETS, VALID_PRICE) == reasons_of(tables)
    assert [FRESH, PLAIN] == [call.function for call in ledger.source.calls]


def test_one_refused_price_costs_the_others_nothing() -> None:
    """The call for all fails with one stale asset; asked one by one, the others have their prices."""
    ledger = three_reserves()
    ledger.results[prices_call("A oracle", ASSETS)] = TOO_OLD
    ledger.results[prices_call("A oracle", ["USDC"])] = vec(price_data(DOLLAR))
    ledger.results[prices_call("A oracle", ["XLM"])] = TOO_OLD
    ledger.results[prices_call("A oracle", ["PYUSD"])] = vec(price_data(DOLLAR))
    tables = computed(ledger)
    assert ledger.source is not None

    assert {
        "USDC": VALID_PRICE,
        "PYUSD": VALID_PRICE,
        "XLM": "get_asset_prices_vec_fresh() failed: HostError: Error(Contract, #4)",
    } == reasons_of(tables)
    assert 4 == len(ledger.source.calls)  # the function exists, so the other is not asked for what it refuses


def test_oracle_that_is_gone() -> None:
    """Where no call gives anything no pool has a price, each with the reason, and all of them are read."""
    ledger = three_reserves()
    tables = computed(ledger)

    assert [] == tables.unread
    assert {"get_asset_prices_vec() failed: HostError: Error(WasmVm, MissingValue)"} == set(reasons_of(tables).values())


def test_fewer_prices_than_asked_for() -> None:
    """Prices that cannot be distinguished are not used: each token is asked alone."""
    ledger = three_reserves()
    set_batch(ledger, price_data(DOLLAR), price_data(2 * DOLLAR))
    for asset in ASSETS:
        ledger.results[prices_call("A oracle", [asset])] = vec(*([price_data(DOLLAR)] * (1 + (asset == "XLM"))))
    tables = computed(ledger)

    assert "get_asset_prices_vec_fresh() gave 2 prices for one token" == reasons_of(tables)["XLM"]
    assert VALID_PRICE == reasons_of(tables)["USDC"]


HOUR_AND_MORE = "the price is 1 hour 1 second old, more than the market's own limit of 1 hour"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (VOID, "the oracle has no price for this token"),
        (price_data(0), "the price is 0, not above zero"),
        (price_data(DOLLAR, NOW - 86_401), "the price is 1 day 1 second old, more than 1 day"),
        (price_data(DOLLAR, NOW - 3_601), HOUR_AND_MORE),
        (price_data(DOLLAR, NOW - 3_600), VALID_PRICE),
        (price_data(DOLLAR, NOW + 1), "the price is of 1 second after the ledger"),
        (
            price_data(2**128 - 1),
            "get_asset_prices_vec_fresh(): field price is "
            "340282366920938463463374607431768211455, above 99999999999999999999999999999999999999",
        ),
        (
            struct_map({"price": i128(1), "timestamp": u64(NOW)}),
            "get_asset_prices_vec_fresh(): field price: expected u128, found i128",
        ),
        (struct_map({"price": u128(1)}), "get_asset_prices_vec_fresh(): field timestamp is missing"),
        (u32(1), "get_asset_prices_vec_fresh(): expected map, found u32"),
    ],
)
def test_prices_that_are_none(item: Any, reason: str) -> None:
    """Zero, too old, of the future, too large or of another form: no price, and the reason is said."""
    ledger = three_reserves()
    set_batch(ledger, price_data(DOLLAR), item, price_data(DOLLAR))

    assert reason == reasons_of(computed(ledger))["XLM"]


@pytest.mark.parametrize(
    ("limits", "usdc", "xlm"),
    [
        ({}, 3_600, 3_600),
        ({"PSTALE": u64(600)}, 600, 600),
        ({"ASTALMP": {"XLM": 43_200}}, 3_600, 43_200),
        ({"PSTALE": u64(7_200), "ASTALMP": {"XLM": 60}}, 7_200, 60),
    ],
)
@pytest.mark.parametrize("function", [FRESH, PLAIN])
def test_the_router_s_limits_of_age(function: str, limits: dict[str, Any], usdc: int, xlm: int) -> None:
    """A price counts up to the asset's own limit, else the router's, else an hour, whichever function gave it."""
    ledger = three_reserves()
    if "ASTALMP" in limits:
        own = tuple((address(contract(asset)), u64(age)) for asset, age in limits["ASTALMP"].items())
        limits = limits | {"ASTALMP": (scval.MAP, own)}
    ledger.replace(router_instance("A", storage=limits))
    found = []
    for older in (0, 1):
        ages = usdc + older, xlm + older, 0
        set_batch(ledger, *(price_data(DOLLAR, NOW - age) for age in ages), function=function)
        found.append(reasons_of(computed(ledger)))

    assert dict.fromkeys(ASSETS, VALID_PRICE) == found[0]
    assert {
        "USDC": f"the price is {lasting(usdc + 1)} old, more than the market's own limit of {lasting(usdc)}",
        "XLM": f"the price is {lasting(xlm + 1)} old, more than the market's own limit of {lasting(xlm)}",
        "PYUSD": VALID_PRICE,
    } == found[1]


def test_routers_of_one_oracle_have_limits_of_their_own() -> None:
    """A price that one router takes is too old for another that asks the same oracle, and only there is none."""
    ledger = K2Ledger()
    ledger.add_market("A", ["XLM"])
    ledger.add_market("B", ["XLM"])
    oracle = address(contract("A oracle"))
    ledger.replace(router_instance("B", storage={"ORACLE": oracle, "PSTALE": u64(60)}))
    ledger.results.clear()
    ledger.results[prices_call("A oracle", ["XLM"])] = vec(price_data(DOLLAR, NOW - 61))
    rows = ledger.compute([candidate("A"), candidate("B")]).pools.rows(named=True)

    assert {
        contract("A"): VALID_PRICE,
        contract("B"): "the price is 1 minute 1 second old, more than the market's own limit of 1 minute",
    } == {row["market"]: row["price_reason"] for row in rows}
    assert {contract("A"): True, contract("B"): False} == {
        row["market"]: row["tvl_usd_cents"] is not None for row in rows
    }


def test_result_of_another_kind() -> None:
    """A result that is not a vector at all gives no price, not even when a token is asked alone."""
    ledger = three_reserves()
    ledger.results[prices_call("A oracle", ASSETS)] = VOID
    for asset in ASSETS:
        ledger.results[prices_call("A oracle", [asset])] = VOID

    assert {"get_asset_prices_vec_fresh(): expected vec, found void"} == set(reasons_of(computed(ledger)).values())


def test_markets_of_one_oracle_share_a_call() -> None:
    """Two routers that name the same oracle cost one call, and a token of both is asked for once."""
    ledger = K2Ledger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.add_market("B", ["XLM", "PYUSD"])
    ledger.replace(router_instance("B", storage={"ORACLE": address(contract("A oracle"))}))
    ledger.results.clear()
    both = sorted(["A", "B"], key=contract)
    order = ["USDC", "XLM", "PYUSD"] if both[0] == "A" else ["XLM", "PYUSD", "USDC"]
    ledger.results[prices_call("A oracle", order)] = vec(*(price_data(DOLLAR) for _ in order))
    tables = ledger.compute([candidate("A"), candidate("B")])
    assert ledger.source is not None

    assert 1 == len(ledger.source.calls)
    assert {VALID_PRICE} == set(tables.pools["price_reason"])


def test_no_oracle_and_an_account_for_one() -> None:
    """A router without an oracle is asked for nothing; an account cannot be asked."""
    for oracle, reason in (
        (None, "the market has no oracle"),
        (address(account("A")), "the market's oracle is not a contract"),
    ):
        ledger = three_reserves()
        ledger.replace(router_instance("A", storage={"ORACLE": oracle}))
        tables = computed(ledger)
        assert ledger.source is not None

        assert [] == ledger.source.calls
        assert {reason} == set(reasons_of(tables).values())


def test_other_decimals_are_refused() -> None:
    """Where the router has noted other decimals of its oracle's prices, none is published at a wrong scale."""
    ledger = three_reserves()
    noted = struct_map({"price_precision": u32(8)})
    ledger.replace(router_instance("A", storage={"ORACFG": noted}))
    set_batch(ledger, *(price_data(DOLLAR) for _ in ASSETS))

    assert {"the oracle's prices have 8 decimals, not the 14 that are known"} == set(
        reasons_of(computed(ledger)).values()
    )
