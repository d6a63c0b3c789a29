"""Which pools have the best rates: one rule for the site, the API, the docs and assistants.

A pool counts for lending or borrowing if its contract lets anybody do that now, its price is valid and at most
`PRICE_SECONDS` old, it is worth at least `LEAST_VALUE`, and there is room for that much more. These pools are ranked by
the yield compounded daily, with the reward if that is funded and has a price: lending adds it, borrowing subtracts it.
Of equals the pool of greater value comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import polars as pl

LEAST_VALUE = 100_000
"""US cents. A pool of less value is not offered."""

PRICE_SECONDS = 86_400
"""The greatest age of a price at the close of the ledger."""

Side = Literal["supply", "borrow"]
SIDES: tuple[Side, ...] = ("supply", "borrow")

_REASONS = ("closed", "not known", "no price", "old price", "too small", "no room")


def with_ranks(pools: pl.DataFrame) -> pl.DataFrame:
    """Add to a pools frame ``{side}_rank_bps``, the rank, and ``no_{side}``, why a pool does not count, or null."""
    return pools.with_columns(
        expression for side in SIDES for expression in (_rank(side).alias(f"{side}_rank_bps"), _why_not(side))
    )


def best(ranked: Sequence[Mapping[str, Any]], side: Side) -> Mapping[str, Any] | None:
    """The best of rows `with_ranks`; None if none counts."""
    sign = 1 if side == "supply" else -1
    counted = (row for row in ranked if row[f"no_{side}"] is None)
    return max(counted, key=lambda row: (sign * row[f"{side}_rank_bps"], row["tvl_usd_cents"]), default=None)


def in_order(ranked: pl.DataFrame, side: Side) -> pl.DataFrame:
    """All rows that count, the best first."""
    return ranked.filter(pl.col(f"no_{side}").is_null()).sort(
        f"{side}_rank_bps", "tvl_usd_cents", descending=[side == "supply", True], maintain_order=True
    )


def why_none(ranked: Sequence[Mapping[str, Any]], side: Side) -> str:
    """Why no row counts: the reason of the row that passed the most checks."""
    return max((str(row[f"no_{side}"]) for row in ranked), key=_REASONS.index)


def _rank(side: Side) -> pl.Expr:
    if side == "supply":
        return pl.col("total_supply_apy_bps")
    return pl.col("comparable_borrow_apy_bps") - pl.col("borrow_reward_apr_bps").fill_null(0)


def _why_not(side: Side) -> pl.Expr:
    gate, room = pl.col(f"can_{side}"), pl.col(f"available_to_{side}_usd_cents")
    if side == "borrow":
        room = room.fill_null(pl.col("supplied_usd_cents") - pl.col("borrowed_usd_cents"))
    age = pl.col("ledger_close_time") - pl.col("price_timestamp")
    fails = (
        ~gate,
        gate.is_null(),
        pl.col("tvl_usd_cents").is_null(),
        age > PRICE_SECONDS,
        pl.col("tvl_usd_cents") < LEAST_VALUE,
        room < LEAST_VALUE,
    )
    return pl.coalesce(pl.when(fail).then(pl.lit(reason)) for fail, reason in zip(fails, _REASONS, strict=True)).alias(
        f"no_{side}"
    )
