"""The rule for prices that most markets have: there is one, above zero, and not too old."""

from __future__ import annotations

from exporter.ledger.oracles import Quote
from exporter.numbers.wording import lasting


def price_failure(quote: Quote, close_time: int, max_age: int, *, future: bool = True) -> str | None:
    """Why a quote is not a valid price at the close time (unix seconds); None when it is.

    Args:
        quote: what the oracle said.
        close_time: that of the run's ledger.
        max_age: in seconds; a price of exactly this age is good.
        future: whether a price of after the ledger is good.
    """
    if quote.price is None or quote.timestamp is None:
        return quote.failure or "the oracle gave no price"
    if quote.price <= 0:
        return f"the price is {quote.price}, not above zero"
    age = close_time - quote.timestamp
    if age > max_age:
        return f"the price is {lasting(age)} old, more than {lasting(max_age)}"
    if age < 0 and not future:
        return f"the price is of {lasting(-age)} after the ledger"
    return None
