"""Known deployments, as data: a TOML file for each protocol and network, every address with its source.

Addresses are candidates, not truth: a run reads each one from the ledger, names one with no contract there as absent,
and warns where what it finds is not what the list says (another wasm hash, another deployer).

    protocol = "blend"

    [[deployment]]
    label = "v1"                                   # what people call it
    source = "where the addresses were taken from"
    date = 2026-11-18                              # when they were
    contracts = [
        { role = "backstop", address = "C...", wasm_hash = "64 hex digits" },
        { role = "market", address = "C...", name = "Fixed" },
    ]
    pools = [{ market = "C...", pool = "1-C...", token = "C...", decimals = 7 }]  # that no contract lists

A contract or pool with a source or date of its own says so in its line.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from exporter.ledger.codec import strkey

MARKET = "market"
BACKSTOP = "backstop"
FACTORY = "factory"
ROUTER = "router"


@dataclass(frozen=True, slots=True)
class KnownContract:
    """A contract of a deployment.

    ``role`` is what it is to its protocol (`MARKET`, `BACKSTOP`, `FACTORY` and others); ``wasm_hash`` (64 hex digits)
    is that of the code it had at ``date``, None where no source says it.
    """

    address: str
    role: str
    source: str
    date: datetime.date
    name: str = ""
    wasm_hash: str | None = None


@dataclass(frozen=True, slots=True)
class KnownPool:
    """A pool that nothing on the chain lists; ``decimals`` are those of the token, None where no source says them."""

    market: str
    pool: str
    token: str
    source: str
    date: datetime.date
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a protocol: the label people use for it, and what is known to belong to it."""

    protocol: str
    label: str
    contracts: tuple[KnownContract, ...] = ()
    pools: tuple[KnownPool, ...] = ()

    def addresses(self, role: str) -> tuple[str, ...]:
        return tuple(contract.address for contract in self.contracts if contract.role == role)

    def address(self, role: str) -> str | None:
        """The address of the first contract of a role, None where no such contract is known."""
        return next(iter(self.addresses(role)), None)

    @property
    def markets(self) -> tuple[str, ...]:
        return self.addresses(MARKET)

    @property
    def backstop(self) -> str | None:
        """The address of a Blend deployment's backstop."""
        return self.address(BACKSTOP)


_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class _Contract(Struct, forbid_unknown_fields=True):
    role: str
    address: str
    name: str = ""
    wasm_hash: _Hash | None = None
    source: str | None = None
    date: datetime.date | None = None


class _Pool(Struct, forbid_unknown_fields=True):
    market: str
    pool: str
    token: str
    decimals: int | None = None
    source: str | None = None
    date: datetime.date | None = None


class _Deployment(Struct, forbid_unknown_fields=True):
    label: str
    source: str
    date: datetime.date
    contracts: list[_Contract]
    pools: list[_Pool] = []


class _Router(Struct, forbid_unknown_fields=True):
    address: str
    name: str
    source: str
    date: datetime.date
    wasm_hash: _Hash | None = None


class _App(Struct, forbid_unknown_fields=True):
    protocol: str
    url: Annotated[str, Meta(pattern=r"^https://[a-z.]+/[A-Za-z0-9/?=_-]*(\{(market|hub)\})?$")]
    source: str
    date: datetime.date


class _File(Struct, forbid_unknown_fields=True):
    protocol: str
    deployment: list[_Deployment]


@cache
def deployments_of(network: str) -> tuple[Deployment, ...]:
    """The deployments of a network that the package has lists of, by protocol and in the order of the files.

    Raises `ValueError` where a file is not as it should be; a test reads all of them.
    """
    folder = files(__name__) / network
    if not folder.is_dir():
        return ()
    lists = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(deployment for file in lists for deployment in _read(file))


@cache
def router_of(network: str) -> KnownContract | None:
    """The contract of a network that makes many calls in one simulation (`exporter.ledger.router`), if one is listed.

    Raises `ValueError` where the list is not as it should be; a test reads it.
    """
    text = files(__name__).joinpath("routers.toml").read_text("utf-8")
    for item in msgspec.convert(tomllib.loads(text), dict[str, list[_Router]]).get(network, ()):
        if not strkey.is_contract(item.address):
            raise ValueError(f"routers.toml: {item.address} is not the strkey of a contract")
        return KnownContract(item.address, ROUTER, item.source, item.date, item.name, item.wasm_hash)
    return None


@cache
def _apps() -> dict[str, dict[str, str]]:
    text = files(__name__).joinpath("apps.toml").read_text("utf-8")
    listed = msgspec.convert(tomllib.loads(text), dict[str, list[_App]])
    return {network: {app.protocol: app.url for app in apps} for network, apps in listed.items()}


def app_url(network: str, protocol: str, market: str, pool: str) -> str | None:
    """Where the protocol's own app shows a pool of a network (``mainnet``), None where no such app is listed."""
    url = _apps().get(network, {}).get(protocol)
    return None if url is None else url.format(market=market, hub=pool.partition("-")[0])


def _read(file: Traversable) -> Iterator[Deployment]:
    content = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _File)
    for listed in content.deployment:
        for address in (*(item.address for item in listed.contracts), *(item.token for item in listed.pools)):
            if not strkey.is_contract(address):
                raise ValueError(f"{file.name}: {address} is not the strkey of a contract")
        contracts = tuple(
            KnownContract(
                item.address,
                item.role,
                item.source or listed.source,
                item.date or listed.date,
                item.name,
                item.wasm_hash,
            )
            for item in listed.contracts
        )
        pools = tuple(
            KnownPool(
                item.market,
                item.pool,
                item.token,
                item.source or listed.source,
                item.date or listed.date,
                item.decimals,
            )
            for item in listed.pools
        )
        yield Deployment(content.protocol, listed.label, contracts, pools)
