"""How Alula's market contract keeps its state in the ledger (docs/protocols/alula.md, "Keys")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.protocols.base import Market, Parameter
from exporter.protocols.collector import (
    MAX_TOKEN_DECIMALS,
    Queued,
    by_key,
    config_hash_of,
    differences,
    parameters_of,
)
from exporter.tree.values import RewardReason

NAME, VERSION = "alula", "v1"
FROZEN = "frozen"
"""The status of a market that has just been deployed, and has no list of pools yet."""

STATUS_NAMES = {
    "Active": "active",
    "BorrowFrozen": "borrow_frozen",
    "BorrowFrozenByAdmin": "borrow_frozen_by_admin",
    "DepositFrozen": "deposit_frozen",
    "DepositFrozenByAdmin": "deposit_frozen_by_admin",
    "Frozen": FROZEN,
    "FrozenByAdmin": "frozen_by_admin",
}
"""By the variant of MarketStatus."""

MAX_POOLS = 64
"""The contract allows 25; a list longer than this is not one of Alula's."""

NOT_CONFIGURATION = frozenset({"FlashReserved", "MarketConfigUpdate", "ProposedAdmin"})
"""Instance keys that hold state, or what is only queued or proposed."""

FARMS = {"supply": "supply_reward_reason", "borrow": "borrow_reward_reason"}
"""By the side of a pool: the name in `PoolEntry.row` of what is known of its rewards."""

QUEUED_MARKET, _QUEUED_UPGRADE = "MarketConfigUpdate", "QueuedInMarketUpgrade"
_MARKET_LIMITS = {
    "BadDebtLockDuration": "bad_debt_lock_d",
    "MaxPositions": "max_positions",
    "MinCollateralValueCents": "min_collateral_value_cents",
}
"""The settings that can be queued for a market, by their keys in the instance."""

STATE = {
    "interest_rate_modifier_bps": AMOUNT,
    "last_accrual_timestamp": TIME,
    "take_rate_fees_sum": AMOUNT,
    "token_decimals": Number(scval.U32, most=MAX_TOKEN_DECIMALS),
    "total_available": AMOUNT,
    "total_borrowed": AMOUNT,
    "total_collateral": AMOUNT,
    "total_d_tokens": AMOUNT,
    "total_j_tokens": AMOUNT,
}
CURVE = dict.fromkeys(
    ("base_apr_bps", "kink1_apr_bps", "kink1_ur_bps", "kink2_apr_bps", "kink2_ur_bps", "max_apr_bps"), AMOUNT
)
FEES = {"take_rate_bps": Number(scval.U32, most=10_000)}
"""The numbers of a ``Pool`` entry, of its curve and of its fees; with a higher take rate suppliers would pay."""

_HEALTH_BPS = (
    "open_ltv_bps",
    "close_ltv_bps",
    "liability_factor_bps",
    "utilization_ratio_limit_bps",
    "max_liquidation_incentive_bps",
)
_LOCKS = ("bad_debt_lock_d", "bad_debt_request_count")
TERMS = (*_HEALTH_BPS, "supply_limit", "flags", *_LOCKS)
"""The names in `PoolEntry.row` whose value is None where the entry lacks it."""


@dataclass(frozen=True, slots=True)
class MarketInstance:
    """A market's instance entry; ``queue_seconds`` is how long a queued change waits.

    ``market`` has neither pools nor the hash of the configuration yet.
    """

    market: Market
    manager: str | None
    queue_seconds: int | None
    storage: tuple[tuple[ScVal, ScVal], ...]
    settings: Fields


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A ``Pool`` entry. ``row`` has the numbers by their field names, what is known of rewards, and ``decimals``.

    They are token base units, shares (total_j_tokens of suppliers, total_d_tokens of borrowers), basis points, and
    last_accrual_timestamp in unix seconds.
    """

    pool_address: str
    token_address: str
    token_symbol: str
    row: dict[str, Any]
    shown: tuple[Parameter, ...]


def market_keys(market: str) -> tuple[bytes, bytes]:
    """The ledger keys of a market's instance and of its list of pools."""
    return instance_key(market), variant_key(market, "AllPools")


def pool_key(market: str, pool: str) -> bytes:
    """The ledger key of a pool's state and configuration."""
    return variant_key(market, "Pool", address(pool))


def decode_instance(entry: Entry) -> MarketInstance:
    """Decode a market's instance entry. Raises `DecodeError` naming the field when it is not one."""
    data = entry.contract_data()
    instance, wasm_hash = coded_instance(data, "market instance")
    settings = Fields(((symbol(name), value) for name, value in named(instance.storage).items()), "market instance")
    variant, _ = _variant(settings, "MarketStatus", "market instance")
    manager = None
    with suppress(DecodeError):  # nothing is computed from it
        manager = settings.contract("DeployerHost")
    return MarketInstance(
        market=Market(
            address=data.contract,
            protocol=NAME,
            version=VERSION,
            name=settings.string("Name"),
            status=STATUS_NAMES.get(variant, f"unknown_{variant}"),
            oracle=settings.address("Oracle"),
            config_hash="",
            wasm_hash=wasm_hash.hex(),
            members=(),
        ),
        manager=manager,
        queue_seconds=next((item.value for item in parameters_of(settings, {"UpdateInQueuePeriod": 0})), None),
        storage=instance.storage or (),
        settings=settings,
    )


def record_key(manager: str, market: str) -> bytes:
    """The ledger key of a manager's record of a market that it deployed; it has no list of them."""
    return variant_key(manager, "DeployedMarket", address(market))


def queued_pool_key(market: str, pool: str) -> bytes:
    """The ledger key of what a pool's configuration is to become."""
    return variant_key(market, "QueuedPoolSet", address(pool))


def queued_upgrade_key(manager: str, market: str) -> bytes:
    """The ledger key of what a market's code is to become, at its manager."""
    return variant_key(manager, _QUEUED_UPGRADE, address(market))


def decode_queued_pool(entry: Entry, pool: PoolEntry | None, wait: int | None) -> Queued:
    """The queued configuration of a pool, and from when it holds. Raises `DecodeError`."""
    queued = Fields.of(entry.value, "QueuedPoolSet")
    config = queued.struct("new_config")
    numbers = _numbers_of(config, "QueuedPoolSet.new_config")
    before, decimals = ((), 0) if pool is None else (pool.shown, pool.row["decimals"])
    return differences(before, _shown(config, numbers, decimals)), _from_when(queued, wait)


def decode_queued_market(instance: MarketInstance) -> Queued:
    """Queued limits of a market, and from when they hold. Raises `DecodeError`."""
    queued = instance.settings.struct(QUEUED_MARKET)
    before, after = (
        [replace(item, name=names[item.name]) for item in parameters_of(fields, dict.fromkeys(names, 0))]
        for fields, names in (
            (instance.settings, _MARKET_LIMITS),
            (queued, {f"new_{name}": name for name in _MARKET_LIMITS.values()}),
        )
    )
    return differences(before, after), _from_when(queued, instance.queue_seconds)


def decode_queued_upgrade(entry: Entry, record: Entry | None) -> Queued:
    """The code queued for a market, and from when. Raises `DecodeError`.

    No source shows the form of the entry: it is taken for a struct with one hash.
    """
    pairs = expect(entry.value, scval.MAP, _QUEUED_UPGRADE) or ()
    hashes = [value[1] for _, value in pairs if value[0] == scval.BYTES and len(value[1]) == 32]
    if len(hashes) != 1:
        raise DecodeError(f"{_QUEUED_UPGRADE}: it has {len(hashes)} hashes of code, not one")
    wait = None if record is None or record.value[0] != scval.U64 else record.value[1]
    return hashes[0].hex(), _from_when(Fields(pairs, _QUEUED_UPGRADE), wait)


def _from_when(queued: Fields, wait: int | None) -> int | None:
    return None if wait is None else queued.u64("queued_in_timestamp") + wait


def decode_pool(entry: Entry) -> PoolEntry:
    """Decode a ``Pool`` entry. Raises `DecodeError` naming the field, also for an unknown model of interest."""
    pool = Fields.of(entry.value, "Pool")
    config = pool.struct("config")
    numbers = pool.numbers(STATE) | _numbers_of(config, "Pool.config")
    decimals = numbers.pop("token_decimals")
    shown = tuple(_shown(config, numbers, decimals))
    known = {item.name: item.value for item in (*shown, *parameters_of(pool, dict.fromkeys(_LOCKS, 0)))}
    terms = {name: known.get(name) for name in TERMS}
    farms = {FARMS[side]: _farm(pool, name) for side, name in (("supply", "farm_supply"), ("borrow", "farm_debt"))}
    return PoolEntry(
        pool_address=pool.address("pool_address"),
        token_address=pool.contract("token_address"),
        token_symbol=pool.string("token_symbol"),
        row={**numbers, **terms, **farms, "decimals": decimals},
        shown=shown,
    )


def _numbers_of(config: Fields, what: str) -> dict[str, int]:
    accrual, _ = _variant(config, "accrual_model", what)
    if accrual != "Compounded":
        raise DecodeError(f"{what}: the accrual_model {accrual} is not known, only Compounded is")
    model, payload = _variant(config, "interest_rate_model", what)
    if model != "Kinked":
        raise DecodeError(f"{what}: the interest_rate_model {model} is not known, only Kinked is")
    if len(payload) != 1:
        raise DecodeError(f"{what}: the interest_rate_model Kinked has not one value")
    curve = Fields.of(payload[0], f"{what}.interest_rate_model.Kinked")
    return curve.numbers(CURVE) | config.struct("fee_config").numbers(FEES)


def _farm(pool: Fields, name: str) -> RewardReason:
    """Nothing is paid where there is no farm; what one pays is in a contract that is not read."""
    value = pool.get(name)
    return RewardReason.NO_EMISSIONS if value is not None and value[0] == scval.VOID else RewardReason.NOT_READ


def config_hash(instance: MarketInstance, entries: Iterable[Entry | None]) -> str:
    """The `config_hash_of` the instance without `NOT_CONFIGURATION`, and of each pool's token and ``config``."""
    state = [symbol(name) for name in NOT_CONFIGURATION]
    storage = [
        ((kind, parts), value)
        for (kind, parts), value in instance.storage
        if not (kind == scval.VEC and parts and parts[0] in state)
    ]
    pools = zip(instance.market.members, entries, strict=True)
    configs = [(address(pool), _configured(entry)) for pool, entry in pools]
    return config_hash_of(by_key(storage), configs)


def _configured(entry: Entry | None) -> ScVal:
    if entry is None:
        return (scval.VEC, None)
    try:
        pool = Fields.of(entry.value, "Pool")
    except DecodeError:
        return vec()
    known = (pool.get("token_address"), pool.get("config"))
    return vec(*(value for value in known if value is not None))


def _shown(config: Fields, numbers: dict[str, int], decimals: int) -> Iterator[Parameter]:
    """Rates, ratios and factors have 4 decimals, the limit of the supply is in base units of the token."""
    yield from (Parameter(name, numbers[name], 4) for name in (*CURVE, *FEES))
    yield from parameters_of(config, {"target_utilization_ratio_bps": 4, "ir_reactivity_constant": 0})
    for part, scales in (
        ("fee_config", {"borrow_fee_bps": 4}),
        ("health_config", dict.fromkeys(_HEALTH_BPS, 4) | {"supply_limit": decimals}),
        ("status", {"flags": 0}),
    ):
        with suppress(DecodeError):  # nothing is computed from these
            yield from parameters_of(config.struct(part), scales)


def _variant(fields: Fields, name: str, what: str) -> tuple[str, tuple[ScVal, ...]]:
    items = expect(fields.required(name), scval.VEC, f"{what}: field {name}")
    if not items:
        raise DecodeError(f"{what}: field {name} has no variant")
    variant: str = expect(items[0], scval.SYMBOL, f"{what}: variant of field {name}")
    return variant, items[1:]
