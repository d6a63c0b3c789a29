"""Entries of contract data, written by hand."""

from __future__ import annotations

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, data_key, encode_contract_data
from exporter.ledger.codec.scval import WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, vec

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


def stored(contract: str, key: ScVal, value: ScVal, durability: int = 1) -> Entry:
    """What a contract keeps under a key, as the ledger has it."""
    return data_key(contract, key, durability), encode_contract_data(ContractData(contract, key, durability, value))


def instance(code: bytes, pairs: list[tuple[ScVal, ScVal]]) -> ScVal:
    """An instance of wasm code with its storage."""
    return (scval.CONTRACT_INSTANCE, ContractInstance(WASM, code, None, tuple(pairs)))


def balance(token: str, holder: str, amount: int) -> Entry:
    """What a contract has of a Stellar asset."""
    rights = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
    return stored(token, vec(symbol("Balance"), address(holder)), struct_map({"amount": i128(amount), **rights}))
