"""Blend's oracle aggregator from entries: which update it takes, what deviates too much, and its earlier layout."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, struct_map, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import price_data
from tests.ledger.storage_rules.stored import NOW, Stored, by_name, other, stellar
from tests.ledger.storage_rules.test_reflector import LAST, ORACLE, STEP, TOKEN, put_price, release_4
from tests.protocols.made_ledger import contract

AGGREGATOR = contract("an aggregator")
USDC = contract("a base asset")
MAX_AGE = 900


def aggregator(stored: Stored, max_dev: int = 0, decimals: int = 7, max_age: int = MAX_AGE, step: int = STEP) -> Stored:
    """An aggregator of the newest layout, which takes the token's price from the oracle's BTC."""
    config = {"asset": other("BTC"), "max_dev": u32(max_dev), "oracle_index": u32(0)}
    upstream = {"address": address(ORACLE), "decimals": u32(14), "index": u32(0), "resolution": u32(step)}
    settings = by_name(
        Admin=address(USDC),
        Assets=(scval.MAP, ((stellar(TOKEN), struct_map(config)),)),
        Base=other("USD"),
        BaseAssets=vec(stellar(USDC)),
        Decimals=u32(decimals),
        MaxAge=u64(max_age),
        Oracles=vec(struct_map(upstream)),
    )
    stored.deploy(AGGREGATOR, settings)
    return stored


def judged(prices: Mapping[int, int], max_dev: int, max_age: int, now: int, last: int, decimals: int) -> ScVal:
    """What the aggregator should give, in the plainest way: all the times it may look at, then the first price."""
    oldest = now - max_age
    times = [last - STEP * ago for ago in range(100)]
    recent = [time for time in times if time >= oldest and time in prices]
    if not recent:
        return VOID
    newest = recent[0]
    if 1 <= max_dev <= 99:
        earlier = [newest - STEP * (ago + 1) for ago in range(max_age // STEP)]
        known = [prices[time] for time in earlier if time in prices]
        if not known:
            return VOID
        allowed = abs(known[0]) * max_dev // 100 * (1 if known[0] >= 0 else -1)
        if abs(prices[newest] - known[0]) > allowed:
            return VOID
    price = prices[newest]
    shown = price * 10 ** (decimals - 14) if decimals >= 14 else int(abs(price) // 10 ** (14 - decimals))
    return price_data(shown if price >= 0 or decimals >= 14 else -shown, newest)


@given(
    prices=st.dictionaries(
        st.integers(0, 8),
        st.integers(-(10**6), 10**6) | st.integers(10**14, 2 * 10**14) | st.integers(97, 103),
        max_size=9,
    ),
    max_dev=st.sampled_from([0, 1, 3, 5, 50, 99, 100, 4_000_000_000]),
    max_age=st.sampled_from([360, 600, 899, 900, 1200, 3600]),
    age=st.integers(0, 1000),
    decimals=st.sampled_from([0, 7, 13, 14, 18]),
)
@example(prices={0: 105, 1: 100}, max_dev=5, max_age=900, age=0, decimals=14)
@example(prices={0: 106, 1: 100}, max_dev=5, max_age=900, age=0, decimals=14)
@example(prices={0: 100, 3: 100}, max_dev=5, max_age=2 * STEP, age=0, decimals=14)  # one step too far back
@example(prices={0: 100}, max_dev=0, max_age=600, age=600, decimals=14)  # exactly as old as it may be
@example(prices={0: 100}, max_dev=0, max_age=600, age=601, decimals=14)
@example(prices={1: 100}, max_dev=0, max_age=600, age=600 - STEP, decimals=14)
@example(prices={1: 100}, max_dev=0, max_age=600, age=601 - STEP, decimals=14)
@example(prices={0: 103, 1: 99}, max_dev=4, max_age=900, age=0, decimals=14)  # floor(99 * 4 / 100) is 3
def test_the_deviation_rule(prices: dict[int, int], max_dev: int, max_age: int, age: int, decimals: int) -> None:
    """The newest price within the maximum age counts, if an older one within as many steps does not deviate more."""
    stored = aggregator(release_4(), max_dev, decimals, max_age)
    by_time = {LAST - STEP * ago: price for ago, price in prices.items()}
    for time, price in by_time.items():
        put_price(stored, 1, time, price)

    assert judged(by_time, max_dev, max_age, LAST + age, LAST, decimals) == stored.value(
        AGGREGATOR, "lastprice", stellar(TOKEN), now=LAST + age
    )


def test_base_assets_are_one() -> None:
    """The base asset and those set equal to it are 1 at the ledger's time, without any upstream."""
    stored = aggregator(Stored())

    assert [price_data(10**7, NOW)] * 2 == [
        stored.value(AGGREGATOR, "lastprice", asset) for asset in (other("USD"), stellar(USDC))
    ]


def test_an_upstream_price_of_two_periods_counts() -> None:
    """Reflector's own limit of two periods is not the aggregator's: it asks for times, not for the last price."""
    stored = aggregator(release_4())
    put_price(stored, 1, LAST, 10**14)

    assert VOID == stored.value(ORACLE, "lastprice", other("BTC"), now=LAST + 700)
    assert price_data(10**7, LAST) == stored.value(AGGREGATOR, "lastprice", stellar(TOKEN), now=LAST + 700)


def test_assets_without_an_answer() -> None:
    """An asset that is not configured is the contract's own error; an upstream that is not held is named."""
    found = [aggregator(Stored()).error(AGGREGATOR, "lastprice", asset) for asset in (other("BTC"), stellar(TOKEN))]

    assert ["HostError: Error(Contract, #105)", f"not from storage: the instance of {ORACLE} is not held"] == found


def test_an_endless_search_is_bounded() -> None:
    """A resolution of zero would have the contract ask for one time for ever: it runs out of its budget."""
    stored = aggregator(release_4(), step=0)

    assert "HostError: Error(Budget, ExceededLimit)" == stored.error(AGGREGATOR, "lastprice", stellar(TOKEN))
    assert VOID == stored.value(AGGREGATOR, "lastprice", stellar(TOKEN), now=LAST + MAX_AGE + 1)


def first_aggregator(stored: Stored, *, blocked: bool = False) -> Stored:
    """An aggregator of 2024 over the oracle."""
    stored.deploy(AGGREGATOR, by_name(Admin=address(USDC), IsInit=(scval.BOOL, True)))
    stored.put(AGGREGATOR, symbol("Assets"), vec(stellar(TOKEN)))
    stored.put(AGGREGATOR, symbol("Decimals"), u32(7))
    config = {"asset": other("BTC"), "decimals": u32(14), "oracle_id": address(ORACLE), "resolution": u32(STEP)}
    stored.put(AGGREGATOR, vec(symbol("AssetConfig"), stellar(TOKEN)), struct_map(config))
    if blocked:
        stored.put(AGGREGATOR, vec(symbol("Blocked"), stellar(TOKEN)), (scval.BOOL, True))
    return stored


def test_the_first_aggregator_passes_the_last_price_on() -> None:
    """The layout of 2024 gives the upstream's last price in its own decimals."""
    stored = first_aggregator(release_4())
    put_price(stored, 1, LAST, 123_456_789_012_345)

    assert price_data(12_345_678, LAST) == stored.value(AGGREGATOR, "lastprice", stellar(TOKEN))
    assert u32(7) == stored.value(AGGREGATOR, "decimals")


@pytest.mark.parametrize(
    ("blocked", "asset", "expected"),
    [
        (True, stellar(TOKEN), "HostError: Error(Contract, #107)"),
        (False, other("ETH"), "HostError: Error(Contract, #105)"),
        (False, stellar(TOKEN), "not from storage: the upstream has no last price"),
    ],
)
def test_the_first_aggregator_fails(blocked: bool, asset: ScVal, expected: str) -> None:
    """A blocked or unknown asset traps; without a last price the releases differ, so nothing is answered."""
    stored = first_aggregator(release_4(), blocked=blocked)

    assert stored.error(AGGREGATOR, "lastprice", asset).startswith(expected)
