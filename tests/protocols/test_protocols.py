"""What every protocol module keeps to, whichever protocols there are."""

from __future__ import annotations

import asyncio
from collections import Counter

import polars as pl
import pytest

from exporter.errors import lasting
from exporter.ledger.oracles import Quote
from exporter.ledger.view import read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.tables import PROTOCOL_COLUMNS, SPOKES, TERMS
from tests.protocols.at_time import at
from tests.protocols.blend_chain import BlendLedger
from tests.protocols.made_ledger import NOW, MadeSource, contract

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


@EVERY
def test_nothing_to_read(name: str) -> None:
    """Without candidates the reading is empty, and its projection has the columns that all protocols share."""
    reading = read(name)
    frame = PROTOCOLS[name].project(at(reading.columns, NOW))

    assert ([], [], [], []) == (reading.markets, reading.unread, reading.absent, reading.notices)
    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())[: len(PROTOCOL_COLUMNS)]
    assert (PROTOCOL_COLUMNS | TERMS | {SPOKES: pl.String()}).items() >= frame.schema.items()


@EVERY
def test_absent_markets(name: str) -> None:
    """On a ledger without the contract, a demanded market is unread and a known one absent: neither is left out."""
    known, named = Candidate(name, contract("known")), Candidate(name, contract("named"), Origin.CONFIGURATION)
    reading = read(name, known, named)

    assert [] == reading.markets
    assert [(contract("named"), None, name, "absent")] == [
        (item.market, item.pool, item.protocol, item.reason) for item in reading.unread
    ]
    assert [(contract("known"), name)] == [(item.market, item.protocol) for item in reading.absent]
    assert all(item.detail for item in reading.unread)
    assert all(item.reason for item in reading.absent)


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
    [("alula", 360, False), ("blend", 86_400, True), ("k2", 86_400, False), ("peridot", 600, True),
     ("slender", 86_400, False)],
)  # fmt: skip
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
    """What the oracle said stands as the reason, then that the price is not above zero, then its age."""
    assert [reason] * 5 == [PROTOCOLS[name].price_failure(quote, NOW) for name in PROTOCOLS if name != "xoxno"]
