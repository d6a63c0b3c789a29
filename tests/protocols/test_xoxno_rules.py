"""XOXNO's price aggregator and own oracle, from entries."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import price_data
from tests.ledger.storage_rules.stored import NOW, Stored, by_variant, other
from tests.ledger.storage_rules.test_redstone import feed_price
from tests.ledger.storage_rules.test_reflector import LAST, ORACLE, STEP, put_price, release_4
from tests.protocols.made_ledger import contract

AGGREGATOR = contract("xoxno's aggregator")
FEEDS = contract("xoxno's oracle")
TOKEN = contract("a token")
KEY = vec(symbol("Token"), address(TOKEN))
QUOTE = vec(symbol("Ref"), symbol("USDC"))
WAD = 10**18


def provider(kind: str, feed: str = "BTC", nature: str = "Market") -> ScVal:
    """A feed of XOXNO's own oracle, or of an adapter of the same form."""
    fields = {"contract": address(FEEDS), "feed_id": string(feed), "nature": vec(symbol(nature))}
    return vec(symbol(kind), struct_map(fields))


BTC = vec(symbol("Symbol"), symbol("BTC"))


def reflector(records: int | None = None, asset: ScVal = BTC) -> ScVal:
    """Reflector's last price, or the mean of this many."""
    mode = vec(symbol("Spot")) if records is None else vec(symbol("Twap"), u32(records))
    return vec(symbol("Reflector"), struct_map({"asset": asset, "contract": address(ORACLE), "read_mode": mode}))


def feed(given_by: ScVal, decimals: int = 8, max_age: int = 3600) -> dict[str, ScVal]:
    return {"decimals": u32(decimals), "max_stale_seconds": u64(max_age), "provider": given_by}


def scaled(factor: dict[str, ScVal], quote: ScVal = QUOTE) -> ScVal:
    """A source whose price is a factor times another key's price."""
    bounds = {"max_factor_wad": i128(2 * WAD), "min_factor_wad": i128(WAD // 2)}
    return vec(symbol("Scaled"), struct_map({"factor": struct_map(factor), "quote": quote} | bounds))


def plain(fields: dict[str, ScVal]) -> ScVal:
    return vec(symbol("Feed"), struct_map(fields))


SOURCE = feed(provider("Xoxno", "RATIO"))


def put_oracle(
    stored: Stored,
    *sources: ScVal,
    key: ScVal = KEY,
    max_age: int = 86_400,
    least: int = 10,
    most: int = 10**30,
) -> None:
    settings = {
        "max_price_stale_seconds": u64(max_age),
        "max_sanity_price_wad": i128(most),
        "min_sanity_price_wad": i128(least),
        "sources": vec(*sources),
        "tolerance": struct_map({"upper_ratio_bps": u32(10_200)}),
    }
    stored.put(AGGREGATOR, vec(symbol("Oracle"), key), struct_map(settings))


def deployed(stored: Stored) -> Stored:
    """The aggregator with its own oracle, whose prices count for a day."""
    stored.deploy(AGGREGATOR, by_variant(OracleKeys=vec(KEY)))
    stored.deploy(FEEDS, by_variant(Signers=vec(), Threshold=u32(1)))
    return stored


def put_feed(stored: Stored, name: str, price: int, package: int, written: int) -> None:
    stored.put(FEEDS, vec(symbol("CurrentAggregate"), string(name)), feed_price(price, package, written))


def status(stored: Stored) -> dict[str, Any]:
    """The fields of the key's status, with their payloads."""
    ((key, fields),) = stored.value(AGGREGATOR, "quotes", vec(KEY))[1]
    assert key == KEY
    return {name[1]: value[1] for name, value in fields[1]}


class Leg(NamedTuple):
    """A feed: its price of 8 decimals, its age, and whether it follows a market."""

    price: int
    age: int = 0
    market: bool = True


ONE, GONE = Leg(10**8), Leg(0)
NOTHING = (0, 0, 0, None, "")


@pytest.mark.parametrize(
    ("legs", "expected"),
    [
        ([ONE], (100, 100, 100, 0, "valid")),
        ([GONE], NOTHING),
        ([Leg(10**8, -60)], (100, 100, 100, -60, "valid")),
        ([Leg(10**8, -61)], NOTHING),
        ([Leg(10**8, 3_600)], (100, 100, 100, 3_600, "valid")),
        ([Leg(10**8, 3_601)], (100, 100, 100, 3_601, "stale")),
        ([Leg(106 * 10**6)], (106, 106, 106, 0, "valid")),
        ([Leg(107 * 10**6)], (107, 107, 107, 0, "")),  # above what is sane
        ([Leg(94 * 10**6)], (94, 94, 94, 0, "valid")),
        ([Leg(93 * 10**6)], (93, 93, 93, 0, "")),  # below what is sane
        ([ONE, Leg(102 * 10**6, 9)], (101, 100, 102, 9, "valid")),
        ([ONE, Leg(102_005_000)], (101.0025, 100, 102.005, 0, "deviation")),  # 200.5 basis points, rounded up
        ([ONE, Leg(10**8, 3_601, market=False)], (100, 100, 100, 3_601, "stale")),
        ([ONE] * 3, NOTHING),
        ([Leg(103 * 10**6), ONE], (101.5, 103, 100, 0, "deviation")),
        ([ONE, GONE], (0, 100, 0, 0, "deviation")),
        ([GONE, Leg(10**8, 7)], (0, 0, 100, 7, "deviation")),
        ([GONE, Leg(10**8, 3_601)], (0, 0, 100, 3_601, "stale deviation")),
        ([GONE, GONE], NOTHING),
        ([Leg(10**8, -60), Leg(10**8, 3_540)], (100, 100, 100, 3_540, "valid")),  # an hour apart, both of a market
        ([Leg(10**8, -60), Leg(10**8, 3_541)], (100, 100, 100, 3_541, "stale")),
        ([Leg(10**8, -60), Leg(10**8, 3_541, market=False)], (100, 100, 100, 3_541, "valid")),
    ],
)
def test_statuses_of_one_or_two_feeds(legs: list[Leg], expected: tuple[float, float, float, int | None, str]) -> None:
    """The mean of the feeds, in hundredths of a dollar, their time (how long ago), and what the aggregator says."""
    stored = deployed(Stored())
    for name, leg in zip("ABC", legs, strict=False):
        put_feed(stored, name, leg.price, NOW - leg.age, NOW - leg.age)
    natures = ["Market" if leg.market else "Fundamental" for leg in legs]
    sources = [plain(feed(provider("Xoxno", name, nature))) for name, nature in zip("ABC", natures, strict=False)]
    put_oracle(stored, *sources, least=94 * 10**16, most=106 * 10**16)
    answered = status(stored)
    *prices, time = (answered[name] for name in ("final_wad", "primary_wad", "secondary_wad", "price_timestamp"))
    said = " ".join(name for name in ("stale", "deviation", "valid") if answered[name])

    assert expected == (*(price / 10**16 for price in prices), NOW - time if time else None, said)


@pytest.mark.parametrize(("asset", "place"), [(BTC, 1), (vec(symbol("Address"), address(TOKEN)), 0)])
def test_a_spot_price_of_reflector(asset: ScVal, place: int) -> None:
    """Reflector's last price counts with its own time, in WAD; it is a market's, which another may not be far from."""
    stored = deployed(release_4())
    put_price(stored, place, LAST, 123 * 10**12)
    put_feed(stored, "A", 123 * 10**6, LAST - 3_601, LAST)
    spot, older = feed(reflector(asset=asset), decimals=14), feed(provider("Xoxno", "A"), max_age=9_000)
    put_oracle(stored, plain(spot))
    given_status = status(stored)

    assert (123 * 10**16, LAST, True) == tuple(given_status[name] for name in ("final_wad", "price_timestamp", "valid"))
    put_oracle(stored, plain(spot), plain(older))
    assert status(stored)["stale"]


@pytest.mark.parametrize(
    ("prices", "expected"),
    [((1, 2, 3), (2 * WAD, LAST - 2 * STEP)), ((1, None, 3), (0, 0)), ((1, 2, None), (0, 0)), ((1, 2, 0), (0, 0))],
)
def test_a_mean_needs_every_record(prices: tuple[int | None, ...], expected: tuple[int, int]) -> None:
    """The mean of three records has the oldest one's time; it needs each of them, and above zero."""
    stored = deployed(release_4())
    for ago, price in enumerate(prices):
        if price is not None:
            put_price(stored, 1, LAST - ago * STEP, price * 10**14)
    put_oracle(stored, plain(feed(reflector(3), decimals=14)))
    given_status = status(stored)

    assert expected == (given_status["final_wad"], given_status["price_timestamp"])


@pytest.mark.parametrize(("step", "valid"), [(60, True), (59, False)])
def test_a_mean_needs_a_minute_between_records(step: int, valid: bool) -> None:
    """Records that are less than a minute apart are no mean."""
    stored, last = deployed(release_4(step=step)), NOW // step * step
    for time in (last, last - step):
        put_price(stored, 1, time, 10**14)
    put_oracle(stored, plain(feed(reflector(2), decimals=14)))

    assert valid == status(stored)["valid"]


@pytest.mark.parametrize(
    ("records", "error"),
    [(0, "Error(Contract, #219)"), (1, None), (12, None), (13, "Error(Contract, #228)")],
)
def test_how_many_records_a_mean_may_have(records: int, error: str | None) -> None:
    """A mean is of 1 to 12 records; the aggregator refuses any other number."""
    stored = deployed(release_4())
    for ago in range(20):
        put_price(stored, 1, LAST - ago * STEP, 10**14)
    put_oracle(stored, plain(feed(reflector(records), decimals=14)))

    if error is None:
        assert (WAD, True) == tuple(status(stored)[name] for name in ("final_wad", "valid"))
    else:
        assert f"HostError: {error}" == stored.error(AGGREGATOR, "quotes", vec(KEY))


def test_a_mean_of_nothing() -> None:
    """If the oracle has no record, or does not exist, the key has no price."""
    stored = deployed(release_4())
    put_oracle(stored, plain(feed(reflector(1), decimals=14)))

    assert {0} == set(status(stored).values())


LARGEST = 2**127 - 1


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([LARGEST], LARGEST),
        ([LARGEST + 1], 0),
        ([LARGEST // 2, LARGEST // 2 + 1], LARGEST // 2),
        ([LARGEST // 2 + 1, LARGEST // 2 + 1], 0),  # their sum does not fit
    ],
)
def test_prices_of_128_bits(prices: list[int], expected: int) -> None:
    """The largest number that fits is a price; what does not fit, or has a sum that does not, is none."""
    stored = deployed(Stored())
    for name, price in zip("AB", prices, strict=False):
        put_feed(stored, name, price, NOW, NOW)
    feeds = [plain(feed(provider("Xoxno", name), decimals=18)) for name in "AB"[: len(prices)]]
    put_oracle(stored, *feeds, most=LARGEST)

    assert (expected, expected > 0) == tuple(status(stored)[name] for name in ("final_wad", "valid"))


@pytest.mark.parametrize(("factor", "expected"), [(WAD, LARGEST), (WAD + 1, 0)])
def test_a_scaled_price_of_128_bits(factor: int, expected: int) -> None:
    """A multiple that fits is a price, one that does not is none."""
    stored = deployed(Stored())
    put_feed(stored, "RATIO", factor, NOW, NOW)
    put_feed(stored, "USDC", LARGEST, NOW, NOW)
    put_oracle(stored, plain(feed(provider("Xoxno", "USDC"), decimals=18)), key=QUOTE, most=LARGEST)
    put_oracle(stored, scaled(feed(provider("Xoxno", "RATIO"), decimals=18)), most=LARGEST)

    assert expected == status(stored)["final_wad"]


@pytest.mark.parametrize(
    ("older", "expected"), [(LARGEST // 2 + 1, LARGEST // 2), (LARGEST // 2 + 2, 0)], ids=["fits", "does not fit"]
)
def test_a_mean_whose_sum_has_128_bits(older: int, expected: int) -> None:
    """The sum of the records must fit, too."""
    stored = deployed(release_4())
    put_price(stored, 1, LAST, LARGEST // 2)
    put_price(stored, 1, LAST - STEP, older)
    put_oracle(stored, plain(feed(reflector(2), decimals=18)), most=LARGEST)

    assert expected == status(stored)["final_wad"]


def test_a_scaled_price_is_a_multiple() -> None:
    """A factor times another key's price, rounded half up, of the older of their times."""
    stored = deployed(Stored())
    put_feed(stored, "RATIO", 105_000_001, NOW - 10, NOW - 10)
    put_feed(stored, "USDC", 99_999_999, NOW - 50, NOW - 40)
    put_oracle(stored, plain(feed(provider("RedStone", "USDC"))), key=QUOTE)
    put_oracle(stored, scaled(feed(provider("RedStone", "RATIO", "Fundamental"))))
    wad = 105_000_001 * 99_999_999 * 100

    assert (wad, NOW - 50, True) == tuple(status(stored)[name] for name in ("final_wad", "price_timestamp", "valid"))
    put_oracle(stored, scaled(feed(provider("RedStone", "RATIO"))), max_age=50)
    assert not status(stored)["stale"]
    put_oracle(stored, scaled(feed(provider("RedStone", "RATIO"))), max_age=49)
    assert status(stored)["stale"]
    put_oracle(stored, plain(feed(provider("RedStone", "USDC"), decimals=18)), key=QUOTE)
    put_feed(stored, "USDC", 50, NOW, NOW)
    assert 53 == status(stored)["final_wad"]  # of 52.50000050


@pytest.mark.parametrize("factor", [50 * 10**6, 200 * 10**6])
def test_a_factor_exactly_at_its_bound(factor: int) -> None:
    """The least and the largest factor that are allowed count."""
    stored = deployed(Stored())
    put_feed(stored, "RATIO", factor, NOW, NOW)
    put_feed(stored, "USDC", 10**8, NOW, NOW)
    put_oracle(stored, scaled(SOURCE))
    put_oracle(stored, plain(feed(provider("Xoxno", "USDC"))), key=QUOTE)

    assert (factor * 10**10, True) == tuple(status(stored)[name] for name in ("final_wad", "valid"))


@pytest.mark.parametrize(
    ("factor", "quote"),
    [(201 * 10**6, plain(SOURCE)), (49 * 10**6, plain(SOURCE)), (10**8, None), (10**8, scaled(SOURCE, KEY))],
)
def test_a_scaled_price_that_is_broken(factor: int, quote: ScVal | None) -> None:
    """A factor beyond its bounds, and a quote that has no price, or leads back, leave nothing but zeros."""
    stored = deployed(Stored())
    put_feed(stored, "RATIO", factor, NOW, NOW)
    put_oracle(stored, scaled(SOURCE))
    if quote is not None:
        put_oracle(stored, quote, key=QUOTE)

    assert {0} == set(status(stored).values())


@pytest.mark.parametrize(("steps", "error"), [(3, None), (4, "not from storage: a price hangs on more than 3 others")])
def test_how_deep_prices_may_hang_on_others(steps: int, error: str | None) -> None:
    """Deeper than the contract looks, a price depends on the order of keys, and is not answered."""
    stored = deployed(Stored())
    put_feed(stored, "RATIO", 10**8, NOW, NOW)
    chain = [KEY, *(vec(symbol("Ref"), symbol(f"R{step}")) for step in range(steps))]
    for key, following in pairwise(chain):
        put_oracle(stored, scaled(SOURCE, following), key=key)
    put_oracle(stored, plain(SOURCE), key=chain[-1])

    if error is None:
        assert status(stored)["valid"]
    else:
        assert stored.error(AGGREGATOR, "quotes", vec(KEY)).startswith(error)


def test_a_pool_source_has_no_rule() -> None:
    """A source that asks an Aquarius pool is not answered, and is named."""
    stored = deployed(Stored())
    put_oracle(stored, vec(symbol("AquariusLp"), struct_map({"pool": address(TOKEN)})))

    said = "not from storage: no rule for a source of the kind AquariusLp"
    assert said == stored.error(AGGREGATOR, "quotes", vec(KEY))


def test_the_answers_are_in_the_order_of_the_host() -> None:
    """The map of several keys has symbols before tokens, as the host sorts them; each key is there once."""
    answer = deployed(Stored()).value(AGGREGATOR, "quotes", vec(KEY, QUOTE, KEY))

    assert [QUOTE, KEY] == [key for key, _ in answer[1]]


def test_the_own_oracle() -> None:
    """XOXNO's oracle gives a feed's aggregate up to a day after it was written, and none for an asset without feed."""
    stored = deployed(Stored())
    put_feed(stored, "BTC", 77, NOW - 90, NOW - 86_400)
    stored.put(FEEDS, vec(symbol("FeedMapping"), other("BTC")), string("BTC"))

    assert price_data(77, NOW - 90) == stored.value(FEEDS, "lastprice", other("BTC"))
    assert VOID == stored.value(FEEDS, "lastprice", other("BTC"), now=NOW + 1)
    assert VOID == stored.value(FEEDS, "lastprice", other("ETH"))
    put_feed(stored, "BTC", LARGEST, NOW, NOW)
    assert price_data(LARGEST, NOW) == stored.value(FEEDS, "lastprice", other("BTC"))
    put_feed(stored, "BTC", LARGEST + 1, NOW, NOW)
    assert "HostError: Error(WasmVm, InvalidAction)" == stored.error(FEEDS, "lastprice", other("BTC"))
    put_feed(stored, "BTC", 77, NOW - 90, NOW - 86_400)
    asked = FEEDS, "read_price_data_for_feed", string("BTC")
    assert "HostError: Error(Contract, #8)" == stored.error(*asked, now=NOW + 1)
