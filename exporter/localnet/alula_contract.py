"""The stand-in for the code of an Alula market: its two views, computed from the chain's state alone.

``get_market_data()`` and ``get_pool_data(pool)`` answer with the structs of facts/alula.md 3. They do not accrue. One
bad price fails the whole call, with the contract's own error code. The math is that of `alula_pool`, which is
written apart from the exporter's.
"""

from __future__ import annotations

from typing import Any

from exporter.ledger import scval
from exporter.ledger.entries import TEMPORARY, code_key
from exporter.ledger.scval import ContractInstance, ScVal
from exporter.ledger.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.localnet.alula_entries import STATUSES, cached_price_key, pool_key
from exporter.localnet.alula_pool import Curve, NoResultError, Pool, PoolConfig, apy
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError
from exporter.localnet.oracle_contract import run_oracle

INTERNAL_ERROR = "Error(Contract, #0)"
OVER_OR_UNDERFLOW = "Error(Contract, #9)"
POOL_DOES_NOT_EXIST = "Error(Contract, #101)"
ORACLE_DOES_NOT_KNOW_ASSET_PRICE = "Error(Contract, #500)"
ORACLE_STALE_PRICE = "Error(Contract, #501)"
NON_POSITIVE_ORACLE_PRICE = "Error(Contract, #502)"

_MAX_PRICE_AGE = 360  # seconds
_STATUS = {name: ordinal for ordinal, name in enumerate(STATUSES)}
_UNWRAPPED_NONE = "Error(WasmVm, InvalidAction)"  # what unwrapping a missing value in wasm ends as


def run_market(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a market: ``get_market_data()`` and ``get_pool_data(pool)``."""
    storage = _storage(host.instance(contract))
    if function == "get_market_data":
        if arguments:
            raise TrapError(WRONG_ARGUMENTS)
        return _market_data(host, contract, storage)
    if function != "get_pool_data":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, pool = arguments[0]
    if kind != scval.ADDRESS:
        raise TrapError("Error(Value, UnexpectedType)")
    return _pool_data(host, contract, storage, pool, POOL_DOES_NOT_EXIST)


def _market_data(host: Host, contract: str, storage: dict[str, ScVal]) -> ScVal:
    listed = host.data(contract, vec(symbol("AllPools")))
    pools = [] if listed is None else [pool for _, pool in listed[1]]
    return struct_map(
        {
            "global_state": _global_state(storage),
            "oracle_price_decimals": _call_oracle(host, storage, "decimals"),
            "pools_data": vec(*(_pool_data(host, contract, storage, pool, INTERNAL_ERROR) for pool in pools)),
        }
    )


def _global_state(storage: dict[str, ScVal]) -> ScVal:
    names = {
        "admin": "Admin",
        "bad_debt_lock_d": "BadDebtLockDuration",
        "deployer": "DeployerHost",
        "insolvency_ltv_bps": "InsolvencyLtvBps",
        "insurance_fund": "InsuranceFund",
        "is_owned": "IsOwned",
        "max_positions": "MaxPositions",
        "min_collateral_value_cents": "MinCollateralValueCents",
        "name": "Name",
        "oracle": "Oracle",
        "update_in_queue_period": "UpdateInQueuePeriod",
    }
    ((_, status),) = storage["MarketStatus"][1]
    return struct_map({name: storage[key] for name, key in names.items()} | {"status": u32(_STATUS[status])})


def _pool_data(host: Host, contract: str, storage: dict[str, ScVal], address: str, missing: str) -> ScVal:
    stored = host.data(contract, pool_key(address))
    if stored is None:
        raise TrapError(missing)
    pool = pool_from(stored)
    try:
        borrow_apr, supply_apr = pool.current_aprs()
        yields = struct_map({"borrow_bps": u32(apy(borrow_apr)), "supply_bps": u32(apy(supply_apr))})
    except NoResultError:
        raise TrapError(OVER_OR_UNDERFLOW) from None
    supply_rate, debt_rate = pool.share_rates()
    return struct_map(
        {
            "apy": yields,
            "d_token_rate_ceil_bps": i128(debt_rate),
            "j_token_rate_floor_bps": i128(supply_rate),
            "oracle_asset_price": i128(_price(host, contract, storage, _fields(stored)["token_address"])),
            "pool": stored,
            "total_available_adjusted": i128(pool.available),
            "total_supply": i128(pool.supply),
        }
    )


def _price(host: Host, contract: str, storage: dict[str, ScVal], token: str) -> int:
    """The price of a token: one cached in this very ledger, or else the oracle's, under the market's rules."""
    cached = host.data(contract, cached_price_key(token), TEMPORARY)
    if cached is not None:
        (_, price), (_, time) = cached[1]
        if time == host.timestamp:
            return int(price)
    quote = _call_oracle(host, storage, "lastprice", vec(symbol("Stellar"), address(token)))
    if quote[0] == scval.VOID:
        raise TrapError(ORACLE_DOES_NOT_KNOW_ASSET_PRICE)
    fields = _fields(quote)
    if fields["price"] <= 0:
        raise TrapError(NON_POSITIVE_ORACLE_PRICE)
    if not 0 <= host.timestamp - fields["timestamp"] <= _MAX_PRICE_AGE:
        raise TrapError(ORACLE_STALE_PRICE)
    return int(fields["price"])


def _call_oracle(host: Host, storage: dict[str, ScVal], function: str, *arguments: ScVal) -> ScVal:
    oracle: str = storage["Oracle"][1]
    instance = host.instance(oracle)
    if instance.wasm_hash is not None:
        host.read(code_key(instance.wasm_hash))
    return run_oracle(host, oracle, function, arguments)


def pool_from(value: ScVal) -> Pool:
    """A pool as its entry's struct has it."""
    fields = _fields(value)
    config = _fields((scval.MAP, fields["config"]))
    (_, model), curve = config["interest_rate_model"]
    if model != "Kinked":
        raise TrapError(_UNWRAPPED_NONE)
    health = _fields((scval.MAP, config["health_config"]))
    fees = _fields((scval.MAP, config["fee_config"]))
    same = (name for name in Pool.__slots__ if name not in ("address", "symbol", "name", "decimals", "config"))
    return Pool(
        address=fields["pool_address"],
        symbol=fields["token_symbol"].decode(),
        name=fields["name"].decode(),
        decimals=fields["token_decimals"],
        config=PoolConfig(
            curve=Curve(**_fields(curve)),
            take_rate_bps=fees["take_rate_bps"],
            borrow_fee_bps=fees["borrow_fee_bps"],
            open_ltv_bps=health["open_ltv_bps"],
            close_ltv_bps=health["close_ltv_bps"],
            liquidation_incentive_bps=health["max_liquidation_incentive_bps"],
            supply_limit=health["supply_limit"],
            utilization_limit_bps=health["utilization_ratio_limit_bps"],
            reactivity=config["ir_reactivity_constant"],
            target_utilization_bps=config["target_utilization_ratio_bps"],
            flags=_fields((scval.MAP, config["status"]))["flags"],
        ),
        **{name: fields[name] for name in same},
    )


def _storage(instance: ContractInstance) -> dict[str, ScVal]:
    """The instance storage by the variants that are its keys."""
    return {key[1][0][1]: value for key, value in instance.storage or () if key[0] == scval.VEC}


def _fields(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}
