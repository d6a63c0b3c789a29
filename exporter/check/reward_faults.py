"""What rewards say against themselves: yields that do not follow from their pace, the prices and the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporter.check.row_faults import MAX_EXPONENT, number
from exporter.exact import JSON_INTEGER_MAX
from exporter.tables import MAX_DECIMAL, YEAR
from exporter.tree.documents import MarketBackstop
from exporter.tree.pools import PoolSnapshot
from exporter.tree.values import RewardReason

_NOTHING = (RewardReason.NONE, RewardReason.NO_EMISSIONS, RewardReason.EXPIRED)


def reward_faults(row: PoolSnapshot, rewards: Mapping[str, Any]) -> Iterator[str]:
    """Of a pool, whose detail has ``rewards`` by the names of their fields."""
    price, places, token = (rewards[f"reward_{name}"] for name in ("price", "price_decimals", "token_decimals"))
    if {places is None, rewards["reward_price_source"] is None} != {price is None}:
        yield "$.rewards.reward_price must be there if and only if its decimals and its source are"
        return
    for side, total in (("supply", row.total_supplied), ("borrow", row.total_borrowed)):
        name, extra = f"$.rewards.{side}_reward", rewards["reward_decimals"]
        pace, year, found, reason = (
            rewards[f"{side}_reward_{part}"] for part in ("per_second", "per_year", "apr_bps", "reason")
        )
        yield from _amounts(name, pace, year, extra, found, reason)
        if reason != RewardReason.VALID or number(pace) == MAX_DECIMAL:  # a pace at its bound is that or more
            continue
        if None in (price, token, extra, row.oracle_price_usd) or not number(total):
            yield f"{name}_apr_bps is {found}, and has no price or no total to follow from"
            continue
        digits, _, fraction = (row.oracle_price_usd or "").partition(".")
        if max(places, token, extra, len(fraction)) > MAX_EXPONENT:
            continue
        paid = number(pace) * YEAR * number(price) * 10 ** (row.decimals + len(fraction) + 4)
        behind = 10 ** (extra + token + places) * number(total) * number(digits + fraction)
        expected = min(paid // behind, JSON_INTEGER_MAX) if behind else None
        if expected != found:
            yield f"{name}_apr_bps is {found}, but its pace, prices and total give {expected}"


def backstop_faults(backstop: MarketBackstop) -> Iterator[str]:
    """Of a market's backstop."""
    if backstop.shares is not None and backstop.queued_shares is not None:
        shares = number(backstop.shares)
        part = -(-number(backstop.queued_shares) * 10**7 // shares) if shares else 0
        if backstop.queued_part != str(part):
            yield f"$.backstop.queued_part is {backstop.queued_part!r}, but its shares give {str(part)!r}"
    yield from _amounts(
        "$.backstop.emission",
        backstop.emission_per_second,
        backstop.emission_per_year,
        backstop.emission_decimals,
        backstop.emission_apr_bps,
        backstop.emission_reason,
    )


def _amounts(
    name: str, pace: str | None, year: str | None, extra: int | None, found: int | None, reason: str
) -> Iterator[str]:
    nothing = reason in _NOTHING
    if (found is not None) != (nothing or reason == RewardReason.VALID) or (nothing and (found, pace) != (0, "0")):
        yield f"{name}_apr_bps is {found} at a pace of {pace}, but its reason is {reason!r}"
    if pace is None or extra is None or extra > MAX_EXPONENT:
        if year is not None:
            yield f"{name}_per_year is {year!r} without a pace"
    elif number(pace) != MAX_DECIMAL:
        expected = str(min(number(pace) * YEAR // 10**extra, MAX_DECIMAL))
        if year != expected:
            yield f"{name}_per_year is {year!r}, but its pace gives {expected!r}"
