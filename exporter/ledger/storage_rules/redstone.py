"""RedStone's adapter: the last price of each feed, and the ones before it (docs/oracles.md, "RedStone").

Times in entries are in milliseconds.
"""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import string, symbol, u64, vec
from exporter.ledger.storage_rules.host import Call, Contract, StorageHost, TrapError, items, unknown_function

ADAPTERS: Final = {"CA526Y2NQWGWVVQ7RFFPGAZMU66PSYJ3UC2MTVAV4ZU7OM5BOPHDXUSG"}
"""Mainnet's adapter. Nothing in an adapter's instance identifies it, so others are known by their code."""

MAX_AGE_MS: Final = 30 * 60 * 60 * 1000
MISSING: Final = "Error(Storage, MissingValue)"
STALE: Final = "Error(Contract, #1400)"
THRESHOLD: Final = 3  # signers that a price needs; a constant of the code

_FUNCTIONS: Final = (b"read_price_data_for_feed", b"unique_signer_threshold", b"write_prices")


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract is a known adapter, or its code has an adapter's functions."""
    if contract.address in ADAPTERS:
        return True
    if string("owner") not in contract.storage:
        return False
    code = host.code(contract) or b""
    return all(name in code for name in _FUNCTIONS)


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of one of the adapter's reading functions."""
    match call:
        case ["read_price_data_for_feed", feed]:
            return _fresh(host, contract, feed)
        case ["read_price_data", feeds]:
            return vec(*(_fresh(host, contract, feed) for feed in items(feeds, "feeds")))
        case ["read_prices", feeds]:
            data = [Fields.of(_fresh(host, contract, feed), "price") for feed in items(feeds, "feeds")]
            return vec(*((scval.U256, expect(each.get("price") or vec(), scval.U256, "price")) for each in data))
        case ["read_timestamp", feed]:
            return u64(Fields.of(_fresh(host, contract, feed), "price").u64("package_timestamp"))
        case ["read_price_history", feed, (scval.U32, int(limit))]:
            # A feed's last prices, oldest first.
            stored = host.data(contract.address, vec(symbol("Feed"), feed))
            if stored is None:
                raise TrapError(MISSING)
            known = items(Fields.of(stored, "Feed").get("price_data") or vec(), "price_data")
            return vec(*known[max(len(known) - limit, 0) :])
        case ["unique_signer_threshold"]:
            return u64(THRESHOLD)
    raise unknown_function(call)


def _fresh(host: StorageHost, contract: Contract, feed: ScVal) -> ScVal:
    """A feed's last price, unless it was written 30 hours ago, or before."""
    stored = host.data(contract.address, feed)
    if stored is None:
        raise TrapError(MISSING)
    if Fields.of(stored, "price").u64("write_timestamp") + MAX_AGE_MS <= host.now * 1000:
        raise TrapError(STALE)
    return stored
