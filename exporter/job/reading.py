"""Reads every market at one ledger, as a run does: it also discovers markets, and returns the evidence."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from exporter.config import NetworkSettings, Settings
from exporter.deployments import MARKET
from exporter.deployments.listing import MarketListings
from exporter.discovery import Discovered, DiscoveryContext, discover_context, learn, remember_named, remembered
from exporter.discovery.known_markets import LearnedContract, Memory
from exporter.job.evidence import Evidence
from exporter.job.exclude import remove_excluded
from exporter.job.scope_reading import determine_scope, read_scope, reading_deadline, view_limits
from exporter.job.search_scope import SearchScope
from exporter.job.sources import OpenSource, open_evidence
from exporter.job.unlisted import Budget, UnlistedMarkets, budget_of, unread_of
from exporter.ledger.batches import gather_or_cancel
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.view import Certificate, LedgerView
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import LEARNED, Candidate, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.tree.documents import SkippedMarket


def read_again(evidence: Evidence) -> tuple[MarketsReading, Evidence]:
    """Read the markets of a run from its evidence again. Returns them, and the part of the evidence that was used.

    Raises `ExporterError`.
    """
    settings = Settings(network=NetworkSettings(passphrase=evidence.passphrase))
    return asyncio.run(read_markets(settings, open_evidence(settings, evidence), None))


# The repr has no fields, because `asyncio.run` makes that of its result: here it would be as large as the network.
class MarketsReading(Struct, frozen=True):
    """The state of all markets at one ledger, and what the run learned while it read them.

    Attributes:
        protocols: the readings of all protocols; a market that is not listed has a reading of its own.
        listings: says which markets are listed.
        certificate: proves that everything is the state of one ledger.
        close_time: the ledger's close time, in unix seconds.
        notices: what the operator should know of the reading.
        discovered: markets and pools that neither the lists nor an earlier run named.
        memory: what the next run has to know of markets and events; None if discovery is off.
        proof: the content of the proof file, if the source is an archive.
        entry_count: the number of ledger keys in the evidence.
        skipped: the markets that were not read, or not to the end.
    """

    protocols: list[ProtocolReading]
    listings: MarketListings
    certificate: Certificate
    close_time: int
    notices: list[str]
    discovered: list[Discovered]
    memory: Memory | None
    proof: bytes | None
    entry_count: int
    skipped: list[SkippedMarket]

    __repr__ = object.__repr__

    def tables(self) -> Tables:
        """The numbers of all markets, computed from their state."""
        tables = compute(self.protocols, PROTOCOLS, self.certificate.ledger, self.close_time, self.listings)
        tables.notices = sorted({*tables.notices, *self.notices})
        tables.skipped = self.skipped
        tables.unread = sorted(
            [*tables.unread, *unread_of(self.skipped)], key=lambda item: (item.market, item.pool or "")
        )
        return tables


async def read_markets(
    settings: Settings, opened: OpenSource, memory: Memory | None, *, with_price_sources: bool = True
) -> tuple[MarketsReading, Evidence]:
    """Discover markets, and read all of them at one ledger. Returns them and the evidence. Raises `SourceError`.

    The listed markets are read first and decide which ledger it is. All others are read after them, within a budget
    (`exporter.job.unlisted`). ``memory`` has what earlier runs discovered, and gets what is new; None turns discovery
    off. Without ``with_price_sources`` nobody looks for who is behind prices, which no number needs: runs compare it.
    """
    search = _Search(settings, opened, memory, with_price_sources=with_price_sources)
    view = LedgerView(opened.source, view_limits(settings), search.scope.excluded)
    unlisted = UnlistedMarkets(
        view,
        search.unlisted_candidates,
        lambda: search.scope.deployments,
        budget=None if opened.evidence is not None else search.budget_left,
    )
    async with reading_deadline(settings):
        reading = await view.run_until_consistent(search.read_listed, unlisted)
        ledger = reading.certificate.ledger
        close_time = await opened.source.close_time(ledger)
    scope = search.scope

    others = unlisted.outcome_at(ledger)
    readings = [*reading.result, *others.readings]
    for each in readings:
        remove_excluded(each, scope.excluded)
    read_candidates = [*search.listed_candidates(), *others.read]
    discovered = search.learn(readings, read_candidates, ledger)
    notices = search.notices()

    skipped = sorted([*scope.skipped, *others.skipped], key=lambda item: (item.market, item.protocol))
    entries = {**reading.entries, **others.entries}
    calls = {**reading.calls, **others.calls}
    certificate = replace(reading.certificate, keys=len(entries), calls=len(calls))
    if opened.stored:
        entries |= await _entries_of_calls(opened, calls, entries)
        calls = {}
    evidence = Evidence(
        settings.passphrase,
        ledger,
        close_time,
        entries,
        calls,
        read_candidates,
        _learned_contracts(scope),
        notices,
        has_all_contracts=opened.has_all_contracts,
        lists_compared=bool(scope.compared_lists),
        stored=opened.stored,
        skipped=skipped,
        excluded=sorted(scope.excluded),
    )
    markets = MarketsReading(
        protocols=readings,
        listings=scope.listings,
        certificate=certificate,
        close_time=close_time,
        notices=notices,
        discovered=discovered,
        memory=memory,
        proof=opened.proof,
        entry_count=len(entries),
        skipped=skipped,
    )
    return markets, evidence


def listed_contracts(opened: OpenSource, scope: SearchScope) -> list[bytes]:
    """The ledger keys of contracts that the lists name for the protocols that are read; none of a run's evidence.

    A market names most of these itself, such as its backstop, but only after it was read.
    """
    if opened.evidence is not None:
        return []
    return [
        instance_key(contract.address)
        for item in opened.network.deployments
        if scope.candidates.get(item.protocol)
        for contract in item.contracts
        if contract.role != MARKET
    ]


class _Search:
    """Where a run looks for markets, and what it has read of the listed ones.

    Attributes:
        scope: the candidates that are known so far. Discovery widens it once.
        context: what discovery found; None until then, and if discovery is off.
        readings: the newest readings of the listed markets.
    """

    def __init__(
        self, settings: Settings, opened: OpenSource, memory: Memory | None, *, with_price_sources: bool
    ) -> None:
        self._settings, self._opened, self._memory = settings, opened, memory
        self._with_price_sources = with_price_sources
        self._began = monotonic()
        self._confirmed_before = set() if memory is None else memory.confirmed()
        remembers = None if memory is None else remembered(opened.network, memory)
        self.scope = determine_scope(settings, opened, remembers)
        self.context: DiscoveryContext | None = None
        self.readings: list[ProtocolReading] = []

    async def read_listed(self, view: LedgerView) -> list[ProtocolReading]:
        """Read the listed markets. The first call also discovers, and reads again if that lists other markets.

        A view calls this as often as it needs until everything is of one ledger.
        """
        reading = self._read_scope(view)
        if self._memory is None or self.context is not None:
            self.readings = await reading
            return self.readings
        discovers = discover_context(
            view, self._opened.source, self._opened.network, PROTOCOLS, self._memory, self._deadline
        )
        self.readings, self.context = await gather_or_cancel(reading, discovers)
        listed_before = self.scope.listed_alone().candidates
        self.scope = determine_scope(self._settings, self._opened, self.context)
        if self.scope.listed_alone().candidates != listed_before:
            self.readings = await self._read_scope(view)
        return self.readings

    def listed_candidates(self) -> list[Candidate]:
        """The candidates that are listed."""
        return [item for group in self.scope.listed_alone().candidates.values() for item in group]

    def unlisted_candidates(self) -> Iterable[Candidate]:
        """The candidates that are not listed, with those that the protocols' contracts name."""
        others = self.scope.others()
        addresses = {(item.protocol, item.address) for item in others}
        named = {(item.protocol, item.address): item for reading in self.readings for item in reading.named}
        others += [item for key, item in named.items() if key not in addresses and self.scope.admits(item)]
        return others

    def budget_left(self) -> Budget:
        """What the markets that are not listed may cost, by the time that is left and the size of the listed ones."""
        pools = sum(len(market.members) for reading in self.readings for market in reading.markets)
        return budget_of(self._deadline, monotonic() - self._began, pools)

    def learn(self, readings: Sequence[ProtocolReading], read: Sequence[Candidate], ledger: int) -> list[Discovered]:
        """Put what was read into the memory for later runs. Returns what neither the lists nor an earlier run named."""
        if self._memory is None or self.context is None:
            return []
        self._memory.notices.clear()  # the context has those from before
        discovered = learn(self._memory, readings, read, self._confirmed_before, ledger)
        remember_named(self._memory, self.readings, ledger)
        return discovered

    def notices(self) -> list[str]:
        """What the operator should know of the source and of discovery, after `learn`."""
        source = self._opened if self._opened.evidence is None else self._opened.evidence
        if self._memory is None or self.context is None:
            return list(source.notices)
        return [*source.notices, *self.context.notices, *self._memory.notices]

    @property
    def _deadline(self) -> float:
        """The time limit of the whole reading, in seconds."""
        return self._settings.network.read_deadline.total_seconds()

    def _read_scope(self, view: LedgerView) -> Coroutine[Any, Any, list[ProtocolReading]]:
        return read_scope(
            view,
            self.scope.listed_alone(),
            has_all_contracts=self._opened.has_all_contracts,
            early=listed_contracts(self._opened, self.scope),
            with_price_sources=self._with_price_sources,
        )


async def _entries_of_calls(
    opened: OpenSource, calls: Mapping[ContractCall, SimulationAnswer], entries: Mapping[bytes, RawEntry | None]
) -> dict[bytes, RawEntry | None]:
    """The entries that the results of calls follow from in a stored ledger, but those that are in ``entries``.

    A stored ledger cannot call contracts; its results are derived, so the evidence has what they are derived from.
    """
    looked_at = {key for answer in calls.values() for key in answer.footprint}
    derived_from: dict[bytes, RawEntry | None] = {}
    for answer in await opened.source.read_entries(sorted(looked_at - entries.keys())):
        derived_from |= {key: answer.entries.get(key) for key in answer.asked}
    return derived_from


def _learned_contracts(scope: SearchScope) -> list[LearnedContract]:
    """The contracts that no list has, and that an earlier run or this one learned from the chain."""
    return [
        LearnedContract(
            protocol=deployment.protocol, label=deployment.label, role=contract.role, address=contract.address
        )
        for deployment in scope.deployments
        for contract in deployment.contracts
        if contract.source == LEARNED
    ]
