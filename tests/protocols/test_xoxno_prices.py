"""Prices of XOXNO's aggregator: many in one call, one each where that fails, and which are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from exporter.ledger import scval
from exporter.ledger.oracles import Quote
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import VOID, i128, string, symbol, u64, vec
from exporter.ledger.view import read_at_one_ledger
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.prices import TOKENS_PER_CALL, read_prices
from tests.blend_chain import NOW, BlendSource, contract
from tests.xoxno_chain import WAD, XoxnoLedger, flag, quote, quotes_call

TRAP = "HostError: Error(Contract, #210)"


def ask(ledger: XoxnoLedger, tokens: Sequence[str]) -> tuple[dict[str, Quote], BlendSource]:
    """The quotes of tokens by label, and the source with its calls."""
    source = BlendSource(ledger.chain(), ledger.results)
    pairs = [(contract("A aggregator"), contract(token)) for token in tokens]
    found = asyncio.run(read_at_one_ledger(source, lambda view: read_prices(view, pairs))).result
    return {token: found[contract("A aggregator"), contract(token)] for token in tokens}, source


def refusal(**changes: ScVal | None) -> str | None:
    """Why the price of a quote with these changes is refused."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(**changes)})  # type: ignore[arg-type]
    return Xoxno().price_failure(ask(ledger, ["USDC"])[0]["USDC"], NOW)


def test_one_call_for_all() -> None:
    """All prices come of one call, in USD with 18 decimals, each token asked for once."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(WAD + 1, NOW - 5), "XLM": quote(WAD // 4)})
    found, source = ask(ledger, ["USDC", "XLM", "USDC"])
    aggregator = contract("A aggregator")

    assert Quote(aggregator, contract("USDC"), 18, WAD + 1, NOW - 5) == found["USDC"]
    assert Quote(aggregator, contract("XLM"), 18, WAD // 4, NOW) == found["XLM"]
    assert [quotes_call("A aggregator", ["USDC", "XLM"])] == source.calls


def test_chunks() -> None:
    """More tokens than a call takes are asked for in several."""
    ledger = XoxnoLedger()
    tokens = [f"T{index}" for index in range(2 * TOKENS_PER_CALL + 1)]
    for start in range(0, len(tokens), TOKENS_PER_CALL):
        ledger.set_quotes("A", {token: quote(start + 1) for token in tokens[start : start + TOKENS_PER_CALL]})
    found, source = ask(ledger, tokens)

    assert 3 == len(source.calls)
    assert [1, TOKENS_PER_CALL + 1, 2 * TOKENS_PER_CALL + 1] == sorted({item.price or 0 for item in found.values()})


def test_a_call_that_fails() -> None:
    """One token that fails the whole call costs only its own price: all are asked for again, one each."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(WAD), "BAD": TRAP, "XLM": quote(WAD // 4)})
    found, source = ask(ledger, ["USDC", "BAD", "XLM"])

    assert (WAD, None, WAD // 4) == tuple(found[token].price for token in ("USDC", "BAD", "XLM"))
    assert "#210" in (found["BAD"].failure or "")
    assert 1 + 3 == len(source.calls)


@pytest.mark.parametrize(
    "malformed",
    [
        VOID,
        string("no"),
        quote(final_wad=None),
        quote(final_wad=u64(1)),
        quote(price_timestamp=VOID),
        quote(valid=None),
        quote(stale=VOID),
    ],
)
def test_one_malformed_quote(malformed: ScVal) -> None:
    """A quote that lacks a field costs no other; its token is asked for once more, alone."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(WAD), "BAD": malformed})
    found, source = ask(ledger, ["USDC", "BAD"])

    assert (WAD, None) == (found["USDC"].price, found["BAD"].price)
    assert "quotes()" in (found["BAD"].failure or "")
    assert [quotes_call("A aggregator", ["USDC", "BAD"]), quotes_call("A aggregator", ["BAD"])] == source.calls


@pytest.mark.parametrize("result", [VOID, vec(), vec(quote()), vec(quote(), quote(), quote()), (scval.VEC, None)])
def test_another_number_of_quotes(result: ScVal) -> None:
    """A result that is not one quote a token is not guessed at: every token is asked for alone."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(WAD), "XLM": quote(3)})
    ledger.results[quotes_call("A aggregator", ["USDC", "XLM"])] = result
    found, source = ask(ledger, ["USDC", "XLM"])

    assert (WAD, 3) == (found["USDC"].price, found["XLM"].price)
    assert 3 == len(source.calls)


def test_one_token_is_not_asked_for_again() -> None:
    """A call for one token that fails is final."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"BAD": TRAP})
    _, source = ask(ledger, ["BAD"])

    assert 1 == len(source.calls)


def test_further_fields_do_not_matter() -> None:
    """Fields that are not known, and sources of any form, are left alone."""
    assert refusal(added=symbol("x"), secondary_wad=i128(5), primary_wad=None) is None
    assert refusal(deviation=i128(12)) is None


def test_milliseconds() -> None:
    """A price's time in milliseconds is told by its size, and given in seconds."""
    ledger = XoxnoLedger()
    ledger.set_quotes("A", {"USDC": quote(WAD, NOW * 1_000 - 1)})

    assert NOW - 1 == ask(ledger, ["USDC"])[0]["USDC"].timestamp


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"stale": flag(True)}, "the price aggregator says that the price is stale"),
        ({"deviation": flag(True)}, "the price aggregator says that its two sources deviate too much"),
        ({"valid": flag(False)}, "the price aggregator says that the price is not valid"),
        ({"valid": flag(False), "stale": flag(True)}, "the price aggregator says that the price is stale"),
        ({"final_wad": i128(0)}, "the price is 0, not above zero"),
        ({"final_wad": i128(-1)}, "the price is -1, not above zero"),
        ({"price_timestamp": u64(NOW - 57_600)}, None),
        ({"price_timestamp": u64(NOW - 57_601)}, "the price is 57601 s old, more than 57600 s"),
        ({"price_timestamp": u64(NOW + 57_600)}, None),
        ({"price_timestamp": u64(NOW + 57_601)}, "the price is of 57601 s after the ledger"),
        ({"price_timestamp": u64(0)}, f"the price is {NOW} s old, more than 57600 s"),
    ],
)
def test_which_prices_are_refused(changes: dict[str, ScVal | None], reason: str | None) -> None:
    """What ``prices`` would fail on is no price: the aggregator's flags first, then zero, then the outer limit."""
    assert reason == refusal(**changes)


def test_no_quote() -> None:
    """A quote without price or time is none, with its reason where it has one."""
    assert "the price aggregator gave no price" == Xoxno().price_failure(Quote("A", "T"), NOW)
    assert "why" == Xoxno().price_failure(Quote("A", "T", failure="why"), NOW)
