"""Reading all protocols from an open source, within the time that the settings allow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from exporter.config import Settings
from exporter.discovery import candidates
from exporter.errors import SourceError
from exporter.ledger.view import LedgerView, ViewLimits
from exporter.protocols.base import ProtocolModule, ProtocolReading
from exporter.sources import OpenSource


async def read_protocols(
    view: LedgerView, settings: Settings, opened: OpenSource, modules: Mapping[str, ProtocolModule]
) -> list[ProtocolReading]:
    """All protocols, each all its markets. Raises `SourceError`.

    A program, or a part of one, for `exporter.ledger.view`: it may run several times.
    """
    found = candidates(settings, opened.network, modules, opened.instances)
    deployments = opened.network.deployments if settings.discovery.enabled else ()
    return await asyncio.gather(
        *(
            module.read(view, found[name], [item for item in deployments if item.protocol == name])
            for name, module in modules.items()
        )
    )


def view_limits(settings: Settings) -> ViewLimits:
    """The bounds of the read transaction."""
    network = settings.network
    return ViewLimits(max_rounds=network.max_rounds, max_seconds=network.read_deadline_seconds)


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
