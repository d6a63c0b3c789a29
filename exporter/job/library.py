"""`exporter.read`: the numbers of all markets at one ledger, for callers of the library. It writes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from exporter.config import Settings, load_settings
from exporter.deployments.networks import network_id
from exporter.discovery.known_markets import Memory
from exporter.errors import ConfigError
from exporter.event_loops import refuse_running_loop
from exporter.job.reading import MarketsReading, read_markets
from exporter.job.sources import RpcEndpoints, StoredLedger
from exporter.ledger.view import Certificate
from exporter.protocols.compute import Tables
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
        settings = replace(settings, network=replace(settings.network, rpc_urls=(str(source),)))

    async def work() -> MarketsReading:
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
