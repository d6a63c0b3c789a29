"""``/v1/protocols``: what a run covers, what it could not read, and what is left out on purpose."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import msgspec

from exporter.api.coverage_documents import ContractVersion, Excluded, KnownAddress, ProtocolCoverage, ProtocolList
from exporter.api.render import render_document
from exporter.compute import Tables
from exporter.deployments import Deployment
from exporter.files import RenderedFile
from exporter.protocols.base import ProtocolModule

COVERAGE_KEY = "v1/protocols.json"


@cache
def excluded_on(network: str) -> tuple[Excluded, ...]:
    """What is left out on purpose on a network, by its name in the configuration."""
    text = files("exporter.deployments").joinpath("excluded.toml").read_text("utf-8")
    listed = msgspec.convert(tomllib.loads(text), dict[str, tuple[Excluded, ...]])
    return listed.get(network, ())


def render_coverage(covered: ProtocolList) -> RenderedFile:
    """Render the document."""
    return render_document(COVERAGE_KEY, covered)


def protocol_list(
    tables: Tables, modules: Mapping[str, ProtocolModule], deployments: Sequence[Deployment], network: str
) -> ProtocolList:
    """The document, from what a run read, the modules it read with, and the lists it began from.

    ``network`` is the name of a known network, or any other for one of which nothing is known. Protocols
    ascend by name.
    """
    unread = Counter(item.protocol for item in tables.unread)
    absent = Counter(item.protocol for item in tables.absent)
    protocol_of = dict(tables.markets.select("market", "protocol").iter_rows())
    unpriced = Counter(protocol_of[item.market] for item in tables.unpriced)
    data = []
    for name in sorted(modules):
        described, versions, pool_count = modules[name].coverage, _versions(tables, name), _pool_count(tables, name)
        data.append(
            ProtocolCoverage(
                protocol=name,
                **{field: getattr(described, field) for field in described.__slots__},
                market_count=sum(version.market_count for version in versions),
                pool_count=pool_count,
                unread_count=unread[name],
                unpriced_count=unpriced[name],
                absent_count=absent[name],
                contract_versions=versions,
                known_contracts=_known(deployments, name),
            )
        )
    return ProtocolList(tables.ledger, data, list(excluded_on(network)))


def _versions(tables: Tables, protocol: str) -> list[ContractVersion]:
    rows = tables.markets.select("protocol", "version", "wasm_hash").iter_rows()
    counts = Counter((version, wasm_hash) for name, version, wasm_hash in rows if name == protocol)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    return [ContractVersion(version, wasm_hash, count) for (version, wasm_hash), count in ordered]


def _pool_count(tables: Tables, protocol: str) -> int:
    rows = tables.markets.select("protocol", "pool_count").iter_rows()
    return sum(count for name, count in rows if name == protocol)


def _known(deployments: Sequence[Deployment], protocol: str) -> list[KnownAddress]:
    return [
        KnownAddress(
            deployment=deployment.label,
            role=contract.role,
            address=contract.address,
            name=contract.name,
            wasm_hash=contract.wasm_hash,
            source=contract.source,
            date=contract.date.isoformat(),
        )
        for deployment in deployments
        if deployment.protocol == protocol
        for contract in deployment.contracts
    ]
