"""K2's prices: one simulation for an oracle, one a reserve where that fails (docs/protocols/k2.md, "Prices")."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, vec
from exporter.ledger.observation import CallResult
from exporter.ledger.oracles import Quote, by_address, parts_of
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols.k2.layout import MAX_RESERVES, PRICE_DECIMALS, UNSIGNED

FRESH = "get_asset_prices_vec_fresh"
PLAIN = "get_asset_prices_vec"

_NO_SUCH_FUNCTION = "Error(WasmVm, MissingValue)"


async def read_quotes(view: LedgerView, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Quote]:
    """A quote for each (oracle, token). Raises `SourceError` only when the source itself fails."""
    every = list(dict.fromkeys(pairs))
    quotes = {pair: Quote(*pair, failure="the market's oracle is not a contract") for pair in every}
    contracts = [pair for pair in every if pair[0].startswith("C")]  # an account cannot be called
    parts = [(oracle, FRESH, tokens) for oracle, tokens in parts_of(contracts, MAX_RESERVES)]
    while parts:  # three times at most: the other function, each token alone
        results = await view.call(
            [ContractCall(oracle, name, (vec(*map(by_address, tokens)),)) for oracle, name, tokens in parts]
        )
        again: list[tuple[str, str, list[str]]] = []
        for (oracle, function, tokens), result in zip(parts, results, strict=True):
            kind, items = result.value or (scval.VOID, None)
            prices = items if kind == scval.VEC and len(items or ()) == len(tokens) else None
            if function == FRESH and _NO_SUCH_FUNCTION in (result.error or ""):
                again.append((oracle, PLAIN, tokens))
            elif prices is None and len(tokens) > 1:
                again += [(oracle, function, [token]) for token in tokens]
            else:
                for token, item in zip(tokens, prices or [None], strict=True):
                    quotes[oracle, token] = _quote(oracle, token, function, result, item)
        parts = again
    return quotes


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
