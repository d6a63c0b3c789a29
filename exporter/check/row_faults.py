"""What a pool snapshot says against itself, and how its value follows from its amounts."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.tree.pools import PoolSnapshot

BPS = 10_000

MAX_DIGITS = 100
"""Of an amount or a price: those of contracts have 39, and Python refuses to convert more than 4,300 at once."""

MAX_EXPONENT = 1_000
"""No token has this many decimals; the value of one that says so is not computed."""


def number(digits: str | None) -> int:
    """The integer of an amount; 0 for null, and for one longer than any number of a contract (`contradictions`)."""
    return 0 if digits is None or len(digits) > MAX_DIGITS else int(digits)


def contradictions(row: PoolSnapshot) -> Iterator[str]:
    """What a snapshot says against itself: fields that follow from others by the definitions of the API."""
    for name in ("total_supplied", "total_borrowed", "tvl_usd_cents", "oracle_price_usd"):
        if len(getattr(row, name) or "") > MAX_DIGITS:
            yield f"{name} has more than {MAX_DIGITS} characters"
            return
    supplied, borrowed = number(row.total_supplied), number(row.total_borrowed)
    utilization = borrowed * BPS // supplied if supplied else 0
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if (row.oracle_price_usd is None) != (row.tvl_usd_cents is None):
        yield "oracle_price_usd and tvl_usd_cents must be null together"
    elif row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        least = value_in_cents(supplied, row.oracle_price_usd, row.decimals)
        if int(row.tvl_usd_cents) < least:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {least}"


def value_in_cents(amount: int, price: str, decimals: int) -> int:
    """What an amount in base units is worth at a printed price: floor(amount * price * 100 / 10^decimals)."""
    whole, _, fraction = price.partition(".")
    exponent = decimals + len(fraction)
    if len(price) > MAX_DIGITS or exponent > MAX_EXPONENT:
        return 0
    return int(amount * int(whole + fraction) * 100 // 10**exponent)
