"""Contract events, as ``getEvents`` of a Stellar RPC gives them. New markets are noticed by them.

Events are hints, and not state. Nothing ties them to the run's ledger, so what they name is read and verified there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal

MAX_FILTERS = 5
"""The largest number of filters in a request, of contracts in a filter, and of topics in a filter."""

MAX_EVENTS_PER_PAGE = 1_000
"""The number of events in one page. An RPC allows ten times as many, but this keeps a page below a megabyte."""


class EventFilter(Struct, frozen=True):
    """Selects events of any of the contracts (strkeys) whose first topics are these symbols. More topics may follow."""

    contracts: tuple[str, ...]
    topics: tuple[str, ...]


class ContractEvent(Struct, frozen=True):
    """One event: the contract (a strkey) that published it, the ledger, its topics and its value."""

    contract: str
    ledger: int
    topics: tuple[ScVal, ...]
    value: ScVal

    def starts_with(self, topics: Sequence[str]) -> bool:
        """Whether the event's first topics are these symbols."""
        return self.topics[: len(topics)] == tuple((scval.SYMBOL, topic) for topic in topics)


class EventsPage(Struct, frozen=True):
    """One page of events, in the order of the chain.

    Attributes:
        events: the events that could be decoded.
        through: the last ledger that was searched completely; 0 if none was.
        cursor: where the next page begins; None if there are no more events up to ``latest``.
        latest: the newest ledger of the endpoint that answered.
        undecodable: how many events could not be decoded.
    """

    events: tuple[ContractEvent, ...]
    through: int
    cursor: str | None
    latest: int
    undecodable: int = 0


class OutOfRange(Struct, frozen=True):
    """The answer if the ledger that was asked for is not kept. Kept are the ledgers from ``oldest`` to ``latest``.

    If several endpoints answered so, it is the widest range of them. It is ``certain`` if every endpoint did.
    """

    oldest: int
    latest: int
    certain: bool


@runtime_checkable
class EventSource(Protocol):
    """A ledger source that also has events. All failures are `exporter.errors.SourceError`."""

    async def read_events(self, filters: Sequence[EventFilter], start: int | str) -> EventsPage | OutOfRange:
        """A page of the events that any of the filters selects, from a ledger on or from the last page's cursor on."""
        ...
