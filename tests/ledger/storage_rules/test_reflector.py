"""Reflector's prices from its entries: against mainnet's entries and code, and made entries of each release."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import TEMPORARY
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.storage_rules.host import price_data
from exporter.ledger.storage_rules.reflector import RELEASES
from exporter.past.lake.close_meta import walk
from exporter.past.lake.replay import ReplayedState
from exporter.protocols import storage_answers
from tests.ledger.storage_rules.stored import NOW, Stored, by_string, other, stellar
from tests.past.lake.real_ledgers import meta_of
from tests.protocols.made_ledger import changed, contract

ORACLE = contract("a reflector")
TOKEN = contract("a token")
STEP = 300
LAST = NOW // STEP * STEP
RELEASE_4 = bytes.fromhex(next(iter(RELEASES)))

REAL_ORACLE = "CALI2BYU2JE6WVRUFYTS6MSBNEHGJ35P4AVCZYF3B6QOE3QKOB2PLE6M"
REAL_LEDGER = "lake/pubnet/FCD285FF--53312000-53375999/FCD285FF--53312000.xdr.zst"


def release_4(name: str = "BTC", wasm_hash: bytes = RELEASE_4, step: int = STEP) -> Stored:
    """An oracle of release 4 with two assets, a token and one of this name, without prices.

    ``step`` is the time between two updates, in seconds.
    """
    stored = Stored()
    settings = by_string(
        base_asset=other("USD"),
        decimals=u32(14),
        resolution=u32(step * 1000),
        last_timestamp=u64(NOW // step * step * 1000),
        assets=vec(stellar(TOKEN), other(name)),
    )
    indexes = [((scval.ADDRESS, TOKEN), u32(0)), (symbol(name), u32(1))]
    stored.deploy(ORACLE, [*settings, *indexes], wasm_hash)
    return stored


def put_price(stored: Stored, index: int, time: int, price: int) -> None:
    """A price as release 4 stores it."""
    stored.put(ORACLE, (scval.U128, time * 1000 << 64 | index), i128(price), TEMPORARY)


def release_6(history: dict[int, int], protocol: int | None = 2, **settings: ScVal) -> Stored:
    """An oracle of release 6 with ten assets; ``history`` has for some of them the periods in which they had prices."""
    stored = Stored()
    bits = b"".join(history.get(index, 0).to_bytes(32, "big") for index in range(10))
    known = by_string(
        base_asset=other("USD"),
        decimals=u32(14),
        resolution=u32(STEP * 1000),
        last_timestamp=u64(LAST * 1000),
        assets=vec(*(other(f"A{index}") for index in range(10))),
        history=(scval.BYTES, bits),
        **settings,
    )
    stored.deploy(ORACLE, known + ([] if protocol is None else by_string(protocol=u32(protocol))))
    stored.code(b"\0asm 6.0.0 ")
    return stored


def update(prices: dict[int, int]) -> ScVal:
    """One update of release 6: a mask of the assets that it has, and their prices."""
    mask = sum(1 << index for index in prices).to_bytes(2, "little")
    return struct_map({"mask": (scval.BYTES, mask), "prices": vec(*(i128(prices[index]) for index in sorted(prices)))})


@pytest.mark.parametrize(("age", "priced"), [(0, True), (2 * STEP - 1, True), (2 * STEP, False), (-1, False)])
def test_a_price_is_under_its_time_and_index(age: int, priced: bool) -> None:
    """Release 4 has a price under the last time and an index, until it is two periods old, and not before its time."""
    stored = release_4()
    put_price(stored, 1, LAST, 55)

    assert (price_data(55, LAST) if priced else VOID) == stored.value(ORACLE, "lastprice", other("BTC"), now=LAST + age)
    assert VOID == stored.value(ORACLE, "lastprice", stellar(TOKEN))
    assert VOID == stored.value(ORACLE, "lastprice", other("ETH"))


def test_release_4_gives_its_history_newest_first() -> None:
    """``prices()`` of release 4 has the prices of as many periods as are asked for, without those that lack one."""
    stored = release_4()
    for ago, price in ((0, 55), (2, 53), (3, 52)):
        put_price(stored, 1, LAST - ago * STEP, price)
        put_price(stored, 0, LAST - ago * STEP, price + 100)

    expected = vec(price_data(55, LAST), price_data(53, LAST - 2 * STEP))
    assert expected == stored.value(ORACLE, "prices", other("BTC"), u32(3))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (None, "the code is not held"),
        (b"3.0.0", "Reflector code of an unknown release"),
        (b"6.0.0 invocation_costs", "takes a fee"),
    ],
)
def test_an_unknown_release_has_no_price(code: bytes | None, expected: str) -> None:
    """If neither the hash nor the code tells the release, nothing is answered, because release 3 has other times."""
    stored = release_4(wasm_hash=bytes(32))
    put_price(stored, 1, LAST, 55)
    if code is not None:
        stored.code(code, bytes(32))
    error = stored.error(ORACLE, "lastprice", other("BTC"))

    assert error.startswith("not from storage: ")
    assert expected in error


def test_release_6_reads_its_masks() -> None:
    """An asset's price is that of its place among the set bits of the mask, if its history has the period."""
    stored = release_6({1: 1, 9: 1, 3: 0})
    stored.put(ORACLE, u64(LAST * 1000), update({1: 11, 3: 33, 9: 99}), TEMPORARY)

    assert price_data(11, LAST) == stored.value(ORACLE, "lastprice", other("A1"))
    assert price_data(99, LAST) == stored.value(ORACLE, "lastprice", other("A9"))
    assert VOID == stored.value(ORACLE, "lastprice", other("A3"))
    assert VOID == stored.value(ORACLE, "lastprice", other("A2"))


def test_release_6_refuses_what_does_not_fit() -> None:
    """An update with fewer prices than its mask says is not guessed at; of more records than 20 none are given."""
    stored = release_6({1: 1, 9: 1})
    stored.put(ORACLE, u64(LAST * 1000), changed(update({1: 11, 9: 99}), {"prices": vec(i128(11))}), TEMPORARY)

    assert stored.error(ORACLE, "lastprice", other("A9")).endswith("fewer prices than its mask says")
    assert VOID == stored.value(ORACLE, "prices", other("A1"), u32(21))


def test_release_6_takes_its_cache_first() -> None:
    """Updates in the instance's cache are not looked for among the entries."""
    cached = vec(vec(u64(LAST * 1000), update({0: 7})), vec(u64((LAST - STEP) * 1000), update({0: 6})))
    stored = release_6({0: 0b111}, cache=cached)
    stored.put(ORACLE, u64((LAST - 2 * STEP) * 1000), update({0: 5}), TEMPORARY)
    answers = [stored.ask(ORACLE, "price", other("A0"), u64(LAST - ago * STEP)) for ago in range(4)]

    assert [price_data(7 - ago, LAST - ago * STEP) for ago in range(3)] + [VOID] == [
        decode_scval(answer.result or b"") for answer in answers
    ]
    assert [2, 2, 3, 2] == [len(answer.footprint) for answer in answers]  # instance and code, and one update


@pytest.mark.parametrize(("ago", "known"), [(255, True), (256, False)])
def test_release_6_knows_256_periods(ago: int, known: bool) -> None:
    """An update of 255 periods before the last is known of, an older one is not."""
    stored = release_6({0: 1 << 255})
    stored.put(ORACLE, u64((LAST - ago * STEP) * 1000), update({0: 5}), TEMPORARY)
    given = stored.value(ORACLE, "price", other("A0"), u64(LAST - ago * STEP))

    assert (price_data(5, LAST - ago * STEP) if known else VOID) == given


@pytest.mark.parametrize(("since", "new"), [(None, False), (86_400, False), (86_401, True)])
def test_release_6_reads_old_entries_for_a_day(since: int | None, new: bool) -> None:
    """Just upgraded, it reads what release 4 left, until a day after its first use."""
    moment = {} if since is None else {"protocol_update": u64((NOW - since) * 1000)}
    stored = release_6({1: 1}, protocol=None, **moment)
    put_price(stored, 1, LAST, 4)
    stored.put(ORACLE, u64(LAST * 1000), update({1: 6}), TEMPORARY)

    assert price_data(6 if new else 4, LAST) == stored.value(ORACLE, "lastprice", other("A1"))


def written_state(real_data: Path) -> ReplayedState:
    """What mainnet's ledger 53,312,000 wrote."""
    close = walk(meta_of(real_data, REAL_LEDGER))
    state = ReplayedState({}, close.header.ledger - 1)
    state.take(close.header.ledger, close.header.protocol_version, close.changes)
    return state


def test_mainnets_oracle_has_the_prices_it_wrote(real_data: Path) -> None:
    """Mainnet's oracle has a price for nine of its ten assets, as it wrote them in that very ledger."""
    answers = storage_answers(written_state(real_data).entry, 53_312_000, 1_725_274_219)
    listed = answers.answer(ContractCall(REAL_ORACLE, "assets")).result
    assert listed is not None
    prices = {}
    for asset in decode_scval(listed)[1]:
        result = answers.answer(ContractCall(REAL_ORACLE, "lastprice", (asset,))).result
        prices[asset[1][1][1][:6]] = None if decode_scval(result or b"") == VOID else dict(decode_scval(result)[1])  # type: ignore[arg-type]

    assert 10 == len(prices)
    assert ["CBHIQP"] == [token for token, price in prices.items() if price is None]
    assert i128(9_194_659_523_573) == (prices["CAS3J7"] or {})[symbol("price")]  # XLM at 0.0919 USD
    assert {u64(1_725_274_200)} == {price[symbol("timestamp")] for price in prices.values() if price}


@pytest.mark.parametrize(("after", "priced"), [(0, True), (1, True), (STEP - 1, True), (STEP, False), (-1, False)])
def test_a_time_off_the_grid_counts_as_the_period_that_it_is_in(after: int, priced: bool) -> None:
    """Asking for the price at a time gives that of the period which the time lies in."""
    stored = release_4()
    put_price(stored, 1, LAST, 55)
    asked = stored.value(ORACLE, "price", other("BTC"), u64(LAST + after), now=LAST + STEP)

    assert (price_data(55, LAST) if priced else VOID) == asked
