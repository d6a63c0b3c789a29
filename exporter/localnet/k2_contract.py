"""The stand-ins for the code of K2's contracts, computed from the chain's state alone.

A router's views, its tokens' totals and the oracle's prices, with the traps of the real ones: one price that the
oracle refuses fails the call for all of them (docs/protocols/k2.md). The math is that of `k2_reserve`, apart from the
exporter's.
"""

from __future__ import annotations

from typing import Any

from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import VOID, i128, symbol, u64, vec
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError, storage_of
from exporter.localnet.k2_entries import boolean, price_key, reserve_key, u128
from exporter.localnet.k2_reserve import RAY, Reserve

MATH_OVERFLOW, RESERVE_NOT_FOUND = "Error(Contract, #37)", "Error(Contract, #24)"
"""Of the router."""

PRICE_TOO_OLD, ASSET_NOT_WHITELISTED = "Error(Contract, #4)", "Error(Contract, #7)"
"""Of the oracle."""

MAX_PRICE_AGE = 3_600
_UNEXPECTED_TYPE = "Error(Value, UnexpectedType)"
_BATCHES = ("get_asset_prices_vec", "get_asset_prices_vec_fresh")


def run_router(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a router: its views of reserves, its list of them, and whether it is paused."""
    instance = host.instance(contract)
    if function in ("is_paused", "get_reserves_list"):
        if arguments:
            raise TrapError(WRONG_ARGUMENTS)
        if function == "is_paused":
            return storage_of(instance, symbol("PAUSED")) or boolean(False)
        return host.data(contract, symbol("RLIST")) or vec()
    if function not in (
        "get_reserve_data", "get_current_reserve_data", "get_current_liquidity_index", "get_current_var_borrow_idx",
    ):  # fmt: skip
        raise TrapError(MISSING_FUNCTION)
    stored = host.data(contract, reserve_key(_address(arguments)))
    if stored is None:
        raise TrapError(RESERVE_NOT_FOUND)
    if function == "get_reserve_data":
        return stored
    liquidity, borrow = _current_indexes(stored, host.timestamp)
    if function == "get_current_liquidity_index":
        return u128(liquidity)
    if function == "get_current_var_borrow_idx":
        return u128(borrow)
    now = {
        "last_update_timestamp": u64(host.timestamp),
        "liquidity_index": u128(liquidity),
        "variable_borrow_index": u128(borrow),
    }
    return (scval.MAP, tuple((key, now.get(key[1], value)) for key, value in stored[1]))


def run_token(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of aTokens and debt tokens: the scaled total, and the total at the router's current index."""
    state = storage_of(host.instance(contract), vec(symbol("State")))
    if state is None:
        raise TrapError("Error(WasmVm, InvalidAction)")
    fields = _fields(state)
    if arguments:
        raise TrapError(WRONG_ARGUMENTS)
    if function in ("decimals", "name", "symbol"):
        told: dict[ScVal, ScVal] = dict(state[1])
        return told[symbol(function)]
    if function not in ("scaled_total_supply", "total_supply"):
        raise TrapError(MISSING_FUNCTION)
    is_debt = "total_debt_scaled" in fields
    scaled: int = fields["total_debt_scaled" if is_debt else "total_supply_scaled"]
    if function == "scaled_total_supply":
        return i128(scaled)
    asset = fields["borrowed_asset" if is_debt else "underlying_asset"]
    stored = host.data(fields["pool_address"], reserve_key(asset))
    if stored is None:
        raise TrapError(RESERVE_NOT_FOUND)
    return i128((scaled * _current_indexes(stored, host.timestamp)[is_debt] + RAY // 2) // RAY)


def run_oracle(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of an oracle: the prices of some assets, all of them or an error."""
    fresh = storage_of(host.instance(contract), symbol("Fresh"))
    if function not in _BATCHES or (function == _BATCHES[1] and fresh != boolean(True)):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, assets = arguments[0]
    if kind != scval.VEC:
        raise TrapError(_UNEXPECTED_TYPE)
    return vec(*(_price(host, contract, asset) for asset in assets or ()))


def run_rates(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a rate contract: a reserve's own parameters, void where it has none."""
    host.instance(contract)
    if function != "get_asset_interest_rate_params":
        raise TrapError(MISSING_FUNCTION)
    asset = _address(arguments)
    return host.data(contract, vec(symbol("APARAMS"), (scval.ADDRESS, asset))) or VOID


def _price(host: Host, contract: str, asset: ScVal) -> ScVal:
    kind, parts = asset
    if kind != scval.VEC or not parts or len(parts) != 2 or parts[0] != symbol("Stellar"):
        raise TrapError(ASSET_NOT_WHITELISTED)
    found = host.data(contract, price_key(parts[1][1]))
    if found is None:
        raise TrapError(ASSET_NOT_WHITELISTED)
    if not 0 <= host.timestamp - _fields(found)["timestamp"] <= MAX_PRICE_AGE:
        raise TrapError(PRICE_TOO_OLD)
    return found


def _current_indexes(stored: ScVal, time: int) -> tuple[int, int]:
    fields = _fields(stored)
    reserve = Reserve(
        asset="",
        symbol="",
        decimals=0,
        a_token=fields["a_token_address"],
        debt_token=fields["debt_token_address"],
        last_update=fields["last_update_timestamp"],
        liquidity_index=fields["liquidity_index"],
        borrow_index=fields["variable_borrow_index"],
        liquidity_rate=fields["current_liquidity_rate"],
        borrow_rate=fields["current_variable_borrow_rate"],
    )
    if time < reserve.last_update:
        raise TrapError(MATH_OVERFLOW)
    return reserve.indexes_at(time)


def _address(arguments: tuple[ScVal, ...]) -> str:
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, payload = arguments[0]
    if kind != scval.ADDRESS:
        raise TrapError(_UNEXPECTED_TYPE)
    found: str = payload
    return found


def _fields(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}
