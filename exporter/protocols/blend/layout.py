"""How Blend's pool contract keeps its state in the ledger (facts/blend.md 1), both contract generations.

In Blend's own words a market is a "pool" and its pools are "reserves"; in the contract's state these words stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.errors import DecodeError
from exporter.ledger import scval
from exporter.ledger.entries import data_key, instance_key, instance_of, variant_key
from exporter.ledger.fields import Fields, addresses
from exporter.ledger.observation import Entry
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import VOID, address, encode_scval, symbol

WASM_HASHES = {
    bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"): "v1",
    bytes.fromhex("a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"): "v2",
}
"""The pool contract's code by generation (facts/blend.md 0); v2.1 is the same code as v2."""

STATUS_NAMES = ("admin_active", "active", "admin_on_ice", "on_ice", "admin_frozen", "frozen", "setup")
"""By the contract's status number (facts/blend.md 4, end)."""

MAX_RESERVES = 64
"""The contract allows 32 (v1) or 30 (v2); a list longer than this is not one of Blend's."""

MAX_TOKEN_DECIMALS = 18
"""The contract refuses reserves of more decimals."""

_CONFIG_FIELDS = ("util", "r_base", "r_one", "r_two", "r_three", "reactivity")
_STATE_FIELDS = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit")


@dataclass(frozen=True, slots=True)
class PoolInstance:
    """A Blend pool contract: what its instance entry holds. ``backstop_rate`` has 7 decimals."""

    generation: str
    wasm_hash: str
    known_code: bool
    name: str
    status: str
    oracle: str
    backstop_rate: int
    storage: tuple[tuple[ScVal, ScVal], ...]


def market_keys(market: str) -> tuple[bytes, bytes]:
    """The ledger keys of a pool's instance and of its list of reserves."""
    return instance_key(market), data_key(market, symbol("ResList"))


def reserve_data_key(market: str, asset: str) -> bytes:
    """The ledger key of a reserve's state."""
    return variant_key(market, "ResData", address(asset))


def reserve_config_key(market: str, asset: str) -> bytes:
    """The ledger key of a reserve's configuration."""
    return variant_key(market, "ResConfig", address(asset))


def reward_zone_key(backstop: str) -> bytes:
    """The ledger key of a backstop's reward zone: the pools it rewards, not all there are."""
    return data_key(backstop, symbol("RZ"))


def decode_instance(entry: Entry) -> PoolInstance:
    """Decode a pool's instance entry. Raises `DecodeError` naming the field when it is not one.

    The generation is decided by the code's hash, and for unknown code by the fields that only v2 has; never by
    the size of a number.
    """
    instance = instance_of(entry.contract_data())
    if instance.executable != scval.WASM or instance.wasm_hash is None:
        raise DecodeError("pool instance: the contract is no wasm contract")
    storage = Fields(instance.storage, "pool instance")
    config = storage.struct("Config")
    generation = WASM_HASHES.get(instance.wasm_hash) or ("v2" if "min_collateral" in config else "v1")
    status = config.u32("status")
    return PoolInstance(
        generation=generation,
        wasm_hash=instance.wasm_hash.hex(),
        known_code=instance.wasm_hash in WASM_HASHES,
        name=storage.string("Name"),
        status=STATUS_NAMES[status] if status < len(STATUS_NAMES) else f"unknown_{status}",
        oracle=config.address("oracle"),
        backstop_rate=config.u32("bstop_rate"),
        storage=instance.storage or (),
    )


def decode_reserve_list(entry: Entry | None) -> tuple[str, ...]:
    """The assets of a pool's reserves, in the contract's order; a pool that never had one has no entry."""
    if entry is None:
        return ()
    assets = addresses(entry.value, "ResList")
    if len(assets) > MAX_RESERVES:
        raise DecodeError(f"ResList: {len(assets)} reserves, more than {MAX_RESERVES}")
    if len(set(assets)) != len(assets):
        raise DecodeError("ResList: an asset stands twice")
    if not all(asset.startswith("C") for asset in assets):
        raise DecodeError("ResList: an asset is no contract")
    return assets


def decode_reserve(config_entry: Entry, data_entry: Entry) -> dict[str, int | bool]:
    """The raw state of one reserve: configuration (7 decimals) and state (scales: facts/blend.md 1.1).

    Raises `DecodeError` naming the field for a missing field, another kind, or a number the contract cannot hold.
    """
    config = Fields.of(config_entry.value, "ResConfig")
    data = Fields.of(data_entry.value, "ResData")
    reserve: dict[str, int | bool] = {name: config.u32(name) for name in _CONFIG_FIELDS}
    reserve |= {name: data.i128(name) for name in _STATE_FIELDS}
    reserve["last_time"] = data.u64("last_time")
    reserve["decimals"] = config.u32("decimals")
    reserve["enabled"] = config.boolean("enabled") if "enabled" in config else True
    for name in _STATE_FIELDS:
        if reserve[name] < 0:
            raise DecodeError(f"ResData: field {name} is negative")
    if reserve["decimals"] > MAX_TOKEN_DECIMALS:
        raise DecodeError(f"ResConfig: {reserve['decimals']} decimals, more than {MAX_TOKEN_DECIMALS}")
    if reserve["last_time"] >= 1 << 62:
        raise DecodeError("ResData: field last_time is beyond any time")
    return reserve


def config_hash(instance: PoolInstance, assets: Iterable[str], configs: Iterable[Entry | None]) -> str:
    """16 hex digits that change if and only if the pool's configuration does.

    The start of SHA-256 over canonical XDR: each key and value of the instance storage in ascending order of the
    key's XDR, then for each reserve in the contract's order its asset and its whole ResConfig value. A ResConfig
    that is missing or cannot be decoded counts as void.
    """
    digest = hashlib.sha256()
    for key, value in sorted((encode_scval(key), encode_scval(value)) for key, value in instance.storage):
        digest.update(key + value)
    for asset, entry in zip(assets, configs, strict=True):
        digest.update(encode_scval(address(asset)))
        try:
            digest.update(encode_scval(VOID if entry is None else entry.value))
        except DecodeError:
            digest.update(encode_scval(VOID))
    return digest.hexdigest()[:16]
