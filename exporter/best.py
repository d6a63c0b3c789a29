"""Which pools have the best rates: one rule for the site, the API, the docs and assistants.

A pool counts for lending or borrowing if its market is listed, its contract lets anybody do that now, its price is
valid, at most `PRICE_SECONDS` old and not far off what other listed markets say, it is worth at least `LEAST_VALUE`,
and there is room for that much more. These pools are ranked by the yield compounded daily, with the reward if that is
funded and has a price: lending adds it, borrowing subtracts it. Of equals the pool of greater value comes first.

A market without a listing never counts, and says nothing of the prices of others: anybody can create one, with an
oracle of his own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import polars as pl

LEAST_VALUE = 100_000
"""US cents. A pool of less value is not offered."""

PRICE_SECONDS = 86_400
"""The greatest age of a price at the close of the ledger."""

MOST_TIMES_OFF = 2
"""A price of more than this times the median of other listed markets, or of less than that part of it, is odd."""

LEAST_OTHERS = 2
"""From how many other listed markets on their median says what a price should be near."""

Side = Literal["supply", "borrow"]
SIDES: tuple[Side, ...] = ("supply", "borrow")

ODD_PRICE = "odd price"
NOT_LISTED = "not listed"

REASONS = (NOT_LISTED, "closed", "not known", "no price", "old price", ODD_PRICE, "too small", "no room")
"""Why a pool does not count, in the order in which it is checked."""


def with_ranks(pools: pl.DataFrame) -> pl.DataFrame:
    """Add to a pools frame ``{side}_rank_bps``, the rank, and ``no_{side}``, why a pool does not count, or null."""
    odd = pools.with_columns(odd_prices(pools))
    ranked = odd.with_columns(
        expression for side in SIDES for expression in (_rank(side).alias(f"{side}_rank_bps"), _why_not(side))
    )
    return ranked.drop(ODD_PRICE)


def in_order(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """All rows that count, the best first."""
    return ranked.filter(pl.col(f"no_{side}").is_null()).sort(
        f"{side}_rank_bps", "tvl_usd_cents", descending=[side == "supply", True], maintain_order=True
    )


def best_of_tokens(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """The best row of each token that has a row which counts."""
    return in_order(ranked, side).unique("token_address", keep="first", maintain_order=True)


def why_none_of_tokens(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """The row that passed the most checks, of each token that has no row which counts. Its reason is why."""
    reason = pl.col(f"no_{side}")
    checks_passed = reason.replace_strict(list(REASONS), list(range(len(REASONS))), return_dtype=pl.Int64)
    none_counts = ranked.filter(reason.is_not_null().all().over("token_address"))
    closest_first = none_counts.sort(checks_passed, descending=True, maintain_order=True)
    return closest_first.unique("token_address", keep="first", maintain_order=True)


def is_listed() -> pl.Expr:
    """Whether a row is of a listed market. Rows of an earlier version do not say, and count as listed."""
    return pl.col("listed").fill_null(value=True)


def odd_prices(pools: pl.DataFrame) -> pl.Series:
    """Which rows of a pools frame have a price far off the median of other listed markets; it is called `ODD_PRICE`.

    Only fresh and valid prices of listed markets are compared, in exact integers, each market counting once for a
    token; with several pools of it, by the lower median of theirs. Fewer than `LEAST_OTHERS` others say nothing.
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
        token: {market: sorted(found)[(len(found) - 1) // 2] for market, found in markets.items()}
        for token, markets in prices.items()
    }
    ordered = {token: sorted(markets.values()) for token, markets in own.items()}
    odd = [
        is_compared and _is_odd(scaled(token, price, decimals), own[token][market], ordered[token])
        for token, market, price, decimals, is_compared in rows
    ]
    return pl.Series(ODD_PRICE, odd, pl.Boolean())


def _is_odd(price: int, own: int, ordered: Sequence[int]) -> bool:
    """Whether a price is odd; ``ordered`` are the prices of all markets, among them the market's ``own``."""
    count = len(ordered) - 1
    if count < LEAST_OTHERS:
        return False
    place = bisect_left(ordered, own)

    def other(index: int) -> int:
        return ordered[index if index < place else index + 1]

    twice_median = other((count - 1) // 2) + other(count // 2)
    return 2 * price > MOST_TIMES_OFF * twice_median or 2 * price * MOST_TIMES_OFF < twice_median


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
        ~gate,
        gate.is_null(),
        pl.col("tvl_usd_cents").is_null(),
        _age() > PRICE_SECONDS,
        pl.col(ODD_PRICE),
        pl.col("tvl_usd_cents") < LEAST_VALUE,
        room < LEAST_VALUE,
    )
    return pl.coalesce(pl.when(fail).then(pl.lit(reason)) for fail, reason in zip(fails, REASONS, strict=True)).alias(
        f"no_{side}"
    )
