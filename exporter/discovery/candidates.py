"""Collects the addresses that a run tries to read as markets, and compares the package's lists with the chain.

The ledger may name more markets while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.deployments.listing import MarketKey, MarketListings
from exporter.deployments.networks import Network
from exporter.discovery.known_markets import CandidateKey
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
    discovered: Iterable[Candidate] = (),
) -> dict[str, list[Candidate]]:
    """The candidates of each protocol. Each address, and each named pool of it, is there once.

    They come from the configuration, the package's lists, what earlier runs and events ``discovered``, and those of the
    ``instances`` that run the code of a known market. If several of these name the same candidate, it has the origin of
    the first, the earliest ledger since which one of them knows it, and the first voucher that one of them has.
    """
    named = [Candidate(market.protocol, market.address, Origin.CONFIGURATION) for market in settings.markets]
    if settings.discovery.enabled:
        for deployment in network.deployments:
            named += [Candidate(deployment.protocol, market, known_since=0) for market in deployment.markets]
        named += discovered
        instances = list(instances)
        code = market_code(protocols, network.deployments, instances)
        for address, instance in instances:
            name = code.get(instance.wasm_hash or b"")
            if name is not None:
                named.append(Candidate(name, address, Origin.SNAPSHOT))
    merged: dict[CandidateKey, Candidate] = {}
    for candidate in named:
        key = CandidateKey(candidate.protocol, candidate.address, candidate.pool)
        first = merged.setdefault(key, candidate)
        voucher, since = first.voucher or candidate.voucher, min(first.known_since, candidate.known_since)
        if (voucher, since) != (first.voucher, first.known_since):
            merged[key] = replace(first, voucher=voucher, known_since=since)
    return {name: [item for item in merged.values() if item.protocol == name] for name in protocols}


def listings_of(deployments: Iterable[Deployment], candidates: Iterable[Candidate]) -> MarketListings:
    """Says which markets are listed: those that the package's lists show, and those that the operator configured.

    Of a candidate only that counts. Who named it, and who vouches for it, does not.
    """
    return MarketListings(
        deployments, (MarketKey(item.protocol, item.address) for item in candidates if item.configured)
    )


def market_code(
    protocols: Mapping[str, Protocol],
    deployments: Sequence[Deployment],
    instances: Iterable[tuple[str, ContractInstance]],
) -> dict[bytes, str]:
    """The wasm hashes of markets, each with the protocol's name.

    They are those that the protocol's package and the lists name, and those that listed markets among the ``instances``
    run now.
    """
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
    """A contract that differs from what a list says, and the notice that tells the operator."""

    protocol: str
    address: str
    notice: str


async def check_lists(
    view: LedgerView, deployments: Sequence[Deployment], *, has_all_contracts: bool = True
) -> list[Drift]:
    """The contracts of the lists that are absent from the chain, or run other code, each once. Raises `SourceError`.

    Markets are compared only if the list has their code; an absent market is reported by its protocol's reader. If
    ``has_all_contracts`` is False, as for a file of some contracts, an absent contract means nothing.
    """
    compared = [
        (deployment, contract)
        for deployment in deployments
        for contract in deployment.contracts
        if contract.role != MARKET or contract.wasm_hash is not None
    ]
    entries = await view.read(dict.fromkeys(instance_key(contract.address) for _, contract in compared))
    drifts: dict[Drift, None] = {}
    for deployment, contract in compared:
        text = _difference(deployment, contract, entries[instance_key(contract.address)], has_all_contracts)
        if text is not None:
            drifts[Drift(deployment.protocol, contract.address, text)] = None
    return list(drifts)


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
    code = "no wasm code of its own" if wasm_hash is None else f"contract code {wasm_hash.hex()}"
    return f"drift: {what} has {code}, listed {since} is {contract.wasm_hash}; it may have been upgraded or replaced"
