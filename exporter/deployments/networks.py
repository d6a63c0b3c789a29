"""The networks that the exporter knows by name. Each is identified by its passphrase, and has its deployments."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from msgspec import Struct, field

from exporter.deployments import Deployment, deployments_of
from exporter.ledger.codec import strkey


class Network(Struct, frozen=True):
    """A Stellar network. Its passphrase identifies it, and nothing else does.

    A ``simulated`` network runs on one machine, and its ledgers close when somebody asks for it.
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
"""The known networks, by the name that the configuration uses."""


def network_of(passphrase: str) -> Network:
    """The network that has this passphrase; if it is unknown, a network ``custom`` without deployments."""
    for network in NETWORKS.values():
        if network.passphrase == passphrase:
            return network
    return Network("custom", passphrase)


def network_id(passphrase: str) -> str:
    """The SHA-256 of a passphrase, in 64 lowercase hex digits. Ledger snapshot files name their network by it."""
    return hashlib.sha256(passphrase.encode()).hexdigest()


@lru_cache
def native_asset(passphrase: str) -> str:
    """The contract of a network's native asset. Its id is the SHA-256 of the asset's contract id preimage (CAP-46)."""
    network = hashlib.sha256(passphrase.encode()).digest()
    preimage = (8).to_bytes(4, "big") + network + (1).to_bytes(4, "big") + bytes(4)
    return strkey.encode(strkey.CONTRACT, hashlib.sha256(preimage).digest())


def native_contract(passphrase: str) -> str | None:
    """The contract of the native asset; None on a network that is not public, whose tokens may be stand-ins."""
    public = passphrase in (NETWORKS["mainnet"].passphrase, NETWORKS["testnet"].passphrase)
    return native_asset(passphrase) if public else None


def common_symbol(symbol: str, address: str, native: str | None) -> str:
    """The symbol that people use for a token. The native asset's contract says ``native``, and people say XLM.

    ``native`` is the contract of the native asset. On a public network any other token of that symbol keeps it, because
    anybody can name a token so. None stands for a network whose contract is not known.
    """
    return "XLM" if symbol == "native" and native in (None, address) else symbol


def lookup_symbols(symbol: str, address: str, native: str | None) -> set[str]:
    """The symbols by which a token is found, in lower case: its contract's own, and that which people use."""
    return {in_lower_case(each) for each in (symbol, common_symbol(symbol, address, native))}


def in_lower_case(symbol: str) -> str:
    """A symbol in lower case. Only letters of ASCII have one here.

    Unicode's rules turn the sign for kelvin into the letter k, so that anybody's token would be found by the symbol of
    another.
    """
    return symbol.lower() if symbol.isascii() else symbol


def derived_address(label: str) -> str:
    """The address of a contract of the recorded network or of a test. Its id is the SHA-256 of a label."""
    return strkey.encode_contract(hashlib.sha256(label.encode()).digest())
