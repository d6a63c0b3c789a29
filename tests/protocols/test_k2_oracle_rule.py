"""K2's oracle from entries: its sources in their order, its limits of age, and how far a price may move."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, address, string, struct_map, symbol, u32, u64, u128, vec
from tests.ledger.storage_rules.stored import NOW, Stored, by_variant, other, stellar
from tests.ledger.storage_rules.test_redstone import ADAPTER, adapter, feed_price
from tests.ledger.storage_rules.test_reflector import LAST, ORACLE, TOKEN, put_price, release_4
from tests.protocols.made_ledger import contract
from tests.protocols.test_blend_aggregator_rule import AGGREGATOR, aggregator

K2, ANOTHER = contract("k2's oracle"), contract("another adapter")
BTC, XLM, TOK = other("BTC"), stellar(contract("native")), stellar(TOKEN)
PLAIN, FRESH = "get_asset_prices_vec", "get_asset_prices_vec_fresh"
NO, YES = (scval.BOOL, False), (scval.BOOL, True)

REFUSED = "HostError: Error(Contract, #{})".format


def oracle(stored: Stored, **settings: ScVal) -> Stored:
    known = {
        "ReflectorContract": address(ORACLE),
        "ReflectorPrecision": u32(14),
        "NativeXlmAddress": XLM[1][1],
        "FallbackOracle": VOID,
        "Paused": NO,
    }
    stored.deploy(K2, by_variant(**known | settings))
    put_asset(stored, BTC)
    return stored


def put_asset(stored: Stored, asset: ScVal, **settings: ScVal) -> None:
    """An asset's settings, void unless they are given."""
    overrides = "manual_override_price", "override_expiry_timestamp", "override_set_timestamp"
    names = *overrides, "custom_oracle", "max_age", "oracle_decimals", "batch_adapter", "feed_id"
    fields = {"asset": asset, "enabled": YES} | dict.fromkeys(names, VOID) | settings
    stored.put(K2, vec(symbol("AssetConfig"), asset), struct_map(fields))


def with_reflector(**settings: ScVal) -> Stored:
    """An oracle with Reflector's price of BTC, which is 100."""
    stored = oracle(release_4(), **settings)
    put_price(stored, 1, LAST, 100)
    return stored


def ask(stored: Stored, *assets: ScVal, function: str = PLAIN, now: int = NOW) -> Any:
    """Prices with their times, or the error."""
    answer = stored.ask(K2, function, vec(*assets), now=now)
    if answer.result is None:
        return answer.error
    given = (dict(item[1]) for item in decode_scval(answer.result)[1])
    return [(item[symbol("price")][1], item[symbol("timestamp")][1]) for item in given]


def moving(limit: int) -> ScVal:
    """A configuration that lets a price move by these basis points."""
    fields = {"price_precision": u32(14), "price_staleness_threshold": u64(3600)}
    return struct_map(fields | {"max_price_change_bps": u32(limit)})


OVERRIDE = {
    "manual_override_price": u128(50),
    "override_expiry_timestamp": u64(NOW),
    "override_set_timestamp": u64(NOW - 9),
}


@pytest.mark.parametrize(
    ("settings", "asset", "last", "expected"),
    [
        # A price may be this many basis points of the last one away from it; no last price, or no limit, lets any pass.
        ({"OracleConfig": moving(2_500)}, {}, 80, [(100, LAST)]),
        ({"OracleConfig": moving(2_499)}, {}, 80, REFUSED(16)),
        ({"OracleConfig": moving(2_658)}, {}, 79, [(100, LAST)]),  # 2,658.2 basis points, rounded down
        ({"OracleConfig": moving(2_657)}, {}, 79, REFUSED(16)),
        ({"OracleConfig": moving(1)}, {}, 0, [(100, LAST)]),
        ({"OracleConfig": moving(1)}, {}, None, [(100, LAST)]),
        ({"OracleConfig": moving(0)}, {}, 1, [(100, LAST)]),
        ({}, {}, 125, [(100, LAST)]),
        # One set by hand counts before its expiry, and is then what the next price must be near.
        ({}, OVERRIDE | {"override_expiry_timestamp": u64(NOW + 1)}, None, [(50, NOW - 9)]),
        ({}, OVERRIDE, None, REFUSED(16)),
        ({}, OVERRIDE | {"override_expiry_timestamp": VOID}, None, REFUSED(17)),
        ({}, {"enabled": NO}, None, REFUSED(8)),
        ({}, {"custom_oracle": address(ORACLE)}, None, "not from storage: the asset has an oracle of its own"),
        ({"Paused": YES}, {}, None, REFUSED(9)),
    ],
)
def test_the_price_of_an_asset(
    settings: dict[str, ScVal], asset: dict[str, ScVal], last: int | None, expected: Any
) -> None:
    """How settings change Reflector's price."""
    stored = with_reflector(**settings)
    put_asset(stored, BTC, **asset)
    if last is not None:
        stored.put(K2, vec(symbol("LastPrice"), BTC), u128(last))

    assert expected == ask(stored, BTC)
    assert REFUSED(9 if "Paused" in settings else 7) == ask(stored, other("ETH"))
    if isinstance(expected, list):
        assert "not from storage: an asset is listed twice" in ask(stored, BTC, BTC)


@pytest.mark.parametrize(
    ("price", "last", "expected"),
    [
        (429_497, 1, REFUSED(16)),  # 4,294,960,000 basis points are too many, and fit into 32 bits
        (429_498, 1, REFUSED(18)),  # 4,294,970,000 do not
        (2**127 - 1, 2**126, REFUSED(18)),  # the change does not fit into 128 bits
    ],
)
def test_a_change_that_does_not_fit(price: int, last: int, expected: str) -> None:
    """A change that the contract cannot compute is another error than one that is too large."""
    stored = with_reflector()
    put_price(stored, 1, LAST, price)
    stored.put(K2, vec(symbol("LastPrice"), BTC), u128(last))

    assert expected == ask(stored, BTC)


LARGEST = 2**128 - 1


@pytest.mark.parametrize(
    ("price", "decimals", "expected"),
    [
        (LARGEST, 14, [(LARGEST, NOW - 100)]),
        (LARGEST + 1, 14, REFUSED(18)),
        (LARGEST // 10, 13, [(LARGEST // 10 * 10, NOW - 100)]),
        (LARGEST // 10 + 1, 13, REFUSED(10)),
        (10**38, 52, [(1, NOW - 100)]),
        (10**38, 53, REFUSED(18)),  # 10^39 does not fit into 128 bits
    ],
)
def test_prices_of_128_bits(price: int, decimals: int, expected: Any) -> None:
    """A price of the adapter is brought to 14 decimals; what does not fit on the way is refused."""
    stored = with_adapter(oracle_decimals=u32(decimals))
    stored.put(ADAPTER, string("TOK"), feed_price(price, NOW - 100, NOW))

    assert expected == ask(stored, TOK)


def test_native_lumens_are_asked_for_by_symbol() -> None:
    """If Reflector does not know native XLM by address, it is asked for the symbol. No other token is."""
    stored = oracle(release_4("XLM"))
    put_price(stored, 1, LAST, 100)
    for asset in (XLM, TOK):
        put_asset(stored, asset)

    assert [(100, LAST)] == ask(stored, XLM)
    # No fallback is set, which is there as void, and the contract reads it as an address.
    assert "HostError: Error(WasmVm, InvalidAction)" == ask(stored, TOK)


def test_the_fallback_is_asked_without_a_good_price() -> None:
    """If Reflector has no price of an asset, or no good one, the fallback is asked."""
    stored = aggregator(with_reflector(FallbackOracle=address(AGGREGATOR)))
    put_price(stored, 1, LAST, 10**14)
    put_asset(stored, TOK)

    assert [(10**14, LAST)] == ask(stored, TOK)


def with_adapter(asset: ScVal = TOK, feed: str = "TOK", adapter_of_it: str = ADAPTER, **settings: ScVal) -> Stored:
    """An oracle with two assets of RedStone's adapter, the second with another limit of age."""
    stored = oracle(adapter())
    stored.put(ADAPTER, string("TOK"), feed_price(7, NOW - 100, NOW))
    feeds = {BTC: ("BTC", ADAPTER), TOK: ("TOK", ADAPTER)} | {asset: (feed, adapter_of_it)}
    for each, (name, contract_id) in feeds.items():
        more = ({"max_age": u64(100)} if each == TOK else {}) | (settings if each == asset else {})
        given = {"batch_adapter": address(contract_id), "oracle_decimals": u32(8), "feed_id": string(name)}
        put_asset(stored, each, **given | more)
    return stored


@pytest.mark.parametrize(
    ("stored", "now", "expected"),
    [
        (with_adapter(), NOW, [(6 * 10**18, NOW - 60), (7 * 10**6, NOW - 100)]),
        (with_adapter(), NOW + 1, REFUSED(4)),
        (with_adapter(), NOW - 62, REFUSED(4)),
        # A feed that RedStone does not have costs all of the batch; one of another adapter is not asked of the first.
        (with_adapter(TOK, "NONE"), NOW, REFUSED(9)),
        (with_adapter(BTC, "BTC", ANOTHER), NOW, f"not from storage: the instance of {ANOTHER} is not held"),
        # A price that was set by hand without an end is refused, but not seen in the batch.
        (with_adapter(manual_override_price=u128(50)), NOW, [(6 * 10**18, NOW - 60), (7 * 10**6, NOW - 100)]),
        (with_adapter(TOK, "TOK", ANOTHER, manual_override_price=u128(50)), NOW, REFUSED(17)),
    ],
)
def test_a_batch_of_the_adapter(stored: Stored, now: int, expected: Any) -> None:
    """Prices of RedStone come in 14 decimals with the time of their package, or fail together."""
    assert expected == ask(stored, BTC, TOK, now=now)


def test_a_cached_price_counts_for_one_function_only() -> None:
    """The cache answers the plain function; of the fresh one nobody knows, so it is not answered."""
    stored, without_cache = with_reflector(PriceCacheTtl=u64(60)), with_reflector()
    cached = {"cached_at": u64(NOW - 60), "price": u128(90), "timestamp": u64(NOW - 300)}
    stored.put(K2, vec(symbol("LastPriceData"), BTC), struct_map(cached))
    without_cache.put(K2, vec(symbol("LastPriceData"), BTC), struct_map(cached | {"cached_at": u64(NOW)}))

    assert [(90, NOW - 300)] == ask(stored, BTC)
    assert ask(stored, BTC, function=FRESH).startswith("not from storage: whether the deployed code")
    assert [[(100, LAST)]] * 2 == [ask(stored, BTC, function=name, now=NOW + 1) for name in (PLAIN, FRESH)]
    assert [(100, LAST)] == ask(without_cache, BTC)


def test_the_published_code_has_no_fresh_function() -> None:
    """Code that is held and does not have the function fails as the host does."""
    stored = with_reflector()
    stored.code(b"get_asset_prices_vec")

    assert "HostError: Error(WasmVm, MissingValue)" == ask(stored, BTC, function=FRESH)
