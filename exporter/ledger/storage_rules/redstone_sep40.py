"""RedStone's SEP-40 contract: its adapter's feeds by asset, in the decimals of the finest of them.

The adapter's address is in the code, not in an entry (docs/oracles.md, "RedStone").
"""

from __future__ import annotations

import re
from typing import Final

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, symbol, u32, vec
from exporter.ledger.storage_rules.host import (
    I128_MAX,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
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
"""Mainnet's contract with its adapter; of others the code says it."""

DECIMALS: Final = 8
_ALL: Final = 2**32 - 1
_STRKEY: Final = re.compile(rb"C[A-Z2-7]{55}")


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the settings of this one, under the variants of an enum."""
    return all(vec(symbol(name)) in contract.storage for name in ("BaseAsset", "MaxDecimals", "Resolution"))


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of a function of SEP-40."""
    most: int = expect(contract.storage[vec(symbol("MaxDecimals"))], scval.U32, "MaxDecimals")
    match call:
        case ["decimals"]:
            return u32(most)
        case ["base"]:
            return contract.storage[vec(symbol("BaseAsset"))]
        case ["resolution"]:
            return contract.storage[vec(symbol("Resolution"))]
        case ["assets"]:
            return host.data(contract.address, vec(symbol("Assets"))) or vec()
        case ["lastprice", asset]:
            feed = host.data(contract.address, vec(symbol("AssetToFeed"), asset))
            if feed is None:
                return VOID
            found = host.try_call(_adapter(host, contract), "read_price_data_for_feed", feed)
            return VOID if found is None else _price(found, _decimals(host, contract, feed), most)
        case ["price", asset, (scval.U64, int(time))]:
            for data, decimals in _records(host, contract, asset, _ALL):
                if Fields.of(data, "price").u64("package_timestamp") // 1000 == time:
                    return _price(data, decimals, most)
            return VOID
        case ["prices", asset, (scval.U32, int(records))]:
            prices = [_price(data, decimals, most) for data, decimals in _records(host, contract, asset, records)]
            given = [price for price in prices if price != VOID]
            return vec(*given) if given else VOID
    raise unknown_function(call)


def _records(host: StorageHost, contract: Contract, asset: ScVal, records: int) -> list[tuple[ScVal, int]]:
    """The last prices of an asset's feed, oldest first, each with the feed's decimals."""
    feed = host.data(contract.address, vec(symbol("AssetToFeed"), asset))
    if feed is None:
        return []
    found = host.try_call(_adapter(host, contract), "read_price_history", feed, u32(records))
    if found is None:
        return []
    decimals = _decimals(host, contract, feed)
    return [(data, decimals) for data in items(found, "history")]


def _decimals(host: StorageHost, contract: Contract, feed: ScVal) -> int:
    stored = host.data(contract.address, vec(symbol("FeedDecimals"), feed))
    return DECIMALS if stored is None else int(expect(stored, scval.U32, "FeedDecimals"))


def _price(data: ScVal, decimals: int, most: int) -> ScVal:
    """A feed's price in the contract's decimals, or none where it does not fit."""
    fields = Fields.of(data, "price")
    price: int = expect(present(fields.get("price")), scval.U256, "price")
    scaled = price * 10 ** min(max(most - decimals, 0), 39)
    return VOID if scaled > I128_MAX else price_data(scaled, fields.u64("package_timestamp") // 1000)


def _adapter(host: StorageHost, contract: Contract) -> str:
    known = ADAPTER_OF.get(contract.address)
    if known is not None:
        return known
    found = set()
    for match in _STRKEY.findall(host.code(contract) or b""):
        try:
            strkey.decode(match.decode())
        except DecodeError:
            continue
        found.add(match.decode())
    if len(found) != 1:
        raise NotFromStorageError("RedStone's adapter, which only the contract's code names, is not known")
    return str(found.pop())
