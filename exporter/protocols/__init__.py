"""The protocols that the exporter knows. `register` adds another for one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module

from msgspec.structs import replace

from exporter.deployments import Deployment
from exporter.deployments.networks import NETWORKS
from exporter.ledger.contract_storage import RULES, Read, StorageAnswers
from exporter.protocols.accrual import AccrualRule
from exporter.protocols.protocol import OracleForm, Protocol


class Protocols(MutableMapping[str, Protocol]):
    """Protocols by name. Those of the package are imported when they are first asked for: a program may need one."""

    def __init__(self, names: Sequence[str]) -> None:
        self._loaded: dict[str, Protocol | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Protocol:
        protocol = self._loaded[name]
        if protocol is None:
            protocol = self._loaded[name] = getattr(import_module(f"{__name__}.{name}"), name.upper())
        return protocol

    def __setitem__(self, name: str, protocol: Protocol) -> None:
        self._loaded[name] = protocol

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded


PROTOCOLS = Protocols(("alula", "blend", "k2", "peridot", "slender", "xoxno"))
"""Every protocol that a command knows, by its name."""


def accrual_rules() -> dict[str, AccrualRule]:
    """The accrual rules of the protocols that have one, by the protocol's name."""
    return {name: protocol.accrual for name, protocol in PROTOCOLS.items() if protocol.accrual is not None}


def storage_answers(read: Read, ledger: int, close_time: int) -> StorageAnswers:
    """Answers calls at a ledger from its entries, by the rules of oracles, of tokens, and of every protocol."""
    own = (rule for protocol in PROTOCOLS.values() for rule in protocol.storage_rules)
    return StorageAnswers(read, ledger, close_time, (*RULES, *own))


def oracle_forms() -> tuple[OracleForm, ...]:
    """The forms of oracle that belong to a protocol, for all protocols."""
    return tuple(form for protocol in PROTOCOLS.values() for form in protocol.oracle_forms)


def register(protocol: Protocol, deployments: Mapping[str, Sequence[Deployment]] | None = None) -> None:
    """Add a protocol of your own, for everything that this process does from now on.

    ``deployments`` are its deployments, by the name of the network. Raises `ValueError` if the name is taken, if a
    network is not known, or if a deployment is of another protocol.
    """
    if protocol.name in PROTOCOLS:
        raise ValueError(f"a protocol {protocol.name} is registered already")
    for network, listed in (deployments or {}).items():
        if network not in NETWORKS:
            raise ValueError(f"no network {network} is known; known: {', '.join(NETWORKS)}")
        if foreign := {item.protocol for item in listed} - {protocol.name}:
            raise ValueError(f"a deployment of {foreign.pop()} cannot come with {protocol.name}")
    PROTOCOLS[protocol.name] = protocol
    for name, listed in (deployments or {}).items():
        network_before = NETWORKS[name]
        NETWORKS[name] = replace(network_before, deployments=(*network_before.deployments, *listed))
