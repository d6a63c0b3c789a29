"""K2's prices: one simulation for all reserves of an oracle, and one each where that fails.

The deployed router prices its reserves with ``get_asset_prices_vec_fresh(Vec<Asset>)``; the published source has
``get_asset_prices_vec`` alone, with the same shapes (docs/protocols/k2.md, "Prices"). So the former is asked, and the
latter where the oracle has no such function. One asset that the oracle refuses (unknown, disabled, too old, moved
too far) fails the call for all of them, so that each is then asked alone, and only the refused ones have no price.
Up to which age the router takes what it is given is in the router's instance, not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, symbol, vec
from exporter.ledger.observation import CallResult
from exporter.ledger.oracles import Quote
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols.k2.layout import MAX_RESERVES, PRICE_DECIMALS, UNSIGNED

FRESH = "get_asset_prices_vec_fresh"
PLAIN = "get_asset_prices_vec"

_NO_SUCH_FUNCTION = re.compile(r"Error\(WasmVm, MissingValue\)")

_Pair = tuple[str, str]


async def read_quotes(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Quote]:
    """A quote for each (oracle, token). Raises `SourceError` only when the source itself fails."""
    every = list(dict.fromkeys(pairs))
    tokens: dict[str, list[str]] = {}
    for oracle, token in every:
        if oracle.startswith("C"):  # an account cannot be called
            tokens.setdefault(oracle, []).append(token)
    batches = [
        (oracle, listed[start : start + MAX_RESERVES])
        for oracle, listed in tokens.items()
        for start in range(0, len(listed), MAX_RESERVES)
    ]
    quotes = await _read_batches(view, batches)
    return {pair: quotes.get(pair) or Quote(*pair, failure="the market's oracle is not a contract") for pair in every}


async def _read_batches(view: LedgerView, batches: Sequence[tuple[str, list[str]]]) -> dict[_Pair, Quote]:
    functions = dict.fromkeys((oracle for oracle, _ in batches), FRESH)
    results = await view.call(prices_call(oracle, FRESH, tokens) for oracle, tokens in batches)
    for (oracle, _), result in zip(batches, results, strict=True):
        if result.value is None and _NO_SUCH_FUNCTION.search(result.error or ""):
            functions[oracle] = PLAIN
    quotes: dict[_Pair, Quote] = {}
    while batches:  # twice at most: the second time each is of one token
        # What is known already is not asked again: only oracles without the one function are asked for the other.
        results = await view.call(prices_call(oracle, functions[oracle], tokens) for oracle, tokens in batches)
        alone: list[tuple[str, list[str]]] = []
        for (oracle, tokens), result in zip(batches, results, strict=True):
            items = _items(result, len(tokens))
            if items is None and len(tokens) > 1:
                alone += [(oracle, [token]) for token in tokens]
                continue
            for place, token in enumerate(tokens):
                item = None if items is None else items[place]
                quotes[oracle, token] = _quote(oracle, token, functions[oracle], result, item)
        batches = alone
    return quotes


def _items(result: CallResult, count: int) -> Sequence[ScVal] | None:
    """The prices in the order that was asked for; None where they are not one for each."""
    kind, items = result.value or (scval.VOID, None)
    return items if kind == scval.VEC and len(items or ()) == count else None


def prices_call(oracle: str, function: str, tokens: Iterable[str]) -> ContractCall:
    """The call of one of the two functions for some tokens."""
    assets = vec(*(vec(symbol("Stellar"), address(token)) for token in tokens))
    return ContractCall(oracle, function, (assets,))


def _quote(oracle: str, token: str, function: str, result: CallResult, item: ScVal | None) -> Quote:
    if result.value is None:
        return Quote(oracle, token, failure=f"{function}() failed: {result.reason}", is_known=result.refused)
    if item == VOID:
        return Quote(oracle, token, failure="the oracle has no price for this token")
    try:
        if item is None:
            items = expect(result.value, scval.VEC, f"{function}()")
            raise DecodeError(f"{function}() gave {len(items or ())} prices for one token")
        data = Fields.of(item, f"{function}()")
        price, time = data.number("price", *UNSIGNED), data.u64("timestamp")
        return Quote(oracle, token, PRICE_DECIMALS, price, time)
    except DecodeError as error:
        return Quote(oracle, token, failure=str(error), is_known=False)
