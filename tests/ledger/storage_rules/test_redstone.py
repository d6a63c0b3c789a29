"""RedStone's adapter and its SEP-40 contract from entries."""

from __future__ import annotations

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import price_data
from exporter.ledger.storage_rules.redstone import ADAPTER_OF
from tests.ledger.storage_rules.stored import NOW, Stored, by_string, by_variant, other
from tests.protocols.made_ledger import contract

((SEP40, ADAPTER),) = ADAPTER_OF.items()
DAY = 86_400
HALF_HOURS_30 = 30 * 3600


def feed_price(price: int, package: int, written: int) -> ScVal:
    """A feed's last price, with its two times in seconds."""
    return struct_map(
        {
            "package_timestamp": u64(package * 1000 + 7),
            "price": (scval.U256, price),
            "write_timestamp": u64(written * 1000),
        }
    )


def adapter(address: str = ADAPTER) -> Stored:
    """An adapter with two feeds, one of them with a history."""
    stored = Stored()
    stored.deploy(address, by_string(owner=(scval.ADDRESS, contract("owner"))))
    stored.put(address, string("BTC"), feed_price(6_000_000_000_000, NOW - 60, NOW - 30))
    stored.put(address, string("OLD"), feed_price(5, NOW - 60, NOW - HALF_HOURS_30))
    history = vec(*(feed_price(price, NOW - 60 * price, NOW) for price in (3, 2, 1)))
    stored.put(address, vec(symbol("Feed"), string("BTC")), struct_map({"price_data": history}))
    return stored


def test_a_feed_has_a_price_for_30_hours() -> None:
    """A price counts until it was written 30 hours ago; then reading it is the adapter's error."""
    stored = adapter()
    price = feed_price(5, NOW - 60, NOW - HALF_HOURS_30)

    assert price == stored.value(ADAPTER, "read_price_data_for_feed", string("OLD"), now=NOW - 1)
    assert "HostError: Error(Contract, #1400)" == stored.error(ADAPTER, "read_price_data_for_feed", string("OLD"))
    assert "HostError: Error(Storage, MissingValue)" == stored.error(ADAPTER, "read_price_data_for_feed", string("NEW"))


def test_one_feed_of_several_that_is_old_fails_all() -> None:
    """Several feeds are read together, or not at all."""
    both = vec(string("BTC"), string("OLD"))
    assert adapter().error(ADAPTER, "read_price_data", both).endswith("#1400)")

    assert 2 == len(adapter().value(ADAPTER, "read_price_data", both, now=NOW - 1)[1])


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_the_history_ends_with_the_newest(limit: int, expected: int) -> None:
    """A history of this many records is the last ones, the oldest of them first."""
    given = adapter().value(ADAPTER, "read_price_history", string("BTC"), u32(limit))

    assert vec(*(feed_price(price, NOW - 60 * price, NOW) for price in (3, 2, 1)[3 - expected :])) == given


def test_another_adapter_is_known_by_its_code() -> None:
    """An adapter of another network is one if its code has the functions; without its code it is unknown."""
    mine = contract("an adapter")
    stored = adapter(mine)
    assert stored.error(mine, "read_price_data_for_feed", string("BTC")).startswith("not from storage: no rule for")

    stored.code(b"read_price_data_for_feed unique_signer_threshold write_prices")
    price = feed_price(6_000_000_000_000, NOW - 60, NOW - 30)
    assert price == stored.value(mine, "read_price_data_for_feed", string("BTC"))


def sep40(address: str = SEP40) -> Stored:
    """A SEP-40 contract over the adapter, whose finest feed has 10 decimals."""
    stored = adapter()
    stored.deploy(address, by_variant(BaseAsset=other("USD"), MaxDecimals=u32(10), Resolution=u32(DAY)))
    for name in ("BTC", "OLD"):
        stored.put(address, vec(symbol("AssetToFeed"), other(name)), string(name))
    stored.put(address, vec(symbol("FeedDecimals"), string("BTC")), u32(8))
    return stored


def test_the_sep40_contract_scales_a_feed() -> None:
    """A feed's price has the decimals of the finest feed and the time of its package; an old one does not count."""
    stored = sep40()

    assert price_data(600_000_000_000_000, NOW - 60) == stored.value(SEP40, "lastprice", other("BTC"))
    assert [VOID, VOID] == [stored.value(SEP40, "lastprice", other(name)) for name in ("OLD", "ETH")]
    assert [u32(10), u32(DAY)] == [stored.value(SEP40, function) for function in ("decimals", "resolution")]
    assert vec(price_data(200, NOW - 120), price_data(100, NOW - 60)) == stored.value(
        SEP40, "prices", other("BTC"), u32(2)
    )


def test_a_price_that_is_too_long_is_none() -> None:
    """A price beyond an i128 is left out, however many decimals the contract gives its prices."""
    stored = sep40()
    history = vec(feed_price(2**126, NOW - 120, NOW), feed_price(1, NOW - 60, NOW))
    stored.put(ADAPTER, vec(symbol("Feed"), string("BTC")), struct_map({"price_data": history}))
    assert vec(price_data(100, NOW - 60)) == stored.value(SEP40, "prices", other("BTC"), u32(2))

    stored.deploy(SEP40, by_variant(BaseAsset=other("USD"), MaxDecimals=u32(2**32 - 1), Resolution=u32(DAY)))
    assert VOID == stored.value(SEP40, "lastprice", other("BTC"))


@pytest.mark.parametrize(("code", "known"), [(None, False), (ADAPTER, True), (ADAPTER + contract("x"), False)])
def test_the_adapter_is_in_the_code(code: str | None, known: bool) -> None:
    """Another such contract's adapter is the one address in its code; without code, or of two, it is not known."""
    mine = contract("a wrapper")
    stored = sep40(mine)
    if code is not None:
        stored.code(b"\0asm " + code.encode())
    answer = stored.ask(mine, "lastprice", other("BTC"))

    assert known == (answer.error is None)
    assert known or "RedStone's adapter" in (answer.error or "")


def test_what_only_looks_like_an_address_in_the_code_is_none() -> None:
    """A text of the form of an address whose checksum is wrong does not make the adapter unknown."""
    mine = contract("a wrapper")
    stored = sep40(mine)
    stored.code(b"\0asm " + ADAPTER.encode() + b" " + ("C" + "A" * 55).encode())

    assert price_data(600_000_000_000_000, NOW - 60) == stored.value(mine, "lastprice", other("BTC"))


@pytest.mark.parametrize("address", [ADAPTER, SEP40])
def test_a_function_that_no_rule_knows_is_refused(address: str) -> None:
    """A function that the contracts do not have gives an error, never an empty answer."""
    answer = sep40().ask(address, "no_such_function")

    assert answer.result is None
    assert answer.error
