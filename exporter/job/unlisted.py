"""Reads the markets that are not listed: after the listed ones, within a budget, and never at their cost.

Anybody can deploy any number of markets, with oracles of their own. So the listed markets are read first and decide
which ledger the run reads. The other markets are read through branches of the same view. Each of them holds at that
ledger, or it is unread. If the budget is too small, the markets that were heard of last are left out, whole: somebody
can search for an address that sorts first, but cannot make a market older than it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from msgspec import Struct, field

from exporter.deployments import Deployment
from exporter.deployments.listing import MarketKey
from exporter.errors import NoRoomError, SourceError
from exporter.ledger.batches import gather_or_cancel
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView
from exporter.protocols import PROTOCOLS, oracle_forms
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.containment import read_contained
from exporter.protocols.frozen_keys import SETTING_KEY, mark_frozen
from exporter.protocols.price_sources import watch_prices_contained
from exporter.tree.documents import SkippedMarket, Unread
from exporter.tree.values import SkipReason

MIN_POOLS = 20
"""The budget has room for at least this many pools, however few listed pools there are."""

LISTED_POOLS_PER_UNLISTED = 10
"""Number of listed pools that make room for one pool that is not listed."""

LOOKS_PER_POOL = 5
"""Number of markets that a run looks at for each pool of its budget. An absent or a too large market takes no room."""

DEADLINE_DIVISOR = 4
"""Unlisted markets get the reading's deadline divided by this number."""

UNREAD_DETAILS = {
    SkipReason.CHANGED: "changed while it was read",
    SkipReason.FAILED: "the source gave no usable answer about it",
}
"""The reasons for which a market counts as unread, because the run began to read it. Other reasons only skip it."""


class Budget(NamedTuple):
    """How many seconds all unlisted markets of a run may take, and how many pools they may have."""

    seconds: float
    pools: int


def budget_of(deadline_seconds: float, seconds_of_listed: float, listed_pools: int) -> Budget:
    """The budget that is left after the listed markets were read, which took ``seconds_of_listed``.

    The same time again is set aside, because the listed markets may have to be read again.
    """
    seconds = min(deadline_seconds / DEADLINE_DIVISOR, deadline_seconds - 2 * seconds_of_listed)
    return Budget(max(seconds, 0.0), max(listed_pools // LISTED_POOLS_PER_UNLISTED, MIN_POOLS))


class UnlistedOutcome(NamedTuple):
    """What became of the unlisted markets.

    ``readings`` are those of the markets that were read, and ``read`` their candidates. ``skipped`` are the others.
    ``entries`` and ``calls`` are what the readings used.
    """

    readings: list[ProtocolReading]
    read: list[Candidate]
    skipped: list[SkippedMarket]
    entries: dict[bytes, RawEntry | None]
    calls: dict[ContractCall, SimulationAnswer]


class _UnlistedMarket(Struct, eq=False):
    """One unlisted market while it is read.

    ``counted`` is set when it is known how many pools of the budget the market takes, which can be none.
    """

    candidates: list[Candidate]
    view: LedgerView
    counted: asyncio.Event = field(default_factory=asyncio.Event)
    pools: int = 0
    reading: ProtocolReading | None = None
    skipped: SkipReason | None = None

    @property
    def itself(self) -> Candidate:
        """The market's own candidate. The others are pools of it."""
        return self.candidates[0]


class UnlistedMarkets:
    """All unlisted markets, as an `exporter.ledger.view.Aside` of the reading of the listed ones.

    ``candidates``, ``deployments`` and ``budget`` are called when the listed markets were read. Without a budget, as
    when a run is repeated from its evidence, all markets are read, and errors of the source are raised.
    """

    def __init__(
        self,
        view: LedgerView,
        candidates: Callable[[], Iterable[Candidate]],
        deployments: Callable[[], Sequence[Deployment]],
        budget: Callable[[], Budget] | None,
    ) -> None:
        self._view = view
        self._candidates = candidates
        self._deployments = deployments
        self._budget = budget
        self._keys = view.batcher()
        self._waiting: list[_UnlistedMarket] | None = None
        self._begun: list[_UnlistedMarket] = []
        self._pools_left: int | None = None
        self._looks_left: int | None = None
        self._deadline: float | None = None
        self._time_is_up = False
        """Whether the last reading ended because there was no time left."""

    @property
    def seconds(self) -> float | None:
        """The seconds that are left. None if the time is not bounded."""
        return None if self._deadline is None else max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    async def read(self) -> None:
        """Read markets as long as there is room for them. Markets that changed since they were read are read again."""
        if self._waiting is None:
            self._waiting = [_UnlistedMarket(own, self._view) for own in by_market(self._candidates())]
            if self._budget is not None:
                budget = self._budget()
                self._deadline = asyncio.get_running_loop().time() + budget.seconds
                self._pools_left, self._looks_left = budget.pools, budget.pools * LOOKS_PER_POOL
        self._time_is_up = True
        async with self._in_time():
            await self._read_group([market for market in self._readable() if market.view.observed.changed])
            while self._waiting and self._pools_left != 0 and self._looks_left != 0:
                group = self._next_group()
                for market in group:
                    market.view = self._view.branch(self._keys, _Room(self, market, group))
                self._begun += group
                await self._read_group(group)
            self._time_is_up = False

    def _next_group(self) -> list[_UnlistedMarket]:
        """The next markets to look at: as many as there may be room for, but at least `MIN_POOLS`."""
        assert self._waiting is not None
        size = len(self._waiting)
        if self._pools_left is not None and self._looks_left is not None:
            size = min(max(self._pools_left, MIN_POOLS), self._looks_left)
            self._looks_left -= size
        group, self._waiting = self._waiting[:size], self._waiting[size:]
        return group

    async def _read_group(self, markets: Sequence[_UnlistedMarket]) -> None:
        await gather_or_cancel(*map(self._read_market, markets))
        failed = [market for market in markets if market.skipped is SkipReason.FAILED]
        if len(markets) > 1:  # the markets share requests, so one of them may have failed all
            for market in failed:
                await self._read_market(market)

    async def _read_market(self, market: _UnlistedMarket) -> None:
        market.reading, market.skipped = None, None
        name = market.itself.protocol
        deployments = [item for item in self._deployments() if item.protocol == name]
        market.view.observed.begin()
        try:
            reading = await read_contained(PROTOCOLS[name], market.view, market.candidates, deployments)
            if reading.markets and not market.counted.is_set():  # its reader asked for no room beforehand
                await market.view.make_room(sum(len(each.members) for each in reading.markets))
            await watch_prices_contained(market.view, [reading], oracle_forms())
            # An endpoint that does not know the network's setting would refuse the whole request. So it is asked for
            # only if the listed markets' reading got it.
            if SETTING_KEY in market.view.observed.keys:
                await mark_frozen(market.view, [reading])
            market.reading = reading
        except NoRoomError:
            market.skipped = SkipReason.POOLS
        except SourceError:
            if self._budget is None:
                raise
            market.skipped = SkipReason.FAILED
        finally:
            market.counted.set()

    async def take_room(self, market: _UnlistedMarket, group: Sequence[_UnlistedMarket], pools: int) -> None:
        """Take room for a market's pools, after the markets before it in the group. Raises `NoRoomError`."""
        for earlier in group:
            if earlier is market:
                break
            await earlier.counted.wait()
        if self._pools_left is None:
            return
        self._pools_left += market.pools
        market.pools = max(pools, 1)
        if market.pools > self._pools_left:
            market.pools = 0
            raise NoRoomError(f"it has {pools} pools, and there is room for {self._pools_left}")
        self._pools_left -= market.pools
        market.counted.set()

    def _readable(self) -> list[_UnlistedMarket]:
        return [market for market in self._begun if market.reading is not None]

    def absent_keys(self) -> list[bytes]:
        """The keys that markets asked for and that had no entry. Only a request at the ledger itself proves that."""
        absent: dict[bytes, None] = {}
        for market in self._readable():
            observed = market.view.observed
            absent |= {
                key: None
                for key in observed.used_keys
                if observed.keys[key].entry is None and not observed.keys[key].is_never_removed
            }
        return list(absent)

    async def read_busy(self) -> None:
        """Read the entries that change often again, and repeat the calls that looked at an entry that changed."""
        keys, calls = dict[bytes, None](), dict[ContractCall, None]()
        for market in self._readable():
            observed = market.view.observed
            for key in observed.used_keys:
                if observed.keys[key].entry is not None and observed.keys[key].busy:
                    keys[key] = None
            for call in observed.used_calls:
                if observed.calls[call].binding and observed.calls[call].must_repeat(observed.keys):
                    calls[call] = None
        observed = self._view.observed
        async with self._in_time():
            with suppress(SourceError):
                await asyncio.gather(observed.fetch(list(keys)), observed.simulate(list(calls)))

    async def holds_at(self, ledger: int) -> bool:
        """Read entries again that are older than a ledger. Returns whether all markets are known to hold at it then."""
        keys: dict[bytes, None] = {}
        for market in self._readable():
            observed = market.view.observed
            keys |= dict.fromkeys(observed.older_than(ledger, observed.used_keys))
            for seen in observed.binding_calls():
                if ledger not in seen.interval(observed.keys):
                    keys |= dict.fromkeys(observed.older_than(max(ledger, seen.answer.ledger), seen.answer.footprint))
        async with self._in_time():
            with suppress(SourceError):
                await self._view.observed.fetch(list(keys))
        return all(_holds(market, ledger) for market in self._readable())

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Stop what is inside, without an error, when the time is up."""
        try:
            async with asyncio.timeout(self.seconds):
                yield
        except TimeoutError:
            self._keys.stop()

    def outcome_at(self, ledger: int) -> UnlistedOutcome:
        """The readings of the markets that hold at the run's ledger, and why the others were not read."""
        outcome = UnlistedOutcome([], [], [], {}, {})
        for market in [*self._begun, *(self._waiting or ())]:
            reason = market.skipped
            if market.reading is not None and _holds(market, ledger):
                outcome.readings.append(market.reading)
                outcome.read.extend(market.candidates)
                entries, calls = market.view.used()
                outcome.entries.update(entries)
                outcome.calls.update(calls)
                continue
            if market.reading is not None:
                reason = SkipReason.CHANGED
            elif reason is None:
                reason = SkipReason.TIME if self._time_is_up else SkipReason.POOLS
            outcome.skipped.append(SkippedMarket(market.itself.address, market.itself.protocol, reason))
        return outcome


class _Room:
    """Takes room for one market's pools, when its reader knows how many they are."""

    def __init__(self, markets: UnlistedMarkets, market: _UnlistedMarket, group: Sequence[_UnlistedMarket]) -> None:
        self._markets, self._market, self._group = markets, market, group

    async def __call__(self, pools: int) -> None:
        await self._markets.take_room(self._market, self._group, pools)


def _holds(market: _UnlistedMarket, ledger: int) -> bool:
    observed = market.view.observed
    return not observed.changed and ledger in observed.common()


def by_market(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """The candidates grouped by market. A group begins with the market itself, then has its pools.

    The groups are ordered by the ledger at which they were first heard of, then by address.
    """
    markets: dict[MarketKey, list[Candidate]] = {}
    for candidate in candidates:
        markets.setdefault(MarketKey(candidate.protocol, candidate.address), []).append(candidate)
    for own in markets.values():
        own.sort(key=lambda item: (item.pool is not None, item.known_since))
    return sorted(markets.values(), key=lambda own: (min(item.known_since for item in own), own[0].address))


def unread_of(skipped: Iterable[SkippedMarket]) -> list[Unread]:
    """The skipped markets that the run began to read, as unread markets."""
    return [
        Unread(item.market, None, item.protocol, item.reason, UNREAD_DETAILS[SkipReason(item.reason)])
        for item in skipped
        if item.reason in UNREAD_DETAILS
    ]
