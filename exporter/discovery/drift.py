"""Whether the contracts of the lists still are what the lists say: there, and with the code they had.

The instances are asked for in the same breath as the protocols ask for their markets, so that this costs no request of
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.errors import DecodeError
from exporter.ledger.entries import instance_key, instance_of
from exporter.ledger.observation import Entry
from exporter.ledger.view import LedgerView


class Drift(NamedTuple):
    """A contract that is not as a list says, and the notice of it."""

    protocol: str
    address: str
    notice: str


async def check_lists(view: LedgerView, deployments: Sequence[Deployment], *, whole: bool = True) -> list[Drift]:
    """What is not as the lists say, each once. Raises `SourceError`.

    Of markets only those are looked at whose code is known, since their readers tell of absent ones. Where the ledger
    is not ``whole``, as in a file of some contracts, it means nothing that a contract is absent.
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
        text = _difference(deployment, contract, entries[instance_key(contract.address)], whole)
        if text is not None:
            found[Drift(deployment.protocol, contract.address, text)] = None
    return list(found)


def _difference(deployment: Deployment, contract: KnownContract, entry: Entry | None, whole: bool) -> str | None:
    what = f"{contract.role} {contract.address} of {deployment.protocol} {deployment.label}"
    since = f"({contract.source}, {contract.date})"
    if entry is None:
        if contract.role == MARKET or not whole:
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
