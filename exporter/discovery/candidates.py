"""Which addresses a run tries to read as markets, before the ledger itself names more.

The operator's own list comes first, then the published deployments of the network, what earlier runs found, what
events name, and, where the ledger is a snapshot file, every contract in it that runs the code of a known market.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.config import Settings
from exporter.ledger.scval import ContractInstance
from exporter.networks import Network
from exporter.protocols.base import Candidate, Origin, ProtocolModule


def candidates(
    settings: Settings,
    network: Network,
    modules: Mapping[str, ProtocolModule],
    instances: Iterable[tuple[str, ContractInstance]] = (),
    found: Iterable[Candidate] = (),
) -> dict[str, list[Candidate]]:
    """The candidates of each protocol, each address once, and each of its pools that is named.

    ``found`` are those that earlier runs and events found; ``instances`` are the contracts of a snapshot file. The
    first that names an address counts; who vouches for it is taken from any.
    """
    known: dict[tuple[str, str, str | None], Candidate] = {}

    def add(candidate: Candidate) -> None:
        place = candidate.protocol, candidate.address, candidate.pool
        first = known.setdefault(place, candidate)
        if first.voucher is None and candidate.voucher is not None:
            known[place] = replace(first, voucher=candidate.voucher)

    for market in settings.markets:
        add(Candidate(market.protocol, market.address, Origin.CONFIGURATION))
    if settings.discovery.enabled:
        for deployment in network.deployments:
            for address in deployment.markets:
                add(Candidate(deployment.protocol, address))
        for candidate in found:
            add(candidate)
        code = {wasm: name for name, module in modules.items() for wasm in module.market_wasm_hashes()}
        for address, instance in instances:
            name = code.get(instance.wasm_hash or b"")
            if name is not None:
                add(Candidate(name, address, Origin.SNAPSHOT))
    return {name: [item for item in known.values() if item.protocol == name] for name in modules}
