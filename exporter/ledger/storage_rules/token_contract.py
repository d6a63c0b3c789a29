"""The rule of token contracts: their symbol, their decimals, and what a contract holds (docs/oracles.md, "Tokens")."""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import STELLAR_ASSET, ScVal
from exporter.ledger.codec.scval_encode import i128, symbol, vec
from exporter.ledger.storage_rules.host import (
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    present,
    unknown_function,
)

_METADATA: Final = {"symbol": "symbol", "decimals": "decimal", "name": "name"}


def recognises(_host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the metadata that Stellar asset contracts and the token SDK keep."""
    return contract.symbols("METADATA")


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The result of ``symbol()``, ``decimals()`` or ``name()``, or of a contract's ``balance()`` of a Stellar asset."""
    match call:
        case ["symbol" | "decimals" | "name"]:
            return present(contract.fields.struct("METADATA").get(_METADATA[call[0]]))
        case ["balance", (scval.ADDRESS, str(holder)) as owner]:
            if contract.instance.executable != STELLAR_ASSET or not holder.startswith("C"):
                raise NotFromStorageError("only a contract's balance of a Stellar asset has a known entry")
            stored = host.data(contract.address, vec(symbol("Balance"), owner))
            return i128(0 if stored is None else Fields.of(stored, "Balance").i128("amount"))
    raise unknown_function(call)
