"""Reads every market at one ledger.

`read` is for callers of the library, and `read_markets` for a run: it also discovers markets, and gives the evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from msgspec import Struct, structs
from msgspec.structs import replace

from exporter.config import NetworkSettings, Settings, load_settings
from exporter.deployments import MARKET
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_id
from exporter.discovery import (
    Discovered,
    DiscoveryContext,
    candidates,
    discover_context,
    learn,
    remember_named,
    remembered,
)
from exporter.discovery.candidates import check_lists, listings_of
from exporter.discovery.known_markets import LearnedContract, Memory
from exporter.durations import duration_text
from exporter.errors import ConfigError, SourceError
from exporter.event_loops import refuse_running_loop
from exporter.job.evidence import Evidence, SearchScope
from exporter.job.exclude import remove_excluded
from exporter.job.sources import OpenSource, RpcEndpoints, StoredLedger, open_evidence
from exporter.job.unlisted import Budget, UnlistedMarkets, budget_of, unread_of
from exporter.ledger.checkpoints import CHECKPOINT_LEDGERS
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.ledger.view import Certificate, LedgerView, ViewLimits, gather_or_cancel
from exporter.protocols import PROTOCOLS, oracle_forms
from exporter.protocols.base import LEARNED, Candidate, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.containment import read_contained
from exporter.protocols.frozen_keys import SETTING_KEY, mark_frozen
from exporter.protocols.price_sources import watch_prices_contained
from exporter.tree.documents import SkippedMarket
from exporter.user_files import user_path


class LedgerTables(NamedTuple):
    """The numbers of all markets, and a certificate that they are the state of one ledger.

    >>> tables.ledger == certificate.ledger
    True
    >>> tables.unread
    []
    """

    tables: Tables
    certificate: Certificate


def read(source: str | Path, settings: Settings | None = None) -> LedgerTables:
    """Read every market at one ledger, and write nothing.

        >>> tables, certificate = read(rpc_url)
        >>> tables.pools.select("protocol", "symbol", "total_supplied").sort("protocol", "symbol").row(0)
        ('alula', 'EURC', 4776600000000)

    ``Tables.controls`` has the admins and the code of markets. Who is behind their prices is read by runs only, which
    compare it.

    Args:
        source: the URL of a Stellar RPC, or the path of a ledger snapshot file.
        settings: the network, its limits, and the markets. If omitted, they are loaded from the environment.

    Raises:
        SourceError: the source cannot be read, or is of another network.
        ConfigError: the source is not a URL or a path, there is nothing to read by the settings, or an event loop runs
            in this thread.
    """
    refuse_running_loop("read")
    settings = load_settings() if settings is None else settings
    _refuse_other_types(source, settings)
    is_url = isinstance(source, str) and "://" in source
    if is_url:
        if not (settings.discovery.enabled or settings.markets):
            raise ConfigError("there is nothing to read: discovery.enabled is false, and markets names no market")
        settings = structs.replace(settings, network=structs.replace(settings.network, rpc_urls=(str(source),)))

    async def work() -> MarketsRead:
        async with (RpcEndpoints() if is_url else StoredLedger(user_path(source))).open(settings) as opened:
            memory = Memory(network_id(settings.passphrase)) if opened.discovers(settings) else None
            return (await read_markets(settings, opened, memory, with_price_sources=False))[0]

    markets = asyncio.run(work())
    return LedgerTables(markets.tables(), markets.certificate)


def _refuse_other_types(source: object, settings: object) -> None:
    """Raise `ConfigError` for what a caller without a type checker gives by mistake. A source is not quoted."""
    if not isinstance(source, (str, Path)) or source == "":
        what = "an empty text" if source == "" else f"of type {type(source).__name__}"
        raise ConfigError(f"the source is {what}; give the URL of a Stellar RPC, or the path of a ledger snapshot file")
    if not isinstance(settings, Settings):
        what = f"of type {type(settings).__name__}"
        raise ConfigError(f"the settings are {what}; give what exporter.load_settings returns")


def read_again(evidence: Evidence) -> tuple[MarketsRead, Evidence]:
    """Read the markets of a run from its evidence again. Returns them, and the part of the evidence that was used.

    Raises `ExporterError`.
    """
    settings = Settings(network=NetworkSettings(passphrase=evidence.passphrase))
    return asyncio.run(read_markets(settings, open_evidence(settings, evidence), None))


# The repr has no fields, because `asyncio.run` makes that of its result: here it would be as large as the network.
class MarketsRead(Struct, frozen=True):
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
) -> tuple[MarketsRead, Evidence]:
    """Discover markets, and read all of them at one ledger. Returns them and the evidence. Raises `SourceError`.

    The listed markets are read first and decide which ledger it is. All others are read after them, within a budget
    (`exporter.job.unlisted`). ``memory`` has what earlier runs discovered, and gets what is new; None turns discovery
    off. Without ``with_price_sources`` nobody looks for who is behind prices, which no number needs: runs compare it.
    """
    confirmed_before = set() if memory is None else memory.confirmed()
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

    gathered = unlisted.gather(ledger)
    readings = [*reading.result, *gathered.readings]
    for each in readings:
        remove_excluded(each, scope.excluded)
    listed = [item for group in scope.listed_alone().candidates.values() for item in group]
    read_candidates = [*listed, *gathered.read]

    notices = list(opened.notices if opened.evidence is None else opened.evidence.notices)
    discovered: list[Discovered] = []
    if memory is not None and search.context is not None:
        memory.notices.clear()  # the context has those from before
        discovered = learn(memory, readings, read_candidates, confirmed_before, ledger)
        remember_named(memory, search.readings, ledger)
        notices += [*search.context.notices, *memory.notices]

    skipped = sorted([*scope.skipped, *gathered.skipped], key=lambda item: (item.market, item.protocol))
    entries = {**reading.entries, **gathered.entries}
    calls = {**reading.calls, **gathered.calls}
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
    markets = MarketsRead(
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
        remembers = None if memory is None else remembered(opened.network, memory)
        self.scope = search_scope(settings, opened, remembers)
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
        self.scope = search_scope(self._settings, self._opened, self.context)
        if self.scope.listed_alone().candidates != listed_before:
            self.readings = await self._read_scope(view)
        return self.readings

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

    @property
    def _deadline(self) -> float:
        """The time limit of the whole reading, in seconds."""
        return self._settings.network.read_deadline.total_seconds()

    def _read_scope(self, view: LedgerView) -> Coroutine[Any, Any, list[ProtocolReading]]:
        return _read_scope(
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


async def read_protocols(
    view: LedgerView,
    settings: Settings,
    opened: OpenSource,
    context: DiscoveryContext | None = None,
    *,
    listed_alone: bool = False,
) -> list[ProtocolReading]:
    """Read all markets, listed or not, in one transaction. Raises `SourceError`.

    Use this only if strangers cannot slow the source down, as with a file. For RPC endpoints ask for ``listed_alone``,
    or read as a run does (`read_markets`). If the source has no listed market, all markets are read in any case.
    ``context`` has what earlier runs and events name.
    """
    scope = search_scope(settings, opened, context)
    if listed_alone:
        listed = await _read_scope(view, scope.listed_alone(), has_all_contracts=opened.has_all_contracts)
        if any(reading.markets for reading in listed):
            return listed
    read = await _read_scope(view, scope, has_all_contracts=opened.has_all_contracts)
    named = [item for reading in read for item in reading.named if scope.admits(item)]
    return (
        await _read_scope(view, scope.with_more(named), has_all_contracts=opened.has_all_contracts) if named else read
    )


def search_scope(settings: Settings, opened: OpenSource, context: DiscoveryContext | None = None) -> SearchScope:
    """Where to look for markets: in lists, and where earlier runs and events say. Evidence has what its run used."""
    if opened.evidence is not None:
        return opened.evidence.search_scope(opened.network.deployments)
    lists = opened.network.deployments if settings.discovery.enabled else ()
    deployments = lists if context is None else context.deployments
    by_protocol = candidates(
        settings, opened.network, PROTOCOLS, opened.instances, () if context is None else context.candidates
    )
    every = [candidate for group in by_protocol.values() for candidate in group]
    listings = listings_of(opened.network.deployments, every)
    return SearchScope(by_protocol, deployments, lists, listings).without(settings.exclude)


async def _read_scope(
    view: LedgerView,
    scope: SearchScope,
    *,
    has_all_contracts: bool,
    early: Sequence[bytes] = (),
    with_price_sources: bool = True,
) -> list[ProtocolReading]:
    """The readings of the protocols that have a market or a list in the scope, or of all if none has.

    ``early`` are keys that the readers will probably ask for later.
    """
    deployments = {name: [item for item in scope.deployments if item.protocol == name] for name in PROTOCOLS}
    names = [name for name in PROTOCOLS if scope.candidates.get(name) or deployments[name]] or list(PROTOCOLS)
    drifts, _, _, *read = await gather_or_cancel(
        check_lists(view, scope.compared_lists, has_all_contracts=has_all_contracts),
        view.read_early(early),
        view.read_early([SETTING_KEY], alone=True),
        *(read_contained(PROTOCOLS[name], view, scope.candidates[name], deployments[name]) for name in names),
    )
    if with_price_sources:
        await watch_prices_contained(view, read, oracle_forms())
    notice = await mark_frozen(view, read)
    if notice is not None:
        read[0].notices.append(notice)
    for reading in read:
        reading.notices += [
            drift.notice
            for drift in drifts
            if drift.protocol == reading.protocol
            and drift.address not in reading.unknown_code  # the reader reported that code already
        ]
    return read


def view_limits(settings: Settings) -> ViewLimits:
    """How often and how long a view reads again until everything is of one ledger."""
    network = settings.network
    return ViewLimits(
        max_rounds=network.max_rounds,
        max_seconds=network.read_deadline.total_seconds(),
        spacing=CHECKPOINT_LEDGERS if network.prefer_checkpoint else 1,
    )


@asynccontextmanager
async def reading_deadline(settings: Settings) -> AsyncIterator[None]:
    """Raise `SourceError` if what is inside takes longer than ``network.read_deadline``."""
    deadline = settings.network.read_deadline
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            yield
    except TimeoutError:
        raise SourceError(
            f"reading took longer than network.read_deadline = {duration_text(deadline)}; use a faster endpoint, "
            "or raise that, network.max_in_flight or network.requests_per_second"
        ) from None
