"""How Slender's pool keeps its state in the ledger (docs/protocols/slender.md, "Keys").

Everything but balances and positions is in the pool's instance storage. What lies in a reserve is a balance, that of
the reserve's sToken: a persistent entry of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import coded_instance, variant_key
from exporter.ledger.codec.fields import AMOUNT, TIME, Fields, Number, contracts, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, symbol, vec
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import by_address, by_symbol
from exporter.protocols.base import Parameter
from exporter.protocols.collector import by_key, config_hash_of, parameters_of

VERSION = "v1"
WASM_HASH = bytes.fromhex("1d704331dda9871c03acd8b33cc27ea846e723d661fc27126b7e88e7fb924888")
"""The code of mainnet's pool, as its deployment's record has it (docs/protocols/slender.md, "Structure")."""

MAX_RESERVES = 64
"""The one pool there is has three; a longer list is not one of Slender's."""

RESERVE = dict.fromkeys(("lender_ar", "lender_ir", "borrower_ar", "borrower_ir"), AMOUNT) | {
    "last_update_timestamp": TIME
}
CONFIGURATION = {"util_cap": Number(scval.U32), "discount": Number(scval.U32), "liquidity_cap": AMOUNT}
"""The numbers of ReserveData and of its ``configuration``, rates with 9 decimals."""
_STATE = [symbol(name) for name in ("TokenSupply", "ProtocolFeeVault", "Pause")]
_SHOWN = {"is_active": 0, "borrowing_enabled": 0, "liquidity_cap": 0, "util_cap": 4, "discount": 4}


@dataclass(frozen=True, slots=True)
class PoolInstance:
    """A pool contract's instance entry.

    ``numbers`` are settings of all its reserves: seconds (window), a yes or no (paused), unix seconds, basis points.
    """

    wasm_hash: str
    reserves: tuple[str, ...]
    storage: dict[ScVal, ScVal]
    numbers: dict[str, int]

    def get(self, variant: str, of: str) -> ScVal | None:
        return self.storage.get(vec(symbol(variant), address(of)))


class Feed(NamedTuple):
    """A price feed: a contract, the asset to ask it for, and up to which age in seconds the pool takes its price."""

    contract: str
    asset: ScVal
    max_age: int


def decode_instance(entry: Entry) -> PoolInstance:
    """Decode a pool's instance entry. Raises `DecodeError` naming the field when it is not one."""
    instance, wasm_hash = coded_instance(entry.contract_data(), "pool instance")
    storage = dict(instance.storage or ())
    config, pause, listed = (storage.get(vec(symbol(name))) for name in ("PoolConfig", "Pause", "Reserves"))
    if config is None or listed is None:
        raise DecodeError(f"pool instance: field {'PoolConfig' if config is None else 'Reserves'} is missing")
    settings = Fields.of(config, "PoolConfig")
    numbers = {"window": settings.u64("timestamp_window"), "paused": 0, "grace_ends_at": 0}
    numbers |= {name: settings.u32(name) for name in ("initial_health", "ir_scaling_coeff")}
    if pause is not None:
        info = Fields.of(pause, "Pause")
        numbers["paused"] = int(info.boolean("paused"))
        numbers["grace_ends_at"] = info.u64("unpaused_at") + info.u64("grace_period_secs")
    return PoolInstance(wasm_hash.hex(), contracts(listed, "Reserves", MAX_RESERVES), storage, numbers)


def decode_reserve(pool: PoolInstance, asset: str) -> dict[str, Any] | None:
    """What a pool keeps of a reserve; None of one of real-world assets, which has no tokens of its own.

    ``decimals`` are those that the price feeds have of the token, ``feed`` is the first; either may be None. Raises
    `DecodeError` naming the field.
    """
    stored = pool.get("ReserveAssetKey", asset)
    if stored is None:
        raise DecodeError("the reserve is listed, but ReserveAssetKey has none of it")
    reserve = Fields.of(stored, "ReserveData")
    tokens = _tokens(reserve)
    if tokens is None:
        return None
    configuration = reserve.struct("configuration")
    found: dict[str, Any] = reserve.numbers(RESERVE) | configuration.numbers(CONFIGURATION) | pool.numbers
    found |= {name: int(configuration.boolean(name)) for name in ("is_active", "borrowing_enabled")}
    found |= dict(zip(("s_token", "debt_token"), tokens, strict=True))
    for name, variant, of in (
        ("s_supply", "TokenSupply", tokens[0]),
        ("debt_supply", "TokenSupply", tokens[1]),
        ("fees", "ProtocolFeeVault", asset),
    ):
        found[name] = amount_of(pool.get(variant, of), f"{variant} of {of}")
    found["decimals"], found["feed"] = _feed(pool.get("PriceFeed", asset))
    return found


def shown_parameters(pool: PoolInstance, asset: str) -> tuple[Parameter, ...]:
    """The configuration of a reserve that can be decoded."""
    reserve = Fields.of(pool.get("ReserveAssetKey", asset) or VOID, "ReserveData")
    return tuple(parameters_of(reserve.struct("configuration"), _SHOWN))


def cash_key(market: str, asset: str, s_token: str) -> bytes:
    """The ledger key of what lies in a reserve: the balance of its sToken in the asset."""
    return variant_key(market, "TokenBalance", address(asset), address(s_token))


def config_hash(pool: PoolInstance) -> str:
    """The `config_hash_of` the instance storage without what is state; of a reserve only its ``configuration``."""
    pairs: list[tuple[ScVal, ScVal]] = []
    for key, value in by_key(pool.storage.items()):
        kind, parts = key
        name = parts[0] if kind == scval.VEC and parts else None
        if name == symbol("ReserveAssetKey"):
            reserve = dict((value[1] or ()) if value[0] == scval.MAP else ())
            if symbol("configuration") in reserve:
                pairs.append(((scval.BYTES, encode_scval(key)), reserve[symbol("configuration")]))
        elif name not in _STATE:
            pairs.append(((scval.BYTES, encode_scval(key)), value))
    return config_hash_of(pairs)


def amount_of(value: ScVal | None, what: str) -> int:
    """Shares, or base units, none where there is no value. Raises `DecodeError`."""
    number: int = 0 if value is None else expect(value, scval.I128, what)
    if number < 0:
        raise DecodeError(f"{what} is negative")
    return number


def _tokens(reserve: Fields) -> tuple[str, str] | None:
    """The share and the debt token of ``reserve_type``: [Fungible, sToken, debtToken], or [RWA] for one without."""
    parts = expect(reserve.required("reserve_type"), scval.VEC, "ReserveData: field reserve_type")
    kind = expect(parts[0], scval.SYMBOL, "ReserveData: field reserve_type") if parts else "empty"
    if kind == "RWA":
        return None
    if kind != "Fungible":
        raise DecodeError(f"ReserveData: field reserve_type is {kind}, neither Fungible nor RWA")
    if len(parts) != 3:
        raise DecodeError("ReserveData: field reserve_type has not two tokens")
    s_token, debt_token = (str(expect(part, scval.ADDRESS, "ReserveData: field reserve_type")) for part in parts[1:])
    return s_token, debt_token


def _feed(value: ScVal | None) -> tuple[int | None, Feed | None]:
    if value is None:
        return None, None
    config = Fields.of(value, "PriceFeed")
    decimals = config.u32("asset_decimals")
    listed = config.get("feeds")
    feeds = None if listed is None else expect(listed, scval.VEC, "PriceFeed: field feeds")
    if not feeds:
        return decimals, None
    feed = Fields.of(feeds[0], "PriceFeed.feeds[0]")
    contract, max_age = feed.address("feed"), feed.u64("min_timestamp_delta")
    match feed.get("feed_asset"):
        case (scval.VEC, ((scval.SYMBOL, "Stellar"), (scval.ADDRESS, str(token)))):
            return decimals, Feed(contract, by_address(token), max_age)
        case (scval.VEC, ((scval.SYMBOL, "Other"), (scval.SYMBOL, str(name)))):
            return decimals, Feed(contract, by_symbol(name), max_age)
    raise DecodeError("PriceFeed: field feed_asset is neither Stellar nor Other")
