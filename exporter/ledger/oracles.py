"""Asks SEP-40 oracles for prices: once for ``decimals()``, and once for each token for ``lastprice(asset)``.

If an oracle fails for one asset, only that asset has no price. Whether a price is good enough is for the protocol's
rule. docs/protocols/blend.md, "Prices", has the forms of the answers.
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
"""The largest number of decimals of a price. With more, it could not be scaled within 128 bits."""


@dataclass(frozen=True, slots=True)
class Quote:
    """An oracle's answer for a token.

    Attributes:
        oracle: the oracle's address.
        token: the token's address.
        decimals: the decimals of the price.
        price: USD for one token, times 10^``decimals``; None if there is none.
        timestamp: the time of the price, in unix seconds.
        failure: why there is no price.
        max_age: the oracle's own limit for the token's price, in seconds, if it was read.
        is_known: False if the failure is one of the reading, so that the market itself may have a price.
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
    """The ledger key under which several kinds of oracle store which source they ask for a token's price."""
    return variant_key(oracle, "AssetConfig", by_address(token))


def by_address(token: str) -> ScVal:
    """The asset ``Stellar(token)``."""
    return vec(symbol("Stellar"), address(token))


def by_symbol(name: str) -> ScVal:
    """The asset ``Other(name)``. An oracle of exchange prices, such as one of Reflector's, knows assets by symbol."""
    return vec(symbol("Other"), symbol(name))


def parts_of(pairs: Iterable[tuple[str, str]], most: int) -> list[tuple[str, list[str]]]:
    """The tokens of each oracle, in groups of at most ``most`` tokens."""
    tokens: dict[str, list[str]] = {}
    for oracle, token in dict.fromkeys(pairs):
        tokens.setdefault(oracle, []).append(token)
    return [
        (oracle, listed[start : start + most])
        for oracle, listed in tokens.items()
        for start in range(0, len(listed), most)
    ]


def quote_calls(pairs: Iterable[tuple[str, str]]) -> list[ContractCall]:
    """The calls that `read_quotes` makes for these (oracle, token), for a reader that makes them early."""
    return _calls({(oracle, token): by_address(token) for oracle, token in pairs})


def _calls(assets: Mapping[tuple[str, str], ScVal]) -> list[ContractCall]:
    """``decimals()`` of each oracle that is a contract, then ``lastprice(asset)`` of each pair."""
    wanted = [pair for pair in assets if pair[0].startswith("C")]  # an account cannot be called
    calls = [ContractCall(oracle, "decimals") for oracle in dict.fromkeys(oracle for oracle, _ in wanted)]
    return calls + [ContractCall(pair[0], "lastprice", (assets[pair],)) for pair in wanted]


async def read_quotes(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Quote]:
    """The quote of each pair of oracle and token, which is asked for by its address. Raises only `SourceError`."""
    return await read_asset_quotes(view, {(oracle, token): by_address(token) for oracle, token in pairs})


async def read_asset_quotes(view: LedgerView, assets: Mapping[tuple[str, str], ScVal]) -> dict[tuple[str, str], Quote]:
    """The quote of each pair of oracle and token, which is asked for as the given asset. Raises only `SourceError`."""
    wanted = [pair for pair in assets if pair[0].startswith("C")]
    oracles = list(dict.fromkeys(oracle for oracle, _ in wanted))
    results = await view.call(_calls(assets))
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
        decimal_count: int = expect(decimals.value, scval.U32, "decimals()")
        if decimal_count > MAX_DECIMALS:
            failure = f"the oracle has {decimal_count} decimals, more than {MAX_DECIMALS}"
            return Quote(oracle, token, failure=failure, is_known=False)
        data = Fields.of(price.value, "lastprice()")
        return Quote(oracle, token, decimal_count, data.i128("price"), data.u64("timestamp"))
    return Quote(oracle, token, failure=barrier.failure, is_known=False)
