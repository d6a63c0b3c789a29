"""A piece of the past, as a worker does it: from the state before, ledger by ledger, to the rows of its boundaries.

The readers are those of a run, on the one-ledger view. A boundary counts only when everything that its reading looked
at was watched; what was not is given back, so that it can be watched, and the boundary read again.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from exporter.config import Settings
from exporter.deployments import Deployment
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
from exporter.ledger.events import EventFilter
from exporter.ledger.source import RawEntry
from exporter.ledger.stored_source import StoredSource
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.past.lake.change_files import LedgerChanges, read_changes, read_ledgers
from exporter.past.lake.close_meta import EVENT
from exporter.past.lake.contract_event import decode_event
from exporter.past.lake.proof import Prover, Tally
from exporter.past.lake.replay import ReplayedState, WronglyArchived
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.compute import compute

_DATA = b"\0\0\0\x06"
FAILED = "failed"
EMPTY = "empty"
DONE = "done"
INCOMPLETE = "incomplete"
"""The state of a boundary whose reading looked at what is not watched."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a boundary.

    ``state`` is `DONE` with a ``part``, `EMPTY` where the ledger has no market, `FAILED` with ``problem``, or
    `INCOMPLETE`. ``unread`` names what could not be read, as ``MARKET`` or ``MARKET/POOL``.
    """

    state: str
    ledger: int = 0
    part: HistoryPart | None = None
    unread: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """The watched keys: whole contracts (ids), single keys (LedgerKey XDR), and contracts whose events count, too."""

    contracts: frozenset[bytes] = frozenset()
    keys: frozenset[bytes] = frozenset()
    events_of: frozenset[bytes] = frozenset()

    def has(self, key: bytes) -> bool:
        """Whether a key is watched; one that is of no contract's data need not be."""
        return key[:4] != _DATA or key[8:40] in self.contracts or key in self.keys

    def __or__(self, other: Watched) -> Watched:
        return Watched(self.contracts | other.contracts, self.keys | other.keys, self.events_of | other.events_of)

    def __sub__(self, other: Watched) -> Watched:
        """What ``other`` has not yet."""
        contracts = self.contracts - other.contracts
        keys = frozenset(key for key in self.keys if not other.has(key))
        return Watched(contracts, keys, self.events_of - other.events_of)

    def __bool__(self) -> bool:
        return bool(self.contracts or self.keys or self.events_of)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of work: the state after ``ledger``, the changes up to the last boundary, and the boundaries.

    The changes are the two files of `exporter.past.lake.change_files`, so that neither side holds as many objects.
    ``boundaries`` are ledgers with their close times and protocols. ``found`` is what events up to ``ledger`` named.
    """

    name: str
    settings: Settings
    ledger: int
    protocol: int
    entries: Mapping[bytes, RawEntry] = field(repr=False)
    changes: bytes = field(repr=False)
    ledgers: bytes = field(repr=False)
    boundaries: tuple[tuple[int, int, int], ...]
    watched: Watched = field(repr=False)
    deployments: tuple[Deployment, ...] = field(repr=False)
    instances: tuple[tuple[str, ContractInstance], ...] = field(repr=False)
    found: tuple[Candidate, ...] = field(repr=False)
    wrong: Mapping[bytes, WronglyArchived] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """The outcome of each boundary, what else ought to be watched, and what the transitions between them prove."""

    outcomes: tuple[tuple[int, Outcome], ...]
    unwatched: Watched
    tally: Tally


def replay_segment(work: Segment) -> SegmentResult:
    """Replay a segment. What goes wrong at a boundary is its outcome; nothing is raised on purpose."""
    collects = gc.isenabled()
    gc.disable()  # nothing here makes cycles worth looking for among all that is held
    try:
        return _replay(work)
    finally:
        if collects:
            gc.enable()


def _replay(work: Segment) -> SegmentResult:
    state = ReplayedState(work.entries, work.ledger, wrong=work.wrong)
    state.protocol = work.protocol
    named = EventNames(work.deployments, work.found)
    prover = Prover(work.entries)
    outcomes: dict[int, Outcome] = {}
    unwatched = Watched()
    closes = read_ledgers(work.ledgers)
    pending = (LedgerChanges(ledger, *closes[ledger], changes) for ledger, changes in read_changes(work.changes))
    item = next(pending, None)
    for ledger, close_time, protocol in work.boundaries:
        while item is not None and item.ledger <= ledger:
            prover.follow(item)
            state.take(item.ledger, item.protocol, (change for _, change in item.changes))
            named.follow(item)
            item = next(pending, None)
        if state.ledger < ledger:
            state.take(ledger, protocol, ())
        try:
            found = ReadBoundary.of(work, state, close_time, named.found)
        except ExporterError as error:
            outcomes[ledger] = Outcome(FAILED, ledger, problem=str(error))
            continue
        missing = found.used - work.watched
        if missing:
            unwatched |= missing
            outcomes[ledger] = Outcome(INCOMPLETE, ledger)
        else:
            outcomes[ledger] = _outcome(found.reading.result, ledger, close_time, work.settings.passphrase)
    return SegmentResult(tuple(sorted(outcomes.items())), unwatched, prover.finish())


class EventNames:
    """The candidates that events name, in the order of the events."""

    def __init__(self, deployments: Sequence[Deployment], found: Sequence[Candidate] = ()) -> None:
        self.found: dict[Candidate, None] = dict.fromkeys(found)
        self._filters: list[tuple[str, EventFilter]] = [
            (name, each)
            for name, module in PROTOCOLS.items()
            for each in module.event_filters([item for item in deployments if item.protocol == name])
        ]

    @property
    def contracts(self) -> frozenset[bytes]:
        """The ids of all contracts whose events count."""
        return frozenset(strkey.decode(contract)[1] for _, each in self._filters for contract in each.contracts)

    def follow(self, item: LedgerChanges) -> None:
        """Take a ledger's events."""
        for _, change in item.changes:
            if change.kind != EVENT or change.entry is None:
                continue
            try:
                event = decode_event(change.entry, item.ledger)
                for name, each in self._filters:
                    if event.contract in each.contracts and event.starts_with(each.topics):
                        self.found.update(dict.fromkeys(PROTOCOLS[name].candidates_in(event)))
            except DecodeError:
                continue  # as a run does: events are hints


@dataclass(frozen=True, slots=True)
class ReadBoundary:
    """A reading at a boundary, and everything that it looked at, as what would have to be watched."""

    reading: Reading[list[ProtocolReading]]
    used: Watched

    @classmethod
    def of(cls, work: Segment, state: ReplayedState, close_time: int, found: Mapping[Candidate, None]) -> ReadBoundary:
        """Read all protocols at the state's ledger. Raises `SourceError` and the other errors of reading."""
        network = network_of(work.settings.passphrase)
        source = StoredSource(state.entry, state.ledger, close_time, "ledger lake", storage_answers)
        opened = OpenSource(source, network, list(work.instances), "the ledger lake", None)
        around = DiscoveryContext(work.deployments, list(found))
        program = partial(read_protocols, settings=work.settings, opened=opened, modules=PROTOCOLS, around=around)
        reading = asyncio.run(read_at_one_ledger(source, program, view_limits(work.settings)))
        return cls(reading, used_by(reading.result, source, work.deployments))


def used_by(readings: Sequence[ProtocolReading], source: StoredSource, deployments: Sequence[Deployment]) -> Watched:
    """The keys of a reading: whole contracts, but single keys of tokens and of contracts that only named others."""
    tokens = {str(address) for reading in readings for address in reading.columns.get("token_address", ())}
    own = {contract.address for deployment in deployments for contract in deployment.contracts}
    for reading in readings:
        tokens |= set(reading.tokens)
        own |= {market.address for market in reading.markets}
        own |= {item.market for item in reading.unread} | {item.market for item in reading.absent}
    by_key = _ids(tokens - own)  # also where they are called: everybody moves them
    keys = [key for key in source.asked if key[:4] == _DATA]
    whole = _ids(own | set(source.called)) | {key[8:40] for key in keys if not is_instance_key(key)}
    whole -= by_key
    publishing = {
        market
        for reading in readings
        if PROTOCOLS[reading.protocol].publishes_liquidations
        for market in (
            *(item.address for item in reading.markets),
            *(item.market for item in reading.unread),
            *(item.market for item in reading.absent),
        )
    }
    return Watched(
        frozenset(whole),
        frozenset(key for key in keys if key[8:40] not in whole),
        frozenset(_ids(publishing) & whole),
    )


def _ids(addresses: set[str]) -> set[bytes]:
    return {strkey.decode(address)[1] for address in addresses if address.startswith("C")}


def _outcome(readings: Sequence[ProtocolReading], ledger: int, close_time: int, passphrase: str) -> Outcome:
    try:
        tables = compute(readings, PROTOCOLS, ledger, close_time)
        unread = tuple(item.market if item.pool is None else f"{item.market}/{item.pool}" for item in tables.unread)
        if not tables.markets.height:
            return Outcome(EMPTY, ledger, unread=unread)
        part = render_history(tables.pools, observed_ledger=ledger, ledger_close_time=close_time, network=passphrase)
        return Outcome(DONE, ledger, part, unread)
    except ExporterError as error:
        return Outcome(FAILED, ledger, problem=str(error))
