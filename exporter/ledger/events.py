"""Contract events, as ``getEvents`` of a Stellar RPC gives them: how new markets are noticed.

Events are hints, not state: nothing ties them to the run's ledger, so what they name is read and verified there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal

MAX_FILTERS = 5
"""The most filters in a request, contracts in a filter, and topics in a filter."""

MAX_EVENTS_PER_PAGE = 1_000
"""Events in one page. The RPC allows ten times as many; a page of this size stays below a megabyte."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Events of any of the contracts (strkeys) whose first topics are these symbols; further topics may follow."""

    contracts: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContractEvent:
    """One event: the ``contract`` (strkey) that published it at ``ledger``, its topics and its value."""

    contract: str
    ledger: int
    topics: tuple[ScVal, ...]
    value: ScVal

    def starts_with(self, topics: Sequence[str]) -> bool:
        return self.topics[: len(topics)] == tuple((scval.SYMBOL, topic) for topic in topics)


@dataclass(frozen=True, slots=True)
class EventsPage:
    """One answer: events in the order of the chain, and how far was looked.

    Every ledger up to ``through`` (0: none) was looked at to its end. ``cursor`` is where to go on; None: there is
    nothing more up to ``latest``, the newest ledger of who answered. ``undecodable`` events are not among the others.
    """

    events: tuple[ContractEvent, ...]
    through: int
    cursor: str | None
    latest: int
    undecodable: int = 0


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The answer in place of a page: the ledger asked for is not among those kept, ``oldest`` to ``latest``.

    With several endpoints it is the widest range of those that said so; ``certain`` when every endpoint did.
    """

    oldest: int
    latest: int
    certain: bool


@runtime_checkable
class EventSource(Protocol):
    """A ledger source that keeps events, too. All failures are `exporter.errors.SourceError`."""

    async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
        """A page of the events that pass any of the filters, from a ledger or the cursor of the page before."""
        ...
