"""Blend's oracle aggregator of 2024: persistent settings for each asset, and the upstream's last price as it is.

A build of early 2025 keeps the same entries but looks further back where the upstream gives no last price; entries
cannot distinguish them, so that such a case has no answer (docs/oracles.md, "Blend's oracle aggregator").
"""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.ledger.storage_rules.host import (
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    present,
    price_data,
    price_parts,
    rescaled,
    unknown_function,
)

ASSET_NOT_FOUND: Final = "Error(Contract, #105)"
ASSET_BLOCKED: Final = "Error(Contract, #107)"


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has its two instance keys and nothing else, and its list of assets in an entry of its own."""
    return (
        set(contract.storage) == {symbol("Admin"), symbol("IsInit")} and _setting(host, contract, "Assets") is not None
    )


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of a function of SEP-40 that this aggregator has."""
    match call:
        case ["decimals" | "base" | "assets"]:
            return present(_setting(host, contract, call[0].capitalize()))
        case ["lastprice", asset]:
            return _lastprice(host, contract, asset)
    raise unknown_function(call)


def _setting(host: StorageHost, contract: Contract, name: str) -> ScVal | None:
    return host.data(contract.address, symbol(name))


def _lastprice(host: StorageHost, contract: Contract, asset: ScVal) -> ScVal:
    stored = host.data(contract.address, vec(symbol("AssetConfig"), asset))
    if stored is None:
        raise TrapError(ASSET_NOT_FOUND)
    blocked = host.data(contract.address, vec(symbol("Blocked"), asset))
    if blocked is not None and expect(blocked, scval.BOOL, "Blocked"):
        raise TrapError(ASSET_BLOCKED)
    config = Fields.of(stored, "AssetConfig")
    found = price_parts(host.call(config.address("oracle_id"), "lastprice", present(config.get("asset"))))
    if found is None:
        raise NotFromStorageError("the upstream has no last price, and releases of this aggregator differ in what then")
    decimals = expect(present(_setting(host, contract, "Decimals")), scval.U32, "Decimals")
    return price_data(rescaled(found[0], config.u32("decimals"), decimals), found[1])
