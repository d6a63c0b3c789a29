"""K2's oracle from entries: its sources in their order, its limits of age, and how far a price may move."""

from __future__ import annotations

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, string, struct_map, symbol, u32, u64, u128, vec
from tests.ledger.storage_rules.stored import NOW, Stored, by_variant, other, stellar
from tests.ledger.storage_rules.test_redstone import ADAPTER, adapter, feed_price
from tests.ledger.storage_rules.test_reflector import LAST, ORACLE, TOKEN, put_price, release_4
from tests.protocols.made_ledger import contract
from tests.protocols.test_blend_aggregator_rule import AGGREGATOR, aggregator

K2 = contract("k2's oracle")
BTC, XLM = other("BTC"), stellar(contract("native"))
PLAIN, FRESH = "get_asset_prices_vec", "get_asset_prices_vec_fresh"


def oracle(stored: Stored, **settings: ScVal) -> Stored:
    known = {
        "ReflectorContract": address(ORACLE),
        "ReflectorPrecision": u32(14),
        "NativeXlmAddress": XLM[1][1],
        "FallbackOracle": VOID,
        "Paused": (scval.BOOL, False),
    } | settings
    stored.deploy(K2, by_variant(**known))
    put_asset(stored, BTC)
    return stored


def put_asset(stored: Stored, asset: ScVal, **settings: ScVal) -> None:
    """An asset's settings, void unless they are given."""
    names = (
        "manual_override_price",
        "override_expiry_timestamp",
        "override_set_timestamp",
        "custom_oracle",
        "max_age",
        "oracle_decimals",
        "batch_adapter",
        "feed_id",
    )
    fields = {"asset": asset, "enabled": (scval.BOOL, True)} | dict.fromkeys(names, VOID) | settings
    stored.put(K2, vec(symbol("AssetConfig"), asset), struct_map(fields))


def price(value: int, time: int) -> ScVal:
    return struct_map({"price": u128(value), "timestamp": u64(time)})


def with_reflector(value: int = 100, **settings: ScVal) -> Stored:
    """An oracle with Reflector's price of one asset."""
    stored = oracle(release_4(), **settings)
    put_price(stored, 1, LAST, value)
    return stored


def refused(number: int) -> str:
    return f"HostError: Error(Contract, #{number})"


def test_native_lumens_are_asked_for_by_symbol() -> None:
    """Where Reflector does not know native XLM by address, it is asked for the symbol; no other token is."""
    stored = oracle(release_4("XLM"))
    put_price(stored, 1, LAST, 100)
    put_asset(stored, XLM)
    put_asset(stored, stellar(TOKEN))

    assert vec(price(100, LAST)) == stored.value(K2, PLAIN, vec(XLM))
    # No fallback is set, which is there as void, and the contract reads it as an address.
    assert "HostError: Error(WasmVm, InvalidAction)" == stored.error(K2, PLAIN, vec(stellar(TOKEN)))


def test_the_fallback() -> None:
    """Where Reflector has no price of an asset, or none that is good, the fallback is asked."""
    stored = aggregator(with_reflector(10**14, FallbackOracle=address(AGGREGATOR)))
    put_asset(stored, stellar(TOKEN))

    assert vec(price(10**14, LAST)) == stored.value(K2, PLAIN, vec(stellar(TOKEN)))


@pytest.mark.parametrize(
    ("last", "limit", "expected"),
    [(80, 2_500, None), (80, 2_499, 16), (0, 1, None), (None, 1, None), (1, 0, None), (125, 2_000, None)],
)
def test_how_far_a_price_may_move(last: int | None, limit: int, expected: int | None) -> None:
    """A price may be this many basis points of the last one away from it; no last price, or no limit, lets any pass."""
    config = {
        "max_price_change_bps": u32(limit),
        "price_precision": u32(14),
        "price_staleness_threshold": u64(3600),
    }
    stored = with_reflector(OracleConfig=struct_map(config))
    if last is not None:
        stored.put(K2, vec(symbol("LastPrice"), BTC), u128(last))

    if expected is None:
        assert vec(price(100, LAST)) == stored.value(K2, PLAIN, vec(BTC))
    else:
        assert refused(expected) == stored.error(K2, PLAIN, vec(BTC))


def with_adapter() -> Stored:
    """An oracle with two assets of RedStone's adapter, the second with another limit of age."""
    stored = adapter()
    oracle(stored)
    feeds = {"batch_adapter": address(ADAPTER), "oracle_decimals": u32(8)}
    put_asset(stored, BTC, feed_id=string("BTC"), **feeds)
    put_asset(stored, stellar(TOKEN), feed_id=string("TOK"), max_age=u64(100), **feeds)
    stored.put(ADAPTER, string("TOK"), feed_price(7, NOW - 100, NOW))
    return stored


def test_a_batch_of_the_adapter() -> None:
    """Prices of RedStone come in 14 decimals with the time of their package."""
    both = vec(BTC, stellar(TOKEN))
    expected = vec(price(6 * 10**18, NOW - 60), price(7 * 10**6, NOW - 100))

    assert expected == with_adapter().value(K2, PLAIN, both)
    assert refused(4) == with_adapter().error(K2, PLAIN, both, now=NOW + 1)
    assert refused(4) == with_adapter().error(K2, PLAIN, vec(BTC), now=NOW - 62)


ANOTHER = contract("another adapter")


@pytest.mark.parametrize(
    ("asset", "feed", "adapter", "expected"),
    [
        (stellar(TOKEN), "NONE", ADAPTER, refused(9)),  # a feed that RedStone does not have costs all of the batch
        (BTC, "BTC", ANOTHER, f"not from storage: the instance of {ANOTHER} is not held"),  # is not asked of the first
    ],
)
def test_a_batch_that_fails(asset: ScVal, feed: str, adapter: str, expected: str) -> None:
    """Feeds of one adapter are asked for together, and fail together."""
    stored = with_adapter()
    put_asset(stored, asset, feed_id=string(feed), batch_adapter=address(adapter))

    assert expected == stored.error(K2, PLAIN, vec(BTC, stellar(TOKEN)))


def test_an_override_comes_first_until_it_ends() -> None:
    """A price set by hand counts before its expiry, and is then what the next price must be near."""
    stored = with_reflector(100)
    override = {
        "manual_override_price": u128(50),
        "override_expiry_timestamp": u64(NOW),
        "override_set_timestamp": u64(NOW - 9),
    }
    put_asset(stored, BTC, **override)

    assert vec(price(50, NOW - 9)) == stored.value(K2, PLAIN, vec(BTC), now=NOW - 1)
    assert refused(16) == stored.error(K2, PLAIN, vec(BTC))


def test_a_cached_price_counts_for_one_function_only() -> None:
    """The cache answers the plain function; of the fresh one nobody knows, so it is not answered."""
    stored, without_cache = with_reflector(PriceCacheTtl=u64(60)), with_reflector()
    cached = {"cached_at": u64(NOW - 60), "price": u128(90), "timestamp": u64(NOW - 300)}
    stored.put(K2, vec(symbol("LastPriceData"), BTC), struct_map(cached))
    without_cache.put(K2, vec(symbol("LastPriceData"), BTC), struct_map(cached | {"cached_at": u64(NOW)}))

    assert vec(price(90, NOW - 300)) == stored.value(K2, PLAIN, vec(BTC))
    assert stored.error(K2, FRESH, vec(BTC)).startswith("not from storage: whether the deployed code")
    assert [vec(price(100, LAST))] * 2 == [
        stored.value(K2, function, vec(BTC), now=NOW + 1) for function in (PLAIN, FRESH)
    ]
    assert vec(price(100, LAST)) == without_cache.value(K2, PLAIN, vec(BTC))


def test_the_published_code_has_no_fresh_function() -> None:
    """Code that is held and does not have the function fails as the host does."""
    stored = with_reflector()
    stored.code(b"get_asset_prices_vec")

    assert "HostError: Error(WasmVm, MissingValue)" == stored.error(K2, FRESH, vec(BTC))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"enabled": (scval.BOOL, False)}, refused(8)),
        ({"custom_oracle": address(ORACLE)}, "not from storage: the asset has an oracle of its own"),
    ],
)
def test_an_asset_that_has_no_price(settings: dict[str, ScVal], expected: str) -> None:
    """A disabled asset is refused; one with an oracle of its own has no rule."""
    stored = with_reflector()
    put_asset(stored, BTC, **settings)

    assert expected == stored.error(K2, PLAIN, vec(BTC))


def test_a_paused_oracle_has_no_prices() -> None:
    """While it is paused, every call is refused, and otherwise an unknown asset is."""
    assert refused(9) == with_reflector(Paused=(scval.BOOL, True)).error(K2, PLAIN, vec(BTC))
    assert refused(7) == with_reflector().error(K2, PLAIN, vec(other("ETH")))
