"""The ledger entries of K2's contracts (facts/other-protocols.md 3.1): routers, tokens of reserves, rates, prices."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.ledger import scval
from exporter.ledger.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import made_wasm, wasm_hash
from exporter.localnet.k2_reserve import Model, Reserve

ROUTER_WASM = made_wasm("localnet k2 router")
TOKEN_WASM = made_wasm("localnet k2 token")
RATES_WASM = made_wasm("localnet k2 interest rates")
ORACLE_WASM = made_wasm("localnet k2 oracle")
ROUTER_WASM_HASH, TOKEN_WASM_HASH, RATES_WASM_HASH, ORACLE_WASM_HASH = (
    wasm_hash(wasm) for wasm in (ROUTER_WASM, TOKEN_WASM, RATES_WASM, ORACLE_WASM)
)

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


@dataclass(slots=True)
class Market:
    """One router with its reserves; addresses are strkeys. ``missing`` are reserves that have no aToken instance."""

    address: str
    oracle: str
    rates: str
    admin: str
    configurator: str
    treasury: str
    paused: bool = False
    defaults: Model = field(default_factory=Model)
    reserves: list[Reserve] = field(default_factory=list)
    missing: list[Reserve] = field(default_factory=list)


def router_instance(market: Market) -> Entry:
    """The instance of a router."""
    storage = {
        "INIT": boolean(True),
        "ORACLE": address(market.oracle),
        "PADMIN": address(market.admin),
        "PAUSED": boolean(market.paused),
        "PCONFIG": address(market.configurator),
        "TREASURY": address(market.treasury),
    }
    return _instance(market.address, ROUTER_WASM_HASH, _symbols(storage))


def reserve_list(market: Market) -> Entry:
    """``RLIST``: the reserves in the order of their making."""
    return _entry(market.address, symbol("RLIST"), vec(*(address(item.asset) for item in market.reserves)))


def reserve_entry(market: Market, reserve: Reserve) -> Entry:
    """``RDATA`` of a reserve."""
    return _entry(market.address, reserve_key(reserve.asset), reserve_value(market, reserve))


def reserve_key(asset: str) -> ScVal:
    """The key of a reserve's entry."""
    return vec(symbol("RDATA"), address(asset))


def reserve_value(market: Market, reserve: Reserve) -> ScVal:
    """The struct of a reserve."""
    return struct_map(
        {
            "a_token_address": address(reserve.a_token),
            "configuration": struct_map({"data_high": u128(reserve.data_high), "data_low": u128(reserve.data_low)}),
            "current_liquidity_rate": u128(reserve.liquidity_rate),
            "current_variable_borrow_rate": u128(reserve.borrow_rate),
            "debt_token_address": address(reserve.debt_token),
            "id": u32(reserve.id),
            "interest_rate_strategy_address": address(market.rates),
            "last_update_timestamp": u64(reserve.last_update),
            "liquidity_index": u128(reserve.liquidity_index),
            "variable_borrow_index": u128(reserve.borrow_index),
        }
    )


def a_token_instance(market: Market, reserve: Reserve) -> Entry:
    """The instance of a reserve's aToken."""
    state = {"total_supply_scaled": i128(reserve.supply_scaled), "underlying_asset": address(reserve.asset)}
    return _token(market, reserve, reserve.a_token, "k2a", state)


def debt_token_instance(market: Market, reserve: Reserve) -> Entry:
    """The instance of a reserve's debt token."""
    state = {"borrowed_asset": address(reserve.asset), "total_debt_scaled": i128(reserve.debt_scaled)}
    return _token(market, reserve, reserve.debt_token, "k2d", state)


def rates_instance(market: Market) -> Entry:
    """The instance of a rate contract, with the parameters of reserves that have none of their own."""
    model = market.defaults
    storage = {"BVR": model.base, "OU": model.optimal, "VS1": model.slope1, "VS2": model.slope2}
    values = {name: u128(value) for name, value in storage.items()} | {"ADMIN": address(market.admin)}
    return _instance(market.rates, RATES_WASM_HASH, _symbols(values))


def rates_entry(market: Market, reserve: Reserve) -> Entry:
    """``APARAMS`` of a reserve with parameters of its own."""
    fields = {
        "base_variable_borrow_rate": reserve.model.base,
        "optimal_utilization_rate": reserve.model.optimal,
        "variable_rate_slope1": reserve.model.slope1,
        "variable_rate_slope2": reserve.model.slope2,
    }
    value = struct_map({name: u128(number) for name, number in fields.items()})
    return _entry(market.rates, vec(symbol("APARAMS"), address(reserve.asset)), value)


def oracle_instance(oracle: str, admin: str, *, fresh: bool = True) -> Entry:
    """The instance of an oracle; without ``fresh`` it has the functions of the published source alone."""
    return _instance(oracle, ORACLE_WASM_HASH, _symbols({"Admin": address(admin), "Fresh": boolean(fresh)}))


def price_entry(oracle: str, token: str, price: int, time: int) -> Entry:
    """What the oracle has last seen of a token: a price with 14 decimals, and its time."""
    return _entry(oracle, price_key(token), struct_map({"price": u128(price), "timestamp": u64(time)}))


def price_key(token: str) -> ScVal:
    """The key of a price."""
    return vec(symbol("LastPriceData"), vec(symbol("Stellar"), address(token)))


def u128(value: int) -> ScVal:
    """An unsigned 128-bit value."""
    return (scval.U128, value)


def boolean(value: bool) -> ScVal:
    """A bool."""
    return (scval.BOOL, value)


def _token(market: Market, reserve: Reserve, token: str, prefix: str, state: dict[str, ScVal]) -> Entry:
    state |= {
        "decimals": u32(reserve.decimals),
        "name": string(f"K2 {reserve.symbol}"),
        "pool_address": address(market.address),
        "symbol": string(f"{prefix}{reserve.symbol}"),
    }
    return _instance(token, TOKEN_WASM_HASH, ((vec(symbol("State")), struct_map(state)),))


def _symbols(storage: dict[str, ScVal]) -> tuple[tuple[ScVal, ScVal], ...]:
    return tuple((symbol(name), storage[name]) for name in sorted(storage))


def _instance(contract: str, wasm: bytes, storage: tuple[tuple[ScVal, ScVal], ...]) -> Entry:
    return _entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, wasm, None, storage)))


def _entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    return data_key(contract, key, PERSISTENT), encode_contract_data(ContractData(contract, key, PERSISTENT, value))
