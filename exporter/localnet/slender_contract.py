"""Slender's pool in the embedded network: its instance, what lies in its reserves, and the code of its views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.ledger import scval
from exporter.ledger.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import (
    INSTANCE_KEY,
    VOID,
    address,
    encode_scval,
    i128,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    WRONG_ARGUMENTS,
    Code,
    Host,
    TrapError,
    made_wasm,
    storage_of,
    wasm_hash,
)
from exporter.localnet.peridot_oracle import SYMBOL_ORACLE_WASM_HASH, run_symbol_oracle
from exporter.localnet.slender_reserve import WINDOW, Reserve

POOL_WASM = made_wasm("localnet slender pool")
POOL_WASM_HASH = wasm_hash(POOL_WASM)
NO_RESERVE = "Error(Contract, #1)"
"""Uninitialized: what the contract says of anything that is not in its storage."""

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


@dataclass(slots=True)
class Market:
    """A pool contract with its reserves; ``feeds`` are the assets that the oracle knows the tokens as."""

    address: str
    oracle: str
    admin: str
    reserves: list[Reserve] = field(default_factory=list)
    feeds: dict[str, ScVal] = field(default_factory=dict)
    wasm_hash: bytes = POOL_WASM_HASH


def pool_instance(market: Market) -> Entry:
    """The instance entry of a pool."""
    storage: dict[ScVal, ScVal] = {
        vec(symbol("Admin")): address(market.admin),
        vec(symbol("Pause")): struct_map(
            {"grace_period_secs": u64(0), "paused": (scval.BOOL, False), "unpaused_at": u64(0)}
        ),
        vec(symbol("PoolConfig")): struct_map(
            {
                "base_asset_address": address(market.reserves[0].token),
                "base_asset_decimals": u32(market.reserves[0].decimals),
                "flash_loan_fee": u32(9),
                "grace_period": u64(86_400),
                "initial_health": u32(2_500),
                "ir_alpha": u32(143),
                "ir_initial_rate": u32(200),
                "ir_max_rate": u32(50_000),
                "ir_scaling_coeff": u32(9_000),
                "liquidation_protocol_fee": u32(100),
                "min_collat_amount": i128(10**8),
                "min_debt_amount": i128(10**8),
                "timestamp_window": u64(WINDOW),
                "user_assets_limit": u32(3),
            }
        ),
        vec(symbol("Reserves")): vec(*(address(reserve.token) for reserve in market.reserves)),
    }
    for index, reserve in enumerate(market.reserves):
        storage[vec(symbol("ReserveAssetKey"), address(reserve.token))] = reserve_value(reserve, index)
        storage[vec(symbol("TokenSupply"), address(reserve.s_token))] = i128(reserve.s_supply)
        storage[vec(symbol("TokenSupply"), address(reserve.debt_token))] = i128(reserve.debt_supply)
        if reserve.fees:
            storage[vec(symbol("ProtocolFeeVault"), address(reserve.token))] = i128(reserve.fees)
        storage[vec(symbol("PriceFeed"), address(reserve.token))] = _price_feed(market, reserve)
    pairs = tuple(sorted(storage.items(), key=lambda pair: encode_scval(pair[0])))
    return _entry(
        market.address, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, market.wasm_hash, None, pairs))
    )


def cash_entry(market: Market, reserve: Reserve) -> Entry:
    """What lies in a reserve: the balance of its sToken, an entry of its own."""
    return _entry(market.address, _cash_key(reserve.token, reserve.s_token), i128(reserve.cash))


def _cash_key(token: str, s_token: str) -> ScVal:
    return vec(symbol("TokenBalance"), address(token), address(s_token))


def _entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    return data_key(contract, key), encode_contract_data(ContractData(contract, key, PERSISTENT, value))


def reserve_value(reserve: Reserve, index: int) -> ScVal:
    """The struct ``ReserveData``."""
    configuration: dict[str, ScVal] = {
        "borrowing_enabled": (scval.BOOL, True),
        "discount": u32(8_000),
        "is_active": (scval.BOOL, True),
        "liquidity_cap": i128(10**18),
        "pen_order": u32(index + 1),
        "util_cap": u32(9_000),
    }
    return struct_map(
        {
            "borrower_ar": i128(reserve.borrower_ar),
            "borrower_ir": i128(reserve.borrower_ir),
            "configuration": struct_map(configuration),
            "id": (scval.BYTES, bytes((index,))),
            "last_update_timestamp": u64(reserve.last_update),
            "lender_ar": i128(reserve.lender_ar),
            "lender_ir": i128(reserve.lender_ir),
            "reserve_type": vec(symbol("Fungible"), address(reserve.s_token), address(reserve.debt_token)),
        }
    )


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a pool: its views of a reserve, of shares and of balances."""
    if function not in ("get_reserve", "collat_coeff", "debt_coeff", "token_total_supply", "token_balance"):
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1 + (function == "token_balance"):
        raise TrapError(WRONG_ARGUMENTS)
    if any(kind != scval.ADDRESS for kind, _ in arguments):
        raise TrapError("Error(Value, UnexpectedType)")
    asset: str = arguments[0][1]
    if function == "token_balance":
        return host.data(contract, _cash_key(asset, arguments[1][1])) or i128(0)
    if function == "token_total_supply":
        return i128(_number(host, contract, "TokenSupply", asset))
    stored = storage_of(host.instance(contract), vec(symbol("ReserveAssetKey"), address(asset)))
    if function == "get_reserve":
        return VOID if stored is None else stored
    if stored is None:
        raise TrapError(NO_RESERVE)
    reserve = _reserve(host, contract, asset, stored)
    time = host.timestamp
    return i128(reserve.collateral_coefficient(time) if function == "collat_coeff" else reserve.debt_coefficient(time))


SLENDER_CODE: Mapping[bytes, Code] = {POOL_WASM_HASH: run_pool, SYMBOL_ORACLE_WASM_HASH: run_symbol_oracle}
"""The stand-ins by wasm hash, with that of the oracle."""


def _reserve(host: Host, contract: str, asset: str, stored: ScVal) -> Reserve:
    fields = {name: payload for (_, name), (_, payload) in stored[1]}
    _, (_, s_token), (_, debt_token) = fields["reserve_type"]
    return Reserve(
        token=asset,
        s_token=s_token,
        debt_token=debt_token,
        decimals=0,
        last_update=fields["last_update_timestamp"],
        lender_ar=fields["lender_ar"],
        lender_ir=fields["lender_ir"],
        borrower_ar=fields["borrower_ar"],
        borrower_ir=fields["borrower_ir"],
        s_supply=_number(host, contract, "TokenSupply", s_token),
        debt_supply=_number(host, contract, "TokenSupply", debt_token),
        cash=int((host.data(contract, _cash_key(asset, s_token)) or i128(0))[1]),
    )


def _number(host: Host, contract: str, variant: str, token: str) -> int:
    value = storage_of(host.instance(contract), vec(symbol(variant), address(token)))
    return 0 if value is None else int(value[1])


def _price_feed(market: Market, reserve: Reserve) -> ScVal:
    feed = struct_map(
        {
            "feed": address(market.oracle),
            "feed_asset": market.feeds[reserve.token],
            "feed_decimals": u32(14),
            "min_timestamp_delta": u64(660),
            "timestamp_precision": vec(symbol("Sec")),
            "twap_records": u32(3),
        }
    )
    bounds = {"min_sanity_price_in_base": i128(1), "max_sanity_price_in_base": i128(10**18)}
    return struct_map({"asset_decimals": u32(reserve.decimals), "feeds": vec(feed), **bounds})
