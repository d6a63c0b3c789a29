"""Reading all protocols from an open source, within the time that the settings allow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from exporter.config import Settings
from exporter.containment import read_contained
from exporter.discovery import Surroundings, candidates
from exporter.discovery.drift import check_lists
from exporter.errors import SourceError
from exporter.ledger.router import Router
from exporter.ledger.view import LedgerView, ViewLimits
from exporter.protocols.base import ProtocolModule, ProtocolReading
from exporter.sources import OpenSource


async def read_protocols(
    view: LedgerView,
    settings: Settings,
    opened: OpenSource,
    modules: Mapping[str, ProtocolModule],
    around: Surroundings | None = None,
) -> list[ProtocolReading]:
    """All protocols, each all its markets, and whether the lists still hold. Raises `SourceError`.

    A program, or a part of one, for `exporter.ledger.view`: it may run several times. ``around`` has what earlier runs
    and events name; without it only lists and the ledger itself name markets.
    """
    listed = opened.network.deployments if settings.discovery.enabled else ()
    deployments = listed if around is None else around.deployments
    found = candidates(settings, opened.network, modules, opened.instances, () if around is None else around.found)
    checked = check_lists(view, [item for item in listed if item.protocol in modules], whole=opened.whole)
    readings = [
        read_contained(module, view, found[name], [item for item in deployments if item.protocol == name])
        for name, module in modules.items()
    ]
    drifts, *read = await _all(checked, *readings)
    for reading in read:
        reading.notices += [
            drift.notice
            for drift in drifts
            if drift.protocol == reading.protocol and drift.address not in reading.unknown_code  # said already
        ]
    return read


async def _all(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run parts side by side; when one fails, none of the others goes on."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def view_limits(settings: Settings) -> ViewLimits:
    """The bounds of the read transaction."""
    network = settings.network
    return ViewLimits(max_rounds=network.max_rounds, max_seconds=network.read_deadline_seconds)


def router_for(settings: Settings, opened: OpenSource) -> Router | None:
    """The router to put calls together with; None if none is wanted or known, and for a file, which runs no code."""
    known = opened.network.router
    if known is None or not settings.network.router or not opened.whole:
        return None
    return Router(known.address, known.wasm_hash)


@asynccontextmanager
async def reading_deadline(settings: Settings) -> AsyncIterator[None]:
    """Bound everything inside by ``network.read_deadline_seconds``. Raises `SourceError` when it takes longer."""
    seconds = settings.network.read_deadline_seconds
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise SourceError(
            f"reading took longer than network.read_deadline_seconds = {seconds:g}; use a faster endpoint, "
            "or raise that, network.max_in_flight or network.requests_per_second"
        ) from None
