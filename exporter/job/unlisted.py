"""Reads the markets that nothing lists: after the listed ones, within a budget, and never at their cost.

Anybody can deploy a market with an oracle of their own, in any number. So what the listed markets need is read first
and fixes the ledger. The others are read through branches of the same view, and each of them holds at that ledger or is
unread. The budget cuts whole markets, those that were heard of last first: an address can be ground, an age cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.deployments import Deployment
from exporter.errors import NoRoomError, SourceError
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView
from exporter.protocols import PROTOCOLS, oracle_forms
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.containment import read_contained
from exporter.protocols.frozen_keys import SETTING_KEY, mark_frozen
from exporter.protocols.price_sources import watch_prices_contained
from exporter.tree.documents import SkippedMarket, Unread
from exporter.tree.values import SkipReason

LEAST_POOLS = 20
"""Pools of unlisted markets that a run reads at any rate, however few are listed."""

LISTED_POOLS_FOR_EACH = 10
"""How many listed pools make room for one that is not listed."""

LOOKS_FOR_EACH_POOL = 5
"""How many markets a run looks at for each pool of the budget: one that is too large, or not there, takes no room."""

PART_OF_DEADLINE = 4
"""Unlisted markets get one part in so many of the time that a reading may take."""

UNREAD_DETAILS = {
    SkipReason.CHANGED: "changed while it was read",
    SkipReason.FAILED: "the source gave no usable answer about it",
}
"""Reasons for which a market counts as unread: the run began to read it. For the others the run skips it."""


class Budget(NamedTuple):
    """What all unlisted markets of a run may take: seconds, and pools."""

    seconds: float
    pools: int


def budget_of(deadline_seconds: float, seconds_of_listed: float, listed_pools: int) -> Budget:
    """The budget next to listed markets that took ``seconds_of_listed`` of a reading's deadline.

    As long as they took stays for reading them again.
    """
    seconds = min(deadline_seconds / PART_OF_DEADLINE, deadline_seconds - 2 * seconds_of_listed)
    return Budget(max(seconds, 0.0), max(listed_pools // LISTED_POOLS_FOR_EACH, LEAST_POOLS))


class Gathered(NamedTuple):
    """What became of the unlisted markets: ``read`` are the candidates of those whose readings are here."""

    readings: list[ProtocolReading]
    read: list[Candidate]
    skipped: list[SkippedMarket]
    entries: dict[bytes, RawEntry | None]
    calls: dict[ContractCall, SimulationAnswer]


@dataclass(eq=False, slots=True)
class _Part:
    """One unlisted market. ``counted`` is set when it is known how many pools it takes, or that it takes none."""

    candidates: list[Candidate]
    view: LedgerView
    counted: asyncio.Event = field(default_factory=asyncio.Event)
    pools: int = 0
    reading: ProtocolReading | None = None
    skipped: SkipReason | None = None

    @property
    def market(self) -> Candidate:
        return self.candidates[0]


class UnlistedMarkets:
    """An `exporter.ledger.view.Aside` of all unlisted markets.

    ``candidates`` gives them when the listed ones were read, and ``budget`` what they may take; without one, as when a
    run is repeated from its evidence, all are read and errors of the source are raised.
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
        self._waiting: list[_Part] | None = None
        self._parts: list[_Part] = []
        self._pools_left: int | None = None
        self._looks_left: int | None = None
        self._deadline: float | None = None
        self._time_is_up = False
        """Whether the last reading ended because there was no time left."""

    @property
    def seconds(self) -> float | None:
        """What is left of the time; None where it is not bounded."""
        return None if self._deadline is None else max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    async def read(self) -> None:
        """Read markets while there is room for them, and again those of which something changed."""
        if self._waiting is None:
            self._waiting = [_Part(own, self._view) for own in by_market(self._candidates())]
            if self._budget is not None:
                budget = self._budget()
                self._deadline = asyncio.get_running_loop().time() + budget.seconds
                self._pools_left, self._looks_left = budget.pools, budget.pools * LOOKS_FOR_EACH_POOL
        self._time_is_up = True
        async with self._in_time():
            await self._read_parts([part for part in self._readable() if part.view.observed.changed])
            while self._waiting and self._pools_left != 0 and self._looks_left != 0:
                group = self._next_group()
                for part in group:
                    part.view = self._view.branch(self._keys, _Room(self, part, group))
                self._parts += group
                await self._read_parts(group)
            self._time_is_up = False

    def _next_group(self) -> list[_Part]:
        """The next markets to look at, at most as many as there may be room for, but not fewer than a request takes."""
        assert self._waiting is not None
        size = len(self._waiting)
        if self._pools_left is not None and self._looks_left is not None:
            size = min(max(self._pools_left, LEAST_POOLS), self._looks_left)
            self._looks_left -= size
        group, self._waiting = self._waiting[:size], self._waiting[size:]
        return group

    async def _read_parts(self, parts: Sequence[_Part]) -> None:
        tasks = [asyncio.create_task(self._read_part(part)) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        failed = [part for part in parts if part.skipped is SkipReason.FAILED]
        if len(parts) > 1:  # what one of them asks for may have failed the requests of all
            for part in failed:
                await self._read_part(part)

    async def _read_part(self, part: _Part) -> None:
        part.reading, part.skipped = None, None
        name = part.market.protocol
        deployments = [item for item in self._deployments() if item.protocol == name]
        part.view.observed.begin()
        try:
            reading = await read_contained(PROTOCOLS[name], part.view, part.candidates, deployments)
            if reading.markets and not part.counted.is_set():  # by a reader that does not say it before
                await part.view.make_room(sum(len(market.members) for market in reading.markets))
            await watch_prices_contained(part.view, [reading], oracle_forms())
            if SETTING_KEY in part.view.observed.keys:  # an endpoint that does not know it refuses what is next to it
                await mark_frozen(part.view, [reading])
            part.reading = reading
        except NoRoomError:
            part.skipped = SkipReason.POOLS
        except SourceError:
            if self._budget is None:
                raise
            part.skipped = SkipReason.FAILED
        finally:
            part.counted.set()

    async def take_room(self, part: _Part, group: Sequence[_Part], pools: int) -> None:
        """Count a market's pools, after those of the markets before it. Raises `NoRoomError`."""
        for earlier in group:
            if earlier is part:
                break
            await earlier.counted.wait()
        if self._pools_left is None:
            return
        self._pools_left += part.pools
        part.pools = max(pools, 1)
        if part.pools > self._pools_left:
            part.pools = 0
            raise NoRoomError(f"it has {pools} pools, and there is room for {self._pools_left}")
        self._pools_left -= part.pools
        part.counted.set()

    def _readable(self) -> list[_Part]:
        return [part for part in self._parts if part.reading is not None]

    def absent_keys(self) -> list[bytes]:
        """The keys that markets look for and that are absent: only a request at the ledger itself shows that."""
        found: dict[bytes, None] = {}
        for part in self._readable():
            observed = part.view.observed
            found |= {
                key: None
                for key in observed.used_keys
                if observed.keys[key].entry is None and not observed.keys[key].is_never_removed
            }
        return list(found)

    async def read_busy(self) -> None:
        """Read again what changes often, and repeat the calls that looked at something that changed."""
        keys, calls = dict[bytes, None](), dict[ContractCall, None]()
        for part in self._readable():
            observed = part.view.observed
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
        """Whether all markets that were read are known to hold at a ledger; reads again what is older."""
        keys: dict[bytes, None] = {}
        for part in self._readable():
            observed = part.view.observed
            keys |= dict.fromkeys(observed.older_than(ledger, observed.used_keys))
            for seen in observed.binding_calls():
                if ledger not in seen.interval(observed.keys):
                    keys |= dict.fromkeys(observed.older_than(max(ledger, seen.answer.ledger), seen.answer.footprint))
        async with self._in_time():
            with suppress(SourceError):
                await self._view.observed.fetch(list(keys))
        return all(_holds(part, ledger) for part in self._readable())

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Bound what is inside by the time that is left, and end without an error where it is over."""
        try:
            async with asyncio.timeout(self.seconds):
                yield
        except TimeoutError:
            self._keys.stop()

    def gather(self, ledger: int) -> Gathered:
        """What is known of the markets at the run's ledger."""
        found = Gathered([], [], [], {}, {})
        for part in [*self._parts, *(self._waiting or ())]:
            reason = part.skipped
            if part.reading is not None and _holds(part, ledger):
                found.readings.append(part.reading)
                found.read.extend(part.candidates)
                entries, calls = part.view.used()
                found.entries.update(entries)
                found.calls.update(calls)
                continue
            if part.reading is not None:
                reason = SkipReason.CHANGED
            elif reason is None:
                reason = SkipReason.TIME if self._time_is_up else SkipReason.POOLS
            found.skipped.append(SkippedMarket(part.market.address, part.market.protocol, reason))
        return found


class _Room:
    """Counts one market's pools when its reader knows them."""

    def __init__(self, markets: UnlistedMarkets, part: _Part, group: Sequence[_Part]) -> None:
        self._markets, self._part, self._group = markets, part, group

    async def __call__(self, pools: int) -> None:
        await self._markets.take_room(self._part, self._group, pools)


def _holds(part: _Part, ledger: int) -> bool:
    observed = part.view.observed
    return not observed.changed and ledger in observed.common()


def by_market(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Candidates with those of the same market, the market itself first; by the ledger known, then by address."""
    markets: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in candidates:
        markets.setdefault((candidate.protocol, candidate.address), []).append(candidate)
    for own in markets.values():
        own.sort(key=lambda item: (item.pool is not None, item.known_since))
    return sorted(markets.values(), key=lambda own: (min(item.known_since for item in own), own[0].address))


def unread_of(skipped: Iterable[SkippedMarket]) -> list[Unread]:
    """Those that the run began to read, as unread."""
    return [
        Unread(item.market, None, item.protocol, item.reason, UNREAD_DETAILS[SkipReason(item.reason)])
        for item in skipped
        if item.reason in UNREAD_DETAILS
    ]
