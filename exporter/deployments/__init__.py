"""The deployments that the package knows: a TOML file for each protocol and network, every address with its source.

The addresses are candidates, not truth. A run reads each of them from the ledger. An address without a contract is
absent, and the run warns if a contract is not as the list says (another wasm hash, another deployer).

    protocol = "blend"

    [[deployment]]
    label = "v1"                                   # what people call it
    source = "where the addresses were taken from"
    date = 2026-11-18                              # when they were
    contracts = [
        { role = "backstop", address = "C...", wasm_hash = "64 hex digits" },
        { role = "market", address = "C...", name = "Fixed", listed = true, listed_source = "what shows it to people" },
    ]
    pools = [{ market = "C...", pool = "1-C...", token = "C...", decimals = 7 }]  # that no contract lists

A contract or pool that has a source or date of its own states it in its line. A market is ``listed`` only if the
protocol's own app or docs show it to people, and ``listed_source`` says where (`exporter.deployments.listing`). Unused
twins of a market, and pools that only a factory's events name, are not listed.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

MARKET = "market"
BACKSTOP = "backstop"
FACTORY = "factory"


class KnownContract(Struct, frozen=True):
    """A contract of a deployment.

    ``wasm_hash`` (64 hex digits) is the hash of the code that it ran at ``date``. Of a ``listed`` market,
    ``listed_source`` says what shows it to people; if it is missing, or if another contract has one, `ValueError` is
    raised.
    """

    address: str
    role: str
    source: str
    date: datetime.date
    name: str = ""
    wasm_hash: str | None = None
    listed: bool = False
    listed_source: str | None = None

    def __post_init__(self) -> None:
        if self.listed is (self.listed_source is None) or (self.listed and self.role != MARKET):
            raise ValueError(f"{self.role} {self.address}: a listed market, and no other contract, has a listed_source")


class KnownPool(Struct, frozen=True):
    """A pool that nothing on the chain lists. ``decimals`` are the token's."""

    market: str
    pool: str
    token: str
    source: str
    date: datetime.date
    decimals: int | None = None


class Deployment(Struct, frozen=True):
    """One deployment of a protocol: the label that people use for it, and the contracts and pools that belong to it."""

    protocol: str
    label: str
    contracts: tuple[KnownContract, ...] = ()
    pools: tuple[KnownPool, ...] = ()

    def addresses(self, role: str) -> tuple[str, ...]:
        """The addresses of the contracts that have a role."""
        return tuple(contract.address for contract in self.contracts if contract.role == role)

    def address(self, role: str) -> str | None:
        """The address of the first contract that has a role; None if there is none."""
        return next(iter(self.addresses(role)), None)

    @property
    def markets(self) -> tuple[str, ...]:
        return self.addresses(MARKET)

    @property
    def listed_markets(self) -> tuple[KnownContract, ...]:
        """The markets that the protocol shows to people."""
        return tuple(contract for contract in self.contracts if contract.listed)

    @property
    def backstop(self) -> str | None:
        return self.address(BACKSTOP)


@cache
def deployments_of(network: str) -> tuple[Deployment, ...]:
    """The deployments of a network, from the package's files in the order of their names; empty without files.

    Raises `ValueError` if two of the files have the same market.
    """
    folder = files(__name__) / network
    if not folder.is_dir():
        return ()
    lists = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    deployments = tuple(deployment for file in lists for deployment in _read(file))
    protocol_of_market(deployments)
    return deployments


def protocol_of_market(deployments: Iterable[Deployment]) -> Mapping[str, str]:
    """The protocol of each market of deployments, by the market's address.

    Raises `ValueError` if an address is a market of two protocols: a contract is a market of one.
    """
    protocols: dict[str, str] = {}
    for deployment in deployments:
        for market in deployment.markets:
            protocol = protocols.setdefault(market, deployment.protocol)
            if protocol != deployment.protocol:
                raise ValueError(
                    f"{market} is a market of {protocol} and of {deployment.protocol}; remove the wrong one"
                )
    return protocols


@cache
def _apps() -> dict[str, dict[str, str]]:
    listed = tomllib.loads(files(__name__).joinpath("apps.toml").read_text("utf-8"))
    return {network: {app["protocol"]: app["url"] for app in apps} for network, apps in listed.items()}


def app_url(network: str, protocol: str, market: str, pool: str) -> str | None:
    """The URL at which the protocol's own app shows a pool of a network (``mainnet``); None if no app is listed."""
    url = _apps().get(network, {}).get(protocol)
    return None if url is None else url.format(market=market, hub=pool.partition("-")[0])


def _read(file: Traversable) -> Iterator[Deployment]:
    content = tomllib.loads(file.read_text("utf-8"))
    for listed in content["deployment"]:
        defaults = {"source": listed["source"], "date": listed["date"]}
        contracts = tuple(KnownContract(**defaults | item) for item in listed["contracts"])
        pools = tuple(KnownPool(**defaults | item) for item in listed.get("pools", ()))
        yield Deployment(content["protocol"], listed["label"], contracts, pools)
