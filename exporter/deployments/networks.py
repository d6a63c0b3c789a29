"""Networks, each identified by its passphrase, and what is known to be deployed on them (`exporter.deployments`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from exporter.deployments import Deployment, deployments_of
from exporter.ledger.codec import strkey


@dataclass(frozen=True, slots=True)
class Network:
    """A Stellar network: its passphrase identifies it; nothing else does.

    ``simulated`` networks are of one machine: their ledgers close when somebody lets them.
    """

    name: str
    passphrase: str
    deployments: tuple[Deployment, ...] = field(default=())
    simulated: bool = False


_MAINNET, _TESTNET = deployments_of("mainnet"), deployments_of("testnet")
RECORDED_PASSPHRASE = "Recorded lending markets ; November 2026"

NETWORKS: dict[str, Network] = {
    "mainnet": Network("mainnet", "Public Global Stellar Network ; September 2015", _MAINNET),
    "testnet": Network("testnet", "Test SDF Network ; September 2015", _TESTNET),
    "local": Network("local", RECORDED_PASSPHRASE, deployments_of("local"), simulated=True),
}
"""By the name that the configuration uses."""


def network_of(passphrase: str) -> Network:
    """The known network of a passphrase, or one of that passphrase with nothing known about it."""
    for network in NETWORKS.values():
        if network.passphrase == passphrase:
            return network
    return Network("custom", passphrase)


def network_id(passphrase: str) -> str:
    """SHA-256 of a passphrase, 64 lowercase hex digits: how ledger snapshot files name their network."""
    return hashlib.sha256(passphrase.encode()).hexdigest()


@lru_cache
def native_asset(passphrase: str) -> str:
    """The contract of a network's native asset: SHA-256 over the contract id preimage of asset type native (CAP-46)."""
    network = hashlib.sha256(passphrase.encode()).digest()
    preimage = (8).to_bytes(4, "big") + network + (1).to_bytes(4, "big") + bytes(4)
    return strkey.encode(strkey.CONTRACT, hashlib.sha256(preimage).digest())


def derived_address(label: str) -> str:
    """The address of a contract that is ours, of the recorded network or of a test: its id is a label's SHA-256."""
    return strkey.encode_contract(hashlib.sha256(label.encode()).digest())
