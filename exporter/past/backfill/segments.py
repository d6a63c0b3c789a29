"""Replays a segment, as a worker does: from the state before it, ledger by ledger, to the rows at its boundaries.

A boundary has rows only if everything that its reading looked at was watched. What was not watched is returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from exporter.config import Settings
from exporter.deployments import Deployment
from exporter.deployments.listing import MarketKey, MarketListings
from exporter.deployments.networks import network_of
from exporter.discovery import DiscoveryContext
from exporter.errors import DecodeError, ExporterError
from exporter.history.manifest import HistoryPart
from exporter.history.parquet import render_history
from exporter.job.exclude import remove_excluded
from exporter.job.scope_reading import read_protocols, view_limits
from exporter.job.sources import OpenSource
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import is_instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import RawEntry
from exporter.ledger.view import read_at_one_ledger
from exporter.past.lake.close_meta import EVENT, decode_event
from exporter.past.lake.extract import LedgerChanges, unpack
from exporter.past.lake.replay import ReplayedState, wrongly_archived
from exporter.past.lake.transitions import Prover, Tally
from exporter.past.lake.watch import DATA, Watch
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.compute import compute
from exporter.protocols.protocol import event_filters, market_events
from exporter.tree.values import SkipReason


class Close(NamedTuple):
    """A ledger, its close time in unix seconds, and Stellar's protocol version at it."""

    ledger: int
    time: int
    protocol: int


class BoundaryReading(NamedTuple):
    """The reading at a boundary.

    Attributes:
        part: the file of its rows; None if the ledger has no market.
        unread: the listed markets that could not be read, and pools of such, as MARKET or MARKET/POOL; none that the
            settings exclude. Anybody can deploy a market that is not listed, and break it.
    """

    part: HistoryPart | None
    unread: list[str]


class Segment(Struct, frozen=True):
    """A piece of work for a worker.

    Attributes:
        name: its name in the journal.
        settings: the settings, without RPCs.
        ledger: the ledger with whose state it begins.
        protocol: Stellar's protocol version at that ledger.
        entries: the state after that ledger.
        changes: the changes up to the last boundary, packed as `exporter.past.lake.extract` does, to save memory.
        boundaries: the ledgers at the boundaries.
        watched: what is watched.
        deployments: the known contracts.
        instances: contracts that the start state has.
        candidates: the contracts that events up to ``ledger`` named.
    """

    name: str
    settings: Settings
    ledger: int
    protocol: int
    entries: Mapping[bytes, RawEntry]
    changes: bytes
    boundaries: tuple[Close, ...]
    watched: Watch
    deployments: tuple[Deployment, ...]
    instances: tuple[tuple[str, ContractInstance], ...]
    candidates: tuple[Candidate, ...]

    __repr__ = object.__repr__  # the fields of one are as large as a ledger


class SegmentResult(NamedTuple):
    """The result of replaying a segment.

    Attributes:
        outcomes: the reading at each boundary, by ledger. A text says why the reading failed. None says that it looked
            at something that was not watched.
        unwatched: what readings looked at although it was not watched.
        tally: what comparing formulas with the chain gave.
    """

    outcomes: Mapping[int, BoundaryReading | str | None]
    unwatched: Watch
    tally: Tally


def replay_segment(work: Segment) -> SegmentResult:
    """Replay a segment. If a reading fails, its error is the outcome of that boundary, and is not raised."""
    state = ReplayedState(work.entries, work.ledger, work.protocol, wrongly_archived(work.settings.passphrase))
    names = EventNames(work.deployments, work.candidates)
    prover = Prover(work.entries)
    outcomes: dict[int, BoundaryReading | str | None] = {}
    unwatched = Watch()
    pending = deque(unpack(work.changes, list[LedgerChanges], work.name))
    for ledger, close_time, protocol in work.boundaries:
        while pending and pending[0].ledger <= ledger:
            item = pending.popleft()
            prover.follow(item)
            state.take(item.ledger, item.protocol, (change for _, change in item.changes))
            names.follow(item)
        if state.ledger < ledger:
            state.take(ledger, protocol, ())
        source = StoredSource(state.entry, ledger, close_time, "ledger lake", storage_answers)
        try:
            readings, used = read_state(source, work.settings, work.deployments, work.instances, names.candidates)
            missing = used - work.watched
            unwatched |= missing
            outcomes[ledger] = None if missing else _rows(readings, ledger, close_time, work.settings)
        except ExporterError as error:
            outcomes[ledger] = str(error)
    return SegmentResult(outcomes, unwatched, prover.tally)


class EventNames:
    """Collects the candidates that events name, in the order of the events."""

    def __init__(self, deployments: Sequence[Deployment], candidates: Sequence[Candidate] = ()) -> None:
        self.candidates: dict[Candidate, None] = dict.fromkeys(candidates)
        self._events = market_events(PROTOCOLS)
        self._filters = list(event_filters(PROTOCOLS, deployments))

    @property
    def contracts(self) -> frozenset[bytes]:
        """The ids of the contracts whose events name candidates."""
        return frozenset(strkey.decode(contract)[1] for _, each in self._filters for contract in each.contracts)

    def follow(self, item: LedgerChanges) -> None:
        """Look at the events of a ledger."""
        for _, change in item.changes:
            if change.kind != EVENT or change.entry is None:
                continue
            try:
                event = decode_event(change.entry, item.ledger)
                for name, each in self._filters:
                    if event.contract in each.contracts and event.starts_with(each.topics):
                        self.candidates.update(dict.fromkeys(self._events[name].candidates(event)))
            except DecodeError:
                continue  # as in a run: events are only hints


def read_state(
    source: StoredSource,
    settings: Settings,
    deployments: Sequence[Deployment],
    instances: Sequence[tuple[str, ContractInstance]],
    candidates: Iterable[Candidate] = (),
) -> tuple[list[ProtocolReading], Watch]:
    """Read all protocols from a state, without what the settings exclude.

    Also returns everything that was looked at, which has to be watched.
    """
    opened = OpenSource(source, network_of(settings.passphrase), list(instances), "the ledger lake", None)
    context = DiscoveryContext(deployments, list(candidates))
    program = partial(read_protocols, settings=settings, opened=opened, context=context)
    excluded = frozenset(settings.exclude)
    readings = asyncio.run(read_at_one_ledger(source, program, view_limits(settings), excluded)).result
    used = _used_by(readings, source, deployments)
    for reading in readings:
        remove_excluded(reading, excluded)
    return readings, used


def _used_by(readings: Sequence[ProtocolReading], source: StoredSource, deployments: Sequence[Deployment]) -> Watch:
    """What a reading looked at: all entries of markets, and of contracts that it called or whose data it read.

    Of tokens it is only the keys that were read, because tokens have entries for everybody. The same is true for
    contracts if only their instance was read.
    """
    tokens = {pool.token_address for reading in readings for pool in reading.pools}
    contracts = {contract.address for deployment in deployments for contract in deployment.contracts}
    with_events = set[str]()
    for reading in readings:
        tokens |= set(reading.tokens)
        markets = {market.address for market in reading.markets}
        markets |= {item.market for item in reading.unread} | {item.market for item in reading.absent}
        contracts |= markets
        if PROTOCOLS[reading.protocol].liquidations is not None:
            with_events |= markets
    token_ids = _ids(tokens - contracts)
    keys = [key for key in source.asked if key[:4] == DATA]
    watched_ids = _ids(contracts | set(source.called)) | {key[8:40] for key in keys if not is_instance_key(key)}
    watched_ids -= token_ids  # even if they are called, because everybody changes their entries
    return Watch(
        frozenset(watched_ids),
        frozenset(key for key in keys if key[8:40] not in watched_ids),
        frozenset(_ids(with_events) & watched_ids),
    )


def _ids(addresses: set[str]) -> set[bytes]:
    return {strkey.decode(address)[1] for address in addresses if address.startswith("C")}


def _rows(readings: Sequence[ProtocolReading], ledger: int, close_time: int, settings: Settings) -> BoundaryReading:
    configured = (MarketKey(market.protocol, market.address) for market in settings.markets)
    listings = MarketListings(network_of(settings.passphrase).deployments, configured)
    tables = compute(readings, PROTOCOLS, ledger, close_time, listings)
    part = None
    if tables.markets.height:
        part = render_history(
            tables.pools, observed_ledger=ledger, ledger_close_time=close_time, network=settings.passphrase
        )
    missed = (item for item in tables.unread if listings.is_listed(item.protocol, item.market))
    unread = [
        item.market if item.pool is None else f"{item.market}/{item.pool}"
        for item in missed
        if item.reason != SkipReason.EXCLUDED
    ]
    return BoundaryReading(part, unread)
