"""Prints what a run would do. It asks no RPC and writes nothing; it only reads the output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from exporter.config import Configuration, Settings
from exporter.deployments.networks import network_id, network_of
from exporter.discovery import candidates
from exporter.discovery.known_markets import Memory
from exporter.durations import duration_text
from exporter.errors import pluralize, printable
from exporter.job.known_markets_file import load_memory
from exporter.ledger.rpc.endpoints import parse_endpoints
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.protocols import PROTOCOLS
from exporter.protocols.protocol import event_filters
from exporter.publishing.published_state import read_published
from exporter.stores import open_store
from exporter.stores.store import Store


def describe(configuration: Configuration, snapshot: Path | None) -> Iterator[str]:
    """The plan, line by line: the settings and where each comes from, what would be read first, what is published."""
    settings = configuration.settings
    yield from _settings(configuration)
    store = open_store(settings.output.uri)
    memory = load_memory(store, network_id(settings.passphrase)) if settings.discovery.enabled else None
    yield from _reads(settings, memory, snapshot)
    yield from _writes(settings, store, snapshot)


def _settings(configuration: Configuration) -> Iterator[str]:
    """Each setting, with its value and, unless it is the default, where that comes from. Headers are not shown."""
    settings = configuration.settings
    yield "settings (default unless an origin is given)"
    shown = msgspec.to_builtins(settings, builtin_types=(timedelta,))
    if headers := shown["network"].pop("rpc_headers"):
        shown["network"]["rpc_headers"] = f"{pluralize(len(headers), 'entry', 'entries')}, not shown"
    for key, value in _flat(shown):
        if key == "network.rpc_urls" and settings.network.rpc_urls:
            value = [endpoint.label for endpoint in parse_endpoints(settings.network.rpc_urls)]
        origin = configuration.origins.get(key)
        yield f"  {key} = {'not set' if value is None else _toml(value)}{f'   # {origin}' if origin else ''}"


def _reads(settings: Settings, memory: Memory | None, snapshot: Path | None) -> Iterator[str]:
    """Where a run looks for markets, and what it asks for first."""
    network = network_of(settings.passphrase)
    remembered = () if memory is None else memory.candidates()
    candidates_by_protocol = {
        name: [item for item in items if item.address not in settings.exclude]
        for name, items in candidates(settings, network, PROTOCOLS, discovered=remembered).items()
    }
    yield "reads"
    if snapshot is not None:
        yield f"  the ledger snapshot file {snapshot}, and every market whose contract code is known in it"
    elif not settings.network.rpc_urls:
        yield "  nothing: no Stellar RPC is given (network.rpc_urls, --rpc-url) and no file (--snapshot)"
    for name, items in candidates_by_protocol.items():
        markets = [item for item in items if item.pool is None]
        configured = sum(item.configured for item in markets)
        yield f"  {name}: {pluralize(len(markets), 'known market')}, {configured} named in [[markets]]"
        if not settings.discovery.enabled:
            continue
        own = [item for item in network.deployments if item.protocol == name]
        if zones := [item.label for item in own if item.backstop]:
            yield f"  {name}: more from the reward zones of {', '.join(zones)}"
        if pools := sum(len(item.pools) for item in own):
            yield f"  {name}: {pluralize(pools, 'known pool')} that no contract lists"
        if snapshot is None and any(event_filters({name: PROTOCOLS[name]}, own)):
            yield f"  {name}: more from events that its contracts publish"
    keys = 2 * sum(map(len, candidates_by_protocol.values()))
    if memory is not None:
        confirmed = [market for market in memory.markets.values() if market.confirmed]
        pools = sum(market.pool is not None for market in confirmed)
        never_read = len(memory.markets) - len(confirmed)
        yield (
            f"  remembered from earlier runs: {pluralize(len(confirmed) - pools, 'market')}, and "
            f"{pluralize(pools, 'pool')} that nothing on the chain lists; {never_read} more were named by "
            "events and never read"
        )
        yield from (f"  {notice}" for notice in memory.notices)
    requests = pluralize(-(-keys // MAX_KEYS_PER_REQUEST), "request")
    yield f"  first wave: at least {pluralize(keys, 'ledger key')}, {requests}"


def _writes(settings: Settings, store: Store, snapshot: Path | None) -> Iterator[str]:
    """What is published in the output, and what a run writes, compacts and removes there."""
    published = read_published(store, older=True)
    yield f"writes to {store.uri}"
    if published is None:
        yield "  nothing is published there yet"
    else:
        status = published.status
        yield f"  published: run {status.run_id} at ledger {status.observed_ledger}; a run must be of a later ledger"
        if snapshot is None and status.network not in (None, settings.passphrase):
            yield f"  and it is of another network ({printable(status.network)}): name another output"
    sizes = ", ".join(map(str, sorted(settings.output.page_sizes)))
    yield f"  v1/assets in pages of {sizes} (default {settings.output.default_page_size}) for each market and token"
    if settings.history.compact:
        months = settings.history.months
        yield f"  makes one file of each closed day of the history, and of each month before the last {months}"
    yield f"  removes pages of runs superseded more than {duration_text(settings.output.retention)} ago"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(duration_text(value) if isinstance(value, timedelta) else value, ensure_ascii=False)


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
