"""From an oracle's quote to a published price and value, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

import msgspec
import polars as pl

from exporter import exact
from exporter.errors import lasting
from exporter.ledger.oracles import Quote
from exporter.protocols.base import WithoutPrice
from exporter.protocols.containment import described
from exporter.tables import GATES, MAX_DECIMAL, SPOKES, VALID_PRICE

_MAX_TIME = 2**63 - 1

PRICE_SCHEMA: dict[str, pl.DataType] = {
    "oracle": pl.String(),
    "token_address": pl.String(),
    "oracle_decimals": pl.Int64(),
    "oracle_price": pl.Int128(),
    "price_timestamp": pl.Int64(),
    "oracle_price_usd": pl.String(),
    "price_reason": pl.String(),
    "price_is_known": pl.Boolean(),  # whether the market itself is without a price, where there is none
}

ABSURD_COLLATERAL = "no price is used: the pool's plain collateral has more than 38 digits, so it has no value"
_PRICE = ("oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd")

ABSURD_PRICE = "the price is too large: the pool's value, or the sum of its market's, has more than 38 digits"


def price_frame(quotes: Iterable[Quote], failure_of: Callable[[Quote], str | None]) -> pl.DataFrame:
    """One row for each quote: the valid price, or nulls and ``price_reason``, why there is none.

    ``failure_of`` is the protocol's own rule. A price or time that the history cannot hold is not a price either, so
    that it does not cost the pool its row. Columns: `PRICE_SCHEMA`.
    """
    rows: list[dict[str, object]] = []
    for quote in quotes:
        is_known = quote.is_known
        try:
            failure = failure_of(quote)
        except Exception as error:
            failure, is_known = described(error), False
        if failure is None and (quote.timestamp or 0) > _MAX_TIME:
            failure, is_known = f"the price's time {quote.timestamp} is beyond any time", False
        if failure is None and (quote.price or 0) > MAX_DECIMAL:
            failure, is_known = f"the price {quote.price} is too large: it has more than 38 digits", False
        row: dict[str, object] = {"oracle": quote.oracle, "token_address": quote.token, "price_is_known": is_known}
        if failure is None and quote.price is not None and quote.decimals is not None:
            row |= {
                "oracle_decimals": quote.decimals,
                "oracle_price": quote.price,
                "price_timestamp": quote.timestamp,
                "oracle_price_usd": exact.printed_price(quote.price, quote.decimals),
                "price_reason": VALID_PRICE,
            }
        else:
            row["price_reason"] = failure or "the oracle gave no price"
        rows.append(row)
    return exact.frame({name: [row.get(name) for row in rows] for name in PRICE_SCHEMA}, PRICE_SCHEMA)


def refuse_older(pools: pl.DataFrame, limits: Mapping[tuple[str, str], int], close_time: int) -> pl.DataFrame:
    """Take away the prices that are older than their market's own limit, in seconds by market and pool."""
    reasons: list[str | None] = []
    for market, pool, timestamp in pools.select("market", "pool", "price_timestamp").iter_rows():
        limit, age, reason = limits.get((market, pool)), 0 if timestamp is None else close_time - timestamp, None
        if limit is not None and age > limit:
            reason = f"the price is {lasting(age)} old, more than the market's own limit of {lasting(limit)}"
        reasons.append(reason)
    why = pl.Series("price_reason", reasons, dtype=pl.String)
    return pools.with_columns(
        *(pl.when(why.is_null()).then(pl.col(name)).alias(name) for name in _PRICE),
        why.fill_null(pools["price_reason"]),
    )


def close_unpriced(pools: pl.DataFrame, without_price: WithoutPrice) -> pl.DataFrame:
    """Close what a market refuses without a price of the pool's token, in each spoke too; ``can_reason`` says so.

    Where only the reading failed, so that the market may have a price, it is not known whether they are open.
    """
    missing = pools["price_reason"] != VALID_PRICE
    refused = missing & pools["price_is_known"]
    closing = {name: refused & pools[name].fill_null(True) for name in without_price.gates}
    unsure = {name: missing & ~refused & pools[name].fill_null(False) for name in without_price.gates}
    changed = reduce(or_, (*closing.values(), *unsure.values()), missing & False)
    if not changed.any():
        return pools
    note = f"; {without_price.note}" if without_price.note else ""
    reason = (
        pl.when(refused)
        .then(pl.format("the market has no valid price of the token: {}{}", "price_reason", pl.lit(note)))
        .otherwise(pl.format("whether the market has a price of the token is not known: {}", "price_reason"))
    )
    pools = pools.with_columns(
        *(
            pl.when(closing[name])
            .then(pl.lit(is_open, pl.Boolean()))
            .when(~unsure[name])
            .then(pl.col(name))
            .alias(name)
            for name, is_open in without_price.gates.items()
        ),
        pl.when(changed)
        .then(pl.concat_str("can_reason", reason, separator="; ", ignore_nulls=True))
        .otherwise(pl.col("can_reason"))
        .alias("can_reason"),
    )
    if SPOKES not in pools.columns:
        return pools
    spokes = [
        _closed_spokes(spokes, without_price.gates, is_known) if spokes and is_missing else spokes
        for spokes, is_missing, is_known in zip(pools[SPOKES], missing, pools["price_is_known"], strict=True)
    ]
    return pools.with_columns(pl.Series(SPOKES, spokes, dtype=pl.String))


def _closed_spokes(shown: str, gates: Mapping[str, bool | None], is_known: bool) -> str:
    """The spokes as JSON, with these gates closed, or not known unless they are closed."""
    spokes = msgspec.json.decode(shown)
    for spoke in spokes:
        for name, is_open in gates.items():
            if is_known or spoke[name]:
                spoke[name] = is_open if is_known else None
                if name in GATES:
                    spoke[GATES[name]] = None if spoke[name] is None else "0"
    return msgspec.json.encode(spokes).decode()


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


def with_values(pools: pl.DataFrame) -> pl.DataFrame:
    """Add the values in US cents: floor(amount * price * 100 / 10^(all decimals)) for each of `VALUES`.

    Where one of them, or the sum of ``tvl_usd_cents`` over the market, has more than 38 digits, a price is absurd: it
    is taken away, and ``price_reason`` says so. So it is where the plain collateral alone has more.
    """
    large = pools["total_collateral"] > MAX_DECIMAL
    needed = {"oracle_price", "decimals", "oracle_decimals", *chain(*VALUES.values())}
    worth = [_values(row) for row in pools.select(needed).iter_rows(named=True)]
    absurd = {
        place for place, values in enumerate(worth) if max(map(abs, filter(None, values)), default=0) > MAX_DECIMAL
    }
    absurd.update(large.arg_true())
    by_market: dict[str, dict[int, int]] = {}
    for place, (market, (tvl, *_)) in enumerate(zip(pools["market"], worth, strict=True)):
        if tvl is not None and place not in absurd:
            by_market.setdefault(market, {})[place] = tvl
    for inside in by_market.values():
        if sum(inside.values()) > MAX_DECIMAL:  # then one is above an n-th of it, and without all of those it is not
            absurd |= {place for place, tvl in inside.items() if tvl > MAX_DECIMAL // len(inside)}
    pools = pools.with_columns(
        exact.column([None if place in absurd else values[index] for place, values in enumerate(worth)], name)
        for index, name in enumerate(VALUES)
    )
    bad = pl.Series([place in absurd for place in range(pools.height)], dtype=pl.Boolean)
    reason = pl.when(large).then(pl.lit(ABSURD_COLLATERAL)).otherwise(pl.lit(ABSURD_PRICE))
    return pools.with_columns(
        *(pl.when(~bad).then(pl.col(name)).alias(name) for name in _PRICE),
        pl.when(bad & pools["oracle_price"].is_not_null())
        .then(reason)
        .otherwise(pl.col("price_reason"))
        .alias("price_reason"),
    )


def _values(row: Mapping[str, Any]) -> list[int | None]:
    """The values of a pool, in the order of `VALUES`; None for what it does not have, all where it has no price."""
    if row["oracle_price"] is None:
        return [None] * len(VALUES)
    price, divisor = row["oracle_price"] * 100, 10 ** (row["decimals"] + row["oracle_decimals"])
    given = ([row[name] for name in amounts] for amounts in VALUES.values())
    return [None if None in amounts else sum(amounts) * price // divisor for amounts in given]
