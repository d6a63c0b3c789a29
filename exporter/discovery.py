"""Which addresses a run tries to read as markets, before the ledger itself names more.

Three sources, in this order: the operator's own list, the published deployments of the network, and, where the
ledger is a snapshot file, every contract in it that runs the code of a known market.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.config import Settings
from exporter.ledger.scval import ContractInstance
from exporter.networks import Network
from exporter.protocols.base import Candidate, Origin, ProtocolModule


def candidates(
    settings: Settings,
    network: Network,
    modules: Mapping[str, ProtocolModule],
    instances: Iterable[tuple[str, ContractInstance]] = (),
) -> dict[str, list[Candidate]]:
    """The candidates of each protocol, each address once. ``instances`` are the contracts of a snapshot file."""
    found: dict[tuple[str, str], Candidate] = {}
    for market in settings.markets:
        found[market.protocol, market.address] = Candidate(market.protocol, market.address, Origin.CONFIGURATION)
    if settings.discovery.enabled:
        for deployment in network.deployments:
            for address in deployment.markets:
                found.setdefault((deployment.protocol, address), Candidate(deployment.protocol, address))
        code = {wasm: name for name, module in modules.items() for wasm in module.market_wasm_hashes()}
        for address, instance in instances:
            name = code.get(instance.wasm_hash or b"")
            if name is not None:
                found.setdefault((name, address), Candidate(name, address, Origin.SNAPSHOT))
    return {name: [item for item in found.values() if item.protocol == name] for name in modules}
