"""Which addresses a run tries to read as markets before the ledger itself names more, and whether the lists hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.config import Settings
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import Network
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Origin
from exporter.protocols.protocol import Protocol


def candidates(
    settings: Settings,
    network: Network,
    protocols: Mapping[str, Protocol],
    instances: Iterable[tuple[str, ContractInstance]] = (),
    found: Iterable[Candidate] = (),
) -> dict[str, list[Candidate]]:
    """The candidates of each protocol, each address and named pool once; who vouches for one is taken from any."""
    tried = [Candidate(market.protocol, market.address, Origin.CONFIGURATION) for market in settings.markets]
    if settings.discovery.enabled:
        listed = ((item.protocol, market) for item in network.deployments for market in item.markets)
        tried += [Candidate(*place, known_since=0) for place in listed]
        tried += found
        instances = list(instances)
        code = market_code(protocols, network.deployments, instances)
        for address, instance in instances:
            name = code.get(instance.wasm_hash or b"")
            if name is not None:
                tried.append(Candidate(name, address, Origin.SNAPSHOT))
    known: dict[tuple[str, str, str | None], Candidate] = {}
    for candidate in tried:
        place = candidate.protocol, candidate.address, candidate.pool
        first = known.setdefault(place, candidate)
        voucher, since = first.voucher or candidate.voucher, min(first.known_since, candidate.known_since)
        if (voucher, since) != (first.voucher, first.known_since):
            known[place] = replace(first, voucher=voucher, known_since=since)
    return {name: [item for item in known.values() if item.protocol == name] for name in protocols}


def listings_of(deployments: Iterable[Deployment], tried: Iterable[Candidate]) -> MarketListings:
    """Which markets are listed, by the package's lists of a network and by those of the candidates that are configured.

    Nothing else of a candidate counts: not who named it, and not who vouches for it.
    """
    return MarketListings(deployments, ((item.protocol, item.address) for item in tried if item.configured))


def market_code(
    protocols: Mapping[str, Protocol],
    deployments: Sequence[Deployment],
    instances: Iterable[tuple[str, ContractInstance]] = (),
) -> dict[bytes, str]:
    """The code of markets, with the protocol's name; listed markets among ``instances`` show theirs, too."""
    code = {wasm: name for name, item in protocols.items() for wasm in item.discovery.market_code}
    for deployment in deployments:
        for contract in deployment.contracts:
            if contract.role == MARKET and contract.wasm_hash is not None and deployment.protocol in protocols:
                code.setdefault(bytes.fromhex(contract.wasm_hash), deployment.protocol)
    listed = {market: item.protocol for item in deployments if item.protocol in protocols for market in item.markets}
    for address, instance in instances:
        if address in listed and instance.wasm_hash is not None:
            code.setdefault(instance.wasm_hash, listed[address])
    return code


class Drift(NamedTuple):
    """A contract that is not as a list says, and the notice of it."""

    protocol: str
    address: str
    notice: str


async def check_lists(
    view: LedgerView, deployments: Sequence[Deployment], *, has_all_contracts: bool = True
) -> list[Drift]:
    """Contracts of the lists that are not there, or have other code than they had, each once. Raises `SourceError`.

    Of markets only those are looked at whose code is known, since their readers report absent ones. Where the ledger
    lacks contracts (``has_all_contracts``), as a file of some does, it means nothing that a contract is absent.
    """
    looked_at = [
        (deployment, contract)
        for deployment in deployments
        for contract in deployment.contracts
        if contract.role != MARKET or contract.wasm_hash is not None
    ]
    entries = await view.read(dict.fromkeys(instance_key(contract.address) for _, contract in looked_at))
    found: dict[Drift, None] = {}
    for deployment, contract in looked_at:
        text = _difference(deployment, contract, entries[instance_key(contract.address)], has_all_contracts)
        if text is not None:
            found[Drift(deployment.protocol, contract.address, text)] = None
    return list(found)


def _difference(
    deployment: Deployment, contract: KnownContract, entry: Entry | None, has_all_contracts: bool
) -> str | None:
    what = f"{contract.role} {contract.address} of {deployment.protocol} {deployment.label}"
    since = f"({contract.source}, {contract.date})"
    if entry is None:
        if contract.role == MARKET or not has_all_contracts:
            return None
        return f"drift: the ledger has no contract at {what} as listed {since}"
    if contract.wasm_hash is None:
        return None
    try:
        wasm_hash = instance_of(entry.contract_data()).wasm_hash
    except DecodeError as error:
        return f"drift: the instance of {what} cannot be decoded: {error}"
    if wasm_hash is not None and wasm_hash.hex() == contract.wasm_hash:
        return None
    found = "no wasm code of its own" if wasm_hash is None else f"contract code {wasm_hash.hex()}"
    return f"drift: {what} has {found}, listed {since} is {contract.wasm_hash}; it may have been upgraded or replaced"
