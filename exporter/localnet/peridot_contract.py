"""The stand-ins for Peridot's vault code and for the DeFindex vault that it boosts its cash in.

The vault's views compute from the chain's state alone and do not accrue, like the contract's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.ledger import scval
from exporter.ledger.entries import code_key
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, i128, symbol, vec
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Code, Host, TrapError, storage_of
from exporter.localnet.peridot_entries import BOOST_WASM_HASH, VAULT_WASM_HASH, u128
from exporter.localnet.peridot_oracle import SYMBOL_ORACLE_WASM_HASH, run_symbol_oracle

_SCALE = 10**6
_UNWRAPPED_NONE = "Error(WasmVm, InvalidAction)"  # what unwrapping a missing value in wasm ends as


def run_vault(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a vault: the views that tell of its totals."""
    views: dict[str, Callable[[Host, str], int]] = {
        "get_available_liquidity": lambda host, vault: max(_underlying(host, vault) - _borrowed(host, vault), 0),
        "get_total_borrowed": _borrowed,
        "get_total_reserves": lambda host, vault: _amount(host, vault, "TotalReserves"),
        "get_total_underlying": _underlying,
        "get_total_ptokens": _receipts,
        "get_exchange_rate": _exchange_rate,
    }
    if function not in views:
        raise TrapError(MISSING_FUNCTION)
    if arguments:
        raise TrapError(WRONG_ARGUMENTS)
    return u128(views[function](host, contract))


def run_boost(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a DeFindex vault: ``balance(owner)`` and ``get_asset_amounts_per_shares(shares)``."""
    if function not in ("balance", "get_asset_amounts_per_shares"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, argument = arguments[0]
    if function == "balance":
        if kind != scval.ADDRESS:
            raise TrapError("Error(Value, UnexpectedType)")
        held = host.data(contract, vec(symbol("Balance"), address(argument)))
        return i128(0) if held is None else held
    if kind != scval.I128:
        raise TrapError("Error(Value, UnexpectedType)")
    shares, assets = (_required(host, contract, name) for name in ("Shares", "Assets"))
    return vec(i128(argument * assets // shares if shares else 0))


PERIDOT_CODE: Mapping[bytes, Code] = {
    VAULT_WASM_HASH: run_vault,
    BOOST_WASM_HASH: run_boost,
    SYMBOL_ORACLE_WASM_HASH: run_symbol_oracle,
}
"""The stand-ins by wasm hash, with that of the oracle."""


def _underlying(host: Host, vault: str) -> int:
    cash = _amount(host, vault, "ManagedCash") + _boosted(host, vault)
    kept = _amount(host, vault, "TotalReserves") + _amount(host, vault, "TotalAdminFees")
    return max(cash + _borrowed(host, vault) - kept, 0)


def _boosted(host: Host, vault: str) -> int:
    boosted = host.data(vault, vec(symbol("BoostedVault")))
    if boosted is None:
        return 0
    contract: str = boosted[1]
    instance = host.instance(contract)
    if instance.wasm_hash is not None:
        host.read(code_key(instance.wasm_hash))
    shares = run_boost(host, contract, "balance", (address(vault),))
    amounts = run_boost(host, contract, "get_asset_amounts_per_shares", (shares,))
    return int(amounts[1][0][1])


def _borrowed(host: Host, vault: str) -> int:
    return _required(host, vault, "TotalBorrowed")


def _receipts(host: Host, vault: str) -> int:
    supply = storage_of(host.instance(vault), vec(symbol("TotalSupply")))
    return 0 if supply is None else int(supply[1])


def _exchange_rate(host: Host, vault: str) -> int:
    receipts, owned = _receipts(host, vault), _underlying(host, vault)
    if receipts == 0 or owned == 0:
        return _amount(host, vault, "InitialExchangeRate") or _SCALE
    return owned * _SCALE // receipts


def _amount(host: Host, contract: str, name: str) -> int:
    value = host.data(contract, vec(symbol(name)))
    return 0 if value is None else int(value[1])


def _required(host: Host, contract: str, name: str) -> int:
    value = host.data(contract, vec(symbol(name)))
    if value is None:
        raise TrapError(_UNWRAPPED_NONE)
    return int(value[1])
