"""SEP-40 price oracles of the embedded network: how their entries look, and their stand-in code.

An oracle's instance storage has ``Decimals`` and ``Durability``. Each asset it knows has a persistent entry
``[Asset, address]``: void for a feed, whose price is under ``[Price, address]`` as {price, timestamp} with the
oracle's durability, or an i128 for a constant whose timestamp is always that of the ledger. So the state alone decides
how ``lastprice`` behaves: no asset entry traps, a feed without a price gives None, anything else gives the price,
be it old, zero or negative (docs/protocols/blend.md, "Prices" has all of these in real oracles).
"""

from __future__ import annotations

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data, variant_key
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

ORACLE_WASM = made_wasm("localnet oracle")
ORACLE_WASM_HASH = wasm_hash(ORACLE_WASM)
UNKNOWN_ASSET = "Error(Contract, #2)"

_DECIMALS = symbol("Decimals")
_DURABILITY = symbol("Durability")


def oracle_instance(oracle: str, decimals: int, durability: int = PERSISTENT) -> tuple[bytes, bytes]:
    """The instance entry of an oracle: (LedgerKey XDR, LedgerEntryData XDR)."""
    storage = ((_DECIMALS, u32(decimals)), (_DURABILITY, u32(durability)))
    return _entry(oracle, INSTANCE_KEY, PERSISTENT, (scval.CONTRACT_INSTANCE, _instance(storage)))


def asset_entry(oracle: str, token: str, constant: int | None = None) -> tuple[bytes, bytes]:
    """The entry that makes an asset known: a feed, or with ``constant`` a price that is always of now."""
    return _entry(oracle, _asset_key(token), PERSISTENT, VOID if constant is None else i128(constant))


def price_entry(oracle: str, token: str, price: int, timestamp: int, durability: int) -> tuple[bytes, bytes]:
    """The newest price of a feed: ``price`` in the oracle's decimals, ``timestamp`` in unix seconds."""
    value = struct_map({"price": i128(price), "timestamp": u64(timestamp)})
    return _entry(oracle, _price_key(token), durability, value)


def price_key(oracle: str, token: str, durability: int) -> bytes:
    """The LedgerKey XDR of a feed's price."""
    return variant_key(oracle, "Price", address(token), durability=durability)


def run_oracle(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: ``decimals()`` and ``lastprice(asset)``."""
    instance = host.instance(contract)
    decimals = storage_of(instance, _DECIMALS)
    durability = storage_of(instance, _DURABILITY)
    if decimals is None or durability is None:
        raise TrapError("Error(WasmVm, InvalidAction)")  # what unwrapping a missing value in wasm ends as
    if function == "decimals":
        if arguments:
            raise TrapError(WRONG_ARGUMENTS)
        return decimals
    if function != "lastprice":
        raise TrapError(MISSING_FUNCTION)
    token = _stellar_asset(arguments)
    asset = host.data(contract, _asset_key(token))
    if asset is None:
        raise TrapError(UNKNOWN_ASSET)
    if asset[0] == scval.I128:
        return struct_map({"price": asset, "timestamp": u64(host.timestamp)})
    price = host.data(contract, _price_key(token), durability[1])
    return VOID if price is None else price


def _stellar_asset(arguments: tuple[ScVal, ...]) -> str:
    """The token's address of the one argument ``Asset::Stellar(address)``."""
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, payload = arguments[0]
    if kind != scval.VEC or payload is None or len(payload) != 2 or payload[0] != symbol("Stellar"):
        raise TrapError(UNKNOWN_ASSET)
    if payload[1][0] != scval.ADDRESS:
        raise TrapError("Error(Value, UnexpectedType)")
    token: str = payload[1][1]
    return token


def _asset_key(token: str) -> ScVal:
    return vec(symbol("Asset"), address(token))


def _price_key(token: str) -> ScVal:
    return vec(symbol("Price"), address(token))


def _instance(storage: tuple[tuple[ScVal, ScVal], ...]) -> ContractInstance:
    return ContractInstance(WASM, ORACLE_WASM_HASH, None, storage)


def _entry(contract: str, key: ScVal, durability: int, value: ScVal) -> tuple[bytes, bytes]:
    data = encode_contract_data(ContractData(contract, key, durability, value))
    return data_key(contract, key, durability), data
