"""The two sentences of a market's risk, on the site and of the assistant."""

from __future__ import annotations

from typing import Any

import msgspec

from exporter.render.site.risk_sentences import risk_words
from exporter.serve.assistant.answers import _risk_in_words
from exporter.tree.risk_documents import (
    FALLS_BPS,
    MarketRisk,
    RiskFall,
    RiskLargest,
    RiskNow,
    RiskOfMarket,
    RiskOfPool,
)
from tests.render.rendering import contract

XLM, USDC, BTC = (contract(number) for number in (10, 11, 12))
SYMBOLS = {XLM: "XLM", USDC: "USDC", BTC: "BTC"}
LARGEST = RiskLargest(2_000, 7_100, 10_000)


def pool(token: str, *, stable: bool, unexplained: str = "0") -> RiskOfPool:
    """A pool of ten borrowers."""
    own = "native" if token == XLM else SYMBOLS[token]
    largest = RiskLargest(1, 5_000, 6_000)
    return RiskOfPool(token, token, own, 7, stable, 20, 10, LARGEST, largest, [], "0", "0", "1", unexplained, "1", "0")


def falls(token: str | None, step: int) -> list[RiskFall]:
    """Falls of a token, each of which makes that many more dollars of debt liquidatable."""
    return [RiskFall(token, None, fall, str(fall * step), str(fall * step // 10)) for fall in FALLS_BPS]


def risk(*pools: RiskOfPool, now: bool = True, step: int = 40_000) -> MarketRisk:
    """The risk of a market with 3.4 million dollars of debt."""
    debt = RiskNow("340000000", "0", "0", "0", "0") if now else None
    own = [item for each in (None, *(item.token_address for item in pools)) for item in falls(each, step)]
    figures = RiskOfMarket(contract(1), "blend", "x", 20, 10, 0, LARGEST, debt, own if now else [], None, list(pools))
    return MarketRisk(63, "2026-11-28T06:00:00Z", "v1/risk/63.json", figures)


def first(given: MarketRisk, token: str | None = None) -> str:
    """The first sentence."""
    words = risk_words(given, SYMBOLS, token)
    assert words is not None
    return words.sentences[0]


def test_the_only_token_that_is_not_stable_is_named() -> None:
    """A fall of several tokens counts all of them; a pool's page names its own token and largest borrowers."""
    xlm, usdc, btc = pool(XLM, stable=False), pool(USDC, stable=True), pool(BTC, stable=False)
    sold = "the collateral of $1.20M of the $3.40M that borrowers owe may be sold to repay them"
    loss = "and $120K of it would not be covered"

    assert f"If XLM falls 30.0\u202f%, {sold}, {loss}; the ten largest borrowers owe 71.0\u202f%." == first(
        risk(xlm, usdc)
    )
    assert first(risk(xlm, usdc, btc)).startswith("If every token that is not stable falls")
    own = first(risk(xlm, usdc, btc), BTC)
    assert (True, True) == (own.startswith("If BTC falls"), own.endswith("50.0\u202f%."))
    assert first(risk(xlm, usdc, btc), USDC).startswith("If every token that is not stable falls")


def test_what_is_not_at_risk_and_what_is_not_said() -> None:
    """The sentences say if nothing can be sold and which shares nobody has; too few borrowers have no figures."""
    xlm, few = pool(XLM, stable=False), risk(pool(XLM, stable=False), now=False)
    words, odd = risk_words(few, SYMBOLS), risk_words(risk(pool(XLM, stable=False, unexplained="-3")), SYMBOLS)
    assert words is not None
    assert odd is not None

    assert "no collateral may be sold of the $3.40M" in first(risk(xlm, step=0))
    assert "not be covered" not in first(risk(xlm, step=0))
    assert "Fewer than 5 borrowers here can be judged (10 owe anything)" in words.sentences[0]
    assert words.chart is None
    assert "28 Nov 2026, 06:00 UTC" in words.sentences[1]
    assert "do not add up" not in words.sentences[1]
    assert "do not add up" in odd.sentences[1]
    assert risk_words(None, SYMBOLS) is None


def test_the_assistant_says_the_same() -> None:
    """The assistant has both sentences, word for word; nothing if there is no risk, or if it has another form."""
    given = risk(pool(XLM, stable=False), pool(USDC, stable=True))
    words, document = risk_words(given, SYMBOLS), msgspec.to_builtins(given)
    assert words is not None
    other: dict[str, Any] = {**document, "more": 1}

    assert " ".join(words.sentences) == _risk_in_words(document, XLM)
    assert [None, None] == [_risk_in_words(None, XLM), _risk_in_words(other, XLM)]
