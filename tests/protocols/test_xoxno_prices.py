"""Prices of XOXNO's aggregator: a map of many in one call, one each where that fails, and which are refused.

Where a test is of the contracts' behaviour it names the line of XOXNO/rs-lending-xlm at 5a27d74f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, string, u32, u64, vec
from exporter.ledger.oracles import Quote
from exporter.protocols.xoxno import Xoxno
from exporter.protocols.xoxno.prices import TOKENS_PER_CALL
from tests.protocols.made_ledger import NOW, contract
from tests.protocols.xoxno_ledger import (
    UNUSABLE,
    WAD,
    QuotingSource,
    XoxnoLedger,
    candidate,
    controller,
    deployment,
    flag,
    oracle,
    pool_id,
    quote,
    quotes_call,
    quotes_result,
)

TRAP = "HostError: Error(Budget, ExceededLimit)"


def market_of(quotes: Mapping[str, ScVal | str]) -> XoxnoLedger:
    """A controller A with a hub market of each token, and what its aggregator gives for them."""
    ledger = XoxnoLedger()
    ledger.add_market("A", [(1, token) for token in quotes])
    ledger.set_quotes("A", {token: quotes[token] for token in in_order(quotes)})
    return ledger


def in_order(tokens: Mapping[str, object] | Sequence[str]) -> list[str]:
    """Tokens by label in the order in which they are asked for."""
    return sorted(tokens, key=contract)


def ask(ledger: XoxnoLedger, tokens: Sequence[str]) -> tuple[dict[str, Quote], QuotingSource]:
    """The quotes of the tokens that A's hub markets are of, and the source with its calls."""
    reading = ledger.read([candidate("A")], [deployment("A", [(1, token) for token in tokens])]).result
    return {token: reading.quotes[contract("A aggregator"), contract(token)] for token in tokens}, ledger.asked


def refusal(status: ScVal, max_age: int = 57_600, close_time: int = NOW) -> str | None:
    """Why the price of a status is refused."""
    ledger = market_of({"USDC": status})
    ledger.replace(oracle("A", "USDC", max_age))
    return Xoxno().price_failure(ask(ledger, ["USDC"])[0]["USDC"], close_time)


def test_one_call_for_all() -> None:
    """All prices come of one call, a map from key to status: interfaces/price-aggregator/src/lib.rs:17."""
    found, source = ask(market_of({"USDC": quote(WAD + 1, NOW - 5), "XLM": quote(WAD // 4)}), ["USDC", "XLM"])
    aggregator = contract("A aggregator")

    assert Quote(aggregator, contract("USDC"), 18, WAD + 1, NOW - 5, max_age=57_600) == found["USDC"]
    assert Quote(aggregator, contract("XLM"), 18, WAD // 4, NOW, max_age=57_600) == found["XLM"]
    assert [quotes_call("A aggregator", in_order(["USDC", "XLM"]))] == source.calls


def test_a_map_is_not_in_the_order_of_the_question() -> None:
    """Each status is taken by its key: a map has the ledger's order, and is never paired with the tokens asked for."""
    tokens = in_order(["USDC", "XLM", "EURC"])
    ledger = market_of({token: quote(WAD * (index + 1)) for index, token in enumerate(tokens)})
    _, pairs = quotes_result({token: quote(WAD * (index + 1)) for index, token in enumerate(tokens)})
    ledger.results[quotes_call("A aggregator", tokens)] = (scval.MAP, pairs[::-1])

    assert [WAD, 2 * WAD, 3 * WAD] == [ask(ledger, tokens)[0][token].price for token in tokens]


def test_a_vector_is_no_answer() -> None:
    """A vector of statuses, one for each token, does not say which is whose: no price is guessed from it."""
    ledger = market_of({"USDC": quote(), "XLM": quote()})
    ledger.results[quotes_call("A aggregator", in_order(["USDC", "XLM"]))] = vec(quote(), quote())
    found, source = ask(ledger, ["USDC", "XLM"])

    assert {"quotes(): expected map, found vec"} == {item.failure for item in found.values()}
    assert 1 == len(source.calls)


def test_chunks() -> None:
    """More tokens than a call takes are asked for in several."""
    tokens = in_order([f"T{index}" for index in range(2 * TOKENS_PER_CALL + 1)])
    ledger = market_of({token: quote(index + 1) for index, token in enumerate(tokens)})
    found, source = ask(ledger, tokens)

    assert 3 == len(source.calls)
    assert list(range(1, len(tokens) + 1)) == [found[token].price for token in tokens]


def test_an_unknown_token() -> None:
    """A token without an oracle has zeros that are not valid and costs no other its price, nor a call.

    contracts/price-aggregator/src/engine.rs:203 (an error gives the unusable status), common/src/types/oracle.rs:79.
    """
    ledger = market_of({"USDC": quote(WAD), "BAD": UNUSABLE})
    ledger.remove(oracle("A", "BAD"))
    found, source = ask(ledger, ["USDC", "BAD"])

    assert (WAD, None) == (found["USDC"].price, Xoxno().price_failure(found["USDC"], NOW))
    assert "the price aggregator has no oracle for this token" == Xoxno().price_failure(found["BAD"], NOW)
    assert 1 == len(source.calls)


def test_a_call_that_fails() -> None:
    """A call that fails as a whole, as one beyond the budget, is repeated for each token alone."""
    found, source = ask(market_of({"USDC": quote(WAD), "BAD": TRAP, "XLM": quote(WAD // 4)}), ["USDC", "BAD", "XLM"])

    assert (WAD, None, WAD // 4) == tuple(found[token].price for token in ("USDC", "BAD", "XLM"))
    assert "Budget" in (found["BAD"].failure or "")
    assert 1 + 3 == len(source.calls)


def test_one_token_is_not_asked_for_again() -> None:
    """A call for one token that fails is final."""
    _, source = ask(market_of({"BAD": TRAP}), ["BAD"])

    assert 1 == len(source.calls)


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
        quote(deviation=i128(1)),
    ],
)
def test_one_malformed_status(malformed: ScVal) -> None:
    """A status that lacks a field costs no other token its price, and no further call."""
    found, source = ask(market_of({"USDC": quote(WAD), "BAD": malformed}), ["USDC", "BAD"])

    assert (WAD, None) == (found["USDC"].price, found["BAD"].price)
    assert "quotes()" in (found["BAD"].failure or "")
    assert 1 == len(source.calls)


@pytest.mark.parametrize("result", [quotes_result({"XLM": quote(3)}), (scval.MAP, None), quotes_result({})])
def test_a_token_that_is_missing(result: ScVal) -> None:
    """A token of which the map has nothing has no price, as the controller itself has it.

    contracts/controller/src/external/price_aggregator.rs:42.
    """
    ledger = market_of({"USDC": quote(WAD), "XLM": quote(3)})
    ledger.results[quotes_call("A aggregator", in_order(["USDC", "XLM"]))] = result
    found, _ = ask(ledger, ["USDC", "XLM"])

    assert "quotes() gave no status of this token" == found["USDC"].failure


ZERO = {"final_wad": i128(0)}
NO = {"valid": flag(False)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"stale": flag(True)}, "the price aggregator says that the price is stale"),
        (NO | {"stale": flag(True)}, "the price aggregator says that the price is stale"),
        (NO | {"deviation": flag(True)}, "the price aggregator says that its two sources deviate too much"),
        (
            NO | ZERO | {"deviation": flag(True), "primary_wad": i128(0)},
            "the price aggregator gave one price of its two",
        ),
        (NO | {"deviation": flag(True), "stale": flag(True)}, "the price aggregator says that the price is stale"),
        (NO | ZERO, "the price is 0, not above zero"),
        (ZERO, "the price is 0, not above zero"),
        (NO, "the price aggregator says that the price is outside the bounds that it allows this token"),
    ],
)
def test_which_prices_are_refused(changes: dict[str, ScVal], reason: str | None) -> None:
    """What ``prices`` would fail on is not a price, with its reason: contracts/price-aggregator/src/engine.rs:123."""
    assert reason == refusal(quote(2 * WAD, NOW, **changes))


def test_no_price_at_all() -> None:
    """A token whose sources all fail, or lead in a circle, has the same zeros as an unknown one, but an oracle."""
    assert "the price aggregator could not get a price" == refusal(UNUSABLE)


@pytest.mark.parametrize("limit", [60, 3_600, 57_600, 86_400])
def test_the_limit_of_age_is_the_tokens_own(limit: int) -> None:
    """A price as old as its token's oracle allows is good at the run's ledger, an older one is not.

    common/src/oracle/observation.rs:58 (older, not as old), common/src/types/composable_oracle.rs:189 (the field).
    """
    assert refusal(quote(timestamp=NOW - limit), limit) is None
    assert (
        f"the price is {limit + 1} s old, more than the {limit} s that the price aggregator allows this token"
        == refusal(quote(timestamp=NOW - limit - 1), limit)
    )


def test_a_price_to_come() -> None:
    """A price may be of a minute after the ledger, and not of more: common/src/oracle/observation.rs:13."""
    assert refusal(quote(timestamp=NOW + 60)) is None
    assert "the price is of 61 s after the ledger, more than 60 s" == refusal(quote(timestamp=NOW + 61))


def test_each_token_has_its_own_limit() -> None:
    """Prices of one time and one call: the token with the narrow limit has none, with its pool named."""
    tokens = in_order(["USDC", "XLM"])
    ledger = market_of(dict.fromkeys(tokens, quote(timestamp=NOW - 100)))
    ledger.replace(oracle("A", "USDC", 60), oracle("A", "XLM", 100))
    tables = ledger.compute([candidate("A")], [deployment("A", [(1, token) for token in tokens])])

    assert [pool_id(1, "USDC")] == [item.pool for item in tables.unpriced]
    assert "100 s old, more than the 60 s" in tables.unpriced[0].reason
    assert {None, "2.000000000000000000"} == set(tables.pools["oracle_price_usd"])


def test_an_oracle_that_traps_the_call() -> None:
    """A configuration of another form fails the aggregator's whole call; it costs only its own token its price."""
    tokens = in_order(["USDC", "XLM"])
    ledger = market_of({"USDC": quote(), "XLM": "HostError: Error(Value, UnexpectedType)"})
    ledger.replace(oracle("A", "XLM", sources=u32(1), max_price_stale_seconds=None))
    found, source = ask(ledger, tokens)

    assert 1 + 2 == len(source.calls)
    assert Xoxno().price_failure(found["USDC"], NOW) is None
    assert "quotes() failed: HostError: Error(Value" in (Xoxno().price_failure(found["XLM"], NOW) or "")


def test_the_controller_names_the_aggregator() -> None:
    """Not the list but the controller's instance says who is asked: contracts/controller/src/storage/protocol.rs:57."""
    ledger = market_of({"USDC": quote(3 * WAD)})
    ledger.replace(controller("A", storage={"PriceAggregator": address(contract("B aggregator"))}))
    ledger.set_quotes("B", {"USDC": quote(5 * WAD)})
    tables = ledger.compute([candidate("A")], [deployment("A", [(1, "USDC")])])

    assert ["5.000000000000000000"] == tables.pools["oracle_price_usd"].to_list()
    assert [contract("B aggregator")] == tables.markets["oracle"].to_list()
    assert ["takes its prices from contract", "not from"] == [
        part for part in ("takes its prices from contract", "not from") if part in tables.notices[0]
    ]


@pytest.mark.parametrize("named", [None, u32(1), VOID])
def test_no_aggregator(named: ScVal | None) -> None:
    """A controller that names none has pools without prices, and that is said; the list's one is not asked."""
    ledger = market_of({"USDC": quote()})
    ledger.replace(controller("A", storage={"PriceAggregator": named}))
    tables = ledger.compute([candidate("A")], [deployment("A", [(1, "USDC")])])

    assert ["the market has no oracle"] == [item.reason for item in tables.unpriced]
    assert "names no price aggregator in its instance" in tables.notices[0]
    assert [] == ledger.asked.calls
