"""Prices of XOXNO's price aggregator: ``quotes(Vec<PriceKey>)``, many tokens in one simulated call.

The soft call gives every price with what is wrong with it, where ``prices`` fails as a whole
(facts/other-protocols.md 2.9). Of its result only the names of the fields are published, so they are taken by name and
further ones are left alone. Where the call fails, or gives something else, each token concerned is asked for alone:
one bad feed costs no other token its price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.errors import DecodeError
from exporter.ledger import scval
from exporter.ledger.fields import Fields, expect
from exporter.ledger.observation import CallResult
from exporter.ledger.oracles import Quote
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, symbol, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView

WAD_DECIMALS = 18
TOKENS_PER_CALL = 32
MAX_PRICE_AGE_SECONDS = 57_600
"""The outer limit of the aggregator; that of a feed may be narrower, and then shows in its ``stale`` flag."""

_FIRST_MILLISECOND_TIME = 10**11
"""No time in seconds is above this before the year 5138, and none in milliseconds is below since 1973."""


def quotes_call(aggregator: str, tokens: Iterable[str]) -> ContractCall:
    """The call for the prices of some tokens, each by its ``PriceKey::Token``."""
    keys = (vec(symbol("Token"), address(token)) for token in tokens)
    return ContractCall(aggregator, "quotes", (vec(*keys),))


async def read_prices(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Quote]:
    """A quote for each (aggregator, token). Raises `SourceError` only when the source itself fails."""
    by_aggregator: dict[str, dict[str, None]] = {}
    for aggregator, token in pairs:
        by_aggregator.setdefault(aggregator, {})[token] = None
    asked = [
        (aggregator, list(tokens)[start : start + TOKENS_PER_CALL])
        for aggregator, tokens in by_aggregator.items()
        for start in range(0, len(tokens), TOKENS_PER_CALL)
    ]
    found: dict[tuple[str, str], Quote] = {}
    again: list[tuple[str, str]] = []
    results = await view.call([quotes_call(*pair) for pair in asked])
    for (aggregator, tokens), result in zip(asked, results, strict=True):
        for quote in _quotes(aggregator, tokens, result):
            found[aggregator, quote.token] = quote
            if len(tokens) > 1 and quote.price is None and quote.decimals is None:
                again.append((aggregator, quote.token))
    results = await view.call([quotes_call(aggregator, [token]) for aggregator, token in again])
    for (aggregator, token), result in zip(again, results, strict=True):
        (found[aggregator, token],) = _quotes(aggregator, [token], result)
    return found


def price_failure(quote: Quote, close_time: int) -> str | None:
    """Why a quote is no valid price at the close time: the aggregator's flags first, then its outer limit of age.

    A price may be of as much after the ledger, since one of a fixed rate has the time of the call; not of more.
    """
    if quote.failure is not None or quote.price is None or quote.timestamp is None:
        return quote.failure or "the price aggregator gave no price"
    if quote.price <= 0:
        return f"the price is {quote.price}, not above zero"
    age = close_time - quote.timestamp
    if age > MAX_PRICE_AGE_SECONDS:
        return f"the price is {age} s old, more than {MAX_PRICE_AGE_SECONDS} s"
    if age < -MAX_PRICE_AGE_SECONDS:
        return f"the price is of {-age} s after the ledger"
    return None


def _quotes(aggregator: str, tokens: Sequence[str], result: CallResult) -> list[Quote]:
    """A quote for each token; one that could not be told from the result has no decimals."""
    if result.value is None:
        return [Quote(aggregator, token, failure=f"quotes() failed: {result.reason}") for token in tokens]
    try:
        items: Sequence[ScVal] | None = expect(result.value, scval.VEC, "quotes()")
        if items is None or len(items) != len(tokens):
            raise DecodeError(f"quotes() gave {len(items or ())} quotes for {len(tokens)} tokens")
    except DecodeError as error:
        return [Quote(aggregator, token, failure=str(error)) for token in tokens]
    return [_quote(aggregator, token, item) for token, item in zip(tokens, items, strict=True)]


def _quote(aggregator: str, token: str, value: ScVal) -> Quote:
    try:
        fields = Fields.of(value, "quotes()")
        valid, stale = fields.boolean("valid"), fields.boolean("stale")
        deviates = fields.get("deviation") == (scval.BOOL, True)  # a number there is how far, not whether it is too far
        price, time = fields.i128("final_wad"), fields.u64("price_timestamp")
    except DecodeError as error:
        return Quote(aggregator, token, failure=str(error))
    if time >= _FIRST_MILLISECOND_TIME:
        time //= 1_000
    failure = None
    if stale:
        failure = "the price aggregator says that the price is stale"
    elif deviates:
        failure = "the price aggregator says that its two sources deviate too much"
    elif not valid:
        failure = "the price aggregator says that the price is not valid"
    return Quote(aggregator, token, WAD_DECIMALS, price, time, failure)
