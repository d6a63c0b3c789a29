"""The stand-in for Blend: pools as both generations store them, and the code of v2's one view of a reserve.

The math is written apart from the exporter's own, in plain Python integers; all of it is docs/protocols/blend.md.
Amounts are token base units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import (
    MISSING_FUNCTION,
    WRONG_ARGUMENTS,
    Entry,
    Host,
    TrapError,
    storage_of,
    stored_entry,
)

SCALE_7 = 10**7
SECONDS_PER_YEAR = 31_536_000
_STEEP_FROM = 9_500_000  # the third slope begins at a constant utilization


@dataclass(frozen=True, slots=True)
class Generation:
    """What differs between the two generations of the pool contract (docs/protocols/blend.md, "Keys")."""

    label: str
    wasm_hash: bytes
    rate_scale: int
    modifier_scale: int
    caps_utilization: bool
    max_reserves: int


V1 = Generation(
    label="v1",
    wasm_hash=bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"),
    rate_scale=10**9,
    modifier_scale=10**9,
    caps_utilization=False,
    max_reserves=32,
)
V2 = Generation(
    label="v2",
    wasm_hash=bytes.fromhex("a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"),
    rate_scale=10**12,
    modifier_scale=10**7,
    caps_utilization=True,
    max_reserves=30,
)


@dataclass(frozen=True, slots=True)
class ReserveConfig:
    """``ResConfig``; 7 decimals where not said otherwise. ``enabled`` and ``supply_cap`` exist in v2 only."""

    index: int
    decimals: int
    c_factor: int
    l_factor: int
    util: int
    max_util: int
    r_base: int
    r_one: int
    r_two: int
    r_three: int
    reactivity: int
    supply_cap: int
    enabled: bool = True


@dataclass(slots=True)
class Reserve:
    """One reserve: its token, its configuration, and the seven fields of ``ResData``."""

    generation: Generation
    token: str
    config: ReserveConfig
    take_rate: int
    b_rate: int
    d_rate: int
    ir_mod: int
    b_supply: int
    d_supply: int
    backstop_credit: int
    last_time: int

    @property
    def supplied(self) -> int:
        """Total supply in base units, rounded down."""
        return self.b_supply * self.b_rate // self.generation.rate_scale

    @property
    def borrowed(self) -> int:
        """Total liabilities in base units, rounded up."""
        return _ceiling(self.d_supply * self.d_rate, self.generation.rate_scale)

    def utilization(self) -> int:
        """Utilization of the stored state, 7 decimals."""
        supplied, borrowed = self.supplied, self.borrowed
        if borrowed == 0:
            return 0
        if self.generation.caps_utilization and borrowed >= supplied:
            return SCALE_7
        return _ceiling(borrowed * SCALE_7, supplied) if supplied else 0

    def borrow_rate(self, utilization: int) -> int:
        """The yearly borrow rate at a utilization, 7 decimals."""
        config, scale = self.config, self.generation.modifier_scale
        if utilization <= config.util:
            slope = _ceiling(_ceiling(utilization * SCALE_7, config.util) * config.r_one, SCALE_7)
            return _ceiling((slope + config.r_base) * self.ir_mod, scale)
        if utilization <= _STEEP_FROM:
            over = _ceiling((utilization - config.util) * SCALE_7, _STEEP_FROM - config.util)
            slope = _ceiling(over * config.r_two, SCALE_7)
            return _ceiling((slope + config.r_one + config.r_base) * self.ir_mod, scale)
        over = _ceiling((utilization - _STEEP_FROM) * SCALE_7, SCALE_7 - _STEEP_FROM)
        slope = _ceiling(over * config.r_three, SCALE_7)
        return slope + _ceiling(self.ir_mod * (config.r_two + config.r_one + config.r_base), scale)

    def accrue(self, time: int) -> None:
        """Bring interest up to ``time`` (docs/protocols/blend.md, "Formulas")."""
        elapsed = time - self.last_time
        if elapsed <= 0:
            return
        self.last_time = time
        utilization = self.utilization() if self.b_supply else 0
        if utilization == 0:
            return
        scale, modifier_scale = self.generation.rate_scale, self.generation.modifier_scale
        rate = self.borrow_rate(utilization)
        step = elapsed * (utilization - self.config.util) * (modifier_scale // SCALE_7) * self.config.reactivity
        step = step // SCALE_7 if step >= 0 else -(-step // SCALE_7)
        self.ir_mod = min(max(self.ir_mod + step, modifier_scale // 10), 10 * modifier_scale)
        accrual = scale + _ceiling(elapsed * scale // SECONDS_PER_YEAR * rate, SCALE_7)
        supplied, borrowed = self.supplied, self.borrowed
        self.d_rate = _ceiling(accrual * self.d_rate, scale)
        gain = self.borrowed - borrowed
        if gain > 0:
            credit = gain * self.take_rate // SCALE_7
            self.backstop_credit += credit
            self.b_rate = (supplied + gain - credit) * scale // self.b_supply

    def operate(self, random: Random, time: int, status: int) -> str:
        """Accrue, and do what one user might: supply, withdraw, borrow or repay; gives which.

        What the pool's status or the reserve's limits forbid becomes a repayment or a withdrawal, which they never do.
        """
        self.accrue(time)
        scale = self.generation.rate_scale
        part = random.randint(1, 200)  # up to 2% of what is there
        operation = random.choice(("supply", "withdraw", "borrow", "repay"))
        if operation == "borrow":
            amount = max(self.supplied - self.borrowed, 0) * part // 10_000
            highest = self.config.max_util * self.supplied // SCALE_7
            if status <= 1 and self.config.enabled and amount and self.borrowed + amount <= highest:
                self.d_supply += _ceiling(amount * scale, self.d_rate)
                return operation
            operation = "repay"
        if operation == "supply":
            amount = max(self.supplied, 10**self.config.decimals) * part // 10_000
            allowed = status <= 3 and self.config.enabled and self.b_rate > 0
            if allowed and self.supplied + amount <= self.config.supply_cap:
                self.b_supply += amount * scale // self.b_rate
                return operation
            operation = "withdraw"
        if operation == "repay" and self.d_supply:
            self.d_supply -= min(self.borrowed * part // 10_000 * scale // self.d_rate, self.d_supply)
            return operation
        free = max(self.supplied - self.borrowed, 0)
        if self.b_rate > 0:
            self.b_supply -= min(_ceiling(free * part // 10_000 * scale, self.b_rate), self.b_supply)
        return "withdraw"


def _ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)


FACTORY_WASM_HASHES = {
    "v1": bytes.fromhex("0287f4ad7350935b83d94e046c0bcabc960b233dbce1531008c021b71d406a1d"),
    "v2": bytes.fromhex("31328050548831f63d2b72e37bcfd0bb7371b7907135755dbe09ed434d755ca9"),
}
BACKSTOP_WASM_HASHES = {
    "v1": bytes.fromhex("62f61b32fff99f7eec052a8e573c367759f161c481a5caf0e76a10ae4617c3b4"),
    "v2": bytes.fromhex("c1f4502a757e25c611f5a159bc1ab0eef64085adac6c68123dca66e87faffbc2"),
}


Event = tuple[str, tuple[ScVal, ...], ScVal]
"""The contract that publishes an event, the event's topics and its value."""


@dataclass(slots=True)
class Market:
    """One pool contract with its reserves; addresses are strkeys. ``listed`` is False for a pool without a ResList."""

    address: str
    generation: Generation
    name: str
    status: int
    oracle: str
    take_rate: int
    max_positions: int
    min_collateral: int
    reserves: list[Reserve] = field(default_factory=list)
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Deployment:
    """The contracts around the pools of one generation; addresses are strkeys."""

    generation: Generation
    factory: str
    backstop: str
    emitter: str
    blnd: str
    usdc: str
    lp_token: str
    admin: str


def pool_instance(market: Market, deployment: Deployment) -> Entry:
    """The instance of a pool: its configuration, name and roles."""
    config = {
        "bstop_rate": u32(market.take_rate),
        "max_positions": u32(market.max_positions),
        "oracle": address(market.oracle),
        "status": u32(market.status),
    }
    if market.generation is not V1:
        config["min_collateral"] = i128(market.min_collateral)
    storage = {
        "Admin": address(deployment.admin),
        "BLNDTkn": address(deployment.blnd),
        "Backstop": address(deployment.backstop),
        "Config": struct_map(config),
        "Name": string(market.name),
    }
    return _instance(market.address, market.generation, market.generation.wasm_hash, storage)


def reserve_list(market: Market) -> Entry:
    """``ResList``: the tokens of a pool, by the index of their reserve."""
    tokens = vec(*(address(reserve.token) for reserve in market.reserves))
    return stored_entry(market.address, symbol("ResList"), tokens)


def reserve_config(market: Market, reserve: Reserve) -> Entry:
    """``ResConfig``: 11 fields in v1, 13 in v2."""
    config = reserve.config
    numbers = ("index", "decimals", "c_factor", "l_factor", "util", "max_util", "r_base", "r_one", "r_two", "r_three")
    fields = {name: u32(getattr(config, name)) for name in (*numbers, "reactivity")}
    if market.generation is not V1:
        fields["enabled"] = (scval.BOOL, config.enabled)
        fields["supply_cap"] = i128(config.supply_cap)
    return stored_entry(market.address, vec(symbol("ResConfig"), address(reserve.token)), struct_map(fields))


def reserve_data(market: Market, reserve: Reserve) -> Entry:
    """``ResData``: the seven fields that operations change."""
    numbers = ("b_rate", "b_supply", "backstop_credit", "d_rate", "d_supply", "ir_mod")
    fields = {name: i128(getattr(reserve, name)) for name in numbers}
    fields["last_time"] = u64(reserve.last_time)
    return stored_entry(market.address, vec(symbol("ResData"), address(reserve.token)), struct_map(fields))


def backstop_entries(deployment: Deployment, markets: list[Market]) -> list[Entry]:
    """A backstop's instance, and its reward zone, which lists every pool of the deployment here."""
    storage = {
        "BLNDTkn": address(deployment.blnd),
        "BToken": address(deployment.lp_token),
        "Emitter": address(deployment.emitter),
        "PoolFact": address(deployment.factory),
        "USDCTkn": address(deployment.usdc),
    }
    generation = deployment.generation
    return [
        _instance(deployment.backstop, generation, BACKSTOP_WASM_HASHES[generation.label], storage),
        reward_zone(deployment, markets),
    ]


def reward_zone(deployment: Deployment, markets: list[Market]) -> Entry:
    """The reward zone of a backstop, which may list any of the deployment's pools, or none."""
    return stored_entry(deployment.backstop, symbol("RZ"), vec(*(address(market.address) for market in markets)))


def factory_entries(deployment: Deployment, markets: list[Market]) -> list[Entry]:
    """A factory's instance, and its word for each pool that it deployed it."""
    generation = deployment.generation
    meta = {
        "backstop": address(deployment.backstop),
        "blnd_id": address(deployment.blnd),
        "pool_hash": (scval.BYTES, generation.wasm_hash),
    }
    storage = {"PoolMeta": struct_map(meta)}
    entries = [_instance(deployment.factory, generation, FACTORY_WASM_HASHES[generation.label], storage)]
    return entries + [deployed_entry(deployment, market) for market in markets]


def deployed_entry(deployment: Deployment, market: Market) -> Entry:
    """``Contracts(pool)``: the factory's word that it deployed a pool."""
    deployed: ScVal = (scval.BOOL, True)
    return stored_entry(deployment.factory, vec(symbol("Contracts"), address(market.address)), deployed)


def deploy_event(deployment: Deployment, market: Market) -> Event:
    """What the factory publishes when it deploys a pool (docs/protocols/blend.md, "Discovery")."""
    return deployment.factory, (symbol("deploy"),), address(market.address)


def _instance(contract: str, generation: Generation, wasm_hash: bytes, storage: dict[str, ScVal]) -> Entry:
    if generation is V1:
        storage["IsInit"] = (scval.BOOL, True)
    pairs = tuple((symbol(name), storage[name]) for name in sorted(storage))
    return stored_entry(
        contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, wasm_hash, None, pairs))
    )


_DATA_FIELDS = ("b_rate", "b_supply", "backstop_credit", "d_rate", "d_supply", "ir_mod")


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a v2 pool: ``get_config()`` and ``get_reserve(asset)``, with the errors of the deployed code."""
    instance = host.instance(contract)
    pool_config = storage_of(instance, symbol("Config"))
    if function == "get_config" and pool_config is not None:
        return pool_config
    if function != "get_reserve":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, asset = arguments[0]
    if kind != scval.ADDRESS:
        raise TrapError("Error(WasmVm, InvalidAction)")
    config = host.data(contract, vec(symbol("ResConfig"), address(asset)))
    data = host.data(contract, vec(symbol("ResData"), address(asset)))
    if pool_config is None or config is None or data is None:
        raise TrapError("Error(Storage, MissingValue)")
    settings, state = _fields(config), _fields(data)
    reserve = Reserve(
        generation=V2,
        token=asset,
        config=ReserveConfig(**settings),
        take_rate=_fields(pool_config)["bstop_rate"],
        **state,
    )
    reserve.accrue(host.timestamp)
    accrued = {name: i128(getattr(reserve, name)) for name in _DATA_FIELDS}
    return struct_map(
        {
            "asset": address(asset),
            "config": config,
            "data": struct_map(accrued | {"last_time": u64(reserve.last_time)}),
            "scalar": i128(10 ** settings["decimals"]),
        }
    )


def _fields(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}
