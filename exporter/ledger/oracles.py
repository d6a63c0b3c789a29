"""Asks SEP-40 oracles for prices: once for ``decimals()``, and once for each token for ``lastprice(asset)``.

If an oracle fails for one asset, only that asset has no price. Whether a price is good enough is for the protocol's
rule. docs/protocols/blend.md, "Prices", has the forms of the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

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


class PriceKey(NamedTuple):
    """What identifies a price: the oracle's address, and that of the token that it is asked for."""

    oracle: str
    token: str


class Quote(Struct, frozen=True):
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

    @property
    def key(self) -> PriceKey:
        """What identifies the price."""
        return PriceKey(self.oracle, self.token)


def asset_config_key(oracle: str, token: str) -> bytes:
    """The ledger key under which several kinds of oracle store which source they ask for a token's price."""
    return variant_key(oracle, "AssetConfig", by_address(token))


def by_address(token: str) -> ScVal:
    """The asset ``Stellar(token)``."""
    return vec(symbol("Stellar"), address(token))


def by_symbol(name: str) -> ScVal:
    """The asset ``Other(name)``. An oracle of exchange prices, such as one of Reflector's, knows assets by symbol."""
    return vec(symbol("Other"), symbol(name))


class TokensOfOracle(NamedTuple):
    """Tokens whose prices one oracle has."""

    oracle: str
    tokens: list[str]


def tokens_by_oracle(prices: Iterable[PriceKey], most: int) -> list[TokensOfOracle]:
    """The tokens of each oracle, in groups of at most ``most`` tokens."""
    tokens: dict[str, list[str]] = {}
    for oracle, token in dict.fromkeys(prices):
        tokens.setdefault(oracle, []).append(token)
    return [
        TokensOfOracle(oracle, listed[start : start + most])
        for oracle, listed in tokens.items()
        for start in range(0, len(listed), most)
    ]


def quote_calls(prices: Iterable[PriceKey]) -> list[ContractCall]:
    """The calls that `read_quotes` makes for these prices, for a reader that makes them early."""
    return _in_order(_calls_by_price({price: by_address(price.token) for price in prices}).values())


class _CallsOfPrice(NamedTuple):
    """The two calls that a quote follows from."""

    decimals: ContractCall
    last_price: ContractCall


def _calls_by_price(assets: Mapping[PriceKey, ScVal]) -> dict[PriceKey, _CallsOfPrice]:
    """The calls for each price whose oracle is a contract. An account cannot be called."""
    return {
        price: _CallsOfPrice(ContractCall(price.oracle, "decimals"), ContractCall(price.oracle, "lastprice", (asset,)))
        for price, asset in assets.items()
        if price.oracle.startswith("C")
    }


def _in_order(calls: Iterable[_CallsOfPrice]) -> list[ContractCall]:
    """The decimals of each oracle once, and then the prices."""
    calls = list(calls)
    return [*dict.fromkeys(each.decimals for each in calls), *(each.last_price for each in calls)]


async def read_quotes(view: LedgerView, prices: Iterable[PriceKey]) -> dict[PriceKey, Quote]:
    """The quote of each price. The oracle is asked for the token by its address. Raises only `SourceError`."""
    return await read_asset_quotes(view, {price: by_address(price.token) for price in prices})


async def read_asset_quotes(view: LedgerView, assets: Mapping[PriceKey, ScVal]) -> dict[PriceKey, Quote]:
    """The quote of each price. The oracle is asked for the token as the given asset. Raises only `SourceError`."""
    calls = _calls_by_price(assets)
    ordered = _in_order(calls.values())
    results = dict(zip(ordered, await view.call(ordered), strict=True))
    quotes = {price: Quote(*price, failure="the market's oracle is not a contract") for price in assets}
    for price, own in calls.items():
        quotes[price] = _quote(price, results[own.decimals], results[own.last_price])
    return quotes


def _quote(price: PriceKey, decimals: CallResult, answer: CallResult) -> Quote:
    if decimals.value is None:
        return Quote(*price, failure=f"decimals() failed: {decimals.reason}", is_known=decimals.refused)
    if answer.value is None:
        return Quote(*price, failure=f"lastprice() failed: {answer.reason}", is_known=answer.refused)
    if answer.value[0] == scval.VOID:
        return Quote(*price, failure="the oracle has no price for this token")
    with Barrier() as barrier:
        decimal_count: int = expect(decimals.value, scval.U32, "decimals()")
        if decimal_count > MAX_DECIMALS:
            failure = f"the oracle has {decimal_count} decimals, more than {MAX_DECIMALS}"
            return Quote(*price, failure=failure, is_known=False)
        fields = Fields.of(answer.value, "lastprice()")
        return Quote(*price, decimal_count, fields.i128("price"), fields.u64("timestamp"))
    return Quote(*price, failure=barrier.failure, is_known=False)
