"""Reads the markets of a search scope through one view, whoever asks: a run, an audit or a backfill."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from exporter.config import Settings
from exporter.discovery import DiscoveryContext, candidates
from exporter.discovery.candidates import check_lists, listings_of
from exporter.durations import duration_text
from exporter.errors import SourceError
from exporter.job.search_scope import SearchScope
from exporter.job.sources import OpenSource
from exporter.ledger.batches import gather_or_cancel
from exporter.ledger.checkpoints import CHECKPOINT_LEDGERS
from exporter.ledger.view import LedgerView, ViewLimits
from exporter.protocols import PROTOCOLS, oracle_forms
from exporter.protocols.base import ProtocolReading
from exporter.protocols.containment import read_contained
from exporter.protocols.frozen_keys import SETTING_KEY, mark_frozen
from exporter.protocols.price_sources import watch_prices_contained


def determine_scope(settings: Settings, opened: OpenSource, context: DiscoveryContext | None = None) -> SearchScope:
    """Where to look for markets: in lists, and where earlier runs and events say. Evidence has what its run used."""
    if opened.evidence is not None:
        return opened.evidence.scope(opened.network.deployments)
    lists = opened.network.deployments if settings.discovery.enabled else ()
    deployments = lists if context is None else context.deployments
    by_protocol = candidates(
        settings, opened.network, PROTOCOLS, opened.instances, () if context is None else context.candidates
    )
    every = [candidate for group in by_protocol.values() for candidate in group]
    listings = listings_of(opened.network.deployments, every)
    return SearchScope(by_protocol, deployments, lists, listings).without(settings.exclude)


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
    scope = determine_scope(settings, opened, context)
    if listed_alone:
        listed = await read_scope(view, scope.listed_alone(), has_all_contracts=opened.has_all_contracts)
        if any(reading.markets for reading in listed):
            return listed
    read = await read_scope(view, scope, has_all_contracts=opened.has_all_contracts)
    named = [item for reading in read for item in reading.named if scope.admits(item)]
    return await read_scope(view, scope.with_more(named), has_all_contracts=opened.has_all_contracts) if named else read


async def read_scope(
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
