"""Turns an oracle's quote into the published price and values of a pool, in its row of the pools frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from exporter.errors import Barrier, lasting
from exporter.exact import decimal_text
from exporter.ledger.oracles import Quote
from exporter.protocols.base import PriceLimits
from exporter.protocols.numbers import PoolFrameRow, SpokeTerms
from exporter.protocols.protocol import WithoutPrice
from exporter.tables import ALL_GATES, GATES, MAX_DECIMAL, VALID_PRICE

_MAX_TIME = 2**63 - 1

ABSURD_COLLATERAL = "no price is used: the pool's plain collateral has more than 38 digits, so it has no value"
ABSURD_PRICE = "the price is too large: the pool's value, or the sum of its market's, has more than 38 digits"

ValueName = Literal[
    "tvl_usd_cents",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "available_usd_cents",
    "available_to_supply_usd_cents",
    "available_to_borrow_usd_cents",
    "supply_cap_usd_cents",
    "borrow_cap_usd_cents",
]
"""The columns of values in US cents."""

AmountName = Literal[
    "total_supplied",
    "total_collateral",
    "total_borrowed",
    "available_to_withdraw",
    "available_to_supply",
    "available_to_borrow",
    "supply_cap",
    "borrow_cap",
]
"""The columns of amounts that have a value."""


class Price(NamedTuple):
    """A price with its decimals and time, or the reason why there is none.

    If there is no price and it ``is_known``, the market itself has none either. Otherwise the reading failed, and the
    market may have a price.
    """

    reason: str
    is_known: bool = True
    price: int | None = None
    decimals: int | None = None
    timestamp: int | None = None


NO_ORACLE = Price("the market has no oracle")
NOT_ASKED = Price("the market's oracle was not asked", is_known=False)


def judge(quote: Quote, failure_of: Callable[[Quote], str | None]) -> Price:
    """The price that the protocol's rule takes from a quote.

    A price that is too large for the history counts as no price, so that it does not cost the pool its row.
    """
    with Barrier() as barrier:
        failure = failure_of(quote)
    if barrier.failure:
        return Price(barrier.failure, is_known=False)
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
    """The price, or the reason why the market's own limits refuse it."""
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


def set_price(row: PoolFrameRow, price: Price, without_price: WithoutPrice) -> None:
    """Set a pool's price. Without one, close what its market then refuses, and give the reason in ``can_reason``.

    If only the reading failed, the market may have a price, and it is not known whether these gates are open.
    """
    valid = price.price is not None and price.decimals is not None
    row["oracle_decimals"] = price.decimals
    row["oracle_price"] = price.price
    row["price_timestamp"] = price.timestamp
    row["oracle_price_usd"] = decimal_text(price.price or 0, price.decimals or 0) if valid else None
    row["price_reason"] = price.reason
    if valid:
        return
    why, note = f"whether the market has a price of the token is not known: {price.reason}", without_price.note
    if price.is_known:
        why = f"the market has no valid price of the token: {price.reason}{note and f'; {note}'}"
    closed = [gate for gate in without_price.gates if _closes(row[gate], price)]
    for gate in closed:
        row[gate] = without_price.gates[gate] if price.is_known else None
    if closed:
        row["can_reason"] = why if row["can_reason"] is None else f"{row['can_reason']}; {why}"


def spokes_with_price(
    spokes: Sequence[SpokeTerms], price: Price, without_price: WithoutPrice
) -> tuple[SpokeTerms, ...]:
    """The spokes of a pool. Without a price, what the market then refuses is closed in them, or not known."""
    if price.price is not None and price.decimals is not None:
        return tuple(spokes)
    return tuple(_spoke_without_price(spoke, price, without_price) for spoke in spokes)


def _spoke_without_price(spoke: SpokeTerms, price: Price, without_price: WithoutPrice) -> SpokeTerms:
    changes: dict[str, bool | int | None] = {}
    for gate, without in without_price.gates.items():
        if not _closes(getattr(spoke, gate), price):
            continue
        changes[gate] = without if price.is_known else None
        amount = GATES.get(gate)
        if amount is not None:
            changes[amount] = None if changes[gate] is None else 0
    return replace(spoke, **changes)


def _closes(is_open: bool | None, price: Price) -> bool:
    """Whether a missing price changes a gate. It does if the gate is open.

    It also does if the gate's state is not known, and the market itself has no price.
    """
    return bool(is_open) or (price.is_known and is_open is None)


def close_frozen(row: PoolFrameRow, reason: str) -> None:
    """Close all operations of a pool. The reason is the network's, which the contract does not know."""
    for gate in ALL_GATES:
        row[gate] = False
    row["can_reason"] = reason if row["can_reason"] is None else f"{reason}; {row['can_reason']}"


def frozen_spoke(spoke: SpokeTerms) -> SpokeTerms:
    """The spoke with all operations closed."""
    return replace(spoke, **dict.fromkeys(ALL_GATES, False), available_to_supply=0, available_to_borrow=0)


VALUES: dict[ValueName, tuple[AmountName, ...]] = {
    "tvl_usd_cents": ("total_supplied", "total_collateral"),
    "supplied_usd_cents": ("total_supplied",),
    "borrowed_usd_cents": ("total_borrowed",),
    "available_usd_cents": ("available_to_withdraw",),
    "available_to_supply_usd_cents": ("available_to_supply",),
    "available_to_borrow_usd_cents": ("available_to_borrow",),
    "supply_cap_usd_cents": ("supply_cap",),
    "borrow_cap_usd_cents": ("borrow_cap",),
}
"""The columns whose sum each value is computed from."""


def set_values(rows: Sequence[PoolFrameRow]) -> None:
    """Set the values in US cents: floor(amount * price * 100 / 10^(all decimals)) for each of `VALUES`.

    If a value, or the sum of ``tvl_usd_cents`` over a market, has more than 38 digits, a price is absurd. It is then
    removed, and ``price_reason`` says so. The same happens if the plain collateral alone has more than 38 digits.
    """
    priced_by_market: dict[str, list[tuple[PoolFrameRow, int]]] = {}
    for row in rows:
        _set_values(row)
        tvl = row["tvl_usd_cents"]
        if row["total_collateral"] > MAX_DECIMAL:
            _remove_price(row, ABSURD_COLLATERAL)
        elif any(abs(row[name] or 0) > MAX_DECIMAL for name in VALUES):
            _remove_price(row, ABSURD_PRICE)
        elif tvl is not None:
            priced_by_market.setdefault(row["market"], []).append((row, tvl))
    for priced in priced_by_market.values():
        if sum(tvl for _, tvl in priced) > MAX_DECIMAL:
            # At least one of n pools has more than an n-th of the bound. Without all such pools the sum fits.
            for row, tvl in priced:
                if tvl > MAX_DECIMAL // len(priced):
                    _remove_price(row, ABSURD_PRICE)


def _set_values(row: PoolFrameRow) -> None:
    price, decimals = row["oracle_price"], row["oracle_decimals"]
    for name, amount_names in VALUES.items():
        amounts = [amount for amount in (row[each] for each in amount_names) if amount is not None]
        if price is None or decimals is None or len(amounts) < len(amount_names):
            row[name] = None
        else:
            row[name] = sum(amounts) * price * 100 // 10 ** (row["decimals"] + decimals)


def _remove_price(row: PoolFrameRow, reason: str) -> None:
    if row["oracle_price"] is not None:
        row["price_reason"] = reason
    for name in VALUES:
        row[name] = None
    row["oracle_decimals"] = row["oracle_price"] = row["price_timestamp"] = row["oracle_price_usd"] = None
