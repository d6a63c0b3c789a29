"""Reading Blend pools from a chain: what is read, what is not and why, and that nothing is lost in silence."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.ledger.codec.scval import VEC, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, symbol, u32, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import Unread
from exporter.render.assets_pages import snapshots
from exporter.render.run_documents import check_markets
from tests.protocols.blend_chain import (
    BlendLedger,
    candidate,
    demanded,
    deployment,
    pool_instance,
    reserve_config,
    reserve_data,
    reserve_list,
    reward_zone,
    zone_of,
)
from tests.protocols.made_ledger import (
    UNKNOWN_CODE,
    account,
    contract,
    counts_of,
    lastprice,
    pools_of,
    token_instance,
)

A, B = contract("A"), contract("B")


def two_markets() -> BlendLedger:
    """A v1 market A with XLM and USDC, and a v2 market B with USDC."""
    ledger = BlendLedger()
    ledger.add_market("A", "v1", ["XLM", "USDC"])
    ledger.add_market("B", "v2", ["USDC"])
    return ledger


ALL = {(A, contract("XLM")), (A, contract("USDC")), (B, contract("USDC"))}


class TestReading:
    """What is read when all is well."""

    def test_requests(self) -> None:
        """Four waves: markets with zones, the backstop that no list has, what they keep of pools, and the calls."""
        ledger = two_markets()
        ledger.read([candidate("A"), candidate("B")])
        assert ledger.source is not None

        waves = [(kind, keys) for kind, keys, _ in ledger.source.log]
        of_backstop = 2 * 2 + 1  # balance and emission of each pool, what v1 takes its token to be worth
        of_backstop += 2  # what v2 promised of its allotment, and whether it still does
        queued = 3 + 1  # of each reserve, and who is to be v2's admin
        assert [("entries", 3 * 2), ("entries", 1), ("entries", 3 * 2 + 2 + of_backstop + queued)] == waves
        expected = [ContractCall(contract(f"{name} oracle"), "decimals") for name in "AB"]
        expected += [lastprice("A oracle", "XLM"), lastprice("A oracle", "USDC"), lastprice("B oracle", "USDC")]
        assert dict.fromkeys(expected, 1) == Counter(ledger.source.calls)

    def test_named_twice(self) -> None:
        """An address named twice is one market, and demanded if it was demanded once."""
        ledger = two_markets()
        tables = ledger.compute([candidate("A"), demanded("A"), candidate("missing"), demanded("missing")])

        assert {A: (2, 0)} == counts_of(tables)
        assert [contract("missing")] == [item.market for item in tables.unread]


class TestUnknownCode:
    """Contract code that nobody knows."""

    @pytest.mark.parametrize("generation", ["v1", "v2"])
    def test_fields_decide(self, generation: str) -> None:
        """Its fields decide the generation, whatever the size of the numbers, and a notice says so."""
        other = {"v1": "v2", "v2": "v1"}[generation]
        ledger = BlendLedger()
        ledger.add_market("A", generation, ["USDC"])
        ledger.replace(pool_instance("A", generation, wasm_hash=UNKNOWN_CODE))
        # Rates as the other generation would have them: no hint at all.
        ledger.replace(reserve_data("A", "USDC", other))
        tables = ledger.compute([demanded("A")])

        assert [generation] == tables.markets["version"].to_list()
        assert [{"v1": 9, "v2": 12}[generation]] == tables.pools["index_decimals"].to_list()
        assert [UNKNOWN_CODE.hex()] == tables.markets["wasm_hash"].to_list()
        assert 1 == len(tables.notices)
        assert UNKNOWN_CODE.hex() in tables.notices[0]
        assert f"form of {generation}" in tables.notices[0]

    @pytest.mark.parametrize(("generation", "other"), [("v1", "v2"), ("v2", "v1")])
    def test_two_forms_in_one_market(self, generation: str, other: str) -> None:
        """A reserve of the other generation's form is not computed with scales that may be wrong."""
        ledger = BlendLedger()
        ledger.add_market("A", generation, ["USDC", "XLM"])
        ledger.replace(reserve_config("A", "XLM", other))
        tables = ledger.compute([demanded("A")])

        detail = f"its ResConfig has the form of {other}, but the market is of {generation}"
        assert [Unread(A, contract("XLM"), "blend", "inconsistent", detail)] == tables.unread
        assert {A: (2, 1)} == counts_of(tables)


class TestUnreadMarket:
    """A market that cannot be read costs that market alone."""

    def test_endless_list_is_not_followed(self) -> None:
        """Nothing is asked for the entries of a list that is too long to be one; only for the market's backstop."""
        ledger = two_markets()
        ledger.replace(reserve_list("A", [f"T{number}" for number in range(5000)]))
        ledger.compute([candidate("A")])
        assert ledger.source is not None

        assert [("entries", 3, 101), ("entries", 1, 101)] == ledger.source.log


class TestRewardZone:
    """Markets that a deployment's own backstop lists."""

    def test_adds_markets(self) -> None:
        """A zone adds markets that nobody named, each once, in one more request."""
        ledger = two_markets()
        ledger.replace(reward_zone("backstop", zone_of("B", "A", "B")))
        tables = ledger.compute([candidate("A")], [deployment()])
        assert ledger.source is not None

        assert {A: (2, 0), B: (1, 0)} == counts_of(tables)
        assert [5, 3, 19] == [keys for kind, keys, _ in ledger.source.log if kind == "entries"]
        assert [] == tables.notices

    def test_absent_markets(self) -> None:
        """Listed markets without a contract are absent and noticed; few are named in the notice, all are counted."""
        ledger = two_markets()
        gone = [f"gone {number}" for number in range(300)]
        ledger.replace(reward_zone("backstop", zone_of("A", *gone)))
        tables = ledger.compute([], [deployment()])

        assert sorted(map(contract, gone)) == [item.market for item in tables.absent]
        assert {A: (2, 0)} == counts_of(tables)
        assert [] == tables.unread
        assert 1 == len(tables.notices)
        assert tables.notices[0].startswith("reward zones list 300 markets without a contract: ")
        assert len(tables.notices[0]) < 1000

    @pytest.mark.parametrize(
        ("value", "notice"),
        [
            (VOID, "cannot be decoded: reward zone: expected vec, found void"),
            ((VEC, None), "cannot be decoded: reward zone: the vector is missing"),
            (vec(address(B), u32(1)), r"cannot be decoded: reward zone[1]: expected address, found u32"),
            (vec(symbol("B")), r"cannot be decoded: reward zone[0]: expected address, found symbol"),
        ],
    )
    def test_no_list_of_addresses(self, value: ScVal, notice: str) -> None:
        """A zone of another form adds nothing, is noticed, and costs the known markets nothing."""
        ledger = two_markets()
        ledger.replace(reward_zone("backstop", value))
        tables = ledger.compute([candidate("A")], [deployment()])

        assert {A: (2, 0)} == counts_of(tables)
        assert [f"the reward zone of backstop {contract('backstop')} {notice}"] == tables.notices

    def test_accounts(self) -> None:
        """Addresses that are no contract are passed over with a notice."""
        ledger = two_markets()
        listed = vec(address(account("x")), address(B), address(account("y")))
        ledger.replace(reward_zone("backstop", listed))
        tables = ledger.compute([candidate("A")], [deployment()])

        assert {A: (2, 0), B: (1, 0)} == counts_of(tables)
        assert 1 == len(tables.notices)
        assert f"lists {account('x')} and 1 more, not contracts; ignored" in tables.notices[0]

    def test_listed_contract_that_is_not_a_pool(self) -> None:
        """A listed contract that is something else is unread, not passed over in silence."""
        ledger = two_markets()
        ledger.replace(reward_zone("backstop", zone_of("USDC")))
        tables = ledger.compute([candidate("A")], [deployment()])

        assert [(contract("USDC"), None, "undecodable")] == [
            (item.market, item.pool, item.reason) for item in tables.unread
        ]
        assert {A: (2, 0)} == counts_of(tables)


class TestTokens:
    """Symbols and decimals."""

    @pytest.mark.parametrize("content", [b"", b"\xff", b"\x00\x1b[2J</script>"])
    def test_odd_symbol(self, content: bytes) -> None:
        """A symbol is what the token says; it can be shown as JSON whatever it is."""
        ledger = two_markets()
        ledger.replace(token_instance("XLM", content))
        tables = ledger.compute([candidate("A")])

        assert [] == tables.unread
        assert content.decode("utf-8", "backslashreplace") in {row.symbol for row in snapshots(tables.pools)}


def many_markets(count: int) -> BlendLedger:
    """Markets M0, M1, ... of both generations with two reserves each, all in one zone."""
    ledger = BlendLedger()
    for number in range(count):
        ledger.add_market(f"M{number}", "v1" if number % 2 else "v2", ["XLM", f"T{number}"])
    ledger.replace(reward_zone("backstop", zone_of(*(f"M{number}" for number in range(count)))))
    return ledger


MARKETS = 12
WHOLE = many_markets(MARKETS)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """An entry with bytes changed, cut, added, or of another number."""
    choice = rng.randrange(6)
    content = bytearray(data)
    if choice == 0:
        return rng.randbytes(rng.randrange(200))
    if choice == 1:
        return bytes(content[: rng.randrange(len(content))])
    if choice == 2:
        return bytes(content + rng.randbytes(4))
    if choice == 3:  # a number of the state or configuration, of any size
        marks = [at for at in range(0, len(content) - 19, 4) if content[at : at + 4] == b"\0\0\0\x0a"]
        if marks:
            at = rng.choice(marks) + 4
            number = rng.choice([2**127 - 1, rng.getrandbits(127), rng.getrandbits(60), 1, 0, -1, -(2**127)])
            content[at : at + 16] = number.to_bytes(16, "big", signed=True)
            return bytes(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content))
        content[at] = rng.randrange(256)
    return bytes(content)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_hostile_entries(seed: int) -> None:
    """However entries and answers are mangled, nothing is raised: each pool has a row or a reason, and all adds up."""
    rng = random.Random(seed)
    ledger = BlendLedger()
    ledger.entries = dict(WHOLE.entries)
    ledger.results = dict(WHOLE.results)
    for key in rng.sample(sorted(ledger.entries), rng.randint(1, 25)):
        data, _ = ledger.entries[key]
        ledger.entries[key] = (mutated(data, rng), rng.choice([None, None, None, 1]))
    for call in rng.sample(list(ledger.results), 10):
        answers: list[ScVal | bytes | str] = [rng.randbytes(8), "trap", VOID, u32(rng.getrandbits(32)), i128(-1)]
        ledger.results[call] = rng.choice(answers)
    named = [candidate(f"M{number}") for number in range(MARKETS)]
    tables = ledger.compute(named, [deployment()])
    assert ledger.reading is not None

    accounted = {item.market for item in tables.unread if item.pool is None}
    accounted |= set(tables.markets["market"]) | {item.market for item in tables.absent}
    assert {item.address for item in named} <= accounted
    members = {(market.address, pool) for market in ledger.reading.markets for pool in market.members}
    unread = {(item.market, item.pool) for item in tables.unread if item.pool is not None}
    assert members == pools_of(tables) | unread
    assert pools_of(tables).isdisjoint(unread)
    assert all(item.reason and item.detail for item in tables.unread)
    assert all(item.reason and item.reason != "valid" for item in tables.unpriced)
    check_markets(tables.pools, tables.markets)  # counts and sums, as they are checked before anything is published
    snapshots(tables.pools)  # and every row is one that the API allows
