"""How Alula's market contract keeps its state in the ledger (docs/protocols/alula.md, "Keys")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, instance_key, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, decoded_or_none, expect, named
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.tokens import MAX_TOKEN_DECIMALS
from exporter.protocols.base import Market, Parameter
from exporter.protocols.collector import (
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
"""Our names for the variants of the contract's MarketStatus."""

MAX_POOLS = 64
"""The largest number of pools that is read. The contract allows 25."""

NOT_CONFIGURATION = frozenset({"FlashReserved", "MarketConfigUpdate", "ProposedAdmin"})
"""Names in a market's instance that hold state, or what is only queued or proposed."""

QUEUED_MARKET, _QUEUED_UPGRADE = "MarketConfigUpdate", "QueuedInMarketUpgrade"
_MARKET_LIMITS = {
    "BadDebtLockDuration": "bad_debt_lock_d",
    "MaxPositions": "max_positions",
    "MinCollateralValueCents": "min_collateral_value_cents",
}
"""The settings of a market for which a change can be queued, by their names in the instance."""

DECIMALS = Number(scval.U32, most=MAX_TOKEN_DECIMALS)
TAKE_RATE = Number(scval.U32, most=10_000)
"""The range of the take rate, in basis points. With a higher one suppliers would have to pay."""

CURVE = ("base_apr_bps", "kink1_apr_bps", "kink1_ur_bps", "kink2_apr_bps", "kink2_ur_bps", "max_apr_bps")
"""The parameters of the rate curve, in the order in which `exporter.protocols.alula.math.kinked_apr` takes them."""

_HEALTH_BPS = (
    "open_ltv_bps",
    "close_ltv_bps",
    "liability_factor_bps",
    "utilization_ratio_limit_bps",
    "max_liquidation_incentive_bps",
)


class MarketInstance(Struct, frozen=True):
    """A market's instance entry.

    ``market`` has neither pools nor the hash of the configuration yet. ``queue_seconds`` is how long a queued change
    has to wait; None if the entry does not have it.
    """

    market: Market
    manager: str | None
    queue_seconds: int | None
    storage: tuple[tuple[ScVal, ScVal], ...]
    settings: Fields


class RateTerms(Struct, frozen=True, kw_only=True):
    """The parameters from which, with its state, a pool's rates follow. All are in basis points."""

    base_apr_bps: int
    """The annual borrow rate at a utilization of 0."""
    kink1_apr_bps: int
    """The annual borrow rate at the first kink."""
    kink1_ur_bps: int
    """The utilization at the first kink."""
    kink2_apr_bps: int
    """The annual borrow rate at the second kink."""
    kink2_ur_bps: int
    """The utilization at the second kink."""
    max_apr_bps: int
    """The annual borrow rate at full utilization."""
    take_rate_bps: int
    """The share of the borrowers' interest that suppliers do not get."""


class Limits(Struct, frozen=True, kw_only=True):
    """Terms of a pool that do not change its rates or totals. Each is None if the entry lacks it."""

    open_ltv_bps: int | None
    """The share of the collateral's value that counts when a debt is opened, in basis points."""
    close_ltv_bps: int | None
    """The share of the collateral's value that counts against liquidation, in basis points."""
    liability_factor_bps: int | None
    """What the value of a debt counts, in basis points."""
    utilization_ratio_limit_bps: int | None
    """The utilization that no borrower may exceed, in basis points."""
    max_liquidation_incentive_bps: int | None
    """The most that a liquidator gets in addition to the debt, in basis points."""
    supply_limit: int | None
    """The most that may be supplied, in base units; 0 is no limit."""
    flags: int | None
    """The bits of the operations that are open."""
    bad_debt_lock_d: int | None
    """The time up to which bad debt locks the pool, in unix seconds."""
    bad_debt_request_count: int | None
    """The number of open requests to the insurance fund."""


class Pool(Struct, frozen=True, kw_only=True):
    """The state of a pool. Amounts are in base units of its token."""

    interest_rate_modifier_bps: int
    """The reactive factor of the borrow rate, in basis points."""
    last_accrual_timestamp: int
    """The time of the last accrual, in unix seconds."""
    take_rate_fees_sum: int
    """The fees that are earned and not paid out yet."""
    total_available: int
    """The cash of the pool, with the fees."""
    total_borrowed: int
    """The debt at the last accrual."""
    total_collateral: int
    """The plain collateral, which is not lent."""
    total_d_tokens: int
    """All shares of the debt."""
    total_j_tokens: int
    """All shares of the supply."""
    rates: RateTerms
    limits: Limits
    supply_reward_reason: RewardReason
    """Why the suppliers' reward has no number: nothing is paid, or what is paid is not read."""
    borrow_reward_reason: RewardReason
    """Why the borrowers' reward has no number: nothing is paid, or what is paid is not read."""


class PoolEntry(Struct, frozen=True):
    """A ``Pool`` entry: its identity, its state, and its parameters for people (``shown``)."""

    pool_address: str
    token_address: str
    token_symbol: str
    decimals: int
    """The token's decimals, as the entry has them."""
    pool: Pool
    shown: tuple[Parameter, ...]


def market_keys(market: str) -> tuple[bytes, bytes]:
    """The ledger keys of a market's instance and of its list of pools."""
    return instance_key(market), variant_key(market, "AllPools")


def pool_key(market: str, pool: str) -> bytes:
    """The ledger key of a pool's state and configuration."""
    return variant_key(market, "Pool", address(pool))


def decode_instance(entry: Entry) -> MarketInstance:
    """A market's instance, from its entry. Raises `DecodeError`, which names the field that is wrong."""
    data = entry.contract_data()
    instance, wasm_hash = coded_instance(data, "market instance")
    settings = Fields(((symbol(name), value) for name, value in named(instance.storage).items()), "market instance")
    variant, _ = _variant(settings, "MarketStatus", "market instance")
    manager = None
    with suppress(DecodeError):  # no number follows from the manager
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
    """The ledger key of a manager's record of a market that it deployed. The manager has no list of its markets."""
    return variant_key(manager, "DeployedMarket", address(market))


def queued_pool_key(market: str, pool: str) -> bytes:
    """The ledger key of a pool's queued configuration."""
    return variant_key(market, "QueuedPoolSet", address(pool))


def queued_upgrade_key(manager: str, market: str) -> bytes:
    """The ledger key of a market's queued code, which its manager keeps."""
    return variant_key(manager, _QUEUED_UPGRADE, address(market))


def decode_queued_pool(entry: Entry, pool: PoolEntry | None, wait: int | None) -> Queued:
    """The queued configuration of a pool in words, and the time from which it can be applied. Raises `DecodeError`."""
    queued = Fields.of(entry.value, "QueuedPoolSet")
    config = queued.struct("new_config")
    rates = _rates_of(config, "QueuedPoolSet.new_config")
    before, decimals = ((), 0) if pool is None else (pool.shown, pool.decimals)
    return differences(before, _shown(config, rates, decimals)), _time_of_effect(queued, wait)


def decode_queued_market(instance: MarketInstance) -> Queued:
    """The queued limits of a market in words, and the time from which they can be applied. Raises `DecodeError`."""
    queued = instance.settings.struct(QUEUED_MARKET)
    before = _renamed_parameters(instance.settings, _MARKET_LIMITS)
    after = _renamed_parameters(queued, {f"new_{name}": name for name in _MARKET_LIMITS.values()})
    return differences(before, after), _time_of_effect(queued, instance.queue_seconds)


def _renamed_parameters(stored: Fields, names: Mapping[str, str]) -> list[Parameter]:
    """The parameters under these names, each with the new name that ``names`` has for it."""
    return [replace(item, name=names[item.name]) for item in parameters_of(stored, dict.fromkeys(names, 0))]


def decode_queued_upgrade(entry: Entry, record: Entry | None) -> Queued:
    """The hash of the code queued for a market, and the time from which it can be applied. Raises `DecodeError`.

    No source shows the form of the entry. It is read as a struct that has one hash.
    """
    pairs = expect(entry.value, scval.MAP, _QUEUED_UPGRADE) or ()
    hashes = [value[1] for _, value in pairs if value[0] == scval.BYTES and len(value[1]) == 32]
    if len(hashes) != 1:
        raise DecodeError(f"{_QUEUED_UPGRADE}: it has {len(hashes)} hashes of code, not one")
    wait = None if record is None or record.value[0] != scval.U64 else record.value[1]
    return hashes[0].hex(), _time_of_effect(Fields(pairs, _QUEUED_UPGRADE), wait)


def _time_of_effect(queued: Fields, wait: int | None) -> int | None:
    """The time (unix seconds) from which a queued change can be applied, after a wait in seconds."""
    return None if wait is None else queued.u64("queued_in_timestamp") + wait


def decode_pool(entry: Entry) -> PoolEntry:
    """A ``Pool`` entry. Raises `DecodeError`, which names the field, also if the model of interest is unknown."""
    stored = Fields.of(entry.value, "Pool")
    config = stored.struct("config")
    decimals = stored.number("token_decimals", *DECIMALS)
    rates = _rates_of(config, "Pool.config")
    return PoolEntry(
        pool_address=stored.address("pool_address"),
        token_address=stored.contract("token_address"),
        token_symbol=stored.string("token_symbol"),
        decimals=decimals,
        pool=Pool(
            interest_rate_modifier_bps=stored.number("interest_rate_modifier_bps", *AMOUNT),
            last_accrual_timestamp=stored.number("last_accrual_timestamp", *TIME),
            take_rate_fees_sum=stored.number("take_rate_fees_sum", *AMOUNT),
            total_available=stored.number("total_available", *AMOUNT),
            total_borrowed=stored.number("total_borrowed", *AMOUNT),
            total_collateral=stored.number("total_collateral", *AMOUNT),
            total_d_tokens=stored.number("total_d_tokens", *AMOUNT),
            total_j_tokens=stored.number("total_j_tokens", *AMOUNT),
            rates=rates,
            limits=_limits_of(stored, config),
            supply_reward_reason=_farm_reason(stored, "farm_supply"),
            borrow_reward_reason=_farm_reason(stored, "farm_debt"),
        ),
        shown=tuple(_shown(config, rates, decimals)),
    )


def _rates_of(config: Fields, what: str) -> RateTerms:
    accrual, _ = _variant(config, "accrual_model", what)
    if accrual != "Compounded":
        raise DecodeError(f"{what}: the accrual_model {accrual} is not known, only Compounded is")
    model, payload = _variant(config, "interest_rate_model", what)
    if model != "Kinked":
        raise DecodeError(f"{what}: the interest_rate_model {model} is not known, only Kinked is")
    if len(payload) != 1:
        raise DecodeError(f"{what}: the interest_rate_model Kinked has not one value")
    curve = Fields.of(payload[0], f"{what}.interest_rate_model.Kinked")
    return RateTerms(
        base_apr_bps=curve.number("base_apr_bps", *AMOUNT),
        kink1_apr_bps=curve.number("kink1_apr_bps", *AMOUNT),
        kink1_ur_bps=curve.number("kink1_ur_bps", *AMOUNT),
        kink2_apr_bps=curve.number("kink2_apr_bps", *AMOUNT),
        kink2_ur_bps=curve.number("kink2_ur_bps", *AMOUNT),
        max_apr_bps=curve.number("max_apr_bps", *AMOUNT),
        take_rate_bps=config.struct("fee_config").number("take_rate_bps", *TAKE_RATE),
    )


def _limits_of(stored: Fields, config: Fields) -> Limits:
    health, status = _optional_struct(config, "health_config"), _optional_struct(config, "status")
    return Limits(
        open_ltv_bps=_optional_number(health, "open_ltv_bps"),
        close_ltv_bps=_optional_number(health, "close_ltv_bps"),
        liability_factor_bps=_optional_number(health, "liability_factor_bps"),
        utilization_ratio_limit_bps=_optional_number(health, "utilization_ratio_limit_bps"),
        max_liquidation_incentive_bps=_optional_number(health, "max_liquidation_incentive_bps"),
        supply_limit=_optional_number(health, "supply_limit"),
        flags=_optional_number(status, "flags"),
        bad_debt_lock_d=_optional_number(stored, "bad_debt_lock_d"),
        bad_debt_request_count=_optional_number(stored, "bad_debt_request_count"),
    )


def _optional_struct(config: Fields, name: str) -> Fields | None:
    return decoded_or_none(config.struct, name)


def _optional_number(part: Fields | None, name: str) -> int | None:
    """A number; None if it is missing or of another type. The operations that depend on it are then not known."""
    return None if part is None else next((item.value for item in parameters_of(part, {name: 0})), None)


def _farm_reason(pool: Fields, name: str) -> RewardReason:
    """Why a reward has no number: there is no farm, or the farm's contract is not read."""
    value = pool.get(name)
    return RewardReason.NO_EMISSIONS if value is not None and value[0] == scval.VOID else RewardReason.NOT_READ


def config_hash(instance: MarketInstance, entries: Iterable[Entry | None]) -> str:
    """The `config_hash_of` a market's instance, without `NOT_CONFIGURATION`, and its pools' tokens and ``config``."""
    state = [symbol(name) for name in NOT_CONFIGURATION]
    storage = [
        ((kind, parts), value)
        for (kind, parts), value in instance.storage
        if not (kind == scval.VEC and parts and parts[0] in state)
    ]
    pools = zip(instance.market.members, entries, strict=True)
    configs = [(address(pool), _config_value(entry)) for pool, entry in pools]
    return config_hash_of(by_key(storage), configs)


def _config_value(entry: Entry | None) -> ScVal:
    """A pool's token and configuration. A vector without content stands for an entry that is missing."""
    if entry is None:
        return (scval.VEC, None)
    with Barrier():  # decoding the pool reports this, and here it must not cost the other pools
        pool = Fields.of(entry.value, "Pool")
        parts = (pool.get("token_address"), pool.get("config"))
        return vec(*(value for value in parts if value is not None))
    return vec()


def _shown(config: Fields, rates: RateTerms, decimals: int) -> Iterator[Parameter]:
    """A pool's parameters for people. Rates, ratios and factors have 4 decimals; the supply limit has the token's."""
    yield from (Parameter(name, getattr(rates, name), 4) for name in rates.__struct_fields__)
    yield from parameters_of(config, {"target_utilization_ratio_bps": 4, "ir_reactivity_constant": 0})
    for part, scales in (
        ("fee_config", {"borrow_fee_bps": 4}),
        ("health_config", dict.fromkeys(_HEALTH_BPS, 4) | {"supply_limit": decimals}),
        ("status", {"flags": 0}),
    ):
        with suppress(DecodeError):  # no number follows from these
            yield from parameters_of(config.struct(part), scales)


def _variant(part: Fields, name: str, what: str) -> tuple[str, tuple[ScVal, ...]]:
    """The name and the values of the enum variant in a field. Raises `DecodeError`."""
    items = expect(part.required(name), scval.VEC, f"{what}: field {name}")
    if not items:
        raise DecodeError(f"{what}: field {name} has no variant")
    variant: str = expect(items[0], scval.SYMBOL, f"{what}: variant of field {name}")
    return variant, items[1:]
