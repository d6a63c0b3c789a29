"""The protocols the exporter knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.deployments import Deployment
from exporter.deployments.networks import NETWORKS
from exporter.ledger.contract_storage import RULES, Read, StorageAnswers
from exporter.protocols.alula import Alula
from exporter.protocols.base import AccrualRule, ProtocolModule
from exporter.protocols.blend import Blend
from exporter.protocols.k2 import K2
from exporter.protocols.peridot import Peridot
from exporter.protocols.slender import Slender
from exporter.protocols.xoxno import Xoxno

PROTOCOLS: dict[str, ProtocolModule] = {
    module.name: module for module in (Alula(), Blend(), K2(), Peridot(), Slender(), Xoxno())
}
"""By name. Every command goes by this."""


def accrual_rules() -> dict[str, AccrualRule]:
    """By name: how accruals are found and computed, of the protocols that say so."""
    return {name: module.accrual for name, module in PROTOCOLS.items() if module.accrual is not None}


def storage_answers(read: Read, ledger: int, close_time: int) -> StorageAnswers:
    """Answers calls of a ledger from its entries, by the rules of oracles and tokens and those of every protocol."""
    own = (rule for module in PROTOCOLS.values() for rule in module.storage_rules)
    return StorageAnswers(read, ledger, close_time, (*RULES, *own))


def register(module: ProtocolModule, deployments: Mapping[str, Sequence[Deployment]] | None = None) -> None:
    """Add a protocol of your own, for everything that this process does after it.

    ``deployments`` are what is known to be deployed of it, by the name of the network. Raises `ValueError` where the
    name is taken, a network is not known, or a deployment is of another protocol.
    """
    if module.name in PROTOCOLS:
        raise ValueError(f"a protocol {module.name} is registered already")
    for network, listed in (deployments or {}).items():
        if network not in NETWORKS:
            raise ValueError(f"no network {network} is known; known: {', '.join(NETWORKS)}")
        if foreign := {item.protocol for item in listed} - {module.name}:
            raise ValueError(f"a deployment of {foreign.pop()} cannot come with {module.name}")
    PROTOCOLS[module.name] = module
    for network, listed in (deployments or {}).items():
        known = NETWORKS[network]
        NETWORKS[network] = replace(known, deployments=(*known.deployments, *listed))
