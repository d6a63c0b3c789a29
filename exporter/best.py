"""Finds the pools with the best rates, by one rule for the site, the API, the docs and assistants.

A pool counts for lending or borrowing if its market is listed, it is not known to be insolvent, and its contract lets
anybody do that now. Its price must be valid, at most `PRICE_SECONDS` old, and not far from the prices of other listed
markets. It must be worth at least `MIN_VALUE_CENTS`, and have room for that much more. These pools are ranked by the
yield compounded daily. A reward that is funded and has a price is added for lending, and subtracted for borrowing. If
two pools are equal, the pool of greater value comes first.

A market that is not listed never counts, and its prices are not compared with others, because anybody can create one
with an oracle of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import polars as pl

MIN_VALUE_CENTS = 100_000
"""The smallest value of a pool that counts, in US cents."""

PRICE_SECONDS = 86_400
"""The greatest age of a price when the ledger closes, in seconds."""

MAX_PRICE_RATIO = 2
"""A price is odd if it is more than this many times the median of other listed markets, or the median is of it."""

MIN_OTHER_MARKETS = 2
"""The smallest number of other listed markets with which a price is compared."""

Side = Literal["supply", "borrow"]
SIDES: tuple[Side, ...] = ("supply", "borrow")

ODD_PRICE = "odd price"
NOT_LISTED = "not listed"
INSOLVENT = "insolvent"

REASONS = (NOT_LISTED, INSOLVENT, "closed", "not known", "no price", "old price", ODD_PRICE, "too small", "no room")
"""The reasons why a pool does not count, in the order in which they are checked."""


def with_ranks(pools: pl.DataFrame) -> pl.DataFrame:
    """Add two columns for each side to a pools frame.

    ``{side}_rank_bps`` is the rate by which pools are ranked. ``no_{side}`` says why a pool does not count; null if it
    does.
    """
    odd = pools.with_columns(odd_prices(pools))
    ranked = odd.with_columns(
        expression for side in SIDES for expression in (_rank(side).alias(f"{side}_rank_bps"), _why_not(side))
    )
    return ranked.drop(ODD_PRICE)


def in_order(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """The rows that count, the best first."""
    return ranked.filter(pl.col(f"no_{side}").is_null()).sort(
        f"{side}_rank_bps", "tvl_usd_cents", descending=[side == "supply", True], maintain_order=True
    )


def best_of_tokens(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """The best row of each token, among the rows that count."""
    return in_order(ranked, side).unique("token_address", keep="first", maintain_order=True)


def why_none_of_tokens(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """For a token without a row that counts: the row that passed the most checks. Its reason explains the token."""
    reason = pl.col(f"no_{side}")
    checks_passed = reason.replace_strict(list(REASONS), list(range(len(REASONS))), return_dtype=pl.Int64)
    none_counts = ranked.filter(reason.is_not_null().all().over("token_address"))
    closest_first = none_counts.sort(checks_passed, descending=True, maintain_order=True)
    return closest_first.unique("token_address", keep="first", maintain_order=True)


def is_listed() -> pl.Expr:
    """Whether the market of a row is listed. Rows of an earlier version do not say it, and count as listed."""
    return pl.col("listed").fill_null(value=True)


def is_insolvent() -> pl.Expr:
    """Whether the pool of a row owes its suppliers more than it has. False if that is not known."""
    return (pl.col("shortfall") > 0).fill_null(value=False)


def odd_prices(pools: pl.DataFrame) -> pl.Series:
    """Whether the price in each row is far from the median of other listed markets. The column is named `ODD_PRICE`.

    Only fresh and valid prices of listed markets are compared, in exact integers. Each market counts once for a token;
    if it has several pools of the token, by the lower median of their prices. A price is not odd if there are fewer
    than `MIN_OTHER_MARKETS` others.
    """
    fresh = (_age() <= PRICE_SECONDS).fill_null(value=True)
    compared = is_listed() & pl.col("oracle_price").is_not_null() & fresh
    rows = pools.select("token_address", "market", "oracle_price", "oracle_decimals", compared.alias("compared")).rows()
    prices: dict[str, dict[str, list[int]]] = {}
    scales: dict[str, int] = {}
    for token, _, _, decimals, is_compared in rows:
        if is_compared:
            scales[token] = max(scales.get(token, 0), decimals)

    def scaled(token: str, price: int, decimals: int) -> int:
        exact: int = int(price) * 10 ** (scales[token] - decimals)
        return exact

    for token, market, price, decimals, is_compared in rows:
        if is_compared:
            prices.setdefault(token, {}).setdefault(market, []).append(scaled(token, price, decimals))
    own = {
        token: {market: _lower_median(market_prices) for market, market_prices in by_market.items()}
        for token, by_market in prices.items()
    }
    ordered = {token: sorted(markets.values()) for token, markets in own.items()}
    odd = [
        is_compared and _is_odd(scaled(token, price, decimals), own[token][market], ordered[token])
        for token, market, price, decimals, is_compared in rows
    ]
    return pl.Series(ODD_PRICE, odd, pl.Boolean())


def _lower_median(numbers: Sequence[int]) -> int:
    return sorted(numbers)[(len(numbers) - 1) // 2]


def _is_odd(price: int, own: int, ordered: Sequence[int]) -> bool:
    """Whether a price is odd. ``ordered`` are the prices of all markets, including the market's ``own``."""
    count = len(ordered) - 1
    if count < MIN_OTHER_MARKETS:
        return False
    own_index = bisect_left(ordered, own)

    def other(index: int) -> int:
        """The price at an index of the ordered prices without the market's own."""
        return ordered[index if index < own_index else index + 1]

    twice_median = other((count - 1) // 2) + other(count // 2)
    return 2 * price > MAX_PRICE_RATIO * twice_median or 2 * price * MAX_PRICE_RATIO < twice_median


def _rank(side: Side) -> pl.Expr:
    if side == "supply":
        return pl.col("total_supply_apy_bps")
    return pl.col("comparable_borrow_apy_bps") - pl.col("borrow_reward_apr_bps").fill_null(0)


def _age() -> pl.Expr:
    return pl.col("ledger_close_time") - pl.col("price_timestamp")


def _why_not(side: Side) -> pl.Expr:
    gate, room = pl.col(f"can_{side}"), pl.col(f"available_to_{side}_usd_cents")
    if side == "borrow":
        room = room.fill_null(pl.col("supplied_usd_cents") - pl.col("borrowed_usd_cents"))
    fails = (
        ~is_listed(),
        is_insolvent(),
        ~gate,
        gate.is_null(),
        pl.col("tvl_usd_cents").is_null(),
        _age() > PRICE_SECONDS,
        pl.col(ODD_PRICE),
        pl.col("tvl_usd_cents") < MIN_VALUE_CENTS,
        room < MIN_VALUE_CENTS,
    )
    return pl.coalesce(pl.when(fail).then(pl.lit(reason)) for fail, reason in zip(fails, REASONS, strict=True)).alias(
        f"no_{side}"
    )
