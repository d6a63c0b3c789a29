"""Contract code of the embedded network: native stand-ins that a simulated call runs instead of wasm.

Here are what runs them, and those that every protocol uses: oracles, tokens and the router. Each protocol's own are in
the module of its name.

A stand-in is a Python function that belongs to a wasm hash, or to the Stellar asset executable. It sees the ledger
only through `Host`, which fixes the ledger and records every key that was looked at, found or absent: the footprint.
Contracts whose code is not here (Blend's v1 pools) have entries like all others, but a call of them fails.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    PERSISTENT,
    ContractData,
    code_key,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
    variant_key,
)
from exporter.ledger.codec.scval import STELLAR_ASSET, WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import (
    INSTANCE_KEY,
    VOID,
    address,
    encode_opaque,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.answers import Simulation
from exporter.localnet.chain import LedgerState

MISSING_CONTRACT = "Error(Storage, MissingValue)"
MISSING_FUNCTION = "Error(WasmVm, MissingValue)"
WRONG_ARGUMENTS = "Error(WasmVm, UnexpectedSize)"
REENTRY = "Error(Context, InvalidAction)"
UNEXPECTED_TYPE = "Error(Value, UnexpectedType)"
UNWRAPPED_NONE = "Error(WasmVm, InvalidAction)"
"""What unwrapping a missing value in wasm ends as."""


Entry: TypeAlias = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


class TrapError(Exception):
    """A contract call failed; the message is the host's error, such as ``Error(Contract, #2)``."""


class Host:
    """What contract code sees of the ledger, at one ledger; ``footprint`` has every key it looked at.

    ``run`` is how a call of a contract is run: those that code makes itself share the footprint.
    """

    def __init__(self, chain: LedgerState, ledger: int, run: Callable[[Host, ContractCall], ScVal]) -> None:
        self._chain = chain
        self._run = run
        self._running: list[str] = []
        self.ledger = ledger
        self.timestamp = chain.close_time(ledger)
        self.footprint: dict[bytes, RawEntry | None] = {}

    def read(self, key: bytes) -> RawEntry | None:
        """The entry under a LedgerKey; an archived one looks restored."""
        self.footprint[key] = self._chain.entry(key, self.ledger)
        return self.footprint[key]

    def data(self, contract: str, key: ScVal, durability: int = PERSISTENT) -> ScVal | None:
        """The value a contract stores under a key, or None."""
        entry = self.read(data_key(contract, key, durability))
        return None if entry is None else decode_contract_data(entry.data).value

    def instance(self, contract: str) -> ContractInstance:
        """The instance of a contract. Raises `TrapError` where there is none."""
        entry = self.read(instance_key(contract))
        if entry is None:
            raise TrapError(MISSING_CONTRACT)
        return instance_of(decode_contract_data(entry.data))

    def call(self, call: ContractCall) -> ScVal:
        """Run a call, of a contract that is not running already. Raises `TrapError` where it fails."""
        if call.contract in self._running:
            raise TrapError(REENTRY)
        self._running.append(call.contract)
        try:
            return self._run(self, call)
        except DecodeError as error:  # an entry holds something else than its contract's code expects
            raise TrapError(f"Error(Value, UnexpectedType): {error}") from None
        finally:
            self._running.pop()


Code: TypeAlias = Callable[[Host, str, str, tuple[ScVal, ...]], ScVal]
"""A stand-in: (host, contract strkey, function, arguments) to the result. It raises `TrapError` to fail."""


class Contracts:
    """The code of a network: stand-ins by wasm hash, and one for every Stellar asset contract."""

    def __init__(self, by_wasm_hash: Mapping[bytes, Code] | None = None, stellar_asset: Code | None = None) -> None:
        self._by_wasm_hash = dict(by_wasm_hash or {})
        self._stellar_asset = stellar_asset

    def simulate(self, chain: LedgerState, ledger: int, call: ContractCall) -> Simulation:
        """Run one call on the state of a ledger."""
        host = Host(chain, ledger, self._run)
        try:
            result = encode_scval(host.call(call))
        except TrapError as error:
            return Simulation(None, f"HostError: {error}\n\nEvent log (newest first):\n", {})
        except DecodeError as error:  # what the code gave is no value
            return Simulation(None, f"HostError: Error(Value, UnexpectedType): {error}", {})
        return Simulation(result, None, host.footprint)

    def _run(self, host: Host, call: ContractCall) -> ScVal:
        instance = host.instance(call.contract)
        code = self._stellar_asset
        if instance.wasm_hash is not None:
            host.read(code_key(instance.wasm_hash))
            code = self._by_wasm_hash.get(instance.wasm_hash)
        if code is None:
            raise TrapError(MISSING_CONTRACT)
        return code(host, call.contract, call.function, call.arguments)


def made_wasm(name: str) -> bytes:
    """A wasm module that does nothing but has this name in it; its SHA-256 is a wasm hash to give code to."""
    label = name.encode()
    content = bytes((len(label),)) + label
    return b"\0asm\1\0\0\0" + bytes((0, len(content))) + content


def wasm_hash(wasm: bytes) -> bytes:
    """What a contract code entry is keyed by."""
    return hashlib.sha256(wasm).digest()


def storage_of(instance: ContractInstance, key: ScVal) -> ScVal | None:
    """The value under a key of the instance storage, or None."""
    return next((value for name, value in instance.storage or () if name == key), None)


def wasm_entry(wasm: bytes) -> Entry:
    """The entry of contract code."""
    code = b"\0\0\0\x07\0\0\0\0" + wasm_hash(wasm) + encode_opaque(wasm)
    return code_key(wasm_hash(wasm)), code


def stored_entry(contract: str, key: ScVal, value: ScVal, durability: int = PERSISTENT) -> Entry:
    """What a contract keeps under a key, as the ledger has it."""
    data = encode_contract_data(ContractData(contract, key, durability, value))
    return data_key(contract, key, durability), data


def instance_entry(contract: str, code: bytes, pairs: Iterable[tuple[ScVal, ScVal]]) -> Entry:
    """The instance of a contract of wasm code, with what it keeps there."""
    return _instance(contract, ContractInstance(WASM, code, None, tuple(pairs)))


def variants(storage: Mapping[str, ScVal]) -> list[tuple[ScVal, ScVal]]:
    """What stands under Rust enum variants without values, in the order of their names."""
    return [(vec(symbol(name)), storage[name]) for name in sorted(storage)]


def _instance(contract: str, instance: ContractInstance) -> Entry:
    return stored_entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, instance))


def boolean(value: bool) -> ScVal:
    """A yes or no."""
    return (scval.BOOL, value)


def fields_of(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}


def one_address(arguments: tuple[ScVal, ...]) -> str:
    """The strkey that is a function's one argument."""
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, payload = arguments[0]
    if kind != scval.ADDRESS:
        raise TrapError(UNEXPECTED_TYPE)
    found: str = payload
    return found


# SEP-40 price oracles. An oracle's instance storage has ``Decimals`` and ``Durability``. Each asset it knows has a
# persistent entry ``[Asset, address]``: void for a feed, whose price is under ``[Price, address]`` as
# {price, timestamp} with the oracle's durability, or an i128 for a constant whose timestamp is always that of the
# ledger. So the state alone decides how ``lastprice`` behaves: no asset entry traps, a feed without a price gives
# None, anything else gives the price, be it old, zero or negative (docs/protocols/blend.md, "Prices" has all of these
# in real oracles).

ORACLE_WASM = made_wasm("localnet oracle")
ORACLE_WASM_HASH = wasm_hash(ORACLE_WASM)
UNKNOWN_ASSET = "Error(Contract, #2)"

_DECIMALS = symbol("Decimals")
_DURABILITY = symbol("Durability")


def oracle_instance(oracle: str, decimals: int, durability: int = PERSISTENT) -> Entry:
    """The instance entry of an oracle."""
    storage = ((_DECIMALS, u32(decimals)), (_DURABILITY, u32(durability)))
    return _instance(oracle, ContractInstance(WASM, ORACLE_WASM_HASH, None, storage))


def asset_entry(oracle: str, token: str, constant: int | None = None) -> Entry:
    """The entry that makes an asset known: a feed, or with ``constant`` a price that is always of now."""
    value = VOID if constant is None else i128(constant)
    return stored_entry(oracle, vec(symbol("Asset"), address(token)), value)


def price_entry(oracle: str, token: str, price: int, timestamp: int, durability: int) -> Entry:
    """The newest price of a feed: ``price`` in the oracle's decimals, ``timestamp`` in unix seconds."""
    value = struct_map({"price": i128(price), "timestamp": u64(timestamp)})
    return stored_entry(oracle, vec(symbol("Price"), address(token)), value, durability)


def price_key(oracle: str, token: str, durability: int) -> bytes:
    """The LedgerKey XDR of a feed's price."""
    return variant_key(oracle, "Price", address(token), durability=durability)


def run_oracle(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: ``decimals()`` and ``lastprice(asset)``."""
    instance = host.instance(contract)
    decimals = storage_of(instance, _DECIMALS)
    durability = storage_of(instance, _DURABILITY)
    if decimals is None or durability is None:
        raise TrapError(UNWRAPPED_NONE)
    if function == "decimals":
        if arguments:
            raise TrapError(WRONG_ARGUMENTS)
        return decimals
    if function != "lastprice":
        raise TrapError(MISSING_FUNCTION)
    token = _stellar_asset(arguments)
    asset = host.data(contract, vec(symbol("Asset"), address(token)))
    if asset is None:
        raise TrapError(UNKNOWN_ASSET)
    if asset[0] == scval.I128:
        return struct_map({"price": asset, "timestamp": u64(host.timestamp)})
    price = host.data(contract, vec(symbol("Price"), address(token)), durability[1])
    return VOID if price is None else price


def _stellar_asset(arguments: tuple[ScVal, ...]) -> str:
    """The token's address of the one argument ``Asset::Stellar(address)``."""
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, payload = arguments[0]
    if kind != scval.VEC or payload is None or len(payload) != 2 or payload[0] != symbol("Stellar"):
        raise TrapError(UNKNOWN_ASSET)
    if payload[1][0] != scval.ADDRESS:
        raise TrapError(UNEXPECTED_TYPE)
    token: str = payload[1][1]
    return token


# Tokens, in the three layouts that occur on the network: a Stellar asset contract and a wasm token that both keep
# {decimal, name, symbol} under ``METADATA``, and a wasm token whose metadata only its functions tell.

TOKEN_WASM = made_wasm("localnet token")
TOKEN_WASM_HASH = wasm_hash(TOKEN_WASM)
OWN_LAYOUT_WASM = made_wasm("localnet token with its own layout")
OWN_LAYOUT_WASM_HASH = wasm_hash(OWN_LAYOUT_WASM)

_METADATA = symbol("METADATA")
_FIELDS = {"decimals": "decimal", "name": "name", "symbol": "symbol"}  # by the function that gives the field
_OWN_METADATA = vec(symbol("Metadata"))
_OWN_FIELDS = {"decimals": "decimals", "name": "name", "symbol": "symbol"}


class TokenLayout(Enum):
    """Where a token keeps its metadata, and what executes it."""

    STELLAR_ASSET = "stellar asset"
    WASM = "wasm, METADATA"
    OWN = "wasm, own layout"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``contract`` and ``admin`` are strkeys, ``issuer`` the G strkey of a Stellar asset other than XLM."""

    contract: str
    symbol: str
    decimals: int
    layout: TokenLayout
    admin: str
    issuer: str | None = None
    price: int = 10**14  # US dollars with 14 decimals, about what its feeds say; makers size amounts by it

    @property
    def name(self) -> str:
        """The token's name; for a Stellar asset ``CODE:ISSUER``, or ``native``."""
        if self.layout is not TokenLayout.STELLAR_ASSET:
            return f"{self.symbol} Token"
        return self.symbol if self.issuer is None else f"{self.symbol}:{self.issuer}"

    def instance_entry(self) -> Entry:
        return _instance(self.contract, self._instance())

    def _instance(self) -> ContractInstance:
        names = _OWN_FIELDS if self.layout is TokenLayout.OWN else _FIELDS
        values = {"decimals": u32(self.decimals), "name": string(self.name), "symbol": string(self.symbol)}
        metadata = struct_map({names[function]: value for function, value in values.items()})
        admin = (vec(symbol("Admin")), address(self.admin))
        if self.layout is TokenLayout.OWN:
            return ContractInstance(WASM, OWN_LAYOUT_WASM_HASH, None, (admin, (_OWN_METADATA, metadata)))
        if self.layout is TokenLayout.WASM:
            return ContractInstance(WASM, TOKEN_WASM_HASH, None, ((_METADATA, metadata), admin))
        asset_info = (vec(symbol("AssetInfo")), self._asset_info())
        owned = () if self.issuer is None else (admin,)  # nobody administers the native asset
        return ContractInstance(STELLAR_ASSET, None, None, ((_METADATA, metadata), *owned, asset_info))

    def _asset_info(self) -> ScVal:
        if self.issuer is None:
            return vec(symbol("Native"))
        size = 4 if len(self.symbol) <= 4 else 12
        code: ScVal = (scval.STRING, self.symbol.encode().ljust(size, b"\0"))
        issuer: ScVal = (scval.BYTES, strkey.decode(self.issuer)[1])
        return vec(symbol(f"AlphaNum{size}"), struct_map({"asset_code": code, "issuer": issuer}))


def balance_entry(token: Token, holder: str, amount: int) -> Entry:
    """What a contract has of a token. A Stellar asset keeps with it whether it may be used, and be taken back."""
    key, value = vec(symbol("Balance"), address(holder)), i128(amount)
    if token.layout is TokenLayout.STELLAR_ASSET:
        rights = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
        value = struct_map({"amount": value, **rights})
    return stored_entry(token.contract, key, value)


def amount_of(balance: ScVal | None) -> int:
    """The amount of a balance, of either form; 0 without one."""
    if balance is None:
        return 0
    kind, value = balance
    return int(dict(value)[symbol("amount")][1] if kind == scval.MAP else value)


def run_token(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of every token here: ``decimals()``, ``name()``, ``symbol()`` and ``balance(holder)`` of a contract.

    The host's own asset contract says of a wrong call something else than a wasm contract does.
    """
    instance = host.instance(contract)
    built_in = instance.executable == STELLAR_ASSET
    if function == "balance":
        if len(arguments) != 1:
            raise TrapError(WRONG_ARGUMENTS)
        return i128(amount_of(host.data(contract, vec(symbol("Balance"), arguments[0]))))
    if function not in _FIELDS:
        raise TrapError("Error(Value, InvalidInput)" if built_in else MISSING_FUNCTION)
    if arguments:
        raise TrapError("Error(Context, UnexpectedSize)" if built_in else WRONG_ARGUMENTS)
    for key, names in ((_METADATA, _FIELDS), (_OWN_METADATA, _OWN_FIELDS)):
        metadata = storage_of(instance, key)
        if metadata is not None:
            fields: dict[ScVal, ScVal] = dict(metadata[1])
            return fields[symbol(names[function])]
    raise TrapError("Error(WasmVm, InvalidAction)")


# The router: one call of ``exec`` makes many, as Creit Tech's v1 does on mainnet. Results stand in a vector in the
# order of the calls. A call that may fail gives an error value where it does: a contract's own error as it is, and any
# other as (Context, InvalidAction), which is all that the host lets a contract see of it. What no contract may
# survive, such as a budget that is used up, fails the whole.

ROUTER_WASM = made_wasm("localnet call router")
ROUTER_WASM_HASH = wasm_hash(ROUTER_WASM)

BUDGET_EXCEEDED = "Error(Budget, ExceededLimit)"

_OWN_ERROR = re.compile(r"Error\(Contract, #(\d+)\)")
_HIDDEN: ScVal = (scval.ERROR, (2, 6))  # (Context, InvalidAction)


def router_entries(router: str) -> tuple[Entry, Entry]:
    """The instance and the code of a router."""
    return _instance(router, ContractInstance(WASM, ROUTER_WASM_HASH, None, None)), wasm_entry(ROUTER_WASM)


def run_router(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:  # noqa: ARG001
    """The code of a router: ``exec(caller, calls)``, each call as (contract, function, arguments, can fail)."""
    if function != "exec":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 2:
        raise TrapError(WRONG_ARGUMENTS)
    (kind, _), (list_kind, calls) = arguments
    if kind != scval.ADDRESS or list_kind != scval.VEC or calls is None:
        raise TrapError(UNEXPECTED_TYPE)
    return (scval.VEC, tuple(_result(host, *_invocation(call)) for call in calls))


def _result(host: Host, call: ContractCall, may_fail: bool) -> ScVal:
    try:
        return host.call(call)
    except TrapError as error:
        if not may_fail or str(error) == BUDGET_EXCEEDED:
            raise
        own = _OWN_ERROR.fullmatch(str(error))
        return _HIDDEN if own is None else (scval.ERROR, (0, int(own[1])))


def _invocation(value: ScVal) -> tuple[ContractCall, bool]:
    kind, parts = value
    if (
        kind != scval.VEC
        or parts is None
        or [part[0] for part in parts]
        != [
            scval.ADDRESS,
            scval.SYMBOL,
            scval.VEC,
            scval.BOOL,
        ]
    ):
        raise TrapError(UNEXPECTED_TYPE)
    (_, contract), (_, function), (_, arguments), (_, may_fail) = parts
    return ContractCall(contract, function, arguments), may_fail
