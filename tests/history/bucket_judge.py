"""Histories in plain Python: what every bucket, page and cursor must be, computed again from all observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from typing import Any

from msgspec import Struct

LENGTHS = {"5m": 300, "1h": 3600, "1d": 86_400, "1w": 604_800}
PAGE_BUCKETS = {"5m": 36, "1h": 48, "1d": 48, "1w": 48}
SPANS = {"5m": 0, "1h": 4, "1d": 4, "1w": 3}
"""Whole spans before the newest one in the newest document."""

YEAR = 365 * 86_400

INDEX_DECIMALS = 12

Place = tuple[str, str]


class Observation(Struct, frozen=True):
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
    token: str
    protocol: str
    active: bool
    decimals: int
    price: tuple[int, int] | None
    """The price and its decimals."""
    listed: bool | None = True
    """Whether the pool's market was listed; None in rows that are older than that column, which count as listed."""

    def worth(self, amount: int) -> int:
        """An amount in US cents, rounded down; of one that has a price."""
        assert self.price is not None
        price, decimals = self.price
        return amount * price * 100 // int(10 ** (self.decimals + decimals))

    @property
    def supply_index(self) -> int:
        """The worth of a share of supply: it grows, and falls once in a while."""
        return 10**12 + self.time % 100_003 * 1_234

    @property
    def borrow_index(self) -> int:
        """The worth of a share of debt, which grows in the same way."""
        return 10**12 + self.time % 90_001 * 2_345

    @property
    def comparable_supply_apy_bps(self) -> int | None:
        """The yield on the common basis; older rows have none."""
        return None if self.listed is None else self.supply_apy_bps + self.time % 11

    @property
    def comparable_borrow_apy_bps(self) -> int | None:
        """The cost on the common basis; older rows have none."""
        return None if self.listed is None else self.borrow_apy_bps + self.time % 13

    @property
    def reward_index(self) -> int | None:
        """The reward of 10^decimals shares so far, with 14 decimals; now and then it is unknown."""
        return None if self.time % 7 == 3 else self.time * 10**9 + self.total_supplied % 10**8

    @property
    def place(self) -> Place:
        return self.market, self.pool


def start_of(time: int, length: int) -> int:
    """The beginning of the bucket that holds a time; weeks begin on Monday."""
    if length == LENGTHS["1w"]:
        day = time // 86_400
        weekday = datetime.fromtimestamp(time, UTC).weekday()
        return (day - weekday) * 86_400
    return time - time % length


def span_of(start: int, bucket: str) -> int:
    """The page that a bucket belongs to, as a number that ascends."""
    first_monday = 4 * 86_400
    return (start - (first_monday if bucket == "1w" else 0)) // (LENGTHS[bucket] * PAGE_BUCKETS[bucket])


def mean(values: Sequence[int]) -> int:
    """The mean, rounded down."""
    return sum(values) // len(values)


def median(values: Iterable[int]) -> int:
    """The middle value, or the floor of the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2


def median_of_known(values: Iterable[int | None]) -> int | None:
    """The median of what is known; null where nothing is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def median_price(prices: Sequence[tuple[int, int]]) -> str | None:
    """The median at the most decimals, printed with all of them."""
    if not prices:
        return None
    decimals = max(own for _, own in prices)
    value = median(price * 10 ** (decimals - own) for price, own in prices)
    whole, fraction = divmod(value, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}" if decimals else str(whole)


def realized(members: Sequence[Observation], index: Callable[[Observation], int]) -> int | None:
    """The yield of a share in a year of the same growth as from the first to the last ledger, in basis points."""
    first, *_, last = sorted(members, key=lambda item: item.ledger) * 2
    if first.time == last.time:
        return None
    growth, elapsed = Fraction(index(last), index(first)), last.time - first.time
    if YEAR % elapsed == 0 and YEAR // elapsed <= 365:
        return min(floor(growth ** (YEAR // elapsed) * 10_000) - 10_000, 2**53 - 1)
    with localcontext(prec=120):
        base = Decimal(growth.numerator) / growth.denominator
        return min(int(base ** (Decimal(YEAR) / elapsed) * 10_000) - 10_000, 2**53 - 1)


def realized_reward(members: Sequence[Observation]) -> str | None:
    """The reward tokens that one token got from the first to the last ledger, in 14 decimals."""
    first, *_, last = sorted(members, key=lambda item: item.ledger) * 2
    if first.time == last.time or first.reward_index is None or last.reward_index is None:
        return None
    paid = floor(Fraction((last.reward_index - first.reward_index) * 10**INDEX_DECIMALS, first.supply_index))
    return f"{paid // 10**14}.{paid % 10**14:014d}"


def interest(
    members: Sequence[Observation], before: Mapping[int, Observation], price: str | None
) -> dict[str, str | None]:
    """The interest since the previous observation of each one in a bucket, by its ledger, and the protocol's part."""
    pairs = [(before[item.ledger], item) for item in members if item.ledger in before]
    paid = [old.total_borrowed * (new.borrow_index - old.borrow_index) // old.borrow_index for old, new in pairs]
    gained = [old.total_supplied * (new.supply_index - old.supply_index) // old.supply_index for old, new in pairs]
    counted = [value for value in gained if abs(value) <= 10**34]
    small = [value for value in paid if abs(value) <= 10**34]
    total = sum(small) if paid and min(small, default=0) >= 0 else None
    part = None
    if total is not None and counted and min(counted) >= 0:
        part = max(total - sum(counted), 0)
    decimals = max(members, key=lambda item: item.ledger).decimals

    def cents(amount: int | None) -> str | None:
        if amount is None or price is None:
            return None
        value = floor(amount * Fraction(price) * 100 / 10**decimals)
        return str(value) if value < 10**38 else None

    return {
        "interest_paid": None if total is None else str(total),
        "interest_paid_usd_cents": cents(total),
        "interest_to_protocol": None if part is None else str(part),
        "interest_to_protocol_usd_cents": cents(part),
    }


def iso(seconds: int) -> str:
    """A time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def buckets_of(observations: Iterable[Observation], length: int) -> dict[Place, list[dict[str, Any]]]:
    """Every bucket of every pool, ascending, as the API shows it."""
    groups: dict[Place, dict[int, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    newest: dict[Place, Observation] = {}
    before: dict[Place, dict[int, Observation]] = defaultdict(dict)
    for item in sorted(observations, key=lambda item: item.ledger):
        groups[item.place][start_of(item.time, length)].append(item)
        if item.place in newest:
            before[item.place][item.ledger] = newest[item.place]
        newest[item.place] = item
    return {
        place: [_row(start, start + length, groups[place][start], before[place]) for start in sorted(groups[place])]
        for place in sorted(groups)
    }


def _row(start: int, end: int, members: Sequence[Observation], before: Mapping[int, Observation]) -> dict[str, Any]:
    values = [item.tvl_usd_cents for item in members if item.tvl_usd_cents is not None]
    prices = [item.price for item in members if item.price is not None]
    return {
        "start_time": iso(start),
        "end_time": iso(end),
        "total_supplied": str(mean([item.total_supplied for item in members])),
        "total_borrowed": str(mean([item.total_borrowed for item in members])),
        "supply_apy_bps": median(item.supply_apy_bps for item in members),
        "realized_supply_apy_bps": realized(members, lambda item: item.supply_index),
        "realized_borrow_apy_bps": realized(members, lambda item: item.borrow_index),
        "comparable_supply_apy_bps": median_of_known(item.comparable_supply_apy_bps for item in members),
        "comparable_borrow_apy_bps": median_of_known(item.comparable_borrow_apy_bps for item in members),
        **interest(members, before, median_price(prices)),
        "realized_supply_reward": realized_reward(members),
        "borrow_apy_bps": median(item.borrow_apy_bps for item in members),
        "utilization_bps": median(item.utilization_bps for item in members),
        "tvl_usd_cents": str(mean(values)) if values else None,
        "oracle_price_usd": median_price(prices),
        "observation_count": len(members),
        "priced_count": len(prices),
        "listed": max(members, key=lambda item: item.ledger).listed is not False,
        "first_ledger": min(item.ledger for item in members),
        "last_ledger": max(item.ledger for item in members),
    }


def totals_of(observations: Sequence[Observation], length: int) -> dict[Place, list[dict[str, Any]]]:
    """Every bucket of every market, token and protocol and of the network, ascending, with their plain counts."""
    groups: dict[Place, dict[tuple[str, str], list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    one_of = {item.place: item for item in observations}
    for pool, rows in buckets_of(observations, length).items():
        one = one_of[pool]
        for place in ("market", one.market), ("token", one.token), ("protocol", one.protocol), ("network", "network"):
            for row in rows:
                groups[place][row["start_time"], row["end_time"]].append(row)
    return {
        place: [
            {
                "start_time": start,
                "end_time": end,
                **_counts([row for row in rows if place[0] == "market" or row["listed"]], ""),
                **_counts([row for row in rows if place[0] != "market" and not row["listed"]], "unlisted_"),
                "listed": max(rows, key=lambda row: row["last_ledger"])["listed"] if place[0] == "market" else None,
                "first_ledger": min(row["first_ledger"] for row in rows),
                "last_ledger": max(row["last_ledger"] for row in rows),
            }
            for (start, end), rows in sorted(buckets.items())
        ]
        for place, buckets in groups.items()
    }


def _counts(rows: Sequence[Mapping[str, Any]], prefix: str) -> dict[str, object]:
    values = [int(row["tvl_usd_cents"]) for row in rows if row["tvl_usd_cents"] is not None]
    return {
        f"{prefix}pool_count": len(rows),
        f"{prefix}priced_count": len(values),
        f"{prefix}tvl_usd_cents": str(sum(values)) if values else None,
    }


def pages_of(rows: Sequence[Mapping[str, Any]], bucket: str, now: int) -> list[list[Mapping[str, Any]]]:
    """How the buckets of a history are cut into pages at a time, the newest document first.

    Only closed buckets are in them. A page is the buckets of one span; the newest document has the newest span that has
    any, and this many before it that have any.
    """
    spans: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        start, end = (int(datetime.fromisoformat(row[name]).timestamp()) for name in ("start_time", "end_time"))
        if end <= now:
            spans[span_of(start, bucket)].append(row)
    ordered = sorted(spans)
    kept = SPANS[bucket] + 1
    newest = [row for span in ordered[-kept:] for row in spans[span]]
    return [newest, *(spans[span] for span in reversed(ordered[:-kept]))]
