"""Peridot's vaults: what they owe, own and could pay out, where no cash is boosted.

Layout: docs/protocols/peridot.md. Only the contract that boosted cash was put into knows what it is worth.
"""

from __future__ import annotations

from typing import Final

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.ledger.storage_rules.host import (
    PANIC,
    Call,
    Contract,
    NotFromStorageError,
    StorageHost,
    TrapError,
    present,
    unknown_function,
)

U128_MAX: Final = 2**128 - 1
_MARKS: Final = ("UnderlyingToken", "BorrowIndex", "TotalBorrowed", "LastUpdateTime")


def recognises(host: StorageHost, contract: Contract) -> bool:
    """Whether a contract has the entries that every vault has, and its instance nothing but a receipt token's."""
    if contract.storage and not any(vec(symbol(name)) in contract.storage for name in ("Meta", "TotalSupply")):
        return False
    return all(host.data(contract.address, vec(symbol(name))) is not None for name in _MARKS)


def answer(host: StorageHost, contract: Contract, call: Call) -> ScVal:
    """The answer of one of the views of totals."""
    match call:
        case ["get_total_ptokens"]:
            value = contract.storage.get(vec(symbol("TotalSupply")))
            if value is None:
                raise NotFromStorageError("the vault's receipt tokens are not counted in its instance")
            supply: int = expect(value, scval.I128, "TotalSupply")
            if supply < 0:
                raise TrapError(PANIC)
            return (scval.U128, supply)
        case ["get_total_borrowed"]:
            return (scval.U128, _borrowed(host, contract))
        case ["get_total_underlying"]:
            return (scval.U128, _underlying(host, contract))
        case ["get_available_liquidity"]:
            return (scval.U128, max(_underlying(host, contract) - _borrowed(host, contract), 0))
    raise unknown_function(call)


def _amount(host: StorageHost, contract: Contract, name: str) -> int:
    value = host.data(contract.address, vec(symbol(name)))
    return 0 if value is None else int(expect(value, scval.U128, name))


def _borrowed(host: StorageHost, contract: Contract) -> int:
    return int(expect(present(host.data(contract.address, vec(symbol("TotalBorrowed")))), scval.U128, "TotalBorrowed"))


def _underlying(host: StorageHost, contract: Contract) -> int:
    """The suppliers' property: cash and what is lent, less reserves and fees."""
    if host.data(contract.address, vec(symbol("BoostedVault"))) is not None:
        raise NotFromStorageError("the vault has boosted its cash, and only another contract knows what that is worth")
    cash = host.data(contract.address, vec(symbol("ManagedCash")))
    if cash is None:
        raise NotFromStorageError("the vault has not counted its cash yet")
    aside = _amount(host, contract, "TotalReserves") + _amount(host, contract, "TotalAdminFees")
    held: int = expect(cash, scval.U128, "ManagedCash")
    return max(min(held + _borrowed(host, contract), U128_MAX) - aside, 0)
