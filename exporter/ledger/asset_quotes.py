"""Prices of tokens that an oracle knows as something else than their address, by what a market says to ask for.

SEP-40 has two kinds of assets, ``Stellar(address)`` and ``Other(symbol)``; an oracle of exchange prices, such as one of
Reflector's, knows its assets by symbol. Tokens that are asked for by their own address are the work of
`exporter.ledger.oracles`.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.errors import DecodeError
from exporter.ledger import scval
from exporter.ledger.fields import Fields, expect
from exporter.ledger.observation import CallResult
from exporter.ledger.oracles import MAX_DECIMALS, Quote
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, symbol, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView


def by_symbol(name: str) -> ScVal:
    """The asset ``Other(name)``."""
    return vec(symbol("Other"), symbol(name))


def by_address(token: str) -> ScVal:
    """The asset ``Stellar(token)``."""
    return vec(symbol("Stellar"), address(token))


async def read_asset_quotes(view: LedgerView, assets: Mapping[tuple[str, str], ScVal]) -> dict[tuple[str, str], Quote]:
    """A quote for each (oracle, token), asked for as that asset. Raises `SourceError` only when the source fails."""
    wanted = [pair for pair in assets if pair[0].startswith("C")]  # an account cannot be called
    oracles = list(dict.fromkeys(oracle for oracle, _ in wanted))
    calls = [ContractCall(oracle, "decimals") for oracle in oracles]
    calls += [ContractCall(oracle, "lastprice", (assets[oracle, token],)) for oracle, token in wanted]
    results = await view.call(calls)
    decimals = dict(zip(oracles, results[: len(oracles)], strict=True))
    quotes = {pair: Quote(*pair, failure="the market's oracle is no contract") for pair in assets}
    for (oracle, token), price in zip(wanted, results[len(oracles) :], strict=True):
        quotes[oracle, token] = _quote(oracle, token, decimals[oracle], price)
    return quotes


def _quote(oracle: str, token: str, decimals: CallResult, price: CallResult) -> Quote:
    for result, function in ((decimals, "decimals()"), (price, "lastprice()")):
        if result.value is None:
            return Quote(oracle, token, failure=f"{function} failed: {result.reason}")
    assert decimals.value is not None
    assert price.value is not None
    if price.value[0] == scval.VOID:
        return Quote(oracle, token, failure="the oracle has no price for this token")
    try:
        places: int = expect(decimals.value, scval.U32, "decimals()")
        if places > MAX_DECIMALS:
            return Quote(oracle, token, failure=f"the oracle has {places} decimals, more than {MAX_DECIMALS}")
        data = Fields.of(price.value, "lastprice()")
        return Quote(oracle, token, places, data.i128("price"), data.u64("timestamp"))
    except DecodeError as error:
        return Quote(oracle, token, failure=str(error))
