"""The rule of RedStone's adapter and of its SEP-40 contract (docs/oracles.md, "RedStone").

Times in entries are in milliseconds.
"""

from __future__ import annotations

import re
from typing import Final

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, string, symbol, u32, vec
from exporter.ledger.storage_rules.host import (
    I128_MAX,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    items,
    present,
    price_data,
    unknown_function,
)

ADAPTER_OF: Final = {
    "CBMGLKUQZVSAIL5CPDDAWSUY7MAKXISHMOZEVLMBUWBMFGHRJSR4WYRF": (
        "CA526Y2NQWGWVVQ7RFFPGAZMU66PSYJ3UC2MTVAV4ZU7OM5BOPHDXUSG"
    )
}
"""The adapter of mainnet's SEP-40 contract, by that contract. No instance names an adapter; only the code does."""

MAX_AGE_MS: Final = 30 * 60 * 60 * 1000
MISSING: Final = "Error(Storage, MissingValue)"
STALE: Final = "Error(Contract, #1400)"
DECIMALS: Final = 8

_FUNCTIONS: Final = (b"read_price_data_for_feed", b"unique_signer_threshold", b"write_prices")
_STRKEY: Final = re.compile(rb"C[A-Z2-7]{55}")


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract is RedStone's.

    It is if it has the settings of the SEP-40 contract, or is a listed adapter, or its code has an adapter's functions.
    """
    if _is_sep40(contract) or contract.address in ADAPTER_OF.values():
        return True
    code = host.code(contract) or b"" if string("owner") in contract.storage else b""
    return all(name in code for name in _FUNCTIONS)


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The result of a call: of a function of SEP-40, or of one of the adapter's reading functions."""
    return _sep40(host, contract, call) if _is_sep40(contract) else _adapter(host, contract, call)


def _adapter(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    match call:
        case ["read_price_data_for_feed", feed]:
            return _fresh(host, contract, feed)
        case ["read_price_data", feeds]:
            return vec(*(_fresh(host, contract, feed) for feed in items(feeds, "feeds")))
        case ["read_price_history", feed, (scval.U32, int(limit))]:
            # A feed's last prices, oldest first.
            stored = host.data(contract.address, vec(symbol("Feed"), feed))
            if stored is None:
                raise TrapError(MISSING)
            prices = items(Fields.of(stored, "Feed").get("price_data") or vec(), "price_data")
            return vec(*prices[max(len(prices) - limit, 0) :])
    raise unknown_function(call)


def _fresh(host: StorageHost, contract: Contract, feed: ScVal) -> ScVal:
    """A feed's last price. Raises `TrapError` if there is none, or if it is 30 hours old or older."""
    stored = host.data(contract.address, feed)
    if stored is None:
        raise TrapError(MISSING)
    if Fields.of(stored, "price").u64("write_timestamp") + MAX_AGE_MS <= host.now * 1000:
        raise TrapError(STALE)
    return stored


def _is_sep40(contract: Contract) -> bool:
    return all(vec(symbol(name)) in contract.storage for name in ("BaseAsset", "MaxDecimals", "Resolution"))


def _sep40(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    most: int = expect(contract.storage[vec(symbol("MaxDecimals"))], scval.U32, "MaxDecimals")
    match call:
        case ["decimals"]:
            return u32(most)
        case ["resolution"]:
            return contract.storage[vec(symbol("Resolution"))]
        case ["lastprice", asset]:
            prices = _of_feed(host, contract, asset, most, "read_price_data_for_feed")
            return prices[0] if prices else VOID
        case ["prices", asset, (scval.U32, int(records))]:
            prices = _of_feed(host, contract, asset, most, "read_price_history", u32(records))
            valid = [price for price in prices if price != VOID]
            return vec(*valid) if valid else VOID
    raise unknown_function(call)


def _of_feed(
    host: StorageHost, contract: Contract, asset: ScVal, most: int, function: str, *arguments: ScVal
) -> list[ScVal]:
    """The prices of an asset's feed, in ``most`` decimals. A price that does not fit into an i128 is void.

    ``function`` and ``arguments`` are the call of the adapter. Without a feed, or if that call fails, there are none.
    """
    feed = host.data(contract.address, vec(symbol("AssetToFeed"), asset))
    answered = None if feed is None else host.try_call(_adapter_of(host, contract), function, feed, *arguments)
    if feed is None or answered is None:
        return []
    stored = host.data(contract.address, vec(symbol("FeedDecimals"), feed))
    decimals = DECIMALS if stored is None else int(expect(stored, scval.U32, "FeedDecimals"))
    prices = []
    for data in items(answered, "history") if arguments else (answered,):
        fields = Fields.of(data, "price")
        price: int = expect(present(fields.get("price")), scval.U256, "price")
        scaled, time = price * 10 ** min(max(most - decimals, 0), 39), fields.u64("package_timestamp") // 1000
        prices.append(VOID if scaled > I128_MAX else price_data(scaled, time))
    return prices


def _adapter_of(host: StorageHost, contract: Contract) -> str:
    """The adapter that a SEP-40 contract asks: the listed one, or else the only contract address in its code.

    Raises `NotFromStorageError` if neither is there.
    """
    listed = ADAPTER_OF.get(contract.address)
    if listed is not None:
        return listed
    candidates = set()
    for match in _STRKEY.findall(host.code(contract) or b""):
        try:
            strkey.decode(match.decode())
        except DecodeError:
            continue
        candidates.add(match.decode())
    if len(candidates) != 1:
        raise NotFromStorageError("RedStone's adapter, which only the contract's code names, is not known")
    return str(candidates.pop())
