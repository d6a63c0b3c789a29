"""Asks XOXNO's price aggregator for prices: for many in one call and, if that fails, for each in a call of its own.

docs/protocols/xoxno.md, "Prices", has the sources.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.errors import Barrier
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval_encode import vec
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.oracles import PriceKey, Quote, tokens_by_oracle
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols.xoxno.layout import price_key

WAD_DECIMALS = 18
TOKENS_PER_CALL = 32
MAX_FUTURE_SECONDS = 60
"""The aggregator refuses a price whose time is further after the ledger's than this."""


async def read_prices(view: LedgerView, asked: Mapping[PriceKey, Entry | None]) -> Mapping[PriceKey, Quote]:
    """The quotes of an aggregator's prices. ``asked`` has the token's ``Oracle`` entry for each.

    Raises only `SourceError`.
    """
    parts = tokens_by_oracle(asked, TOKENS_PER_CALL)
    results: dict[PriceKey, CallResult] = {}
    while parts:  # at most twice: the second time each part has one token
        calls = [ContractCall(contract, "quotes", (vec(*map(price_key, tokens)),)) for contract, tokens in parts]
        answers = await view.call(calls)
        failed = []
        for (aggregator, tokens), answer in zip(parts, answers, strict=True):
            failed += [PriceKey(aggregator, token) for token in tokens if answer.value is None and len(tokens) > 1]
            results |= {PriceKey(aggregator, token): answer for token in tokens}
        parts = tokens_by_oracle(failed, 1)
    return {price: _quote(price, result, asked[price]) for price, result in results.items()}


def price_failure(quote: Quote, close_time: int) -> str | None:
    """Why a quote is not a valid price at the close time (unix seconds); None if it is.

    The reason is the aggregator's verdict when it was called, or else the token's own limit of age.
    """
    if quote.failure is not None or quote.price is None or quote.timestamp is None or quote.max_age is None:
        return quote.failure or "the price aggregator gave no price"
    age = close_time - quote.timestamp
    if age > quote.max_age:
        return f"the price is {age} s old, more than the {quote.max_age} s that the price aggregator allows this token"
    if age < -MAX_FUTURE_SECONDS:
        return f"the price is of {-age} s after the ledger, more than {MAX_FUTURE_SECONDS} s"
    return None


def _quote(asked: PriceKey, result: CallResult, oracle: Entry | None) -> Quote:
    """The quote with the token's limit of age. There is no price if the limit cannot be read."""
    if oracle is None:
        return Quote(*asked, failure="the price aggregator has no oracle for this token")
    if result.value is None:
        return Quote(*asked, failure=f"quotes() failed: {result.reason}", is_known=result.refused)
    with Barrier() as barrier:
        statuses = dict(expect(result.value, scval.MAP, "quotes()") or ())
        if price_key(asked.token) not in statuses:
            return Quote(*asked, failure="quotes() gave no status of this token")
        status = Fields.of(statuses[price_key(asked.token)], "quotes()")
        price, time = status.i128("final_wad"), status.u64("price_timestamp")
        verdict = _verdict(status, price)
        limit = None if verdict else Fields.of(oracle.value, "the limit of age: Oracle").u64("max_price_stale_seconds")
        return Quote(*asked, WAD_DECIMALS, price, time, verdict, limit)
    return Quote(*asked, failure=barrier.failure, is_known=False)


def _verdict(status: Fields, price: int) -> str | None:
    """Why a status is not valid; None if it is. The reasons have the order in which the aggregator checks them."""
    valid, stale, deviation = (status.boolean(name) for name in ("valid", "stale", "deviation"))
    if valid and not stale and not deviation:
        return None if price > 0 else f"the price is {price}, not above zero"
    source_prices = [status.i128("primary_wad"), status.i128("secondary_wad")]
    if not any(source_prices) and not status.u64("price_timestamp"):
        return "the price aggregator could not get a price"
    if stale:
        return "the price aggregator says that the price is stale"
    if deviation:
        how = "gave one price of its two" if 0 in source_prices else "says that its two sources deviate too much"
        return f"the price aggregator {how}"
    if price <= 0:
        return f"the price is {price}, not above zero"
    return "the price aggregator says that the price is outside the bounds that it allows this token"
