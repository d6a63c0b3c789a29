"""Prices of SEP-40 oracles: ``decimals()`` once an oracle, ``lastprice(asset)`` once for each (oracle, token).

An oracle that traps for one asset costs that asset its price and no other. Whether a price is good enough is the
protocol's rule. Shapes: docs/protocols/blend.md, "Prices".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.errors import Barrier
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import CallResult
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView

MAX_DECIMALS = 38
"""A price of more decimals could not be scaled within 128 bits."""


@dataclass(frozen=True, slots=True)
class Quote:
    """An oracle's answer for a token.

    ``price`` is in units of 10^-``decimals``, ``timestamp`` in unix seconds. Without a price, ``failure`` says why.
    ``max_age`` is the oracle's own limit for the token in seconds, where it was read. ``is_known`` is False where the
    failure is one of the reading: the market itself may have a price.
    """

    oracle: str
    token: str
    decimals: int | None = None
    price: int | None = None
    timestamp: int | None = None
    failure: str | None = None
    max_age: int | None = None
    is_known: bool = True


def asset_config_key(oracle: str, token: str) -> bytes:
    """The ledger key under which several kinds of oracle store where they get a token's price."""
    return variant_key(oracle, "AssetConfig", by_address(token))


def by_address(token: str) -> ScVal:
    """The asset ``Stellar(token)``."""
    return vec(symbol("Stellar"), address(token))


def by_symbol(name: str) -> ScVal:
    """The asset ``Other(name)``: an oracle of exchange prices, such as one of Reflector's, knows assets by symbol."""
    return vec(symbol("Other"), symbol(name))


def parts_of(pairs: Iterable[tuple[str, str]], most: int) -> list[tuple[str, list[str]]]:
    """Groups of pairs by oracle, each with at most ``most`` of the oracle's tokens."""
    tokens: dict[str, list[str]] = {}
    for oracle, token in dict.fromkeys(pairs):
        tokens.setdefault(oracle, []).append(token)
    return [
        (oracle, listed[start : start + most])
        for oracle, listed in tokens.items()
        for start in range(0, len(listed), most)
    ]


async def read_quotes(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Quote]:
    """A quote for each (oracle, token), by the token's address. Raises `SourceError` only when the source fails."""
    return await read_asset_quotes(view, {(oracle, token): by_address(token) for oracle, token in pairs})


async def read_asset_quotes(view: LedgerView, assets: Mapping[tuple[str, str], ScVal]) -> dict[tuple[str, str], Quote]:
    """A quote for each (oracle, token), asked for as that asset. Raises `SourceError` only when the source fails."""
    wanted = [pair for pair in assets if pair[0].startswith("C")]  # an account cannot be called
    oracles = list(dict.fromkeys(oracle for oracle, _ in wanted))
    calls = [ContractCall(oracle, "decimals") for oracle in oracles]
    calls += [ContractCall(oracle, "lastprice", (assets[oracle, token],)) for oracle, token in wanted]
    results = await view.call(calls)
    decimals = dict(zip(oracles, results[: len(oracles)], strict=True))
    quotes = {pair: Quote(*pair, failure="the market's oracle is not a contract") for pair in assets}
    for (oracle, token), price in zip(wanted, results[len(oracles) :], strict=True):
        quotes[oracle, token] = _quote(oracle, token, decimals[oracle], price)
    return quotes


def _quote(oracle: str, token: str, decimals: CallResult, price: CallResult) -> Quote:
    if decimals.value is None:
        return Quote(oracle, token, failure=f"decimals() failed: {decimals.reason}", is_known=decimals.refused)
    if price.value is None:
        return Quote(oracle, token, failure=f"lastprice() failed: {price.reason}", is_known=price.refused)
    if price.value[0] == scval.VOID:
        return Quote(oracle, token, failure="the oracle has no price for this token")
    with Barrier() as barrier:
        places: int = expect(decimals.value, scval.U32, "decimals()")
        if places > MAX_DECIMALS:
            failure = f"the oracle has {places} decimals, more than {MAX_DECIMALS}"
            return Quote(oracle, token, failure=failure, is_known=False)
        data = Fields.of(price.value, "lastprice()")
        return Quote(oracle, token, places, data.i128("price"), data.u64("timestamp"))
    return Quote(oracle, token, failure=barrier.failure, is_known=False)
