"""Identified tokens: token contracts for which a source says who stands behind them (docs/identified-tokens.md).

Anybody can deploy a token that calls itself USDC. The package's list says which one is Circle's, with a source and its
date. A token that is not on the list need not be false: perhaps nobody has looked yet.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from exporter.errors import ConfigError
from exporter.ledger.codec import strkey
from exporter.tree.pool_parts import TokenIdentity

LIST = "tokens.toml"

_HOME_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")
_CODE = re.compile(r"[A-Za-z0-9]{1,12}")

_Text = Annotated[str, Meta(min_length=1, max_length=300)]


class IdentifiedToken(Struct, frozen=True, forbid_unknown_fields=True):
    """One token of the list.

    A classic asset has a ``code`` and an ``issuer`` (an account, a strkey); the native asset has only the code
    ``native``. ``stable`` says that the token is meant to be worth one unit of a national currency at any time.
    """

    address: str
    who: _Text
    stable: bool
    source: _Text
    date: datetime.date
    code: str | None = None
    issuer: str | None = None
    home_domain: str | None = None

    def __post_init__(self) -> None:
        if not strkey.is_contract(self.address):
            raise ValueError(f"address {self.address!r} is no contract: C and 55 characters of A-Z and 2-7")
        if self.issuer is not None and not strkey.is_account(self.issuer):
            raise ValueError(f"issuer {self.issuer!r} is no account: G and 55 characters of A-Z and 2-7")
        if (self.issuer is None) != (self.code in (None, "native")):
            raise ValueError("a classic asset has both code and issuer, any other token neither")
        if self.code is not None and _CODE.fullmatch(self.code) is None:
            raise ValueError(f"code {self.code!r} is no asset code: 1 to 12 letters and digits")
        if self.home_domain is not None and _HOME_DOMAIN.fullmatch(self.home_domain) is None:
            raise ValueError(f"home_domain {self.home_domain!r} is no domain, such as circle.com")

    @property
    def identity(self) -> TokenIdentity:
        """The token's identity, as documents have it."""
        return TokenIdentity(self.who, self.home_domain, self.stable)


def read_list(text: str) -> Mapping[str, Mapping[str, IdentifiedToken]]:
    """The tokens of each network by address, from the text of a list.

    Raises `ConfigError`, which names the token that is wrong.
    """
    try:
        networks = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{LIST}: it is not TOML: {error}") from error
    identified: dict[str, dict[str, IdentifiedToken]] = {}
    for network, tokens in networks.items():
        if not isinstance(tokens, list):
            raise ConfigError(f"{LIST}: {network} must be a list of tokens; begin each with [[{network}]]")
        own = identified.setdefault(network, {})
        for number, entry in enumerate(tokens, 1):
            label = f"{LIST}: token {number} of {network}"
            try:
                token = msgspec.convert(entry, IdentifiedToken)
            except msgspec.ValidationError as error:
                raise ConfigError(f"{label}: {error}") from error
            if token.address in own:
                raise ConfigError(f"{label}: {token.address} is on the list already; keep one")
            own[token.address] = token
    return identified


@cache
def _packaged() -> Mapping[str, Mapping[str, IdentifiedToken]]:
    return read_list(files("exporter.deployments").joinpath(LIST).read_text("utf-8"))


def identified_tokens(network: str) -> Mapping[str, IdentifiedToken]:
    """The identified tokens of a network by address. Empty if the network has no list."""
    return _packaged().get(network, {})


def identities(network: str) -> Mapping[str, TokenIdentity]:
    """The identity of each identified token of a network, by address."""
    return {address: token.identity for address, token in identified_tokens(network).items()}
