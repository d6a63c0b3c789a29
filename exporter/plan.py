"""What a run would read and write, told without doing either: no request is made, no file is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from exporter.config import Configuration
from exporter.discovery import candidates
from exporter.ledger.endpoints import parse_endpoints
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.networks import network_of
from exporter.protocols import PROTOCOLS
from exporter.publishing.published import read_published
from exporter.stores.store import open_store


def describe(configuration: Configuration, snapshot: Path | None) -> Iterator[str]:
    """The plan, line by line: the settings with their origins, what would be read first, what stands published."""
    settings = configuration.settings
    yield "settings (default unless an origin is given)"
    for key, value in _flat(msgspec.to_builtins(settings)):
        if key == "network.rpc_urls" and settings.network.rpc_urls:
            value = [endpoint.label for endpoint in parse_endpoints(settings.network.rpc_urls)]
        origin = configuration.origins.get(key)
        yield f"  {key} = {value!r}{f'   # {origin}' if origin else ''}"

    network = network_of(settings.passphrase)
    found = candidates(settings, network, PROTOCOLS)
    yield "reads"
    if snapshot is not None:
        yield f"  the ledger snapshot file {snapshot}, and every market whose contract code is known in it"
    elif not settings.network.rpc_urls:
        yield "  nothing: no Stellar RPC is given (network.rpc_urls, --rpc-url) and no file (--snapshot)"
    for name, markets in found.items():
        demanded = sum(item.demanded for item in markets)
        yield f"  {name}: {len(markets)} known markets, {demanded} of them named in [[markets]]"
        zones = [item.label for item in network.deployments if item.protocol == name and item.backstop]
        if settings.discovery.enabled and zones:
            yield f"  {name}: more from the reward zones of {', '.join(zones)}"
    keys = 2 * sum(map(len, found.values()))
    yield f"  first wave: at least {keys} ledger keys, {-(-keys // MAX_KEYS_PER_REQUEST)} requests"

    store = open_store(settings.output.uri)
    published = read_published(store)
    yield f"writes to {store.uri}"
    if published is None:
        yield "  nothing is published there yet"
    else:
        pointer = published.pointer
        yield f"  published: run {pointer.run_id} at ledger {pointer.observed_ledger}; a run must be of a later ledger"
    sizes = ", ".join(map(str, sorted(settings.output.page_sizes)))
    yield f"  v1/assets in pages of {sizes} (default {settings.output.default_page_size}) for each market and token"
    yield "  v1/assets/<market>/<pool> and its history in buckets, v1/markets, v1/tokens, v1/protocol/summary"
    yield "  v1/markets/<market>, v1/history and one Parquet file, index.html, v1/system/status last"
    yield f"  removes pages of runs superseded more than {settings.output.retention_hours} hours ago"


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
