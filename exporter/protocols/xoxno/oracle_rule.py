"""XOXNO's own oracle: the aggregate of its signers' prices by feed, and by asset (docs/oracles.md, "XOXNO")."""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, symbol, u32, u64, vec
from exporter.ledger.storage_rules.host import (
    I128_MAX,
    PANIC,
    Call,
    Contract,
    StorageHost,
    TrapError,
    present,
    price_data,
    unknown_function,
)

DECIMALS: Final = 8
MAX_STALE_SECONDS: Final = 86_400
NO_DATA: Final = "Error(Contract, #7)"
STALE: Final = "Error(Contract, #8)"


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has signers and a threshold, under the variants of an enum."""
    return all(vec(symbol(name)) in contract.storage for name in ("Signers", "Threshold"))


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of one of the reading functions."""
    match call:
        case ["decimals"]:
            return u32(DECIMALS)
        case ["read_price_data_for_feed", feed]:
            return _aggregate(host, contract, feed)
        case ["lastprice", asset]:
            feed = host.data(contract.address, vec(symbol("FeedMapping"), asset))
            if feed is None:
                return VOID
            try:
                return _price(_aggregate(host, contract, feed))
            except TrapError as error:
                if str(error) in (NO_DATA, STALE):
                    return VOID
                raise
    raise unknown_function(call)


def _aggregate(host: StorageHost, contract: Contract, feed: ScVal) -> ScVal:
    """A feed's aggregate, unless it was written longer ago than the contract allows."""
    stored = host.data(contract.address, vec(symbol("CurrentAggregate"), feed))
    if stored is None:
        raise TrapError(NO_DATA)
    written = Fields.of(stored, "aggregate").u64("write_timestamp") // 1000
    limit = contract.storage.get(vec(symbol("MaxStaleSeconds")), u64(MAX_STALE_SECONDS))
    if host.now - written > expect(limit, scval.U64, "MaxStaleSeconds"):
        raise TrapError(STALE)
    return stored


def _price(data: ScVal) -> ScVal:
    fields = Fields.of(data, "aggregate")
    price: int = expect(present(fields.get("price")), scval.U256, "price")
    if price > I128_MAX:
        raise TrapError(PANIC)
    return price_data(price, fields.u64("package_timestamp") // 1000)
