"""Tokens of the embedded network: how their instances look, and the stand-in for their code.

Three layouts that occur on the network: a Stellar asset contract and a wasm token that both keep
{decimal, name, symbol} under ``METADATA``, and a wasm token with a layout of its own, whose metadata only its
functions tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data, instance_key
from exporter.ledger.codec.scval import STELLAR_ASSET, WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, i128, string, struct_map, symbol, u32, vec
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    WRONG_ARGUMENTS,
    Host,
    TrapError,
    made_wasm,
    storage_of,
    wasm_hash,
)

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

    def instance_entry(self) -> tuple[bytes, bytes]:
        """The instance entry: (LedgerKey XDR, LedgerEntryData XDR)."""
        value: ScVal = (scval.CONTRACT_INSTANCE, self._instance())
        entry = ContractData(self.contract, INSTANCE_KEY, PERSISTENT, value)
        return instance_key(self.contract), encode_contract_data(entry)

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


def balance_entry(token: Token, holder: str, amount: int) -> tuple[bytes, bytes]:
    """What a contract has of a token. A Stellar asset keeps with it whether it may be used, and be taken back."""
    key, value = vec(symbol("Balance"), address(holder)), i128(amount)
    if token.layout is TokenLayout.STELLAR_ASSET:
        rights = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
        value = struct_map({"amount": value, **rights})
    data = ContractData(token.contract, key, PERSISTENT, value)
    return data_key(token.contract, key), encode_contract_data(data)


def amount_of(balance: ScVal | None) -> int:
    """The amount of a balance, of either form; 0 without one."""
    if balance is None:
        return 0
    kind, value = balance
    return int(dict(value)[symbol("amount")][1] if kind == scval.MAP else value)


def run_token(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of every token here: ``decimals()``, ``name()``, ``symbol()`` and ``balance(holder)`` of a contract."""
    instance = host.instance(contract)
    if function == "balance":
        if len(arguments) != 1:
            raise TrapError(WRONG_ARGUMENTS)
        return i128(amount_of(host.data(contract, vec(symbol("Balance"), arguments[0]))))
    if function not in _FIELDS:
        raise TrapError(MISSING_FUNCTION)
    if arguments:
        raise TrapError(WRONG_ARGUMENTS)
    for key, names in ((_METADATA, _FIELDS), (_OWN_METADATA, _OWN_FIELDS)):
        metadata = storage_of(instance, key)
        if metadata is not None:
            fields: dict[ScVal, ScVal] = dict(metadata[1])
            return fields[symbol(names[function])]
    raise TrapError("Error(WasmVm, InvalidAction)")
