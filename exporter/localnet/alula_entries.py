"""The ledger entries of Alula's contracts (facts/alula.md 1 and 2): every key is a Rust enum variant."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.ledger import scval
from exporter.ledger.entries import PERSISTENT, TEMPORARY, ContractData, data_key, encode_contract_data
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import (
    INSTANCE_KEY,
    VOID,
    address,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.localnet.alula_pool import Pool, PoolConfig
from exporter.localnet.contracts import made_wasm, wasm_hash

MARKET_WASM = made_wasm("localnet alula market")
MARKET_WASM_HASH = wasm_hash(MARKET_WASM)
MANAGER_WASM_HASH = wasm_hash(made_wasm("localnet alula market manager"))

STATUSES = (
    "Active", "BorrowFrozen", "BorrowFrozenByAdmin", "DepositFrozen", "DepositFrozenByAdmin", "Frozen", "FrozenByAdmin",
)  # fmt: skip
"""The variants of MarketStatus by their ordinal, which is ``GlobalState.status`` (facts/alula.md 1.4)."""

UPGRADE_DELAY = 43_200  # seconds

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


@dataclass(slots=True)
class Market:
    """One market contract with its pools; addresses are strkeys.

    ``status`` is the ordinal. ``missing`` are pools that are listed and have no entry. ``queued`` are tokens with a
    queued configuration that are no pools yet.
    """

    address: str
    name: str
    status: int
    oracle: str
    manager: str
    admin: str
    insurance_fund: str
    pools: list[Pool] = field(default_factory=list)
    missing: list[Pool] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)


def market_instance(market: Market) -> Entry:
    """The instance of a market: the twelve keys that its constructor writes."""
    storage = {
        "Admin": address(market.admin),
        "BadDebtLockDuration": u64(43_200),
        "DeployerHost": address(market.manager),
        "InsolvencyLtvBps": i128(9_850),
        "InsuranceFund": address(market.insurance_fund),
        "IsOwned": _bool(True),
        "MarketStatus": vec(symbol(STATUSES[market.status])),
        "MaxPositions": u32(10),
        "MinCollateralValueCents": i128(500),
        "Name": string(market.name),
        "Oracle": address(market.oracle),
        "UpdateInQueuePeriod": u64(UPGRADE_DELAY),
    }
    return _instance(market.address, MARKET_WASM_HASH, storage)


def pool_list(market: Market) -> Entry:
    """``AllPools``: the pools in the order of their registration. A market without any has no such entry."""
    return _entry(market.address, vec(symbol("AllPools")), vec(*(address(pool.address) for pool in market.pools)))


def pool_entry(market: Market, pool: Pool) -> Entry:
    """``Pool(address)``: the 21 fields of a pool; its address is that of its token."""
    return _entry(market.address, pool_key(pool.address), pool_value(pool))


def queued_entry(market: Market, token: str, time: int) -> Entry:
    """``QueuedPoolSet(address)``: a configuration that waits for its time, here for a token that is no pool yet."""
    value = struct_map({"new_config": config_value(PoolConfig()), "queued_in_timestamp": u64(time)})
    return _entry(market.address, vec(symbol("QueuedPoolSet"), address(token)), value)


def cached_price_entry(market: str, token: str, price: int, time: int) -> Entry:
    """``CachedPrice(token)``, temporary: the price that a transaction used, with its ledger's time."""
    return _entry(market, cached_price_key(token), vec(i128(price), u64(time)), TEMPORARY)


def manager_entries(manager: str, admin: str, markets: list[Market]) -> list[Entry]:
    """A market manager's instance, and its word for each market that it deployed it; it has no list of them."""
    entries = [_instance(manager, MANAGER_WASM_HASH, {"Admin": address(admin)})]
    for market in markets:
        key = vec(symbol("DeployedMarket"), address(market.address))
        entries.append(_entry(manager, key, u64(UPGRADE_DELAY)))
    return entries


def pool_key(pool: str) -> ScVal:
    """The key of a pool's entry."""
    return vec(symbol("Pool"), address(pool))


def cached_price_key(token: str) -> ScVal:
    """The key of a cached price."""
    return vec(symbol("CachedPrice"), address(token))


def pool_value(pool: Pool) -> ScVal:
    """The struct of a ``Pool`` entry."""
    amounts = (
        "borrow_apr_bps", "interest_rate_modifier_bps", "operation_fees_sum", "supply_apr_bps", "take_rate_fees_sum",
        "total_available", "total_borrowed", "total_collateral", "total_d_tokens", "total_j_tokens",
    )  # fmt: skip
    fields = {name: i128(getattr(pool, name)) for name in amounts} | {
        "bad_debt_lock_d": u64(0),
        "bad_debt_request_count": u32(0),
        "config": config_value(pool.config),
        "farm_debt": VOID,
        "farm_supply": VOID,
        "last_accrual_timestamp": u64(pool.last_accrual_timestamp),
        "name": string(pool.name),
        "pool_address": address(pool.address),
        "token_address": address(pool.address),
        "token_decimals": u32(pool.decimals),
        "token_symbol": string(pool.symbol),
    }
    return struct_map(fields)


def config_value(config: PoolConfig) -> ScVal:
    """The struct ``PoolConfig`` with its parts."""
    curve = {name: i128(getattr(config.curve, name)) for name in config.curve.__slots__}
    fees = {
        f"{operation}_bps": u32(0)
        for operation in (
            "add_collateral_fee", "deposit_fee", "remove_collateral_fee", "repay_fee", "withdraw_fee",
        )
    }  # fmt: skip
    fees |= {
        "borrow_fee_bps": u32(config.borrow_fee_bps),
        "flash_loan_fee_bps": u32(9),
        "take_rate_bps": u32(config.take_rate_bps),
        "withdraw_max_scarcity_fee_bps": u32(200),
        "operation_fee_beneficiaries": VOID,
        "referrers": VOID,
        "take_rate_beneficiaries": VOID,
    }
    health = {
        "close_ltv_bps": i128(config.close_ltv_bps),
        "liability_factor_bps": i128(10_000),
        "liquidation_close_factor_bps": i128(5_000),
        "max_liquidation_incentive_bps": i128(config.liquidation_incentive_bps),
        "open_ltv_bps": i128(config.open_ltv_bps),
        "supply_limit": i128(config.supply_limit),
        "utilization_ratio_limit_bps": i128(config.utilization_limit_bps),
        "withdraw_scarcity_cooldown_s": u64(3_600),
        "withdraw_scarcity_limit_bps": i128(500),
    }
    return struct_map(
        {
            "accrual_model": vec(symbol("Compounded")),
            "fee_config": struct_map(fees),
            "health_config": struct_map(health),
            "interest_rate_model": vec(symbol("Kinked"), struct_map(curve)),
            "ir_reactivity_constant": u32(config.reactivity),
            "status": struct_map({"flags": u32(config.flags)}),
            "target_utilization_ratio_bps": i128(config.target_utilization_bps),
        }
    )


def _instance(contract: str, wasm: bytes, storage: dict[str, ScVal]) -> Entry:
    pairs = tuple((vec(symbol(name)), storage[name]) for name in sorted(storage))
    return _entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, wasm, None, pairs)))


def _entry(contract: str, key: ScVal, value: ScVal, durability: int = PERSISTENT) -> Entry:
    data = encode_contract_data(ContractData(contract, key, durability, value))
    return data_key(contract, key, durability), data


def _bool(value: bool) -> ScVal:
    return (scval.BOOL, value)
