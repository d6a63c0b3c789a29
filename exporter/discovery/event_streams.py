"""Follows the events that name new markets, from where the last run stopped to the newest ledger.

The position of a stream moves only over ledgers that were really read, or that no endpoint keeps any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from exporter.deployments import Deployment
from exporter.discovery.known_markets import KnownMarket, Memory, StreamKey
from exporter.errors import DecodeError, SourceError
from exporter.ledger.events import MAX_FILTERS, ContractEvent, EventFilter, EventSource, EventsPage
from exporter.protocols.protocol import Protocol, event_filters, market_events

MAX_CANDIDATES = 10_000
"""A run learns of at most this many markets and pools from events."""

MAX_SECONDS = 60.0
T = TypeVar("T")
_MAX_RESTARTS = 3
_FIRST_LEDGER = 1  # no endpoint keeps its events, so each answers with the oldest ledger that it keeps


async def follow_events(
    source: object,
    protocols: Mapping[str, Protocol],
    deployments: Sequence[Deployment],
    memory: Memory,
    max_seconds: float = MAX_SECONDS,
) -> list[str]:
    """Read the events that the protocols ask for, and remember the markets that they name.

    Returns notices. Nothing is raised; what fails is a notice, too.
    """
    if not isinstance(source, EventSource):
        return []
    follower = _Follower(source, protocols, memory)
    try:
        async with asyncio.timeout(max_seconds):
            for start, filters, streams in _requests(protocols, deployments, memory.streams):
                await follower.follow(filters, streams, start)
    except TimeoutError:
        follower.notices.append(f"reading events took longer than {max_seconds:g} s; the next run continues there")
    if follower.ignored:
        more = f", and {follower.ignored - 1} more" if follower.ignored > 1 else ""
        follower.notices.append(f"events were ignored: {follower.first_ignored}{more}")
    return follower.notices


def _requests(
    protocols: Mapping[str, Protocol], deployments: Sequence[Deployment], next_ledgers: Mapping[StreamKey, int]
) -> Iterator[tuple[int | None, list[EventFilter], list[StreamKey]]]:
    """The requests for events: from which ledger (None: the oldest that is kept), the filters, and their streams.

    A request has at most `MAX_FILTERS` filters, and a filter as many contracts.
    """
    streams = dict.fromkeys(
        StreamKey(name, contract, each.topics)
        for name, each in event_filters(protocols, deployments)
        for contract in each.contracts
    )
    starts: dict[int | None, dict[tuple[str, ...], list[StreamKey]]] = {}
    for stream in streams:
        starts.setdefault(next_ledgers.get(stream), {}).setdefault(stream.topics, []).append(stream)
    for start, by_topics in starts.items():
        groups = [(topics, group) for topics, own in by_topics.items() for group in _groups(own)]
        for batch in _groups(groups):
            filters = [
                EventFilter(tuple(dict.fromkeys(stream.contract for stream in group)), topics)
                for topics, group in batch
            ]
            yield start, filters, [stream for _, group in batch for stream in group]


def _groups(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + MAX_FILTERS] for start in range(0, len(items), MAX_FILTERS))


class _Follower:
    """Reads streams page by page, and remembers the markets that their events name."""

    def __init__(self, source: EventSource, protocols: Mapping[str, Protocol], memory: Memory) -> None:
        self.notices: list[str] = []
        self._source = source
        self._events = market_events(protocols)
        self._memory = memory
        self._learned = 0
        self.ignored = 0
        self.first_ignored = ""

    async def follow(self, filters: list[EventFilter], streams: list[StreamKey], start: int | None) -> None:
        position: int | str = _FIRST_LEDGER if start is None else start
        restarts, certain = 0, True
        try:
            while True:
                page = await self._source.read_events(filters, position)
                if isinstance(page, EventsPage):
                    self._take(page, streams)
                    if certain and page.through >= (start or 0):
                        self._memory.streams.update(dict.fromkeys(streams, page.through + 1))
                    if page.cursor is None:
                        return
                    position = page.cursor
                    continue
                if isinstance(position, int) and position > page.latest:  # no ledger has closed since the last run
                    return
                if restarts >= _MAX_RESTARTS:
                    self.notices.append(
                        "events could not be read: the RPC drops old ledgers faster than they are asked for"
                    )
                    return
                if start is not None and restarts == 0:
                    last = page.oldest - 1
                    gone = f"of ledger {start}" if start == last else f"from ledger {start} to {last}"
                    self.notices.append(
                        f"events {gone} are gone"
                        + ("" if page.certain else " from the endpoints that answer")
                        + "; name a market that only they named in [[markets]]"
                    )
                    certain = page.certain
                position = page.oldest + restarts  # the oldest one may be dropped while it is asked for
                restarts += 1
        except SourceError as error:
            self.notices.append(f"events that name new markets could not be read, a later run tries again: {error}")

    def _take(self, page: EventsPage, streams: Sequence[StreamKey]) -> None:
        if page.undecodable:
            self._ignore(f"{page.undecodable} events of ledgers up to {page.latest} cannot be decoded")
        for event in page.events:
            asked = (
                name for name, contract, topics in streams if contract == event.contract and event.starts_with(topics)
            )
            for name in dict.fromkeys(asked):
                self._take_event(name, event)

    def _take_event(self, name: str, event: ContractEvent) -> None:
        try:
            named = self._events[name].candidates(event)
        except DecodeError as error:
            self._ignore(f"an event of {event.contract} at ledger {event.ledger} does not name a market ({error})")
            return
        for candidate in named:
            if self._learned < MAX_CANDIDATES:
                self._learned += self._memory.learn(
                    KnownMarket(
                        protocol=candidate.protocol,
                        address=candidate.address,
                        pool=candidate.pool,
                        origin=candidate.origin,
                        first_seen_ledger=event.ledger,
                        confirmed=False,
                        voucher=candidate.voucher,
                    )
                )

    def _ignore(self, reason: str) -> None:
        self.ignored += 1
        self.first_ignored = self.first_ignored or reason
