"""The ledger entries of Blend's contracts, as both generations store them (facts/blend.md 1 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from exporter.ledger import scval
from exporter.ledger.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.blend_reserve import V1, Generation, Reserve

FACTORY_WASM_HASHES = {
    "v1": bytes.fromhex("0287f4ad7350935b83d94e046c0bcabc960b233dbce1531008c021b71d406a1d"),
    "v2": bytes.fromhex("31328050548831f63d2b72e37bcfd0bb7371b7907135755dbe09ed434d755ca9"),
}
BACKSTOP_WASM_HASHES = {
    "v1": bytes.fromhex("62f61b32fff99f7eec052a8e573c367759f161c481a5caf0e76a10ae4617c3b4"),
    "v2": bytes.fromhex("c1f4502a757e25c611f5a159bc1ab0eef64085adac6c68123dca66e87faffbc2"),
}

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR; every entry here is persistent."""

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
    return _entry(market.address, symbol("ResList"), tokens)


def reserve_config(market: Market, reserve: Reserve) -> Entry:
    """``ResConfig``: 11 fields in v1, 13 in v2."""
    config = reserve.config
    numbers = ("index", "decimals", "c_factor", "l_factor", "util", "max_util", "r_base", "r_one", "r_two", "r_three")
    fields = {name: u32(getattr(config, name)) for name in (*numbers, "reactivity")}
    if market.generation is not V1:
        fields["enabled"] = (scval.BOOL, config.enabled)
        fields["supply_cap"] = i128(config.supply_cap)
    return _entry(market.address, vec(symbol("ResConfig"), address(reserve.token)), struct_map(fields))


def reserve_data(market: Market, reserve: Reserve) -> Entry:
    """``ResData``: the seven fields that operations change."""
    numbers = ("b_rate", "b_supply", "backstop_credit", "d_rate", "d_supply", "ir_mod")
    fields = {name: i128(getattr(reserve, name)) for name in numbers}
    fields["last_time"] = u64(reserve.last_time)
    return _entry(market.address, vec(symbol("ResData"), address(reserve.token)), struct_map(fields))


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
    return _entry(deployment.backstop, symbol("RZ"), vec(*(address(market.address) for market in markets)))


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
    return _entry(deployment.factory, vec(symbol("Contracts"), address(market.address)), deployed)


def deploy_event(deployment: Deployment, market: Market) -> Event:
    """What the factory publishes when it deploys a pool (facts/blend.md 4)."""
    return deployment.factory, (symbol("deploy"),), address(market.address)


def _instance(contract: str, generation: Generation, wasm_hash: bytes, storage: dict[str, ScVal]) -> Entry:
    if generation is V1:
        storage["IsInit"] = (scval.BOOL, True)
    pairs = tuple((symbol(name), storage[name]) for name in sorted(storage))
    return _entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, wasm_hash, None, pairs)))


def _entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    data = encode_contract_data(ContractData(contract, key, PERSISTENT, value))
    return data_key(contract, key, PERSISTENT), data
