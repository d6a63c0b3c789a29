"""Peridot's vaults: what they owe, own and could pay out, where no cash is boosted.

Only the contract that boosted cash was put into knows what it is worth.
"""

from __future__ import annotations

from dataclasses import replace

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.storage_rules.host import Call, Contract, NotFromStorageError, StorageHost, unknown_function
from exporter.protocols.peridot.layout import decode_vault, vault_keys

_MARKS = ("UnderlyingToken", "BorrowIndex", "TotalBorrowed", "LastUpdateTime")


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the entries that every vault has, and its instance nothing but a receipt token's."""
    if contract.storage and not any(vec(symbol(name)) in contract.storage for name in ("Meta", "TotalSupply")):
        return False
    return all(host.data(contract.address, vec(symbol(name))) is not None for name in _MARKS)


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of one of the views of totals."""
    found = {key: raw for key in vault_keys(contract.address) if (raw := host.entry(key))}
    entries = {key: Entry(key, replace(raw, live_until=None)) for key, raw in found.items()}  # an archived one counts
    vault = decode_vault(contract.address, entries)
    borrowed = vault.numbers["total_borrowed"]
    match call:
        case ["get_total_ptokens"] if vault.receipt_supply is not None:
            return (scval.U128, vault.receipt_supply)
        case ["get_total_borrowed"]:
            return (scval.U128, borrowed)
        case ["get_total_underlying" | "get_available_liquidity"]:
            if not vault.cash_is_stored:
                raise NotFromStorageError("the vault's entries do not show what cash it counts")
            owned = max(vault.implied_cash + borrowed - vault.set_aside, 0)
            return (scval.U128, owned if call[0] == "get_total_underlying" else max(owned - borrowed, 0))
    raise unknown_function(call)
