"""A piece of the past, as a worker does it: from the state before, ledger by ledger, to the rows of its boundaries.

A boundary counts only when everything that its reading looked at was watched; what was not is given back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from exporter.config import Settings
from exporter.deployments import Deployment
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_of
from exporter.discovery import DiscoveryContext
from exporter.errors import DecodeError, ExporterError
from exporter.history.manifest import HistoryPart
from exporter.history.parquet import render_history
from exporter.job.reading import read_protocols, view_limits
from exporter.job.sources import OpenSource
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import is_instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import RawEntry
from exporter.ledger.view import read_at_one_ledger
from exporter.past.lake.close_meta import EVENT, decode_event
from exporter.past.lake.extract import LedgerChanges, unpacked
from exporter.past.lake.replay import ReplayedState, wrongly_archived
from exporter.past.lake.transitions import Prover, Tally
from exporter.past.lake.watch import DATA, Watch
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.compute import compute
from exporter.protocols.protocol import event_filters, market_events


class Read(NamedTuple):
    """The reading at a boundary. ``part`` is None if the ledger has no market; ``unread`` has MARKET or MARKET/POOL."""

    part: HistoryPart | None
    unread: list[str]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of work: the state after ``ledger``, the changes up to the last boundary, and the boundaries.

    The changes are a file of `exporter.past.lake.extract`, so that neither side holds as many objects.
    ``boundaries`` are ledgers with their close times and protocols. ``found`` is what events up to ``ledger`` named.
    """

    name: str
    settings: Settings
    ledger: int
    protocol: int
    entries: Mapping[bytes, RawEntry] = field(repr=False)
    changes: bytes = field(repr=False)
    boundaries: tuple[tuple[int, int, int], ...]
    watched: Watch = field(repr=False)
    deployments: tuple[Deployment, ...] = field(repr=False)
    instances: tuple[tuple[str, ContractInstance], ...] = field(repr=False)
    found: tuple[Candidate, ...] = field(repr=False)


class SegmentResult(NamedTuple):
    """The outcome of each boundary, what else should be watched, and what the transitions between them prove.

    Of a boundary that is a text why it failed, or None where its reading looked at what is not watched.
    """

    outcomes: Mapping[int, Read | str | None]
    unwatched: Watch
    tally: Tally


def replay_segment(work: Segment) -> SegmentResult:
    """Replay a segment. A failure at a boundary is that boundary's outcome; nothing is raised on purpose."""
    state = ReplayedState(work.entries, work.ledger, work.protocol, wrongly_archived(work.settings.passphrase))
    named = EventNames(work.deployments, work.found)
    prover = Prover(work.entries)
    outcomes: dict[int, Read | str | None] = {}
    unwatched = Watch()
    pending = deque(unpacked(work.changes, list[LedgerChanges], work.name))
    for ledger, close_time, protocol in work.boundaries:
        while pending and pending[0].ledger <= ledger:
            item = pending.popleft()
            prover.follow(item)
            state.take(item.ledger, item.protocol, (change for _, change in item.changes))
            named.follow(item)
        if state.ledger < ledger:
            state.take(ledger, protocol, ())
        source = StoredSource(state.entry, ledger, close_time, "ledger lake", storage_answers)
        try:
            readings, used = read_state(source, work.settings, work.deployments, work.instances, named.found)
            missing = used - work.watched
            unwatched |= missing
            outcomes[ledger] = None if missing else _rows(readings, ledger, close_time, work.settings)
        except ExporterError as error:
            outcomes[ledger] = str(error)
    return SegmentResult(outcomes, unwatched, prover.tally)


class EventNames:
    """The candidates that events name, in the order of the events."""

    def __init__(self, deployments: Sequence[Deployment], found: Sequence[Candidate] = ()) -> None:
        self.found: dict[Candidate, None] = dict.fromkeys(found)
        self._events = market_events(PROTOCOLS)
        self._filters = list(event_filters(PROTOCOLS, deployments))

    @property
    def contracts(self) -> frozenset[bytes]:
        return frozenset(strkey.decode(contract)[1] for _, each in self._filters for contract in each.contracts)

    def follow(self, item: LedgerChanges) -> None:
        for _, change in item.changes:
            if change.kind != EVENT or change.entry is None:
                continue
            try:
                event = decode_event(change.entry, item.ledger)
                for name, each in self._filters:
                    if event.contract in each.contracts and event.starts_with(each.topics):
                        self.found.update(dict.fromkeys(self._events[name].candidates(event)))
            except DecodeError:
                continue  # a run does the same: events are only hints


def read_state(
    source: StoredSource,
    settings: Settings,
    deployments: Sequence[Deployment],
    instances: Sequence[tuple[str, ContractInstance]],
    found: Iterable[Candidate] = (),
) -> tuple[list[ProtocolReading], Watch]:
    """Read all protocols; gives also everything that was looked at, as what is to be watched."""
    opened = OpenSource(source, network_of(settings.passphrase), list(instances), "the ledger lake", None)
    context = DiscoveryContext(deployments, list(found))
    program = partial(read_protocols, settings=settings, opened=opened, context=context)
    readings = asyncio.run(read_at_one_ledger(source, program, view_limits(settings))).result
    return readings, _used_by(readings, source, deployments)


def _used_by(readings: Sequence[ProtocolReading], source: StoredSource, deployments: Sequence[Deployment]) -> Watch:
    """The keys of a reading: whole contracts, but single keys of tokens and of contracts that only named others."""
    tokens = {pool.token_address for reading in readings for pool in reading.pools}
    own = {contract.address for deployment in deployments for contract in deployment.contracts}
    publishing = set[str]()
    for reading in readings:
        tokens |= set(reading.tokens)
        markets = {market.address for market in reading.markets}
        markets |= {item.market for item in reading.unread} | {item.market for item in reading.absent}
        own |= markets
        if PROTOCOLS[reading.protocol].liquidations is not None:
            publishing |= markets
    by_key = _ids(tokens - own)  # also if they are called, because everybody changes their entries
    keys = [key for key in source.asked if key[:4] == DATA]
    whole = _ids(own | set(source.called)) | {key[8:40] for key in keys if not is_instance_key(key)}
    whole -= by_key
    return Watch(
        frozenset(whole),
        frozenset(key for key in keys if key[8:40] not in whole),
        frozenset(_ids(publishing) & whole),
    )


def _ids(addresses: set[str]) -> set[bytes]:
    return {strkey.decode(address)[1] for address in addresses if address.startswith("C")}


def _rows(readings: Sequence[ProtocolReading], ledger: int, close_time: int, settings: Settings) -> Read:
    configured = ((market.protocol, market.address) for market in settings.markets)
    listings = MarketListings(network_of(settings.passphrase).deployments, configured)
    tables = compute(readings, PROTOCOLS, ledger, close_time, listings)
    part = None
    if tables.markets.height:
        part = render_history(
            tables.pools, observed_ledger=ledger, ledger_close_time=close_time, network=settings.passphrase
        )
    return Read(part, [item.market if item.pool is None else f"{item.market}/{item.pool}" for item in tables.unread])
