"""From an oracle's quote to the published price and values of pools, which are rows of the pools frame as dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from exporter.errors import lasting
from exporter.exact import printed_price
from exporter.ledger.oracles import Quote
from exporter.protocols.base import PriceLimits, WithoutPrice
from exporter.protocols.containment import described
from exporter.tables import GATES, MAX_DECIMAL, SPOKES, VALID_PRICE

_MAX_TIME = 2**63 - 1

ABSURD_COLLATERAL = "no price is used: the pool's plain collateral has more than 38 digits, so it has no value"
ABSURD_PRICE = "the price is too large: the pool's value, or the sum of its market's, has more than 38 digits"

Row: TypeAlias = dict[str, Any]


class Price(NamedTuple):
    """A price with its decimals and time, or why there is none; ``is_known``: that the market itself has none then."""

    reason: str
    is_known: bool = True
    price: int | None = None
    decimals: int | None = None
    timestamp: int | None = None


NO_ORACLE = Price("the market has no oracle")
NOT_ASKED = Price("the market's oracle was not asked", is_known=False)


def judge(quote: Quote, failure_of: Callable[[Quote], str | None]) -> Price:
    """The price in a quote by the protocol's rule. One that the history cannot hold is not a price: it costs no row."""
    try:
        failure = failure_of(quote)
    except Exception as error:
        return Price(described(error), is_known=False)
    if failure is not None:
        return Price(failure, quote.is_known)
    if quote.price is None or quote.decimals is None:
        return Price("the oracle gave no price", quote.is_known)
    if (quote.timestamp or 0) > _MAX_TIME:
        return Price(f"the price's time {quote.timestamp} is beyond any time", is_known=False)
    if quote.price > MAX_DECIMAL:
        return Price(f"the price {quote.price} is too large: it has more than 38 digits", is_known=False)
    return Price(VALID_PRICE, quote.is_known, quote.price, quote.decimals, quote.timestamp)


def within_limits(price: Price, limits: PriceLimits | None, close_time: int) -> Price:
    """The price, unless its market's own limits refuse it."""
    if limits is None or price.timestamp is None:
        return price
    age = close_time - price.timestamp
    if limits.max_age is not None and age > limits.max_age:
        own = lasting(limits.max_age)
        return Price(f"the price is {lasting(age)} old, more than the market's own limit of {own}")
    if limits.refuses_future and age < 0:
        return Price(f"the price is of {lasting(-age)} after the ledger, which the market refuses")
    if limits.decimals not in (None, price.decimals):
        return Price(f"the market's oracle has {price.decimals} decimals, and the market takes {limits.decimals} only")
    return price


def set_price(row: Row, price: Price, without_price: WithoutPrice) -> None:
    """Set a pool's price, and close what its market refuses without one, in each spoke too; ``can_reason`` says so.

    Where only the reading failed, so that the market may have a price, it is not known whether they are open.
    """
    valid = price.price is not None and price.decimals is not None
    row |= {
        "oracle_decimals": price.decimals,
        "oracle_price": price.price,
        "price_timestamp": price.timestamp,
        "oracle_price_usd": printed_price(price.price or 0, price.decimals or 0) if valid else None,
        "price_reason": price.reason,
    }
    if valid:
        return
    why, note = f"whether the market has a price of the token is not known: {price.reason}", without_price.note
    if price.is_known:
        why = f"the market has no valid price of the token: {price.reason}{note and f'; {note}'}"
    changed = _close(row, without_price.gates, price.is_known)
    if changed:
        row["can_reason"] = why if row["can_reason"] is None else f"{row['can_reason']}; {why}"
    for spoke in row.get(SPOKES, ()):
        for name in _close(spoke, without_price.gates, price.is_known):
            if name in GATES:
                spoke[GATES[name]] = None if spoke[name] is None else "0"


_OPERATIONS = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")


def close_frozen(row: Row, reason: str) -> None:
    """Close all operations of a pool, and of each spoke, for a reason that no contract knows."""
    row.update(dict.fromkeys(_OPERATIONS, False))
    row["can_reason"] = reason if row["can_reason"] is None else f"{reason}; {row['can_reason']}"
    for spoke in row.get(SPOKES, ()):
        for name in _OPERATIONS:
            if name in spoke:
                spoke[name] = False
                if name in GATES:
                    spoke[GATES[name]] = "0"


def _close(gated: Row, gates: Mapping[str, bool | None], is_known: bool) -> list[str]:
    """Close these gates, or say that they are not known where they are open; gives their names."""
    names = [name for name in gates if gated[name] or (is_known and gated[name] is None)]
    gated.update({name: gates[name] if is_known else None for name in names})
    return names


VALUES = {
    "tvl_usd_cents": ("total_supplied", "total_collateral"),
    "supplied_usd_cents": ("total_supplied",),
    "borrowed_usd_cents": ("total_borrowed",),
    "available_usd_cents": ("available_to_withdraw",),
    "available_to_supply_usd_cents": ("available_to_supply",),
    "available_to_borrow_usd_cents": ("available_to_borrow",),
    "supply_cap_usd_cents": ("supply_cap",),
    "borrow_cap_usd_cents": ("borrow_cap",),
}
"""The amounts whose sum each value is of."""


def set_values(rows: Sequence[Row]) -> None:
    """Set the values in US cents: floor(amount * price * 100 / 10^(all decimals)) for each of `VALUES`.

    Where one of them, or the sum of ``tvl_usd_cents`` over the market, has more than 38 digits, a price is absurd: it
    is taken away, and ``price_reason`` says so. So it is where the plain collateral alone has more.
    """
    by_market: dict[str, list[Row]] = {}
    for row in rows:
        row.update(_values(row))
        if row["total_collateral"] > MAX_DECIMAL:
            _take_price(row, ABSURD_COLLATERAL)
        elif any(abs(row[name] or 0) > MAX_DECIMAL for name in VALUES):
            _take_price(row, ABSURD_PRICE)
        elif row["tvl_usd_cents"] is not None:
            by_market.setdefault(row["market"], []).append(row)
    for inside in by_market.values():
        if sum(row["tvl_usd_cents"] for row in inside) > MAX_DECIMAL:
            for row in inside:  # one is above an n-th of it, and without all of those the sum fits
                if row["tvl_usd_cents"] > MAX_DECIMAL // len(inside):
                    _take_price(row, ABSURD_PRICE)


def _values(row: Row) -> dict[str, int | None]:
    if row["oracle_price"] is None:
        return dict.fromkeys(VALUES)
    price, divisor = row["oracle_price"] * 100, 10 ** (row["decimals"] + row["oracle_decimals"])
    given = {name: [row[amount] for amount in amounts] for name, amounts in VALUES.items()}
    return {name: None if None in amounts else sum(amounts) * price // divisor for name, amounts in given.items()}


def _take_price(row: Row, reason: str) -> None:
    if row["oracle_price"] is not None:
        row["price_reason"] = reason
    row |= dict.fromkeys((*VALUES, "oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd"))
