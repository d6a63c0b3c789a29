"""Tests that no change is lost or said twice, whatever could not be read in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from exporter.render.carried_values import carried_values
from exporter.render.changes import own_changes
from exporter.tree.documents import (
    RunChange,
    WatchedMarket,
    WatchedPending,
    WatchedPool,
    WatchedReading,
    WatchedUnread,
    WatchedValues,
    encode,
)
from tests.examples import examples
from tests.render.rendering import contract

A, B, X, Y = (contract(number) for number in (1, 2, 11, 12))
VERSION = "1"

OfPool = Literal["unread", "excluded", "gone"] | int
"""What a run sees of a pool. If it reads it, that is its cap."""
OfMarket = Literal["unread", "skipped", "vanished"] | Mapping[str, OfPool]
"""What a run sees of a market: its pools, if it reads it. If it vanished, not even discovery names it."""


def pool_of(market: str, pool: str, cap: int) -> WatchedPool:
    gates, unknown = (True,) * 5, (None,) * 4
    return WatchedPool(market, pool, "T", None, 0, *gates, False, "1", *unknown, str(cap), "none", "0", "0")


def market_of(market: str, listed: bool = True) -> WatchedMarket:
    return WatchedMarket(market, "blend", f"M{market[-1]}", "active", "0" * 16, listed, [])


class Run(NamedTuple):
    """The values that a run watched, and the changes that it found."""

    watched: WatchedValues
    changes: list[RunChange]


def observed(ledger: int, markets: Mapping[str, OfMarket], before: WatchedValues | None, *, listed: bool = True) -> Run:
    """A run that sees this of the markets. A change is queued for every pool whose cap is odd."""
    own = WatchedValues(ledger, VERSION, [], [], [], [])
    for market, seen in markets.items():
        if seen == "unread":
            own.unread.append(WatchedUnread(market, "blend", None, "undecodable"))
        elif not isinstance(seen, str):
            own.markets.append(market_of(market, listed))
            for pool, of_pool in seen.items():
                if isinstance(of_pool, int):
                    own.pools.append(pool_of(market, pool, of_pool))
                    if of_pool % 2:
                        own.pending.append(WatchedPending(pool, "terms", "queued", None, market=market))
                elif of_pool != "gone":
                    reason = "excluded" if of_pool == "excluded" else "undecodable"
                    own.unread.append(WatchedUnread(market, "blend", pool, reason))
    skipped = {market for market, seen in markets.items() if seen == "skipped"}
    watched = own if before is None else replace(own, carried=carried_values(before, own, skipped))
    return Run(watched, own_changes(before, watched, "made", 1_795_000_000))


class Said(NamedTuple):
    """What a change says, without its words."""

    kind: str
    market: str
    pool: str | None
    before: str | None
    after: str | None
    previous_ledger: int


def said(changes: list[RunChange]) -> list[Said]:
    return sorted(
        Said(item.kind, item.market, item.pool, item.before, item.after, item.previous_ledger) for item in changes
    )


class LastPool:
    """What is known of a pool. ``cap`` is None while it is not known to exist."""

    cap: int | None = None
    ledger: int = 0
    is_unread: bool = False


class LastMarket:
    """What is known of a market, and the changes that a reader who forgets nothing expects."""

    def __init__(self, market: str) -> None:
        self.market, self.ledger, self.is_unread = market, 0, False
        self.pools = {X: LastPool(), Y: LastPool()}

    def expected(self, ledger: int, seen: OfMarket) -> Iterator[Said]:
        if seen == "vanished":
            self.__init__(self.market)  # type: ignore[misc]
        elif seen == "unread":
            if not self.is_unread:
                yield Said("unread", self.market, None, None, "undecodable", ledger - 1)
            self.is_unread = True
        elif not isinstance(seen, str):
            if not self.ledger and not self.is_unread:
                yield Said("new_market", self.market, None, None, "active", ledger - 1)
            for name, of_pool in seen.items():
                yield from self._of_pool(ledger, name, of_pool)
            self.ledger, self.is_unread = ledger, False

    def _of_pool(self, ledger: int, name: str, seen: OfPool) -> Iterator[Said]:
        pool = self.pools[name]

        def change(kind: str, before: str | None, after: str | None, since: int) -> Said:
            return Said(kind, self.market, name, before, after, since)

        if seen == "unread":
            if not pool.is_unread:
                yield change("unread", None, "undecodable", ledger - 1)
            pool.is_unread = True
        elif seen == "excluded":
            pool.is_unread = False
        elif isinstance(seen, int):
            was, now = pool.cap, seen
            if was is None and self.ledger and not pool.is_unread:
                yield change("new_pool", None, None, self.ledger)
            if was is not None and was != now:
                yield change("supply_cap", str(was), str(now), pool.ledger)
            was_queued, is_queued = bool((was or 0) % 2), bool(now % 2)
            if self.ledger and was_queued is not is_queued:
                since = self.ledger if was is None else pool.ledger
                yield change("pending", "queued" if was_queued else None, "queued" if is_queued else None, since)
            pool.cap, pool.ledger, pool.is_unread = now, ledger, False
        else:
            if pool.cap is not None:
                yield change("removed_pool", None, None, pool.ledger)
                if pool.cap % 2:
                    yield change("pending", "queued", None, pool.ledger)
            pool.cap, pool.is_unread = None, False


seen_of_pools = st.fixed_dictionaries(
    dict.fromkeys((X, Y), st.one_of(st.integers(1, 4), st.sampled_from(["unread", "excluded", "gone"])))
)
seen_of_markets = st.fixed_dictionaries(
    dict.fromkeys((A, B), st.one_of(seen_of_pools, seen_of_pools, st.sampled_from(["unread", "skipped", "vanished"])))
)


@examples(12, 2_000)
@given(runs=st.lists(seen_of_markets, min_size=2, max_size=8))
def test_no_change_is_lost_or_said_twice(runs: list[Mapping[str, OfMarket]]) -> None:
    """Whatever is unread, excluded, skipped or gone in between: a change is said once, since the last known value."""
    known = {market: LastMarket(market) for market in (A, B)}
    before = None
    for ledger, seen in enumerate(runs, start=1):
        run = observed(ledger, seen, before)
        expected = sorted(item for market in known.values() for item in market.expected(ledger, seen[market.market]))
        assert ([] if before is None else expected) == said(run.changes)
        assert len({item.id for item in run.changes}) == len(run.changes)
        before = run.watched


def test_a_change_across_a_gap_says_both_ledgers() -> None:
    """It is said when the market is read again, with the ledgers of both readings, and not a second time."""
    first = observed(10, {A: {X: 2}}, None)
    unread = observed(11, {A: "unread"}, first.watched)
    again = observed(12, {A: {X: 4}}, observed(11, {A: "unread"}, unread.watched).watched)
    after = observed(13, {A: {X: 4}}, again.watched)

    (change,) = again.changes
    assert (10, 12, "2", "4") == (change.previous_ledger, change.observed_ledger, change.before, change.after)
    assert change.title.endswith("the supply cap was raised (between ledgers 10 and 12; it was not read in between)")
    assert ([], []) == (after.changes, after.watched.carried)


def test_without_gaps_the_file_is_as_it_was() -> None:
    """A run that read everything hands nothing on, and its file has no field for it."""
    first = observed(1, {A: {X: 2}}, None)
    second = observed(2, {A: {X: 2}}, first.watched)

    assert b"carried" not in encode(second.watched)
    assert b"carried" in encode(observed(3, {A: "unread"}, second.watched).watched)


def test_values_of_another_version_keep_it() -> None:
    """Parameters that another version of the exporter read before a gap are not compared, as without a gap."""
    first = observed(1, {A: {X: 2}}, None).watched
    old = replace(first, exporter_version="0", pools=[replace(first.pools[0], parameters={"c": "1"})])
    gap = observed(2, {A: "unread"}, old).watched
    own = WatchedValues(3, VERSION, first.markets, [replace(first.pools[0], parameters={"c": "2"})], [], [])

    assert ["0"] == [reading.exporter_version for reading in gap.carried]
    assert [] == own_changes(gap, own, "made", 0)


def test_strangers_have_a_bounded_part() -> None:
    """A market that is not listed has all of its values carried or none; those that were carried for longest stay."""
    pools = {contract(number): 2 for number in range(20, 24)}
    first = observed(1, {A: pools, B: {X: 2}}, None, listed=False).watched
    second = observed(2, {A: "unread", B: {X: 2}}, first, listed=False).watched
    own = observed(3, {A: "unread", B: "unread"}, None).watched
    listed = observed(1, {A: pools, B: {X: 2}}, None).watched

    def carried(before: WatchedValues, most: int) -> list[tuple[int, set[str], int]]:
        parts: list[WatchedReading] = carried_values(before, own, (), most)
        return [(part.observed_ledger, {item.market for item in part.markets}, len(part.pools)) for part in parts]

    assert [(2, {B}, 1), (1, {A}, 4)] == carried(second, 7)
    assert [(1, {A}, 4)] == carried(second, 6)
    assert [(2, {B}, 1)] == carried(second, 4)
    assert [] == carried(second, 1)
    assert [(1, {A, B}, 5)] == carried(listed, 0)


def test_what_is_carried_is_not_carried_inside() -> None:
    """A file in which a carried part has carried parts of its own is not understood, however deep it is."""
    values = observed(2, {A: "unread"}, observed(1, {A: {X: 2}}, None).watched).watched
    nested = encode(values).replace(b'"pending":[]}]', b'"pending":[],"carried":[]}]')

    assert values == msgspec.json.decode(encode(values), type=WatchedValues)
    with pytest.raises(msgspec.ValidationError, match="unknown field `carried`"):
        msgspec.json.decode(nested, type=WatchedValues)
