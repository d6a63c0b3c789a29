"""Histories in plain Python: what every bucket, page and cursor must be, computed anew from all observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LENGTHS = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400, "1w": 604_800}
PAGE_BUCKETS = 48

Place = tuple[str, str]


@dataclass(frozen=True)
class Observation:
    """One pool at one ledger."""

    market: str
    pool: str
    ledger: int
    time: int
    total_supplied: int
    total_borrowed: int
    supply_apy_bps: int
    borrow_apy_bps: int
    utilization_bps: int
    tvl_usd_cents: int | None
    price: tuple[int, int] | None
    """The price and its decimals."""

    @property
    def place(self) -> Place:
        return self.market, self.pool


def start_of(time: int, length: int) -> int:
    """When the bucket that holds a time began; weeks begin on Monday."""
    if length == LENGTHS["1w"]:
        day = time // 86_400
        weekday = datetime.fromtimestamp(time, UTC).weekday()
        return (day - weekday) * 86_400
    return time - time % length


def span_of(start: int, length: int) -> int:
    """Which page a bucket belongs to, as a number that ascends."""
    first_monday = 4 * 86_400
    return (start - (first_monday if length == LENGTHS["1w"] else 0)) // (length * PAGE_BUCKETS)


def mean(values: Sequence[int]) -> int:
    """The mean, rounded down."""
    return sum(values) // len(values)


def median(values: Iterable[int]) -> int:
    """The middle value, or the floor of the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2


def median_price(prices: Sequence[tuple[int, int]]) -> str | None:
    """The median at the most decimals, printed with all of them."""
    if not prices:
        return None
    decimals = max(own for _, own in prices)
    value = median(price * 10 ** (decimals - own) for price, own in prices)
    whole, fraction = divmod(value, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}" if decimals else str(whole)


def iso(seconds: int) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def buckets_of(observations: Iterable[Observation], length: int) -> dict[Place, list[dict[str, Any]]]:
    """Every bucket of every pool, ascending, as the API shows it."""
    groups: dict[Place, dict[int, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for item in observations:
        groups[item.place][start_of(item.time, length)].append(item)
    return {
        place: [_row(start, start + length, groups[place][start]) for start in sorted(groups[place])]
        for place in sorted(groups)
    }


def _row(start: int, end: int, members: Sequence[Observation]) -> dict[str, Any]:
    values = [item.tvl_usd_cents for item in members if item.tvl_usd_cents is not None]
    prices = [item.price for item in members if item.price is not None]
    return {
        "start_time": iso(start),
        "end_time": iso(end),
        "total_supplied": str(mean([item.total_supplied for item in members])),
        "total_borrowed": str(mean([item.total_borrowed for item in members])),
        "supply_apy_bps": median(item.supply_apy_bps for item in members),
        "borrow_apy_bps": median(item.borrow_apy_bps for item in members),
        "utilization_bps": median(item.utilization_bps for item in members),
        "tvl_usd_cents": str(mean(values)) if values else None,
        "oracle_price_usd": median_price(prices),
        "observation_count": len(members),
        "priced_count": len(prices),
        "first_ledger": min(item.ledger for item in members),
        "last_ledger": max(item.ledger for item in members),
    }


def pages_of(rows: Sequence[Mapping[str, Any]], length: int, now: int) -> list[list[Mapping[str, Any]]]:
    """How the buckets of a pool are cut into pages at a time, the newest page first.

    A page is the buckets of one span; the newest one has the open span and the newest span before it that has any.
    """
    spans: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        start = int(datetime.fromisoformat(row["start_time"]).timestamp())
        spans[span_of(start, length)].append(row)
    opened = span_of(start_of(now, length), length)
    past = sorted(span for span in spans if span < opened)
    newest = [row for span in (*past[-1:], opened) for row in spans.get(span, [])]
    return [newest, *(spans[span] for span in reversed(past[:-1]))]
