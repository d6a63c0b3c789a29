"""A SEP-40 oracle that knows its assets by symbol as well as by address, as Reflector's oracle of exchange prices does.

Its instance storage has ``Decimals``; a price is persistent under ``[Price, asset]``, where the asset is
``[Other, symbol]`` or ``[Stellar, address]``. An asset without an entry has no price. Slender's pool uses it too.
"""

from __future__ import annotations

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, data_key, encode_contract_data
from exporter.ledger.codec.scval import WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, VOID, address, i128, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    WRONG_ARGUMENTS,
    Host,
    TrapError,
    made_wasm,
    storage_of,
    wasm_hash,
)

SYMBOL_ORACLE_WASM = made_wasm("localnet oracle by symbol")
SYMBOL_ORACLE_WASM_HASH = wasm_hash(SYMBOL_ORACLE_WASM)
RESOLUTION = 300  # seconds

_DECIMALS = symbol("Decimals")

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


def by_symbol(name: str) -> ScVal:
    """The asset of a symbol."""
    return vec(symbol("Other"), symbol(name))


def by_address(token: str) -> ScVal:
    """The asset of a token contract."""
    return vec(symbol("Stellar"), address(token))


def symbol_oracle_instance(oracle: str, decimals: int) -> Entry:
    """The instance entry of an oracle."""
    instance = ContractInstance(WASM, SYMBOL_ORACLE_WASM_HASH, None, ((_DECIMALS, u32(decimals)),))
    return _entry(oracle, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, instance))


def symbol_price_entry(oracle: str, asset: ScVal, price: int, timestamp: int) -> Entry:
    """The newest price of an asset: ``price`` in the oracle's decimals, ``timestamp`` in unix seconds."""
    return _entry(oracle, vec(symbol("Price"), asset), struct_map({"price": i128(price), "timestamp": u64(timestamp)}))


def run_symbol_oracle(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: ``decimals()``, ``resolution()`` and ``lastprice(asset)``."""
    decimals = storage_of(host.instance(contract), _DECIMALS)
    if decimals is None:
        raise TrapError("Error(WasmVm, InvalidAction)")  # what unwrapping a missing value in wasm ends as
    plain = {"decimals": decimals, "resolution": u32(RESOLUTION)}
    if function not in (*plain, "lastprice"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != (function == "lastprice"):
        raise TrapError(WRONG_ARGUMENTS)
    if function in plain:
        return plain[function]
    price = host.data(contract, vec(symbol("Price"), arguments[0]))
    return VOID if price is None else price


def _entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    return data_key(contract, key), encode_contract_data(ContractData(contract, key, 1, value))
