"""What every protocol module keeps to, whichever protocols there are."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import polars as pl
import pytest

from exporter.errors import lasting
from exporter.ledger.codec.scval import STELLAR_ASSET
from exporter.ledger.codec.scval_encode import VOID
from exporter.ledger.events import ContractEvent
from exporter.ledger.oracles import Quote
from exporter.ledger.view import read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Absent, Candidate, Origin, ProtocolReading, Unread, ViewCall
from exporter.tables import PROTOCOL_COLUMNS, SPOKES, TERMS
from tests.protocols.all_ledgers import ASSETS, computed, ledger_of, listed, pool_of
from tests.protocols.blend_chain import BlendLedger, pool_instance
from tests.protocols.golden_rows import PATH, golden_rows
from tests.protocols.judged import at
from tests.protocols.k2_chain import reserve_list
from tests.protocols.made_ledger import (
    NOW,
    UNKNOWN_CODE,
    MadeSource,
    bare_token,
    candidate_of,
    contract,
    instance,
    token_instance,
    unread_of,
)

EVERY = pytest.mark.parametrize("name", PROTOCOLS)


def read(name: str, *candidates: Candidate) -> ProtocolReading:
    """What a protocol reads of an empty ledger."""
    source = MadeSource(BlendLedger().chain(), {})
    return asyncio.run(read_at_one_ledger(source, lambda view: PROTOCOLS[name].read(view, candidates, []))).result


@EVERY
def test_name(name: str) -> None:
    """A protocol is registered by the name that it gives to its readings."""
    assert name == PROTOCOLS[name].name
    assert name == read(name).protocol


def test_no_code_of_two_protocols() -> None:
    """Contract code belongs to one protocol, and is named by 32 bytes."""
    hashes = Counter(code for module in PROTOCOLS.values() for code in module.market_wasm_hashes())

    assert [] == [code.hex() for code, count in hashes.items() if count > 1 or len(code) != 32]


def assert_columns(frame: pl.DataFrame) -> None:
    """The columns that all protocols share come first, in their order, and then those of the terms."""
    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())[: len(PROTOCOL_COLUMNS)]
    assert (PROTOCOL_COLUMNS | TERMS | {SPOKES: pl.String()}).items() >= frame.schema.items()


@EVERY
def test_nothing_to_read(name: str) -> None:
    """Without candidates the reading is empty, and its projection has the columns that all protocols share."""
    reading = read(name)
    frame = PROTOCOLS[name].project(at(reading.columns, NOW))

    assert ([], [], [], []) == (reading.markets, reading.unread, reading.absent, reading.notices)
    assert_columns(frame)
    assert 0 == frame.height


@EVERY
def test_absent_markets(name: str) -> None:
    """On a ledger without the contract, a demanded market is unread and a known one absent: neither is left out."""
    known, named = Candidate(name, contract("known")), Candidate(name, contract("named"), Origin.CONFIGURATION)
    reading = read(name, known, named)

    assert [] == reading.markets
    reason = "the ledger has no contract at this address"
    assert [Unread(contract("named"), None, name, "absent", f"{reason}; check [[markets]]")] == reading.unread
    assert [Absent(contract("known"), name, reason)] == reading.absent


@EVERY
def test_two_pools(name: str) -> None:
    """Both pools of a market are read and priced, in the order of their ids, as what they are, and nothing is said."""
    ledger = ledger_of(name)
    tables = computed(name, ledger)
    assert ledger.reading is not None

    assert ([], [], [], []) == (tables.unread, tables.unpriced, tables.absent, tables.notices)
    assert [(contract("A"), 2, 0)] == tables.markets.select("market", "pool_count", "unread_count").rows()
    assert (
        sorted((pool_of(name, asset), contract(asset), asset) for asset in ASSETS)
        == tables.pools.select("pool", "token_address", "symbol").rows()
    )
    (market,) = ledger.reading.markets
    assert {(contract("A"), name, market.name, market.status, market.version, market.wasm_hash, market.oracle, 7)} == {
        *tables.pools.select(
            "market", "protocol", "market_name", "market_status", "version", "wasm_hash", "oracle", "decimals"
        ).rows()
    }
    assert_columns(PROTOCOLS[name].project(at(ledger.reading.columns, NOW)))


def test_golden_rows() -> None:
    """Every column, parameter and configuration hash of a small network is what it was: none changes unnoticed."""
    assert json.loads(PATH.read_text()) == [json.loads(json.dumps(row)) for row in golden_rows()]


@EVERY
def test_order_and_repetition_of_candidates(name: str) -> None:
    """The same markets in another order, or named twice, give the same reading."""
    ledger = ledger_of(name)
    named = [candidate_of(name, label) for label in "ACB"]
    forth, back = (ledger.read(items, listed(name)).result for items in (named, [*named[::-1], *named]))

    assert (forth.markets, forth.columns, forth.absent) == (back.markets, back.columns, back.absent)


@EVERY
def test_something_else_at_the_address(name: str) -> None:
    """Another contract, and one without code of its own, is unread with what is missing, and costs no market."""
    ledger = ledger_of(name)
    ledger.replace(token_instance("T"), instance(contract("asset"), [], executable=STELLAR_ASSET))
    if name == "k2":  # where the list of reserves would be missed first
        ledger.replace(reserve_list("T", []), reserve_list("asset", []))
    tables = computed(name, ledger, "T", "asset")

    found = unread_of(tables)
    assert dict.fromkeys([contract("T"), contract("asset")], "undecodable") == {
        market: reason for (market, _), (reason, _) in found.items()
    }
    assert "missing" in found[contract("T"), None][1]
    assert 2 == tables.pools.height


@EVERY
def test_nulls_are_refused(name: str) -> None:
    """A null in what is computed with is a mistake of the caller, and its column is named."""
    columns = ledger_of(name).read([candidate_of(name, "A")], listed(name)).result.columns
    of_debt = {
        "alula": "total_borrowed",
        "blend": "d_supply",
        "k2": "total_debt_scaled",
        "peridot": "total_borrowed",
        "slender": "debt_supply",
        "xoxno": "borrowed",
    }[name]

    with pytest.raises(ValueError, match=f"null in {of_debt}"):
        PROTOCOLS[name].project(at(columns | {of_debt: [None, 1]}, NOW))


@pytest.mark.parametrize("name", sorted(set(PROTOCOLS) - {"alula"}))
def test_token_that_says_nothing(name: str) -> None:
    """A token that gives no symbol costs its pool the row, with the token's reason, and no other."""
    ledger = ledger_of(name)
    ledger.replace(bare_token("XLM"))
    tables = computed(name, ledger)

    ((pool, (reason, detail)),) = unread_of(tables).items()
    assert ((contract("A"), pool_of(name, "XLM")), "undecodable") == (pool, reason)
    assert "METADATA is missing; " in detail
    assert [pool_of(name, "USDC")] == tables.pools["pool"].to_list()


@pytest.mark.parametrize("name", sorted(set(PROTOCOLS) - {"peridot"}))
def test_decimals_are_the_markets(name: str) -> None:
    """Amounts count in the decimals that the contract computes with; a token that says otherwise is noticed."""
    ledger = ledger_of(name)
    ledger.replace(token_instance("XLM", b"XLM", decimals=9))
    tables = computed(name, ledger)

    assert {7} == set(tables.pools["decimals"])
    reported = (
        f"market {contract('A')} computes with 7 decimals of token {contract('XLM')}, which itself says that it has 9"
    )
    assert [reported] == [notice.split(";")[0] for notice in tables.notices if "computes with" in notice]


@EVERY
def test_code_other_than_listed(name: str) -> None:
    """Where a list has the hash of a market's code, other code is read all the same, with one notice that says so."""
    ledger = ledger_of(name)
    if name == "blend":  # whose code the package knows by itself
        ledger.replace(pool_instance("A", "v2", wasm_hash=UNKNOWN_CODE))
    tables = ledger.compute([candidate_of(name, "A")], listed(name, b"\1" * 32))
    assert ledger.reading is not None

    (market,) = ledger.reading.markets
    reported = [notice for notice in tables.notices if "runs contract code" in notice]
    assert [f"market {contract('A')} runs contract code {market.wasm_hash}, which is not known for {name}"] == [
        notice.split(";")[0] for notice in reported
    ]
    assert {contract("A")} == ledger.reading.unknown_code
    assert (2, []) == (tables.pools.height, tables.unread)


@EVERY
def test_code_that_is_known_or_that_no_list_has(name: str) -> None:
    """The listed code needs no word, nor does any where no list has a hash: there is nothing to compare with."""
    unknown = ledger_of(name).read([candidate_of(name, "A")], listed(name)).result
    code = bytes.fromhex(unknown.markets[0].wasm_hash or "")
    known = ledger_of(name).read([candidate_of(name, "A")], listed(name, code)).result

    for reading in (unknown, known):
        assert set() == reading.unknown_code
        assert [] == [notice for notice in reading.notices if "contract code" in notice]


@pytest.mark.parametrize("name", ["peridot", "slender"])
def test_views_of_pools_that_are_not_read(name: str) -> None:
    """Nothing is compared of a pool without a row; a view without a time has none, a failed call says nothing."""
    views, reading = PROTOCOLS[name].views, ledger_of(name).read([candidate_of(name, "A")]).result
    calls = [item for item in views.calls(reading) if isinstance(item, ViewCall)]

    assert [] == [item for call in calls for item in views.compare(call, VOID, {}, NOW)]
    assert (None, []) == (views.time_of(VOID), list(views.refused(calls[0], "x", {})))
    assert () == PROTOCOLS[name].candidates_in(ContractEvent(contract("A"), 7, (), VOID))


@EVERY
@pytest.mark.parametrize(
    "quote",
    [
        Quote("O", "T", failure="trapped"),
        Quote("O", "T"),
        Quote("O", "T", 7, 0, NOW),
        Quote("O", "T", 7, -1, NOW),
        Quote("O", "T", 7, 1, 0),
    ],
    ids=["failed", "empty", "zero", "negative", "of 1970"],
)
def test_what_no_protocol_takes_for_a_price(name: str, quote: Quote) -> None:
    """No price, one that is not above zero, and one as old as time itself are refused, with a reason."""
    assert PROTOCOLS[name].price_failure(quote, NOW)


@EVERY
def test_good_price(name: str) -> None:
    """A price above zero and of now is valid for every protocol."""
    assert PROTOCOLS[name].price_failure(Quote("O", "T", 7, 1, NOW, max_age=60), NOW) is None


@pytest.mark.parametrize(
    ("name", "most", "future"),
    [
        ("alula", 360, False),
        ("blend", 86_400, True),
        ("k2", 86_400, False),
        ("peridot", 600, True),
        ("slender", 86_400, False),
    ],
)
def test_age_of_a_price(name: str, most: int, future: bool) -> None:
    """A price of exactly the longest age is good, one of after the ledger where the contract takes it."""

    def refused(age: int) -> str | None:
        return PROTOCOLS[name].price_failure(Quote("O", "T", 7, 1, NOW - age), NOW)

    assert refused(most) is None
    assert f"the price is {lasting(most + 1)} old, more than {lasting(most)}" == refused(most + 1)
    assert (None if future else "the price is of 1 second after the ledger") == refused(-1)


@pytest.mark.parametrize(
    ("quote", "reason"),
    [
        (Quote("O", "T", failure="trapped"), "trapped"),
        (Quote("O", "T"), "the oracle gave no price"),
        (Quote("O", "T", 14, -5, 0), "the price is -5, not above zero"),
    ],
)
def test_order_of_the_price_rule(quote: Quote, reason: str) -> None:
    """What the oracle said is the reason, then that the price is not above zero, then its age."""
    assert [reason] * 5 == [PROTOCOLS[name].price_failure(quote, NOW) for name in PROTOCOLS if name != "xoxno"]
